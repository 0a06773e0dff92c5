import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from api.dialects.completions.read import requests_from_wire
from api.dialects.completions.wire import CompletionParams
from api.dialects.completions.write import CompletionEncoder, write_completion
from api.dialects.shared.body import parsed
from api.dialects.shared.dialect import Head
from api.transport.answer_text import SseEvent, json_text
from api.transport.errors import ApiError
from engine.values.events import Event
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import PromptScoring
from tests.support.answers.encoding import chunks, written


def params(**fields: Any) -> CompletionParams:
    body = {"model": "m", "prompt": "Once", **fields}
    return parsed(json_text(body).encode(), CompletionParams)


def requests(**fields: Any) -> list[GenerationRequest]:
    return requests_from_wire(params(**fields))


# -- requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Once", ["Once"]),
        (["One", "Two"], ["One", "Two"]),
        ([5, 6], [(5, 6)]),
        ([[5], [6, 7]], [(5,), (6, 7)]),
    ],
    ids=["text", "texts", "ids", "lists of ids"],
)
def test_a_prompt_has_four_forms(prompt: Any, expected: list[Any]) -> None:
    assert [one.prompt for one in requests(prompt=prompt)] == expected


def test_each_prompt_has_its_choices_side_by_side() -> None:
    found = requests(prompt=["One", "Two"], n=2, best_of=2, seed=7)

    assert [(one.prompt, one.sampling.seed) for one in found] == [
        ("One", 7),
        ("One", 8),
        ("Two", 7),
        ("Two", 8),
    ]


def test_an_explicit_null_means_the_default() -> None:
    names = [
        "max_tokens", "n", "best_of", "echo", "suffix", "logprobs", "stop", "temperature", "top_p",
        "presence_penalty", "frequency_penalty", "logit_bias", "seed", "stream", "stream_options",
        "user",
    ]  # fmt: skip

    assert requests(**dict.fromkeys(names)) == requests()


def test_the_default_limit_is_that_of_the_reference() -> None:
    assert requests()[0].max_tokens == 16
    assert requests(max_tokens=500)[0].max_tokens == 500
    assert requests(max_tokens=0)[0].max_tokens == 0


def test_log_probabilities_of_the_prompt_have_two_names() -> None:
    assert requests(logprobs=3)[0].prompt_scoring is None
    assert requests(logprobs=3, echo=True)[0].prompt_scoring == PromptScoring(top=3)
    assert requests(prompt_logprobs=0)[0].prompt_scoring == PromptScoring()
    assert requests(prompt_logprobs=4, logprobs=2, echo=True)[0].prompt_scoring == PromptScoring(
        top=4
    )


def test_completions_takes_the_sampling_parameters_of_chat() -> None:
    (found,) = requests(
        stop=["END"], stop_token_ids=[5], presence_penalty=1, logit_bias={"21": -100}, top_k=3
    )

    assert (found.stops.strings, found.stops.token_ids) == (("END",), (5,))
    assert (found.sampling.presence_penalty, found.sampling.top_k) == (1, 3)
    assert found.sampling.logit_bias == ((21, -100.0),)


@pytest.mark.parametrize(("count", "trace"), [(None, TraceLevel.OFF), (0, TraceLevel.FULL)])
def test_log_probabilities_need_a_full_trace(count: int | None, trace: TraceLevel) -> None:
    (found,) = requests(logprobs=count)

    assert (found.trace, found.top_logprobs) == (trace, 0)
    assert requests(logprobs=5)[0].top_logprobs == 5


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"best_of": 2}, ("best_of",)),
        ({"best_of": 1, "n": 2}, ("best_of",)),
        ({"suffix": "end"}, ("suffix",)),
        ({"prompt_logprobs": 1, "stream": True}, ("prompt_logprobs",)),
        ({"n": 128, "prompt": ["a", "b"]}, ("n",)),
        ({"prompt": ["a", 1]}, ("prompt",)),
        ({"prompt": [[]]}, ("prompt",)),
    ],
)
def test_a_parameter_that_would_change_the_answer_is_not_ignored(
    fields: dict[str, Any], path: tuple[str, ...]
) -> None:
    with pytest.raises(ApiError) as caught:
        requests(**fields)

    assert caught.value.field == path


# -- answers ----------------------------------------------------------------------------------


def encoder(**fields: Any) -> CompletionEncoder:
    return CompletionEncoder(params(**fields), Head("1", 1_795_000_000, "demo-model"))


def encoded(batches: Iterable[list[Event]], **fields: Any) -> list[SseEvent]:
    return written(encoder(**fields), batches)


def test_a_conversation_matches_its_golden_file(raw_scenario: Any, check_golden: Any) -> None:
    check_golden("completions", raw_scenario.name, encoded(raw_scenario.batches))


def test_a_conversation_with_usage_and_echo_matches_its_golden_file(
    scenario_named: Callable[..., Any], check_golden: Any
) -> None:
    events = encoded(
        scenario_named("stop_string").batches, echo=True, stream_options={"include_usage": True}
    )

    check_golden("completions", "stop_string_with_usage_and_echo", events)


def test_choices_of_two_prompts_are_counted_once_per_prompt(
    scenario_named: Callable[..., Any],
) -> None:
    writer = encoder(prompt=["a", "b"], n=2, echo=True, stream_options={"include_usage": True})
    events: list[SseEvent] = []
    for choice in (3, 0, 2, 1):
        for batch in scenario_named("stop_string").batches:
            events += writer.encode(batch, choice)

    texts = dict.fromkeys(range(4), "")
    for chunk in chunks(events):
        for one in chunk["choices"]:
            texts[one["index"]] += one["text"]
    usage = chunks(events)[-1]["usage"]
    assert texts == {0: "aA B C ", 1: "aA B C ", 2: "bA B C ", 3: "bA B C "}
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (2 * 12, 4 * 6)
    assert [event.data for event in events].count("[DONE]") == 1


def test_a_broken_answer_ends_with_only_an_error_chunk(scenario_named: Callable[..., Any]) -> None:
    events = encoded(scenario_named("error_after_text").batches)

    assert chunks(events)[-1]["error"]["message"] == "the device was lost"
    assert "[DONE]" not in [event.data for event in events]


def test_tags_and_calls_are_text_as_the_model_wrote_it(
    scenario_named: Callable[..., Any],
) -> None:
    for name, text in (("thinking", "Let me see.4"), ("tool_calls", "I shall look.")):
        batches = scenario_named(name).batches
        *events, finished = itertools.chain.from_iterable(batches)
        body = write_completion([(events, finished)], params(), Head("1", 1, "m"))
        streamed = [chunk["choices"][0]["text"] for chunk in chunks(encoded(batches))]

        assert body["choices"][0]["text"] == text
        assert "".join(streamed) == text

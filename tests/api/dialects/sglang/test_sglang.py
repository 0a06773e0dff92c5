"""The /generate dialect: the meaning of its requests, and the content of its frames."""

import asyncio
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from pydantic import TypeAdapter

from api.dialects.sglang.read import requests_from_wire
from api.dialects.sglang.wire import GenerateAnswer, GenerateParams
from api.dialects.sglang.write import GenerateEncoder
from api.dialects.shared.dialect import Head
from api.transport.answer_text import SseEvent, json_text
from api.transport.errors import ApiError
from engine.errors import InvalidRequest
from engine.stopping.record import Channel
from engine.values.events import Event, TextDelta, TokenTrace
from engine.values.request import GenerationRequest, TraceLevel
from engine.values.tokens import PromptScoring
from tests.api.conftest import LONG
from tests.support.scripted import GO

PROMPT = f"user:{LONG}{GO}"


def read(**fields: Any) -> list[GenerationRequest]:
    return requests_from_wire(GenerateParams.model_validate({"text": "Hi", **fields}))


def encoded(batches: Iterable[list[Event]], *, reports: bool = False) -> list[SseEvent]:
    asked = {"text": "Hi", "rid": "answer-1", "fullstop": {"report": reports}}
    encoder = GenerateEncoder(GenerateParams.model_validate(asked), Head("1", 0, "m"))
    return list(itertools.chain.from_iterable(encoder.encode(batch) for batch in batches))


def frames(events: Iterable[SseEvent]) -> list[dict[str, Any]]:
    return [json.loads(event.data) for event in events if event.data != "[DONE]"]


# -- requests ---------------------------------------------------------------------------------


def test_sampling_parameters_are_read() -> None:
    [wanted] = read(
        sampling_params={
            "max_new_tokens": 7,
            "min_new_tokens": 2,
            "stop": ["a", "b", "a"],
            "stop_token_ids": [5, 5, 6],
            "temperature": 0.5,
            "top_p": 0.9,
            "top_k": -1,
            "min_p": 0.1,
            "frequency_penalty": 0.1,
            "presence_penalty": 0.2,
            "repetition_penalty": 1.1,
            "ignore_eos": True,
            "no_stop_trim": True,
            "seed": 3,
        }
    )

    assert wanted.prompt == "Hi"
    assert wanted.max_tokens == 7
    assert (wanted.stops.strings, wanted.stops.token_ids) == (("a", "b"), (5, 6))
    assert (wanted.stops.min_tokens, wanted.stops.ignore_eos) == (2, True)
    assert wanted.stops.include_stop
    sampling = wanted.sampling
    assert (sampling.temperature, sampling.top_p, sampling.top_k) == (0.5, 0.9, 0)
    assert (sampling.min_p, sampling.repetition_penalty, sampling.seed) == (0.1, 1.1, 3)
    assert (sampling.frequency_penalty, sampling.presence_penalty) == (0.1, 0.2)


def test_the_default_limit_is_the_references_128_tokens() -> None:
    [wanted] = read()

    assert wanted.max_tokens == 128
    assert wanted.trace is TraceLevel.STOPS


@pytest.mark.parametrize(
    ("fields", "prompts"),
    [
        ({"text": "one"}, ["one"]),
        ({"text": ["one", "two"]}, ["one", "two"]),
        ({"text": None, "input_ids": [1, 2]}, [(1, 2)]),
        ({"text": None, "input_ids": [[1, 2], [3]]}, [(1, 2), (3,)]),
        ({"text": ["one", "two"], "sampling_params": {"n": 2}}, ["one", "one", "two", "two"]),
    ],
)
def test_a_request_has_one_or_many_prompts_as_texts_or_ids(
    fields: dict[str, Any], prompts: list[Any]
) -> None:
    assert [wanted.prompt for wanted in read(**fields)] == prompts


def test_each_prompt_can_have_its_own_parameters() -> None:
    parameters = [{"stop": "a"}, {"max_new_tokens": 3}]
    one, two = read(text=["one", "two"], sampling_params=parameters)

    assert (one.stops.strings, one.max_tokens) == (("a",), 128)
    assert (two.stops.strings, two.max_tokens) == ((), 3)


def test_the_answers_of_one_seed_differ_from_each_other() -> None:
    seeds = [wanted.sampling.seed for wanted in read(sampling_params={"n": 3, "seed": 2**64 - 1})]

    assert seeds == [2**64 - 1, 0, 1]


def test_log_probabilities_need_the_whole_trace() -> None:
    [wanted] = read(return_logprob=True, top_logprobs_num=3)

    assert (wanted.trace, wanted.top_logprobs) == (TraceLevel.FULL, 3)


@pytest.mark.parametrize(
    ("fields", "scoring"),
    [
        ({}, None),
        ({"logprob_start_len": -1}, None),
        ({"logprob_start_len": 0}, PromptScoring()),
        ({"logprob_start_len": 7, "top_logprobs_num": 2}, PromptScoring(7, 2)),
        ({"logprob_start_len": [3], "token_ids_logprob": [5, 6]}, PromptScoring(3, 0, (5, 6))),
        ({"logprob_start_len": 3, "token_ids_logprob": [[5, 6]]}, PromptScoring(3, 0, (5, 6))),
        # Without an answer, the request means those of the prompt.
        ({"sampling_params": {"max_new_tokens": 0}}, PromptScoring()),
    ],
)
def test_the_prompt_is_scored_from_the_requested_position(
    fields: dict[str, Any], scoring: PromptScoring | None
) -> None:
    [wanted] = read(return_logprob=True, **fields)
    [unasked] = read(return_logprob=False, **fields)

    assert wanted.prompt_scoring == scoring
    assert unasked.prompt_scoring is None


def test_a_json_schema_constrains_the_answer() -> None:
    [wanted] = read(sampling_params={"json_schema": '{"type": "object"}'})

    assert wanted.constraint is not None
    assert wanted.constraint.json_schema == {"type": "object"}


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"text": None}, ("text",)),
        ({"input_ids": [1]}, ("text",)),
        ({"image_data": "x"}, ("image_data",)),
        ({"lora_path": "x"}, ("lora_path",)),
        ({"input_embeds": [[0.5]]}, ("input_embeds",)),
        ({"return_hidden_states": True}, ("return_hidden_states",)),
        ({"return_logprob": True, "logprob_start_len": [0, 1]}, ("logprob_start_len",)),
        ({"return_logprob": True, "top_logprobs_num": 21}, ("top_logprobs_num",)),
        ({"sampling_params": [{}, {}]}, ("sampling_params",)),
        ({"sampling_params": {"regex": "a+", "ebnf": "x"}}, ("sampling_params", "ebnf")),
        ({"sampling_params": {"structural_tag": "a"}}, ("sampling_params", "structural_tag")),
        ({"sampling_params": {"json_schema": "{"}}, ("sampling_params", "json_schema")),
        ({"sampling_params": {"json_schema": "[]"}}, ("sampling_params", "json_schema")),
        ({"sampling_params": {"stop": 5}}, ("sampling_params", "stop")),
        ({"sampling_params": {"stop": ""}}, ("sampling_params", "stop")),
        ({"sampling_params": {"logit_bias": {"x": 1}}}, ("sampling_params", "logit_bias", "x")),
        (
            {"sampling_params": {"skip_special_tokens": False}},
            ("sampling_params", "skip_special_tokens"),
        ),
        ({"text": ["a"] * 100, "sampling_params": {"n": 2}}, ("sampling_params", "n")),
    ],
)
def test_a_parameter_that_cannot_be_honoured_is_refused_by_name(
    fields: dict[str, Any], field: tuple[str, ...]
) -> None:
    with pytest.raises(ApiError) as refusal:
        read(**fields)

    assert refusal.value.field == field


def test_a_wrong_stop_is_named_by_its_index() -> None:
    with pytest.raises(InvalidRequest) as refusal:
        read(sampling_params={"stop": ["a", ""]})

    assert refusal.value.field == "sampling_params.stop[1]"


# -- answers ----------------------------------------------------------------------------------


def test_a_conversation_matches_its_golden_file(raw_scenario: Any, check_golden: Any) -> None:
    check_golden("generate", raw_scenario.name, encoded(raw_scenario.batches))


def test_growing_ids_match_their_golden_file(
    scenario_named: Callable[..., Any], check_golden: Any
) -> None:
    start, *_, end = scenario_named("stop_string").batches
    sampled = [(7, "A "), (8, ""), (9, "B"), (10, ""), (11, ""), (12, "")]
    batches: list[list[Event]] = [start]
    for index, (token_id, piece) in enumerate(sampled):
        token = TokenTrace(
            index, token_id, piece, piece.encode(), Channel.TEXT, 0.1 * index, len(piece), "", (0,)
        )
        batches.append([*([TextDelta(piece)] if piece else []), token])

    check_golden("generate", "stop_string_with_ids", encoded([*batches, end]))


def test_every_frame_has_the_whole_text_so_far(scenario_named: Callable[..., Any]) -> None:
    texts = [frame["text"] for frame in frames(encoded(scenario_named("text").batches))]

    assert texts == ["Hello", 'Hello, "you"\n数 👋\u2028', 'Hello, "you"\n数 👋\u2028']


def test_the_stop_record_is_sent_on_request(scenario_named: Callable[..., Any]) -> None:
    events = encoded(scenario_named("stop_string").batches, reports=True)

    assert frames(events)[-1]["fullstop"]["stop"]["value"] == "STOP"


def test_a_broken_answer_ends_with_an_abort(scenario_named: Callable[..., Any]) -> None:
    last = frames(encoded(scenario_named("error_after_text").batches))[-1]

    assert last["meta_info"]["finish_reason"] == {
        "type": "abort",
        "message": "the device was lost",
    }
    assert last["error"]["message"] == "the device was lost"


# -- over HTTP --------------------------------------------------------------------------------


def test_a_list_of_prompts_gets_a_list_of_answers(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    site = serve(stage.engine)
    ask = {"text": [PROMPT, f"user:Hi{GO}"], "sampling_params": {"max_new_tokens": 4}}
    answers = site.send("POST", "/generate", ask).json

    assert [answer["text"] for answer in answers] == ["word word word word ", "Hello"]
    assert [answer["meta_info"]["finish_reason"]["type"] for answer in answers] == [
        "length",
        "stop",
    ]
    for answer in answers:
        TypeAdapter(GenerateAnswer).validate_python(answer)
        assert len(answer["output_ids"]) == answer["meta_info"]["completion_tokens"]


def test_a_streamed_list_has_the_index_of_each_prompt(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    site = serve(stage.engine)
    ask = {"text": [PROMPT, f"user:Hi{GO}"], "sampling_params": {"max_new_tokens": 4}}
    events = site.send("POST", "/generate", ask | {"stream": True}).events
    last = {}
    for _, data in events[:-1]:
        frame = json.loads(data)
        last[frame["index"]] = frame["text"]

    assert last == {0: "word word word word ", 1: "Hello"}
    assert [data for _, data in events].count("[DONE]") == 1
    assert events[-1] == (None, "[DONE]")


def test_a_prompt_of_ids_gets_an_answer_of_ids(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    site = serve(stage.engine)
    ask = {"input_ids": stage.stage.ids(f"user:Hi{GO}"), "rid": "mine"}
    answer = site.send("POST", "/generate", ask).json

    eos = stage.stage.wrapper.eos_token_id
    assert answer["output_ids"] == [*stage.stage.ids("Hel"), *stage.stage.ids("lo"), eos]
    assert answer["meta_info"]["prompt_tokens"] == len(ask["input_ids"])
    assert answer["meta_info"]["id"] == "mine"


def test_log_probabilities_have_their_ids(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    stage = staged(step_s=0)
    site = serve(stage.engine)
    ask = {"text": f"user:Hi{GO}", "return_logprob": True, "top_logprobs_num": 2}
    answer = site.send("POST", "/generate", ask).json
    meta = answer["meta_info"]

    assert [token for _, token, _ in meta["output_token_logprobs"]] == answer["output_ids"]
    assert all(-0.01 < logprob <= 0 for logprob, _, _ in meta["output_token_logprobs"])
    assert [len(top) for top in meta["output_top_logprobs"]] == [2, 2, 2]


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"input_ids": [10**9]}, "input_ids[0]: "),
        ({"text": ""}, "text: the prompt is empty"),
        ({"text": "x" * 5000}, "The input (5000 tokens) is longer than"),
        ({"text": "x", "sampling_params": {"stop_token_ids": [-1]}}, "stop_token_ids[0]: "),
        ({"text": "x", "sampling_params": {"stop": ["", "a"]}}, "sampling_params.stop[0]: "),
        ({"text": 5}, "text: "),
        ({"text": "x", "sampling_params": {"max_new_tokens": -1}}, "max_new_tokens: "),
    ],
)
def test_a_bad_request_names_the_field(
    serve: Callable[..., Any], staged: Callable[..., Any], body: Any, named: str
) -> None:
    stage = staged(step_s=0, context=4096)
    reply = serve(stage.engine).send("POST", "/generate", body)

    assert reply.status == 400
    assert named in reply.json["error"]["message"]


def test_clients_can_ask_about_the_model_and_its_health(site: Any) -> None:
    told = site.send("GET", "/get_model_info").json

    assert told["model_path"] == "demo-model"
    assert told["is_generation"] is True
    assert site.send("GET", "/health_generate").status == 200


def test_a_long_answer_with_log_probabilities_does_not_block_the_loop(
    serve: Callable[..., Any], staged: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    has_loop: list[bool] = []

    def noted(value: Any) -> str:
        has_loop.append(asyncio._get_running_loop() is not None)
        return json_text(value)

    monkeypatch.setattr("api.server.answering.long_json_text", noted)
    stage = staged(step_s=0)
    site = serve(stage.engine)
    ask = {"text": PROMPT, "return_logprob": True, "sampling_params": {"max_new_tokens": 300}}
    answer = site.send("POST", "/generate", ask).json

    assert len(answer["meta_info"]["output_token_logprobs"]) == 300
    assert has_loop == [False]

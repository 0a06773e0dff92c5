"""The /generate dialect: the meaning of its requests, and the content of its frames."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import TypeAdapter

from api.dialects.sglang.read import requests_from_wire
from api.dialects.sglang.wire import GenerateAnswer, GenerateParams
from api.dialects.shared.parameters import ReadContext
from api.service.errors import ApiError, ErrorKind
from engine.stopping.record import Channel
from engine.values.events import Event, TextDelta, TokenTrace
from tests.api.conftest import LONG
from tests.api.dialects.asking import encoder, event_of, events
from tests.support.scripted import GO

PROMPT = f"user:{LONG}{GO}"


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

    check_golden("generate", "stop_string_with_ids", events("generate", [*batches, end]))


def test_a_list_of_prompts_gets_a_list_of_answers(staged: Callable[..., Any]) -> None:
    stage = staged(step_s=0)
    site = stage.site
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


def test_a_streamed_list_has_the_index_of_each_prompt(staged: Callable[..., Any]) -> None:
    stage = staged(step_s=0)
    site = stage.site
    ask = {"text": [PROMPT, f"user:Hi{GO}"], "sampling_params": {"max_new_tokens": 4}}
    events = site.send("POST", "/generate", ask | {"stream": True}).events
    last = {}
    for _, data in events[:-1]:
        frame = json.loads(data)
        last[frame["index"]] = frame["text"]

    assert last == {0: "word word word word ", 1: "Hello"}
    assert [data for _, data in events].count("[DONE]") == 1
    assert events[-1] == (None, "[DONE]")


def test_a_stream_that_the_server_breaks_off_ends_with_its_end_marker() -> None:
    frames = encoder("generate").fail(ApiError(ErrorKind.UNAVAILABLE, "the server is ending"))
    *_, error, last = map(event_of, frames)

    assert json.loads(error.data)["error"]["message"] == "the server is ending"
    assert last.data == "[DONE]"


def test_a_prompt_of_ids_gets_an_answer_of_ids(staged: Callable[..., Any]) -> None:
    stage = staged(step_s=0)
    site = stage.site
    ask = {"input_ids": stage.stage.ids(f"user:Hi{GO}"), "rid": "mine"}
    answer = site.send("POST", "/generate", ask).json

    eos = stage.stage.wrapper.eos_token_id
    assert answer["output_ids"] == [*stage.stage.ids("Hel"), *stage.stage.ids("lo"), eos]
    assert answer["meta_info"]["prompt_tokens"] == len(ask["input_ids"])
    assert answer["meta_info"]["id"] == "mine"


def test_log_probabilities_have_their_ids(staged: Callable[..., Any]) -> None:
    stage = staged(step_s=0)
    site = stage.site
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
        ({"text": "x", "sampling_params": {"max_new_tokens": -3}}, "max_new_tokens: "),
    ],
)
def test_a_bad_request_names_the_field(
    serve: Callable[..., Any], staged: Callable[..., Any], body: Any, named: str
) -> None:
    stage = staged(step_s=0, context=4096)
    reply = serve(stage.engine).send("POST", "/generate", body)

    assert reply.status == 400
    assert named in reply.json["error"]["message"]


def test_clients_can_ask_about_the_model(site: Any) -> None:
    told = site.send("GET", "/get_model_info").json

    assert told["model_path"] == "demo-model"
    assert told["is_generation"] is True


ADDRESS = "https://example.com/a.png"
NOTE = "[Image not shown: an image at an address is not fetched.]"


def test_a_note_for_an_image_at_an_address_comes_before_the_prompt() -> None:
    body = {
        "text": ["Why?", "And?"],
        "image_data": [[ADDRESS], None],
        "fullstop": {"images": "note"},
    }
    requests = requests_from_wire(GenerateParams.model_validate(body), ReadContext())
    assert [(request.prompt, request.pictures) for request in requests] == [
        (f"{NOTE}\nWhy?", ()),
        ("And?", ()),
    ]


def test_an_image_that_is_not_read_is_refused_with_token_ids() -> None:
    body = {"input_ids": [5, 6], "image_data": ADDRESS, "fullstop": {"images": "note"}}
    with pytest.raises(ApiError, match="an image at an address is not fetched"):
        requests_from_wire(GenerateParams.model_validate(body), ReadContext())

"""Answers that repeat themselves end on request, in the words of each API; reasoning ends alone."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from engine.stopping.repetition import RepetitionDetection
from tests.api.conftest import Reply, Site, acting
from tests.support.scripted import Stage

COPIES, PERIOD = 40, 3
SCRIPT = ["Once ", *["upon ", "a ", "time, "] * COPIES]
FIGURES = {"max_pattern_size": 8, "min_count": 4}
TEXT = "Once " + "upon a time, " * 4
TURNS = [{"role": "user", "content": "story"}]
PROMPT = "<|start|>user:story<|end|><|go|>"
OWN: dict[str, Any] = {"fullstop": {"repetition_detection": FIGURES, "report": True}}
REPORT: dict[str, Any] = {"fullstop": {"report": True}}
CYCLE = {"period": PERIOD, "copies": 4, "token_index": 1}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(tmp_path_factory.mktemp("repetition"), {"story": SCRIPT})


@pytest.fixture(scope="module")
def site(stage: Stage) -> Iterator[Site]:
    with acting(stage) as (site, _):
        yield site


def chat_end(reply: Reply) -> tuple[Any, ...]:
    [choice] = reply.json["choices"]
    text = choice["message"]["content"] if "message" in choice else choice["text"]
    reasons = (choice["finish_reason"], choice["stop_reason"], choice["matched_stop"])
    return text, *reasons, choice["fullstop"]["repetition"]


def messages_end(reply: Reply) -> tuple[Any, ...]:
    found = reply.json
    reasons = (found["stop_reason"], found["stop_sequence"])
    return found["content"][0]["text"], *reasons, found["fullstop"]["repetition"]


def responses_end(reply: Reply) -> tuple[Any, ...]:
    found = reply.json
    text = found["output"][-1]["content"][0]["text"]
    reason = found["incomplete_details"]["reason"]
    return text, found["status"], reason, found["fullstop"]["repetition"]


def generate_end(reply: Reply) -> tuple[Any, ...]:
    found = reply.json
    return found["text"], found["meta_info"]["finish_reason"], found["fullstop"]["repetition"]


def ollama_end(reply: Reply) -> tuple[Any, ...]:
    found = reply.json
    text = found["message"]["content"] if "message" in found else found["response"]
    return text, found["done_reason"], found["fullstop"]["repetition"]


OPENAIS = (TEXT, "repetition", "repetition_detected", None, CYCLE)
TOP = {"repetition_detection": FIGURES, **REPORT}


@pytest.mark.parametrize(
    ("path", "body", "end_of", "end"),
    [
        ("/v1/chat/completions", {"messages": TURNS, **TOP}, chat_end, OPENAIS),
        ("/v1/chat/completions", {"messages": TURNS, **OWN}, chat_end, OPENAIS),
        ("/v1/completions", {"prompt": PROMPT, **TOP}, chat_end, OPENAIS),
        (
            "/v1/messages",
            {"messages": TURNS, "max_tokens": 99, **OWN},
            messages_end,
            (TEXT, "max_tokens", None, CYCLE),
        ),
        (
            "/v1/responses",
            {"input": TURNS, **OWN},
            responses_end,
            (TEXT, "incomplete", "max_output_tokens", CYCLE),
        ),
        (
            "/generate",
            {"text": PROMPT, "sampling_params": {"max_new_tokens": 99}, **OWN},
            generate_end,
            (TEXT, {"type": "length", "length": 13}, CYCLE),
        ),
        (
            "/api/chat",
            {"messages": TURNS, "stream": False, **OWN},
            ollama_end,
            (TEXT, "length", CYCLE),
        ),
        (
            "/api/generate",
            {"prompt": "story", "stream": False, **OWN},
            ollama_end,
            (TEXT, "length", CYCLE),
        ),
    ],
)
def test_each_api_ends_a_repetition_in_its_own_words(
    site: Site,
    path: str,
    body: dict[str, Any],
    end_of: Callable[[Reply], tuple[Any, ...]],
    end: tuple[Any, ...],
) -> None:
    reply = site.send("POST", path, {"model": "m", **body})
    assert reply.status == 200, reply.body
    assert end_of(reply) == end


def streamed(site: Site, path: str, body: dict[str, Any]) -> list[Any]:
    reply = site.send("POST", path, {"model": "m", "stream": True, **body})
    assert reply.status == 200, reply.body
    return [json.loads(data) for _, data in reply.events if data != "[DONE]"]


def test_streams_say_the_same_as_whole_answers(site: Site) -> None:
    chunks = streamed(site, "/v1/chat/completions", {"messages": TURNS, **TOP})
    deltas = [chunk["choices"][0] for chunk in chunks]
    assert "".join(one["delta"].get("content", "") for one in deltas) == TEXT
    assert (deltas[-1]["finish_reason"], deltas[-1]["stop_reason"]) == OPENAIS[1:3]
    assert deltas[-1]["fullstop"]["repetition"] == CYCLE

    chunks = streamed(site, "/v1/completions", {"prompt": PROMPT, **TOP})
    deltas = [chunk["choices"][0] for chunk in chunks]
    assert "".join(one["text"] for one in deltas) == TEXT
    assert deltas[-1]["finish_reason"] == "repetition"

    events = streamed(site, "/v1/messages", {"messages": TURNS, "max_tokens": 99, **OWN})
    assert events[-2]["delta"]["stop_reason"] == "max_tokens"
    events = streamed(site, "/v1/responses", {"input": TURNS, **OWN})
    assert events[-1]["type"] == "response.incomplete"


def test_strict_servers_say_length(stage: Stage) -> None:
    with acting(stage, strict=True) as (site, engine):
        [status] = engine.models
        body = {"model": status.id, "messages": TURNS, **TOP}
        [choice] = site.send("POST", "/v1/chat/completions", body).json["choices"]
        assert (choice["finish_reason"], choice["stop_reason"]) == ("length", None)
        assert choice["fullstop"]["stop"]["kind"] == "repetition"
        [*_, last] = [chunk["choices"][0] for chunk in streamed(site, "/v1/chat/completions", body)]
        assert (last["finish_reason"], last["stop_reason"]) == ("length", None)


def test_figures_of_the_server_count_for_requests_without_their_own(stage: Stage) -> None:
    with acting(stage, repetition=RepetitionDetection(**FIGURES)) as (site, _):

        def reason(**fields: Any) -> Any:
            body = {"model": "m", "messages": TURNS, "max_tokens": 99, **fields}
            return site.send("POST", "/v1/chat/completions", body).json

        def tokens(**fields: Any) -> tuple[str, int]:
            found = reason(**fields)
            return found["choices"][0]["finish_reason"], found["usage"]["completion_tokens"]

        assert tokens() == ("repetition", 13)
        assert tokens(repetition_detection={"max_pattern_size": 0}) == ("length", 99)
        off = {"repetition_detection": {"max_pattern_size": 0}}
        assert tokens(fullstop=off) == ("length", 99)
        more = {"max_pattern_size": 8, "min_count": 10}
        assert tokens(repetition_detection=more) == ("repetition", 31)
        assert tokens(fullstop={"report": True}) == ("repetition", 13)


def test_answers_that_reach_their_limit_name_their_cycle(site: Site) -> None:
    body = {"model": "m", "messages": TURNS, "max_tokens": 97, **REPORT}
    [choice] = site.send("POST", "/v1/chat/completions", body).json["choices"]
    assert (choice["finish_reason"], choice["stop_reason"]) == ("length", None)
    assert choice["fullstop"]["repetition"] == {"period": 3, "copies": 32, "token_index": 1}


@pytest.mark.parametrize(
    ("figures", "field"),
    [
        ({"max_pattern_size": 8, "min_count": 1}, "min_count"),
        ({"max_pattern_size": 8}, "min_count"),
        ({"max_pattern_size": 4097, "min_count": 2}, "max_pattern_size"),
        ({"max_pattern_size": 8, "min_pattern_size": 9, "min_count": 2}, "min_pattern_size"),
        ({"max_pattern_size": -1, "min_count": 2}, "max_pattern_size"),
        ({"max_pattern_size": 8, "min_count": 2, "window": 5}, "window"),
        ({"max_pattern_size": "8", "min_count": 2}, "max_pattern_size"),
    ],
)
def test_wrong_figures_are_refused_by_their_field(
    site: Site, figures: dict[str, Any], field: str
) -> None:
    body: dict[str, Any] = {"model": "m", "messages": TURNS, "repetition_detection": figures}
    found = site.send("POST", "/v1/chat/completions", body)
    assert found.status == 400
    assert found.json["error"]["param"] == f"repetition_detection.{field}"
    body = {"model": "m", "messages": TURNS, "max_tokens": 9}
    body["fullstop"] = {"repetition_detection": figures}
    found = site.send("POST", "/v1/messages", body)
    assert found.status == 400
    assert f"fullstop.repetition_detection.{field}" in found.json["error"]["message"]


def test_apis_without_the_field_name_the_one_that_they_have(site: Site) -> None:
    body = {"model": "m", "messages": TURNS, "max_tokens": 9, "repetition_detection": FIGURES}
    found = site.send("POST", "/v1/messages", body)
    assert found.status == 400
    assert "fullstop.repetition_detection" in found.json["error"]["message"]

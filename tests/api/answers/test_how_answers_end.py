"""What dialects report if an end token, a tag or a limit falls into a tool call or a header."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.conftest import Site, acting
from tests.support.models.formats import ANALYSIS, FINAL, FORMATS, HARMONY, tool_template
from tests.support.scripted import END, Stage

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}}}
ASKED = [{"role": "user", "content": "go"}]


def served(folder: Any, script: list[str], **options: Any) -> Iterator[tuple[Site, Stage]]:
    stage = Stage(folder, {"go": script}, **options)
    with acting(stage) as (site, _):
        yield site, stage


@pytest.fixture(scope="module")
def calling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Stage]]:
    """A server on a model that calls a tool."""
    tags, marker, script = FORMATS["json"]
    folder = tmp_path_factory.mktemp("calling")
    yield from served(folder, script, special=tags, template=tool_template(marker))


@pytest.fixture(scope="module")
def harmony(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, Stage]]:
    """A server on a model of Harmony's family."""
    yield from served(tmp_path_factory.mktemp("harmony"), [*ANALYSIS, *FINAL, "yes"], **HARMONY)


def chat(site: Site, **values: Any) -> dict[str, Any]:
    function = {"name": "add", "parameters": SCHEMA}
    ask = {"model": "m", "messages": ASKED, "tools": [{"type": "function", "function": function}]}
    [choice] = site.send("POST", "/v1/chat/completions", {**ask, **values}).json["choices"]
    return dict(choice)


def messages(site: Site, **values: Any) -> dict[str, Any]:
    tool = {"name": "add", "input_schema": SCHEMA}
    ask = {"model": "m", "max_tokens": 100, "messages": ASKED, "tools": [tool]}
    return dict(site.send("POST", "/v1/messages", {**ask, **values}).json)


@pytest.mark.parametrize("scope", ["text", "text+thinking", "all"])
def test_a_tool_call_keeps_its_reason_if_its_end_token_is_a_stop_too(
    calling: tuple[Site, Stage], scope: str
) -> None:
    site, stage = calling
    wanted: dict[str, Any] = {"fullstop": {"stop_scope": scope}}
    for stop in ({"stop": [END]}, {"stop_token_ids": [stage.id(END)]}):
        choice = chat(site, **stop, **wanted)
        assert choice["finish_reason"] == "tool_calls"
        assert choice["matched_stop"] is None
        [call] = choice["message"]["tool_calls"]
        assert call["function"]["name"] == "add"
    answer = messages(site, stop_sequences=[END], **wanted)
    assert (answer["stop_reason"], answer["stop_sequence"]) == ("tool_use", None)
    assert answer["content"][-1]["input"] == {"a": 1, "b": "x"}


def test_a_call_that_is_complete_at_the_limit_is_a_call(
    calling: tuple[Site, Stage],
) -> None:
    site, stage = calling
    whole = len(stage.scripts["go"])
    reasons = [chat(site, max_tokens=most)["finish_reason"] for most in range(whole - 1, whole + 3)]
    assert reasons == ["length", "tool_calls", "tool_calls", "tool_calls"]


@pytest.mark.parametrize("most", [1, 2, 7, 9])
def test_an_answer_contains_no_word_of_a_header(harmony: tuple[Site, Stage], most: int) -> None:
    site, _ = harmony
    choice = chat(site, max_tokens=most)
    assert choice["finish_reason"] == "length"
    assert not choice["message"]["content"]


@pytest.mark.parametrize("word", ["analysis", "assistant", "final"])
def test_a_word_of_a_header_fires_no_stop(harmony: tuple[Site, Stage], word: str) -> None:
    site, _ = harmony
    answer = messages(site, stop_sequences=[word], fullstop={"stop_scope": "all"})
    assert answer["stop_reason"] == "end_turn"
    assert answer["content"][-1]["text"] == "yes"

"""Tools with ``defer_loading`` are offered once the conversation refers to them."""

import json
from typing import Any

import pytest

from engine.values.request import GenerationRequest
from tests.api.dialects.asking import request

USER = {"role": "user", "content": "?"}
SEARCH = {"name": "ToolSearch", "input_schema": {"type": "object"}}
SCHEMA = {"type": "object", "properties": {"channel": {"type": "string"}}}


def _deferred(name: str) -> dict[str, Any]:
    return {"name": name, "description": "Post", "input_schema": SCHEMA, "defer_loading": True}


TOOLS = [SEARCH, _deferred("slack"), _deferred("mail")]


def _called(name: str, call_id: str = "toolu_1") -> dict[str, Any]:
    call = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    return {"role": "assistant", "content": [call]}


def _found(*names: str, call_id: str = "toolu_1") -> dict[str, Any]:
    references = [{"type": "tool_reference", "tool_name": name} for name in names]
    result = {"type": "tool_result", "tool_use_id": call_id, "content": references}
    return {"role": "user", "content": [result]}


def _listed(wanted: GenerationRequest) -> list[str]:
    return [tool.name for tool in wanted.tools if not tool.is_deferred]


def _callable(wanted: GenerationRequest) -> list[str]:
    return [tool.name for tool in wanted.tools]


def test_deferred_tool_is_not_offered_before_a_reference() -> None:
    assert _callable(request("messages", tools=TOOLS)) == ["ToolSearch"]


def test_referenced_tool_is_described_in_the_result_and_can_be_called() -> None:
    wanted = request(
        "messages", tools=TOOLS, messages=[USER, _called("ToolSearch"), _found("slack")]
    )
    described = json.loads(wanted.messages[-1].content.splitlines()[-1])

    assert described == {"name": "slack", "description": "Post", "parameters": SCHEMA}
    assert (_listed(wanted), _callable(wanted)) == (["ToolSearch"], ["ToolSearch", "slack"])


@pytest.mark.parametrize(
    "tools",
    [
        [_deferred("slack"), _deferred("mail")],
        [*TOOLS, {"type": "tool_search_tool_regex_20251119", "name": "tool_search_tool_regex"}],
    ],
    ids=["nothing else", "the vendor's search"],
)
def test_tools_that_no_search_here_could_find_are_listed(tools: list[dict[str, Any]]) -> None:
    assert {"slack", "mail"} <= {*_listed(request("messages", tools=tools))}


def test_search_result_of_the_vendor_makes_its_tools_callable() -> None:
    content = {
        "type": "tool_search_tool_search_result",
        "tool_references": [{"type": "tool_reference", "tool_name": "slack"}],
    }
    result = {"type": "tool_search_tool_result", "tool_use_id": "s", "content": content}
    turns = [USER, {"role": "assistant", "content": [result]}, USER]
    vendors = {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}

    assert _callable(request("messages", tools=TOOLS, messages=turns)) == ["ToolSearch", "slack"]
    # What it found before can be called, though it does not run here.
    for tools in ([vendors, *TOOLS], [vendors, *TOOLS[1:]]):
        wanted = request("messages", tools=tools, messages=turns)
        assert "slack" in _callable(wanted)
        assert "mail" not in _callable(wanted)
        assert _listed(wanted)


def test_turns_add_and_remove_tools() -> None:
    definition = {"name": "clock", "input_schema": {"type": "object"}}

    def changed(kind: str, **tool: Any) -> dict[str, Any]:
        return {"role": "system", "content": [{"type": kind, "tool": tool}]}

    added = changed("tool_addition", type="tool_definition", definition=definition)
    loaded = changed("tool_addition", type="tool_reference", name="mail")
    removed = changed("tool_removal", type="tool_reference", name="clock")

    wanted = request("messages", tools=TOOLS, messages=[USER, added, loaded])
    assert _callable(wanted) == ["ToolSearch", "clock", "mail"]
    assert _listed(wanted) == ["ToolSearch"]
    wanted = request("messages", tools=TOOLS, messages=[USER, added, loaded, removed])
    assert _callable(wanted) == ["ToolSearch", "mail"]

"""Items of Responses that earlier answers left: reasoning, and items of other servers' tools."""

import json
from typing import Any

import pytest

from api.dialects.responses.read import wants_summary
from engine.values.request import Message, ToolCall
from tests.api.dialects.asking import params, refusal, request, turns

USER = {"role": "user", "content": "?"}
CALL = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c", "output": "RESULT"}
CALLED = (ToolCall("c", "f", "{}"),)


def _thought(text: str) -> dict[str, Any]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "id": "rs_1", "summary": [], "content": content}


def _summary(*texts: str) -> dict[str, Any]:
    parts = [{"type": "summary_text", "text": text} for text in texts]
    return {"type": "reasoning", "summary": parts, "encrypted_content": None}


@pytest.mark.parametrize(
    ("items", "thinking"),
    [
        ([_thought("WHY")], "WHY"),
        ([_summary("WHY", "HOW")], "WHY\n\nHOW"),
        ([_thought("WHY"), _thought("HOW")], "WHY\n\nHOW"),
        ([{**_summary("SHORT"), **_thought("WHOLE")}], "WHOLE"),
    ],
)
def test_reasoning_reaches_the_turn_that_follows_it(items: Any, thinking: str) -> None:
    call = Message("assistant", "", thinking=thinking, tool_calls=CALLED)
    answer = {"role": "assistant", "content": "So."}

    assert turns("responses", USER, *items, CALL, OUTPUT)[1] == call
    assert turns("responses", USER, *items, answer, USER)[1] == Message(
        "assistant", "So.", thinking=thinking
    )
    # An answer that ended while the model was reasoning has nothing else.
    assert turns("responses", USER, *items, USER)[1] == Message("assistant", "", thinking=thinking)


FOREIGN: list[tuple[dict[str, Any], str]] = [
    (
        {
            "type": "web_search_call",
            "id": "ws",
            "action": {
                "type": "search",
                "query": "x",
                "sources": [{"type": "url", "url": "https://example.org"}],
            },
        },
        "Result of web_search:\nhttps://example.org",
    ),
    (
        {
            "type": "file_search_call",
            "id": "fs",
            "queries": ["x"],
            "results": [{"filename": "a.txt", "text": "FOUND"}],
        },
        "Result of file_search:\na.txt\nFOUND",
    ),
    (
        {
            "type": "code_interpreter_call",
            "id": "ci",
            "code": "1 + 1",
            "outputs": [{"type": "logs", "logs": "2"}],
        },
        "Result of code_interpreter:\n1 + 1\n2",
    ),
    ({"type": "of_the_future", "text": "NEWS"}, "NEWS"),
]


@pytest.mark.parametrize(("item", "text"), FOREIGN, ids=[item["type"] for item, _ in FOREIGN])
def test_foreign_item_is_read_as_its_text(item: dict[str, Any], text: str) -> None:
    answer = {"role": "assistant", "content": "So."}

    assert turns("responses", USER, item, answer, USER)[1] == Message("assistant", f"{text}\n\nSo.")


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws", "action": {"type": "search", "query": "x"}},
        {"type": "mcp_list_tools", "id": "m", "server_label": "s", "tools": [{"name": "f"}]},
        {"type": "image_generation_call", "id": "i", "result": "iVBORw0KGgo="},
        {"type": "computer_call", "id": "c", "call_id": "c", "action": {"type": "screenshot"}},
        {"type": "configuration_update", "reasoning": {"effort": "low"}},
        {"type": "compaction", "encrypted_content": "gAAAA"},
        {"type": "of_the_future"},
    ],
    ids=lambda item: item["type"],
)
def test_item_without_text_is_left_out_and_named(item: dict[str, Any]) -> None:
    wanted = request("responses", input=[USER, item, USER])

    assert [turn.role for turn in wanted.messages] == ["user", "user"]
    assert wanted.not_applied == (f"input[1] ({item['type']})",)


def test_unknown_part_is_read_named_or_refused() -> None:
    known = {"type": "output_text", "text": "So."}
    new, mute = {"type": "of_the_future", "text": " More."}, {"type": "of_the_future"}
    answer = {"role": "assistant", "content": [known, new, mute]}
    output = {**OUTPUT, "output": [new, mute]}
    wanted = request("responses", input=[USER, answer, CALL, output])

    assert [turn.content for turn in wanted.messages[1:]] == ["So. More.", " More."]
    assert wanted.not_applied == (
        "input[1].content[2] (of_the_future)",
        "input[3].output[1] (of_the_future)",
    )
    error = refusal("responses", input=[{"role": "user", "content": [new]}])
    assert error.field == ("input", 0, "content", 0, "type")


# -- reasoning of this server's answers --------------------------------------------------------


REASONED = {"model": "m", "input": "What is 2 + 2?", "reasoning": {"effort": "high"}}
WAYS: dict[str, dict[str, Any]] = {
    "content": {},
    "summary": {"reasoning": {"effort": "high", "summary": "auto"}},
    "encrypted": {"include": ["reasoning.encrypted_content"]},
}


def _text_of(item: Any) -> str:
    return "".join(part["text"] for part in (*item["content"], *item["summary"]))


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("way", WAYS)
def test_reasoning_of_an_answer_comes_back(
    site: Any, asked: list[Any], way: str, is_streamed: bool
) -> None:
    body = {**REASONED, **WAYS[way], "stream": is_streamed}
    reply = site.send("POST", "/v1/responses", body)
    response = json.loads(reply.events[-1][1])["response"] if is_streamed else reply.json
    thought, *rest = response["output"]
    written = _text_of(thought)
    assert thought["type"] == "reasoning"
    assert written
    assert (thought["encrypted_content"] is not None) == (way == "encrypted")

    if way == "encrypted":  # as clients send it that keep only what they cannot read
        thought = {**thought, "content": [], "summary": []}
    question = {"role": "user", "content": "And 3 + 3?"}
    histories: list[dict[str, Any]] = [
        {"input": [{"role": "user", "content": body["input"]}, thought, *rest, question]},
        {"input": [question], "previous_response_id": response["id"]},
        {"input": [{"type": "item_reference", "id": thought["id"]}, *rest, question]},
    ]
    for history in histories:
        assert site.send("POST", "/v1/responses", {"model": "m", **history}).status == 200
        [turn] = [turn for turn in asked[-1].messages if turn.role == "assistant"]
        assert (turn.thinking, turn.content) == (written, rest[0]["content"][0]["text"])


MCP_CALL = {
    "type": "mcp_call",
    "id": "c",
    "name": "f",
    "arguments": "{}",
    "server_label": "s",
    "output": "RESULT",
}


def test_mcp_call_is_read_as_a_call_with_its_result() -> None:
    failed = {**MCP_CALL, "output": None, "error": {"type": "http_error", "code": 500}}

    assert (
        turns("responses", USER, MCP_CALL, USER)[1:3] == turns("responses", USER, CALL, OUTPUT)[1:]
    )
    assert turns("responses", USER, failed)[2].content == json.dumps(failed["error"])


@pytest.mark.parametrize("before", [[MCP_CALL], [MCP_CALL, USER]])
def test_error_after_mcp_call_names_the_index_in_the_request(before: list[Any]) -> None:
    index = len(before)

    missing = refusal("responses", input=[*before, {"role": "user"}])
    unanswered = refusal("responses", input=[*before, {**OUTPUT, "call_id": "x"}])

    assert missing.field == ("input", index, "content")
    assert unanswered.field == ("input", index, "call_id")


@pytest.mark.parametrize(
    ("reasoning", "is_summary"),
    [
        ({"summary": "none"}, False),
        ({"summary": "auto"}, True),
        ({"summary": "of the future"}, True),
        ({"generate_summary": "concise"}, True),
        ({"effort": "low"}, False),
    ],
)
def test_reasoning_summary_takes_any_word(reasoning: dict[str, str], is_summary: bool) -> None:
    assert wants_summary(params("responses", reasoning=reasoning)) is is_summary

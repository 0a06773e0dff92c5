"""Blocks of a conversation of Messages that other servers wrote: text, or left out and named."""

from typing import Any

import pytest

from engine.values.request import GenerationRequest, Message
from tests.api.dialects.asking import request

USER = {"role": "user", "content": "?"}
FETCHED = {"type": "document", "title": "T", "source": {"type": "text", "data": "PAGE"}}
# Blocks of answers of the vendor's service, and the text that stays of each.
FOREIGN: dict[str, tuple[dict[str, Any], str]] = {
    "web search": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "srvtoolu_1",
            "content": [
                {
                    "type": "web_search_result",
                    "url": "https://example.org",
                    "title": "Example",
                    "encrypted_content": "SECRET",
                }
            ],
        },
        "Result of web_search:\nExample\nhttps://example.org",
    ),
    "failed search": (
        {
            "type": "web_search_tool_result",
            "tool_use_id": "other",
            "content": {"type": "web_search_tool_result_error", "error_code": "unavailable"},
        },
        "Result of web_search:\nunavailable",
    ),
    "fetch": (
        {
            "type": "web_fetch_tool_result",
            "tool_use_id": "x",
            "content": {"type": "web_fetch_result", "url": "https://a.b", "content": FETCHED},
        },
        "Result of web_fetch:\nhttps://a.b\nT\nPAGE",
    ),
    "shell": (
        {
            "type": "bash_code_execution_tool_result",
            "tool_use_id": "x",
            "content": {
                "type": "bash_code_execution_result",
                "stdout": "OUT",
                "stderr": "ERR",
                "return_code": 0,
                "content": [],
            },
        },
        "Result of bash_code_execution:\nOUT\nERR",
    ),
    "mcp": (
        {
            "type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1",
            "is_error": False,
            "content": [{"type": "text", "text": "ROW"}],
        },
        "Result of mcp:\nROW",
    ),
    "compaction": (
        {"type": "compaction", "content": "SUMMARY", "encrypted_content": "SECRET"},
        "A summary of the conversation before this message:\nSUMMARY",
    ),
    "unknown": ({"type": "of_the_future", "text": "NEWS"}, "NEWS"),
}


def _history(*blocks: dict[str, Any]) -> GenerationRequest:
    return request("messages", messages=[USER, {"role": "assistant", "content": blocks}, USER])


@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_block_of_an_answer_is_read_as_its_text(name: str) -> None:
    block, text = FOREIGN[name]
    wanted = _history({"type": "text", "text": "So: "}, block, {"type": "text", "text": "end"})

    assert wanted.messages[1] == Message("assistant", f"So: {text}\n\nend")
    assert wanted.not_applied == ()


@pytest.mark.parametrize(
    "block",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}},
        {"type": "mcp_tool_use", "id": "m", "name": "f", "server_name": "s", "input": {}},
        {"type": "container_upload", "file_id": "file_1"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "thinking", "thinking": "", "signature": "EqQBCgIYAhIM"},
        {"type": "thinking", "thinking": None},
        {"type": "compaction", "content": None},
        {"type": "fallback", "from": {"model": "a"}, "to": {"model": "b"}},
        {"type": "of_the_future", "value": 5},
    ],
    ids=str,
)
def test_block_without_text_is_left_out_and_named(block: dict[str, Any]) -> None:
    wanted = _history(block)

    assert wanted.messages == (Message("user", "?"), Message("assistant", ""), Message("user", "?"))
    assert wanted.not_applied == (f"messages.1.content.0 ({block['type']})",)


def test_result_of_a_foreign_tool_has_the_name_of_its_call() -> None:
    call = {"type": "mcp_tool_use", "id": "m", "name": "rows", "server_name": "s", "input": {}}
    result = {"type": "mcp_tool_result", "tool_use_id": "m", "content": "ROW"}

    assert _history(call, result).messages[1].content == "Result of rows:\nROW\n\n"

"""Converts items of tools that this server does not have.

Conversations that began with the vendor's service or other tools contain them. A call with its
result becomes a function call and its result, so that the model knows of it; items that only the
vendor can read are left out. Pure; any thread.
"""

import json
from collections.abc import Mapping
from typing import Any

# Their content is useless to another model, or is not text.
_LEFT_OUT = (
    "apply_patch_call_output",
    "code_interpreter_call",
    "computer_call",
    "computer_call_output",
    "file_search_call",
    "image_generation_call",
    "mcp_approval_request",
    "mcp_approval_response",
    "mcp_list_tools",
    "program",
    "program_output",
    "tool_search_call",
    "tool_search_output",
    "web_search_call",
)
_CALLS = {
    "apply_patch_call": ("apply_patch", "operation"),
    "local_shell_call": ("shell", "action"),
    "shell_call": ("shell", "action"),
}
_RESULTS = ("local_shell_call_output", "shell_call_output")
FOREIGN_ITEMS = frozenset((*_LEFT_OUT, *_CALLS, *_RESULTS, "mcp_call"))


def foreign_items(item: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items that replace an item of a missing tool; none if it is left out."""
    kind = item["type"]
    call_id = item.get("call_id") or item.get("id")
    if kind in _LEFT_OUT or not isinstance(call_id, str):
        return []
    if kind == "mcp_call":
        return [
            _call(call_id, item.get("name"), item.get("arguments")),
            _result(call_id, item.get("error") or item.get("output") or ""),
        ]
    if kind in _RESULTS:
        return [_result(call_id, item.get("output"))]
    name, field = _CALLS[kind]
    return [_call(call_id, name, {field: item.get(field)})]


def _call(call_id: str, name: object, arguments: object) -> dict[str, Any]:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    return {"type": "function_call", "call_id": call_id, "name": str(name), "arguments": text}


def _result(call_id: str, output: object) -> dict[str, Any]:
    is_text = isinstance(output, str) or (
        isinstance(output, list)
        and all(isinstance(part, dict) and "text" in str(part.get("type")) for part in output)
    )
    text = output if is_text else json.dumps(output, ensure_ascii=False)
    return {"type": "function_call_output", "call_id": call_id, "output": text}

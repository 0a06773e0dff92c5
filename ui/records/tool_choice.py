"""The tools of a conversation, and its approvals.

The choice is not part of exported files, so that no imported file can run a tool.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from engine.files.json_fields import Fields
from engine.values.request import Tool
from engine.wording import counted
from ui.records.tool_servers import ServerState, ToolInfo

Approval = tuple[str, str, str]
"""Server, tool and fingerprint of a tool that may run without asking."""

_MAX_NAME_CHARS = 64
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]+")


def approval_of(tool: ToolInfo) -> Approval:
    """Return the approval of a tool, as it is stored."""
    return tool.server, tool.name, tool.fingerprint


@dataclass(frozen=True, slots=True)
class ToolsInUse:
    """The MCP servers of a conversation."""

    servers: tuple[str, ...] = ()
    without: tuple[tuple[str, str], ...] = ()
    approved: tuple[Approval, ...] = ()

    def with_server(self, name: str, is_on: bool) -> "ToolsInUse":
        """Return a copy with a server on or off; switching it off removes its approvals."""
        others = tuple(server for server in self.servers if server != name)
        if is_on:
            return replace(self, servers=(*others, name))
        kept = tuple(approval for approval in self.approved if approval[0] != name)
        return replace(self, servers=others, approved=kept)

    def with_tool(self, tool: ToolInfo, is_on: bool) -> "ToolsInUse":
        """Return a copy with one tool on or off; switching it off removes its approval."""
        others = tuple(key for key in self.without if key != tool.key)
        if is_on:
            return replace(self, without=others)
        return replace(self.without_approval(tool), without=(*others, tool.key))

    def with_approval(self, approval: Approval) -> "ToolsInUse":
        others = tuple(other for other in self.approved if other[:2] != approval[:2])
        return replace(self, approved=(*others, approval))

    def without_approval(self, tool: ToolInfo) -> "ToolsInUse":
        kept = tuple(approval for approval in self.approved if approval[:2] != tool.key)
        return replace(self, approved=kept)

    def uses(self, tool: ToolInfo) -> bool:
        """Return whether the model may call a tool."""
        return tool.server in self.servers and tool.key not in self.without


def choice_values(choice: ToolsInUse) -> dict[str, Any]:
    """Return a conversation's tools as JSON values; empty if it has none."""
    values = {
        "servers": list(choice.servers),
        "without": [list(key) for key in choice.without],
        "approved": [list(approval) for approval in choice.approved],
    }
    return {name: value for name, value in values.items() if value}


def choice_from(fields: Fields) -> ToolsInUse:
    """Return a conversation's tools without invalid entries; raise ``DamagedFile``."""
    return ToolsInUse(
        tuple(name for name in fields.maybe("servers", list) or () if isinstance(name, str)),
        tuple(_text_tuples(fields.maybe("without", list) or (), 2)),
        tuple(_text_tuples(fields.maybe("approved", list) or (), 3)),
    )


def _text_tuples(values: Iterable[Any], length: int) -> Iterable[Any]:
    for value in values:
        is_list = isinstance(value, list) and len(value) == length
        if is_list and all(isinstance(text, str) for text in value):
            yield tuple(value)


def enabled_tools(servers: Iterable[ServerState], choice: ToolsInUse) -> dict[str, ToolInfo]:
    """Return the tools that the model may call, by unique names that templates can write.

    If two servers have a tool of the same name, the server's name is added.
    """
    tools = [
        tool
        for server in servers
        if server.stage == "ready"
        for tool in server.tools
        if choice.uses(tool)
    ]
    names = [_ascii_name(tool.name) for tool in tools]
    by_name: dict[str, ToolInfo] = {}
    for tool, name in zip(tools, names, strict=True):
        if names.count(name) > 1:
            name = f"{_ascii_name(tool.server)[:24]}__{name}"[:_MAX_NAME_CHARS]
        unique, number = name, 2
        while unique in by_name:
            unique = f"{name[: _MAX_NAME_CHARS - 4]}_{number}"
            number += 1
        by_name[unique] = tool
    return by_name


def engine_tools(tools: dict[str, ToolInfo]) -> tuple[Tool, ...]:
    """Return the tools for a request to the engine."""
    return tuple(Tool(name, tool.description, tool.parameters) for name, tool in tools.items())


def _ascii_name(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name).strip("_")[:_MAX_NAME_CHARS] or "tool"


def tools_button_texts(servers: tuple[ServerState, ...], choice: ToolsInUse) -> tuple[str, str]:
    """Return the label of the Tools button, and its accessible name."""
    used = [server for server in servers if server.name in choice.servers]
    failed = [server for server in used if server.stage == "failed"]
    if failed:
        return "Tools ⚠", f"Tools: {failed[0].problem}"
    if not used:
        return "", "Tools: none in this conversation"
    count = sum(choice.uses(tool) for server in used for tool in server.tools)
    names = ", ".join(server.name for server in used)
    label = counted(count, "Tool") if count else counted(len(used), "Server")
    return label, f"Tools of {names}: {counted(count, 'tool')} known"

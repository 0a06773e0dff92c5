"""The tools of a conversation, as a request to the engine names them. Pure; main thread."""

import re
from collections.abc import Iterable

from engine import Tool
from ui.records.tools import ServerStage, ServerState, ToolInfo, ToolsInUse

_MOST_NAME_CHARS = 64
_FOREIGN = re.compile(r"[^A-Za-z0-9_-]+")


def tools_in_use(servers: Iterable[ServerState], choice: ToolsInUse) -> list[ToolInfo]:
    """Return the tools that the model may call: those of running servers that are on here."""
    return [
        tool
        for server in servers
        if server.stage is ServerStage.READY
        for tool in server.tools
        if choice.uses(tool)
    ]


def named(tools: Iterable[ToolInfo]) -> dict[str, ToolInfo]:
    """Return the tools by unique names that models and their templates can write.

    If two servers have a tool of the same name, the server's name is added.
    """
    listed = list(tools)
    plain = [_writable(tool.name) for tool in listed]
    found: dict[str, ToolInfo] = {}
    for tool, name in zip(listed, plain, strict=True):
        if plain.count(name) > 1:
            name = f"{_writable(tool.server)[:24]}__{name}"[:_MOST_NAME_CHARS]
        free, number = name, 2
        while free in found:
            free = f"{name[: _MOST_NAME_CHARS - 4]}_{number}"
            number += 1
        found[free] = tool
    return found


def engine_tools(tools: dict[str, ToolInfo]) -> tuple[Tool, ...]:
    """Return the tools as a request to the engine has them."""
    return tuple(Tool(name, one.description, one.parameters) for name, one in tools.items())


def _writable(name: str) -> str:
    return _FOREIGN.sub("_", name).strip("_")[:_MOST_NAME_CHARS] or "tool"

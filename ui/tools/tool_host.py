"""What the window knows of tool servers, and which tools a conversation offers.

Knows no Qt.
"""

import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from engine import Tool, ToolCall, counted
from ui.records.tools import (
    CallResult,
    CallState,
    QuestionReply,
    ServerQuestion,
    ServerStage,
    ServerState,
    ToolAnswer,
    ToolInfo,
    ToolServerConfig,
    ToolsInUse,
)

# Main thread; knows no MCP and no process.

OnProgress = Callable[[float, float | None, str], None]
"""Called with the progress of a call, its total (None if it is not known), and a message."""
OnQuestion = Callable[[ServerQuestion], Awaitable[QuestionReply]]
"""Called with what the server asks during a call; returns the person's answer."""


class ToolsRefused(Exception):
    """An action failed; the message says why and what to do, in whole sentences."""


OnPage = Callable[[str], object]
"""Called with the address of a page, which is opened in the browser."""


@dataclass(frozen=True, slots=True)
class AddedServers:
    """What became of the servers in a JSON.

    Attributes:
        names: Those that were added, at least one; their names may have got a number.
        refused: Why others cannot be used, a sentence for each.
    """

    names: tuple[str, ...]
    refused: tuple[str, ...] = ()


class ToolHost(Protocol):
    """Keeps tool servers and runs them. Calls run on the window's loop and never block it."""

    @property
    def servers(self) -> tuple[ServerState, ...]:
        """All servers in their present state, in the order in which they were added."""

    @property
    def notice(self) -> str:
        """What a person should know about how servers and secrets are kept; empty for nothing."""

    def on_change(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` on the main thread whenever ``servers`` or ``notice`` have changed."""

    def begin(self) -> None:
        """Read the list of servers in the background, without starting any."""

    async def add_text(self, text: str) -> AddedServers:
        """Add those servers of an ``mcpServers`` JSON that can be used, switched off.

        Raises:
            ToolsRefused: The text, or each server in it, cannot be used; none was added.
        """

    async def import_claude_desktop(self) -> AddedServers:
        """Add the servers of Claude Desktop's file, switched off.

        Raises:
            ToolsRefused: There is no such file, or it cannot be used.
        """

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        """Add a server, or replace another one, which is ended.

        A secret without a value keeps the value that it had.

        Raises:
            ToolsRefused: A field is invalid, or the server cannot be saved.
        """

    async def remove(self, name: str) -> None:
        """End a server, and delete it with its secrets.

        Raises:
            ToolsRefused: The change cannot be saved.
        """

    async def switch(self, name: str, is_on: bool) -> None:
        """Switch a server on, which starts it, or off, which ends it.

        Raises:
            ToolsRefused: The change cannot be saved.
        """

    async def restart(self, name: str) -> None:
        """End a server and start it again."""

    async def sign_in(self, name: str, open_page: OnPage) -> None:
        """Have a person sign in to a server in the browser, and start it.

        Args:
            name: The server.
            open_page: Called with the address of the page where a person signs in.
        """

    async def ready(self, names: Sequence[str]) -> None:
        """Start those servers that are switched on, and wait until each is ready or has failed.

        One that died is started again by itself a few times; one that failed waits for ``restart``.
        """

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        """Call a tool and return what it answered.

        Cancelling this cancels the call at the server.

        Args:
            tool: The tool.
            arguments: Its arguments.
            on_progress: Called with the progress of the call.
            on_question: Asks the person what the server asks; the time that this takes does not
                count for the limit of the call.

        Raises:
            ToolsRefused: The server ended, took too long, refused, or gave an invalid answer.
        """

    async def read_resource(self, server: str, uri: str) -> str:
        """Return the text of a resource; raises ``ToolsRefused`` as ``call`` does."""

    async def prompt_text(self, server: str, name: str, arguments: dict[str, str]) -> str:
        """Return the text of a server's prompt; raises ``ToolsRefused`` as ``call`` does.

        Args:
            server: The server's name.
            name: The prompt's name.
            arguments: The values to insert.
        """

    async def finish(self) -> None:
        """End all servers with their processes."""


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


def arguments_of(call: ToolCall, tool: ToolInfo) -> dict[str, Any] | CallResult:
    """Return the arguments of a call; the result of one that has none that can be used."""
    try:
        arguments = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        arguments = None
    if isinstance(arguments, dict):
        return arguments
    words = "The arguments are not a JSON object. The call was not run."
    return CallResult(call.id, CallState.FAILED, words, tool.server, tool.name)


def engine_tools(tools: dict[str, ToolInfo]) -> tuple[Tool, ...]:
    """Return the tools as a request to the engine has them."""
    return tuple(Tool(name, one.description, one.parameters) for name, one in tools.items())


def _writable(name: str) -> str:
    return _FOREIGN.sub("_", name).strip("_")[:_MOST_NAME_CHARS] or "tool"


def stage_words(server: ServerState) -> str:
    """Return the state of a server in a few words, or the sentences about its problem."""
    match server.stage:
        case ServerStage.OFF:
            return "switched off"
        case ServerStage.STOPPED:
            return "starts when it is needed"
        case ServerStage.STARTING:
            return "starting…"
        case ServerStage.READY:
            return f"running, {counted(len(server.tools), 'tool')}"
        case ServerStage.RESTARTING:
            return f"{server.problem} It is started again…"
        case ServerStage.FAILED:
            return server.problem


def no_tools_words(server: ServerState) -> str:
    """Return why no tools of a server are listed."""
    match server.stage:
        case ServerStage.OFF:
            return "Its tools are listed here once it is switched on."
        case ServerStage.STOPPED | ServerStage.STARTING | ServerStage.RESTARTING:
            return "Its tools are listed here once it has started."
        case ServerStage.READY:
            return "It offers no tools."
        case ServerStage.FAILED:
            return "It is not running, so its tools are not known. Its log may say why."


def chip_words(servers: tuple[ServerState, ...], choice: ToolsInUse) -> tuple[str, str]:
    """Return the words of the Tools button, and its accessible name."""
    used = [server for server in servers if server.name in choice.servers]
    lost = [one for one in used if one.stage is ServerStage.FAILED]
    if lost:
        return "Tools ⚠", f"Tools: {lost[0].problem}"
    if not used:
        return "Tools", "Tools: none in this conversation"
    count = sum(choice.uses(tool) for one in used for tool in one.tools)
    names = ", ".join(one.name for one in used)
    return f"Tools {len(used)}", f"Tools of {names}: {counted(count, 'tool')} known"

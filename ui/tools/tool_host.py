"""The interface of what runs tool servers. Main thread; knows no MCP and no process."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ui.records.tools import ServerState, ToolInfo, ToolServerConfig

OnProgress = Callable[[float, float | None, str], None]
"""Called with the progress of a call, its total (None if it is not known), and a message."""


class ToolsRefused(Exception):
    """An action failed; the message says why and what to do, in whole sentences."""


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

    async def add_text(self, text: str) -> list[str]:
        """Add the servers of an ``mcpServers`` JSON, switched off; return their names.

        Raises:
            ToolsRefused: The text cannot be used; no server was added.
        """

    async def import_claude_desktop(self) -> list[str]:
        """Add the servers of Claude Desktop's file, switched off; return their names.

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

    async def ready(self, names: Sequence[str]) -> None:
        """Start those servers that are switched on, and wait until each is ready or has failed."""

    async def call(
        self, tool: ToolInfo, arguments: dict[str, Any], on_progress: OnProgress
    ) -> tuple[str, bool]:
        """Call a tool; return its text, and whether the text is an error.

        Cancelling this cancels the call at the server.

        Args:
            tool: The tool.
            arguments: Its arguments.
            on_progress: Called with the progress of the call.

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

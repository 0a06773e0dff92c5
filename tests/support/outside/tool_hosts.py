"""MCP servers whose answers a test dictates."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.support.kept import preferences_state
from ui.records.tool_choice import ToolsInUse
from ui.records.tool_servers import (
    AddedServers,
    OnProgress,
    OnQuestion,
    QuestionReply,
    ServerQuestion,
    ServerState,
    ToolAnswer,
    ToolInfo,
    ToolServerConfig,
    ToolsRefused,
)
from ui.tools.toolbox import Toolbox

ADD = ToolInfo(
    "sums",
    "add",
    "add",
    "Add two numbers.",
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}},
    "f1",
)
SUMS = ServerState(ToolServerConfig("sums", "sums-server", is_on=True), "ready", tools=(ADD,))
SUMS_ON = ToolsInUse(("sums",))


class NoTools:
    """Stands where no servers can be run; it has none, and adds none."""

    servers: tuple[ServerState, ...] = ()
    notice = ""

    def on_change(self, listener: Callable[[], None]) -> None:
        """Never happens."""

    def begin(self) -> None:
        """There is nothing to read."""

    async def add_text(self, text: str) -> AddedServers:
        raise ToolsRefused("Tools cannot be used here.")

    async def import_claude_desktop(self) -> AddedServers:
        raise ToolsRefused("Tools cannot be used here.")

    async def put(self, config: ToolServerConfig, replaced: str = "") -> None:
        raise ToolsRefused("Tools cannot be used here.")

    async def remove(self, name: str) -> None:
        """There is none to remove."""

    async def switch(self, name: str, is_on: bool) -> None:
        """There is none to switch."""

    async def restart(self, name: str) -> None:
        """There is none to restart."""

    async def sign_in(self, name: str, open_page: Callable[[str], object]) -> None:
        """There is nobody who asks."""

    async def ensure_ready(self, names: Sequence[str]) -> None:
        """There is nothing to wait for."""

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        raise ToolsRefused("Tools cannot be used here.")

    async def read_resource(self, server: str, uri: str) -> ToolAnswer:
        raise ToolsRefused("Tools cannot be used here.")

    async def get_prompt(self, server: str, name: str, arguments: dict[str, str]) -> ToolAnswer:
        raise ToolsRefused("Tools cannot be used here.")

    async def finish(self) -> None:
        """There is nothing to end."""


def no_tools() -> Toolbox:
    return Toolbox(NoTools(), preferences_state())


class DictatedHost(NoTools):
    """One server that adds, waits for the test, or refuses.

    Attributes:
        calls: The arguments of each call so far.
        answers: Set by a test that wants to answer later.
        refusal: Why calls are refused, if they are.
        text: The text of each result; empty for the sum.
        pictures: The pictures of each result.
        question: What each call asks the person; None for nothing.
        replies: What the person answered.
        cancelled: How many calls were cancelled.
    """

    def __init__(self, *servers: ServerState) -> None:
        self.servers = servers or (SUMS,)
        self.calls: list[dict[str, Any]] = []
        self.answers: asyncio.Event | None = None
        self.refusal = ""
        self.text = ""
        self.pictures: tuple[bytes, ...] = ()
        self.question: ServerQuestion | None = None
        self.replies: list[QuestionReply] = []
        self.cancelled = 0
        self.ready_for: list[tuple[str, ...]] = []
        self.switched: list[tuple[str, bool]] = []
        self._listener: Callable[[], None] = lambda: None

    def on_change(self, listener: Callable[[], None]) -> None:
        self._listener = listener

    def become(self, **fields: Any) -> None:
        """Let the first server be in another state."""
        self.servers = (replace(self.servers[0], **fields), *self.servers[1:])
        self._listener()

    async def ensure_ready(self, names: Sequence[str]) -> None:
        self.ready_for.append(tuple(names))

    async def switch(self, name: str, is_on: bool) -> None:
        self.switched.append((name, is_on))

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
    ) -> ToolAnswer:
        self.calls.append(arguments)
        if self.refusal:
            raise ToolsRefused(self.refusal)
        on_progress(1, 2, "half way")
        if self.answers is not None:
            try:
                await self.answers.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if self.question is not None:
            self.replies.append(await on_question(self.question))
        text = self.text or str(arguments.get("a", 0) + arguments.get("b", 0))
        return ToolAnswer(text, pictures=self.pictures)

"""The MCP servers, and the tools that are allowed in all conversations. Main thread."""

import contextlib
from typing import Any

from PySide6.QtCore import QObject, Signal

from engine.values.request import Tool
from ui.preferences_state import PreferencesState
from ui.records.conversations import Conversation
from ui.records.facts import MEMORY_SERVER, Fact
from ui.records.tool_choice import ToolsInUse, approval_of, enabled_tools, engine_tools
from ui.records.tool_servers import (
    OnProgress,
    OnQuestion,
    ServerState,
    ToolAnswer,
    ToolHost,
    ToolInfo,
    ToolsRefused,
)
from ui.tools.memory import REMEMBER, Memory


class Toolbox(QObject):
    """Servers, the built-in one included, limits and approvals."""

    changed = Signal()
    added = Signal(str)  # name of a server, for the open conversation

    def __init__(
        self, host: ToolHost, preferences: PreferencesState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.host = host
        self.preferences = preferences
        self.memory: Memory | None = None
        host.on_change(self.changed.emit)
        preferences.changed.connect(lambda _: self.changed.emit())

    @property
    def servers(self) -> tuple[ServerState, ...]:
        if self.memory is None:
            return self.host.servers
        others = (server for server in self.host.servers if server.name != MEMORY_SERVER)
        return self.memory.server, *others

    def attach_memory(self, memory: Memory) -> None:
        self.memory = memory
        memory.changed.connect(self.changed)

    @property
    def max_calls(self) -> int:
        return self.preferences.now.tools.most_calls

    @property
    def max_result_bytes(self) -> int:
        """How much of a result the model is given, in bytes."""
        return self.preferences.now.tools.most_result_kb * 1_000

    def offered_to(self, conversation: Conversation) -> tuple[Tool, ...]:
        return engine_tools(self.tools_of(conversation))

    def tools_of(self, conversation: Conversation) -> dict[str, ToolInfo]:
        """Return the tools that the model may call in a conversation, by their unique names."""
        return enabled_tools(self.servers, self.choice_of(conversation))

    def choice_of(self, conversation: Conversation) -> ToolsInUse:
        """Return a conversation's choice of tools; its folder may turn the memory off."""
        if self.memory is not None and self.memory.folder_without(conversation):
            return conversation.tools.with_server(MEMORY_SERVER, is_on=False)
        return conversation.tools

    def facts_for(self, conversation: Conversation) -> tuple[Fact, ...]:
        """Return the kept facts; none where they are not used."""
        return () if self.memory is None else self.memory.facts_for(conversation)

    async def call(
        self,
        tool: ToolInfo,
        arguments: dict[str, Any],
        on_progress: OnProgress,
        on_question: OnQuestion,
        conversation: Conversation,
    ) -> ToolAnswer:
        """Call a tool for a conversation; raises ``ToolsRefused``."""
        if self.memory is not None and tool.server == MEMORY_SERVER:
            return await self.memory.call(tool, arguments, conversation)
        return await self.host.call(tool, arguments, on_progress, on_question)

    async def start_added(self, name: str) -> None:
        """Let the open conversation and new ones use a server that was added, and start it."""
        self.added.emit(name)
        await self.host.switch(name, True)

    async def restart(self, server: str) -> None:
        """End a server and start it again; how that went is in ``servers``."""
        with contextlib.suppress(ToolsRefused):  # the program is ending
            await self.host.restart(server)

    def is_allowed(self, tool: ToolInfo) -> bool:
        # Its card offers to undo it.
        is_undoable = self.memory is not None and tool == REMEMBER
        return is_undoable or approval_of(tool) in self.preferences.now.tools.allowed

    def allow(self, tool: ToolInfo, is_allowed: bool = True) -> None:
        """Let a tool run without asking in every chat, or have each call asked again."""
        kept = [
            approval for approval in self.preferences.now.tools.allowed if approval[:2] != tool.key
        ]
        added = [approval_of(tool)] if is_allowed else []
        self.preferences.change_value("tools.allowed", (*kept, *added))

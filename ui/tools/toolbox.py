"""The tool servers, and the tools that are allowed in all conversations. Main thread."""

import contextlib

from PySide6.QtCore import QObject, Signal

from engine.values.request import Tool
from ui.preferences_state import PreferencesState
from ui.records.conversations import Conversation
from ui.records.tool_choice import approval_of, enabled_tools, engine_tools
from ui.records.tool_servers import ServerState, ToolHost, ToolInfo, ToolsRefused


class Toolbox(QObject):
    """Servers, limits and approvals."""

    changed = Signal()
    added = Signal(str)  # name of a server, for the open conversation

    def __init__(
        self, host: ToolHost, preferences: PreferencesState, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self.host = host
        self._preferences = preferences
        host.on_change(self.changed.emit)
        preferences.changed.connect(lambda _: self.changed.emit())

    @property
    def servers(self) -> tuple[ServerState, ...]:
        return self.host.servers

    @property
    def max_calls(self) -> int:
        return self._preferences.now.tools.most_calls

    @property
    def max_result_bytes(self) -> int:
        """How much of a result the model is given, in bytes."""
        return self._preferences.now.tools.most_result_kb * 1_000

    def offered_to(self, conversation: Conversation) -> tuple[Tool, ...]:
        return engine_tools(enabled_tools(self.servers, conversation.tools))

    async def start_added(self, name: str) -> None:
        """Let the open conversation use a server that was added and is on, and start it."""
        self.added.emit(name)
        await self.host.ensure_ready([name])

    async def restart(self, server: str) -> None:
        """End a server and start it again; how that went is in ``servers``."""
        with contextlib.suppress(ToolsRefused):  # the program is ending
            await self.host.restart(server)

    def is_allowed(self, tool: ToolInfo) -> bool:
        return approval_of(tool) in self._preferences.now.tools.allowed

    def allow(self, tool: ToolInfo) -> None:
        kept = [
            approval for approval in self._preferences.now.tools.allowed if approval[:2] != tool.key
        ]
        self._preferences.change_value("tools.allowed", (*kept, approval_of(tool)))

"""Changes what the open conversation runs with: its settings, its tools, a preset. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ui.chat.composing.preset_list import PresetList
from ui.chat.history.conversation_list import ConversationList
from ui.chat.session.open_conversation import OpenConversation
from ui.records.conversations import ConversationSettings
from ui.records.presets import Preset
from ui.records.tooling.choice import ToolsInUse


class SettingsInUse(QObject):
    """The settings of whichever conversation is open; a change counts from the next answer on.

    Signals:
        changed: The settings or the tools of the open conversation were changed.

    Args:
        current: Returns the open conversation.
        conversations: Keeps it.
        presets: The presets of this person.
        parent: Owns this object.
    """

    changed = Signal()

    def __init__(
        self,
        current: Callable[[], OpenConversation],
        conversations: ConversationList,
        presets: PresetList,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._current = current
        self._conversations = conversations
        self._presets = presets

    def change(self, settings: ConversationSettings) -> None:
        """Give the open conversation other settings."""
        conversation = self._current().conversation
        if settings != conversation.settings:
            conversation.settings = settings
            self._conversations.changed(conversation)
            self.changed.emit()

    def change_tools(self, tools: ToolsInUse) -> None:
        """Let the open conversation's model use other tools."""
        conversation = self._current().conversation
        if tools != conversation.tools:
            conversation.tools = tools
            self._conversations.changed(conversation)
            self.changed.emit()

    def use_preset(self, preset: Preset) -> None:
        """Give the open conversation a preset's settings and stop list, which can be undone."""
        self.change(preset.settings)
        current = self._current()
        current.conversation.stops_from = f"preset:{preset.name}"
        current.stops.replace_all(preset.stops, f"use preset {preset.name}")

    def save_preset(self, name: str) -> None:
        """Keep the open conversation's settings and stop list under a name."""
        conversation = self._current().conversation
        self._presets.keep(Preset(name, conversation.settings, tuple(conversation.stops)))

"""Changes the settings and tools of the open conversation, and uses presets. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ui.chat.composing.preset_list import PresetList
from ui.chat.history.conversation_list import ConversationList
from ui.chat.session.open_conversation import OpenConversation
from ui.records.codec import Preset
from ui.records.conversations import ConversationSettings
from ui.records.tools import ToolsInUse


class SettingsInUse(QObject):
    """The settings of the open conversation; a change applies from the next answer on.

    Signals:
        changed: The settings or the tools of the open conversation were changed.
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
        """Change the settings of the open conversation."""
        conversation = self._current().conversation
        if settings != conversation.settings:
            conversation.settings = settings
            self._conversations.changed(conversation)
            self.changed.emit()

    def change_tools(self, tools: ToolsInUse) -> None:
        """Change the tools of the open conversation."""
        conversation = self._current().conversation
        if tools != conversation.tools:
            conversation.tools = tools
            self._conversations.changed(conversation)
            self.changed.emit()

    def use_preset(self, preset: Preset) -> None:
        """Use a preset's settings and stop list in the open conversation; this can be undone."""
        self.change(preset.settings)
        current = self._current()
        current.conversation.stops_from = f"preset:{preset.name}"
        current.stops.replace_all(preset.stops, f"use preset {preset.name}")

    def save_preset(self, name: str) -> None:
        """Save the open conversation's settings and stop list as a preset."""
        conversation = self._current().conversation
        self._presets.keep(Preset(name, conversation.settings, tuple(conversation.stops)))

"""Applies the preferences to the main window: appearance, list, new conversations.

Main thread.
"""

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMainWindow

from ui.chat.columns.stop_panel import WIDTH_PX, StopPanel
from ui.chat.session.workspace import Workspace
from ui.kit.look.theme import Theme
from ui.preferences.preferences_state import PreferencesState
from ui.records.conversations import ListOrder
from ui.window.side_columns import SideColumns


class AppliedPreferences(QObject):
    """Applies the preferences at once, and again whenever they change."""

    def __init__(
        self,
        window: QMainWindow,
        theme: Theme,
        preferences: PreferencesState,
        workspace: Workspace,
        panel: StopPanel,
        columns: SideColumns,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._theme = theme
        self._preferences = preferences
        self._workspace = workspace
        self._panel = panel
        self._columns = columns
        preferences.changed.connect(self._apply)
        self._apply()

    def _apply(self) -> None:
        now, theme = self._preferences.now, self._theme
        if theme.mode != now.theme:
            theme.set_mode(now.theme)
        theme.set_high_contrast(now.has_high_contrast)
        if now.text_percent != theme.text_percent:
            theme.set_text_size(now.text_percent)
            width = theme.gap(WIDTH_PX)
            self._window.resizeDocks([self._panel], [width], Qt.Orientation.Horizontal)
            self._columns.fit_soon()
        self._workspace.conversations.sort_by(ListOrder(now.list_order))
        self._workspace.conversations.new_settings = now.new_conversation.settings()

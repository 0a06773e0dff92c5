"""The menu that chooses light, dark, or as the system. Main thread."""

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu

from ui.panels.preferences import MODES
from ui.theme import Theme, ThemeMode
from ui.viewmodels.preferences import PreferencesState


class AppearanceMenu(QObject):
    """Fills a menu and keeps the mark at the present choice."""

    def __init__(self, menu: QMenu, theme: Theme, preferences: PreferencesState) -> None:
        super().__init__(menu)
        self._theme = theme
        self._actions: dict[ThemeMode, QAction] = {}
        group = QActionGroup(menu)
        for mode, words in MODES:
            action = menu.addAction(words)
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, chosen=mode: preferences.change(theme=chosen))
            group.addAction(action)
            self._actions[mode] = action
        theme.changed.connect(self._mark)
        self._mark()

    def _mark(self) -> None:
        self._actions[self._theme.mode].setChecked(True)

"""The menu for the appearance (light, dark, or as the system) and the text size. Main thread."""

from functools import partial

from PySide6.QtCore import QObject
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu

from ui.kit.look.theme import Theme
from ui.kit.look.theme_mode import ThemeMode
from ui.kit.system.menus import add_entry
from ui.preferences.preferences import TEXT_PERCENTS, declaration
from ui.preferences.preferences_state import PreferencesState


class AppearanceMenu(QObject):
    """Fills a menu, and keeps the check mark at the present choice.

    Args:
        menu: The menu.
        theme: The look.
        preferences: What a person chose for the whole program.
    """

    def __init__(self, menu: QMenu, theme: Theme, preferences: PreferencesState) -> None:
        super().__init__(menu)
        self._theme = theme
        self._preferences = preferences
        self._actions: dict[ThemeMode, QAction] = {}
        group = QActionGroup(menu)
        for mode, words in declaration("theme").choices.items():
            choose = partial(preferences.change, theme=mode)
            action = add_entry(menu, words, choose, is_checked=False)
            group.addAction(action)
            self._actions[mode] = action
        menu.addSeparator()
        self._larger = self._add_size(menu, "&Larger Text", 1, "Ctrl++", "Ctrl+=")
        self._smaller = self._add_size(menu, "&Smaller Text", -1, "Ctrl+-")
        self._usual = self._add_size(menu, "&Default Text Size", 0, "Ctrl+0")
        preferences.changed.connect(self._mark)
        theme.changed.connect(self._mark)
        self._mark()

    def _add_size(self, menu: QMenu, words: str, step: int, *keys: str) -> QAction:
        return add_entry(menu, words, lambda: self._preferences.resize_text(step), *keys)

    def _mark(self) -> None:
        percent = self._preferences.now.text_percent
        self._larger.setEnabled(percent < TEXT_PERCENTS[-1])
        self._smaller.setEnabled(percent > TEXT_PERCENTS[0])
        self._usual.setEnabled(percent != 100)
        self._actions[self._theme.mode].setChecked(True)

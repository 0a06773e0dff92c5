"""The main window's menus and their shortcuts; nothing else of the window.

Main thread. Every entry is an intent of the window, its panels or the workspace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu

from ui.chat.columns.conversation_menu import ConversationMenu
from ui.preferences.appearance_menu import AppearanceMenu

if TYPE_CHECKING:
    from ui.window.main_window import MainWindow

_KEYS = QKeySequence.StandardKey


class MainMenus:
    """Fills the menu bar of a window.

    Attributes:
        stop: The entry that ends the running answer; the window enables it.
    """

    def __init__(self, window: MainWindow) -> None:
        self._window = window
        self._conversation_menu = ConversationMenu(
            window.workspace, window.sidebar, window.chat, window
        )
        bar = window.menuBar()
        bar.setAccessibleName("Menus")
        self._fill_file(bar.addMenu("&File"))
        self._fill_edit(bar.addMenu("&Edit"))
        self._fill_conversation(bar.addMenu("&Conversation"))
        self._fill_view(bar.addMenu("&View"))
        self._fill_help(bar.addMenu("&Help"))

    def export_all(self) -> None:
        """Ask for a file and write all conversations to it."""
        self._conversation_menu.export_all()

    def _fill_file(self, menu: QMenu) -> None:
        window = self._window
        _add(menu, "&New Conversation", window.new_conversation, _KEYS.New)
        _add(menu, "&Open Model Folder…", window.choose_model, _KEYS.Open)
        if window.model_library is not None:
            _add_everywhere(menu, "&Models…", window.show_models, "Ctrl+Shift+M")
        menu.addSeparator()
        self._conversation_menu.fill_file(menu)
        menu.addSeparator()
        action = _add_everywhere(menu, "&Preferences…", window.show_preferences, "Ctrl+,")
        action.setMenuRole(QAction.MenuRole.PreferencesRole)
        _add(menu, "&Close Window", window.close, "Ctrl+W")
        action = _add_everywhere(menu, "&Quit", window.quit, "Ctrl+Q")
        action.setMenuRole(QAction.MenuRole.QuitRole)

    def _fill_edit(self, menu: QMenu) -> None:
        window = self._window
        undo = window.undo_group.createUndoAction(window, "Undo")
        undo.setShortcut(_KEYS.Undo)
        redo = window.undo_group.createRedoAction(window, "Redo")
        redo.setShortcut(_KEYS.Redo)
        menu.addActions([undo, redo])
        menu.addSeparator()
        self._conversation_menu.fill_edit(menu)

    def _fill_conversation(self, menu: QMenu) -> None:
        window = self._window
        self.stop = _add(menu, "&Stop the Answer", window.chat.stop_answer, "Ctrl+.")
        self.stop.setShortcuts([QKeySequence("Ctrl+."), QKeySequence(Qt.Key.Key_Escape)])
        menu.addSeparator()
        _add(menu, "&Rename…", window.sidebar.rename_current, "Ctrl+R")
        _add(menu, "&Delete", window.sidebar.delete_current, "Ctrl+Shift+Backspace")
        _add(menu, "Se&ttings…", window.chat.show_settings, "Ctrl+Shift+S")
        self._conversation_menu.fill_conversation(menu)

    def _fill_view(self, menu: QMenu) -> None:
        window = self._window
        _add(menu, "&Conversations", window.toggle_sidebar, "Ctrl+B")
        panel = window.stop_panel.toggleViewAction()
        panel.setText("&Stop Panel")
        panel.setShortcut("Ctrl+I")
        menu.addAction(panel)
        _add_everywhere(menu, "Stop &Inspector…", window.show_inspector, "Ctrl+Shift+I")
        _add(menu, "&Write a Message", window.chat.focus_composer, "Ctrl+L")
        menu.addSeparator()
        AppearanceMenu(menu.addMenu("&Appearance"), window.theme, window.preferences)
        if window.has_tools:
            menu.addSeparator()
            _add_everywhere(menu, "Captured &Answer…", window.show_capture, "Ctrl+Shift+A")
            _add_everywhere(menu, "&Probe a Server…", window.show_probe, "Ctrl+Shift+B")
        if window.desk is not None:
            menu.addSeparator()
            _add_everywhere(menu, "Ser&ver and Requests…", window.show_server, "Ctrl+Shift+R")

    def _fill_help(self, menu: QMenu) -> None:
        window = self._window
        _add_everywhere(menu, "&Keyboard Shortcuts…", window.show_shortcuts, "Ctrl+/")
        action = _add(menu, "&About Fullstop", window.show_about)
        action.setMenuRole(QAction.MenuRole.AboutRole)


def _add(
    menu: QMenu,
    words: str,
    intent: Callable[[], object],
    shortcut: QKeySequence.StandardKey | str | None = None,
) -> QAction:
    action = menu.addAction(words)
    if shortcut is not None:
        action.setShortcut(shortcut)
    action.triggered.connect(lambda: intent())
    return action


def _add_everywhere(
    menu: QMenu, words: str, intent: Callable[[], object], shortcut: str
) -> QAction:
    """Add an entry whose keys work in the program's other windows, too."""
    action = _add(menu, words, intent, shortcut)
    action.setShortcutContext(Qt.ShortcutContext.ApplicationShortcut)
    return action

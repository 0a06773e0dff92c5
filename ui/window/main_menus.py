"""The main window's menus and their shortcuts.

Main thread. Every entry calls a method of the window, its columns, the other windows or the
workspace.
"""

from functools import partial
from typing import Protocol

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QMenuBar, QWidget

from ui.chat.columns.chat_panel import ChatPanel
from ui.chat.columns.conversation_menu import ConversationMenu
from ui.chat.columns.sidebar import Sidebar
from ui.chat.columns.stop_panel import StopPanel
from ui.chat.session.workspace import Workspace
from ui.kit.look.theme import Theme
from ui.kit.system.menus import add_entry
from ui.preferences.appearance_menu import AppearanceMenu
from ui.preferences.preferences_state import PreferencesState
from ui.records.conversations import ListOrder
from ui.server.server_panel import AgentLines, AgentMenu, ServerPanel
from ui.window.answering_twice import AnsweringTwice
from ui.window.choosing_model import ChoosingModel
from ui.window.edit_menu import EditMenu
from ui.window.other_windows import OtherWindows
from ui.window.server_menu import ServerMenu
from ui.window.window_menu import WindowMenu

_KEYS = QKeySequence.StandardKey
# Their shortcuts work in the program's other windows, too.
_add_everywhere = partial(add_entry, works_everywhere=True)


class WindowWithMenus(Protocol):
    """The parts of the main window that the menus use."""

    theme: Theme
    preferences: PreferencesState
    workspace: Workspace
    sidebar: Sidebar
    chat: ChatPanel
    stop_panel: StopPanel
    others: OtherWindows
    choosing_model: ChoosingModel
    twice: AnsweringTwice
    server_panel: ServerPanel
    agents: AgentLines

    def menuBar(self) -> QMenuBar:  # noqa: N802 - Qt's name
        """Return the menu bar."""

    def new_conversation(self) -> None:
        """Show an empty conversation."""

    def toggle_sidebar(self) -> None:
        """Show or hide the conversations."""

    def close(self) -> bool:
        """Close the window."""

    def quit(self) -> None:
        """End the program."""


class MainMenus(QObject):
    """Fills the menu bar of a window."""

    def __init__(self, window: WindowWithMenus, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = window
        self._parent = parent
        self.conversation = ConversationMenu(window.workspace, window.sidebar, window.chat, parent)
        bar = window.menuBar()
        bar.setAccessibleName("Menus")
        self._fill_file(bar.addMenu("&File"))
        self._fill_edit(bar.addMenu("&Edit"))
        self._fill_conversation(bar.addMenu("&Conversation"))
        self._fill_view(bar.addMenu("&View"))
        self._fill_server(bar.addMenu("&Server"))
        self.window = WindowMenu(bar.addMenu("&Window"))
        self._fill_help(bar.addMenu("&Help"))
        self.conversation.order_wanted.connect(self._change_order)
        window.workspace.answering_changed.connect(self._refresh_stop)
        window.workspace.opened.connect(self._refresh_stop)
        self._refresh_stop()

    def _refresh_stop(self) -> None:
        self.stop.setEnabled(self._window.workspace.current.is_running)

    def _change_order(self, order: ListOrder) -> None:
        self._window.preferences.change(list_order=order.value)

    def _fill_file(self, menu: QMenu) -> None:
        window = self._window
        add_entry(menu, "&New Conversation", window.new_conversation, _KEYS.New)
        add_entry(menu, "&Open Model Folder…", window.choosing_model.choose_folder, _KEYS.Open)
        _add_everywhere(menu, "&Models…", window.others.show_models, "Ctrl+Shift+M")
        _add_everywhere(menu, "&Find Models…", window.others.find_models, "Ctrl+Shift+F")
        menu.addSeparator()
        self.conversation.fill_file(menu)
        menu.addSeparator()
        action = _add_everywhere(menu, "&Preferences…", window.others.show_preferences, "Ctrl+,")
        action.setMenuRole(QAction.MenuRole.PreferencesRole)
        add_entry(menu, "&Close Window", window.close, "Ctrl+W")
        action = _add_everywhere(menu, "&Quit", window.quit, "Ctrl+Q")
        action.setMenuRole(QAction.MenuRole.QuitRole)

    def _fill_edit(self, menu: QMenu) -> None:
        window = self._window
        chat = window.chat
        self.edit = EditMenu(menu, window.workspace, chat.finding, chat.composer.input)
        self.conversation.fill_edit(menu)

    def _fill_conversation(self, menu: QMenu) -> None:
        chat, sidebar = self._window.chat, self._window.sidebar
        self.stop = add_entry(menu, "&Stop the Answer", chat.stop_answer, "Ctrl+.")
        self.stop.setShortcuts([QKeySequence("Ctrl+."), QKeySequence(Qt.Key.Key_Escape)])
        menu.addSeparator()
        add_entry(menu, "Re&name…", sidebar.rename_current, "Ctrl+R")
        add_entry(menu, "&Delete", sidebar.delete_current, "Ctrl+Shift+Backspace")
        add_entry(menu, "Se&ttings…", chat.show_settings, "Ctrl+Shift+S")
        add_entry(menu, "T&ools…", chat.tools.pop_up, "Ctrl+T")
        add_entry(menu, "Switch &Model…", self._window.choosing_model.pop_up, "Ctrl+K")
        add_entry(menu, "Answer Side &by Side…", self._window.twice.ask, "Ctrl+Shift+K")
        self.conversation.fill_conversation(menu)

    def _fill_view(self, menu: QMenu) -> None:
        window, others = self._window, self._window.others
        column = window.sidebar
        sidebar = add_entry(
            menu, "&Conversations", window.toggle_sidebar, "Ctrl+B", is_checked=column.isVisible()
        )
        # Qt keeps the mark of the stop panel in step by itself.
        menu.aboutToShow.connect(lambda: sidebar.setChecked(column.isVisible()))
        panel = window.stop_panel.toggleViewAction()
        panel.setText("&Stop Panel")
        panel.setShortcut("Ctrl+I")
        menu.addAction(panel)
        _add_everywhere(menu, "Stop &Inspector…", others.show_inspector, "Ctrl+Shift+I")
        self.conversation.fill_view(menu)
        add_entry(menu, "&Write a Message", window.chat.focus_composer, "Ctrl+L")
        add_entry(menu, "&Jump to Latest", window.chat.column.jump_to_latest, "Ctrl+J")
        menu.addSeparator()
        AppearanceMenu(menu.addMenu("&Appearance"), window.theme, window.preferences)
        menu.addSeparator()
        _add_everywhere(menu, "Capt&ured Answer…", others.show_capture, "Ctrl+Shift+A")
        _add_everywhere(menu, "&Probe a Server…", others.show_probe, "Ctrl+Shift+B")
        menu.addSeparator()
        _add_everywhere(menu, "Too&l Servers…", others.show_tool_servers, "Ctrl+Shift+L")

    def _fill_server(self, menu: QMenu) -> None:
        window = self._window
        answering = window.workspace.answering
        agents = AgentMenu(window.server_panel, window.agents, lambda: answering.info, self._parent)
        self.server = ServerMenu(
            menu, window.server_panel.switch, window.others.show_server, agents
        )

    def _fill_help(self, menu: QMenu) -> None:
        others = self._window.others
        _add_everywhere(menu, "&Keyboard Shortcuts…", others.show_shortcuts, "Ctrl+/")
        action = add_entry(menu, "&About Fullstop", others.show_about)
        action.setMenuRole(QAction.MenuRole.AboutRole)

"""The menus of the main window, and what their entries begin. Main thread."""

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol

from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QAction, QKeySequence, QUndoGroup
from PySide6.QtWidgets import (
    QAbstractItemView,
    QApplication,
    QDialog,
    QMenu,
    QMenuBar,
    QPlainTextEdit,
    QToolButton,
    QWidget,
)

from ui.chat.chat_panel import ChatPanel
from ui.chat.composer.settings_popover import Card
from ui.chat.conversation_menu import ConversationMenu
from ui.chat.messages.find_bar import FindingText
from ui.chat.model_switcher import ModelSwitcher
from ui.chat.problem_bar import TransferBar
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar import Sidebar
from ui.chat.sides import CompareDialog
from ui.chat.stop_panel import StopPanel
from ui.kit import icons
from ui.kit.dialogs import choose_folder, tell
from ui.kit.flow_text import (
    TextWidget,
    can_redo,
    can_undo,
    can_write,
    delete_selected,
    insert_plain,
    selected_text,
    text_widget_of,
)
from ui.kit.menus import (
    add_entry,
    copied_text,
    copy_text,
    empty_menu,
    literal,
    passing_menu,
)
from ui.kit.theme import current_theme
from ui.kit.windows import bring_forward
from ui.models.model_library import ModelLibrary
from ui.preferences_state import PreferencesState
from ui.records.conversations import ListOrder, Variant
from ui.server.server_panel import AgentLines, AgentMenu, ServerPanel
from ui.server.server_switch import WINDOW_TITLE, ServerSwitch
from ui.window.other_windows import OtherWindows, plain
from ui.window.places import Places
from ui.window.preferences_dialog import AppearanceMenu


class ModelWindows(Protocol):
    """The part of the other windows that shows models."""

    def show_models(self) -> None:
        """Show the models on this computer."""

    def find_models(self) -> None:
        """Show the models that can be downloaded."""


class ChoosingModel(QObject):
    """Opens the list of models, or a dialog for a folder."""

    def __init__(
        self,
        workspace: Workspace,
        library: ModelLibrary,
        chat: ChatPanel,
        others: ModelWindows,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._chat = chat
        self._parent = parent
        workspace.model.library = library
        self._theme, self._library, self._others = current_theme(), library, others
        self._card = Card(self._make_switcher, self)
        library.changed.connect(workspace.model.refresh)
        chat.switch_wanted.connect(self.pop_up)
        chat.header.badge.menu_wanted.connect(self._show_menu)
        chat.welcome.find_wanted.connect(others.find_models)
        chat.library = library
        first = chat.welcome.recommend_from(library)
        first.ready.connect(self._use_first)

    @property
    def switcher(self) -> ModelSwitcher:
        """The list of models."""
        return self._card.content

    def _make_switcher(self) -> ModelSwitcher:
        switcher = ModelSwitcher(self._workspace.model, self._library, self._parent)
        switcher.more_wanted.connect(self._others.show_models)
        switcher.closed.connect(self._chat.focus_composer)
        return switcher

    def pop_up(self) -> None:
        """Show the list of models below the model's name."""
        self.switcher.pop_up(self._chat.header.badge)

    def _use_first(self) -> None:
        """Let the recommended model, which is loaded now, answer the empty chat that is open."""
        workspace = self._workspace
        info = workspace.models.info
        if info is not None and not workspace.current.conversation.has_messages:
            workspace.model.choose(info.path)

    def _show_menu(self, place: QPoint) -> None:
        """Offer what can be done with the model of the open chat, by its name."""
        models, state = self._workspace.models, self._workspace.model.state
        info, name = state.info, state.name
        menu = passing_menu(self._parent, "The model of this chat")
        empty_menu(menu)
        path = None if info is None else info.path
        if (
            status := next((model for model in models.in_memory if model.folder == path), None)
        ) is not None:
            folder, is_pinned = status.folder, status.is_pinned
            add_entry(menu, literal(f"Unload {name}"), partial(models.unload, folder))
            pin = partial(self._library.pin, folder, not is_pinned)
            add_entry(menu, literal(f"Pin {name}"), pin, is_checked=is_pinned)
            menu.addSeparator()
        add_entry(menu, "Switch Model…", self.pop_up)
        add_entry(menu, "Models…", self._others.show_models)
        menu.popup(place)

    def choose_folder(self) -> None:
        """Ask for a folder and load the model in it."""
        choose_folder(self._parent, "Open a Model Folder", self.open_folder)

    def open_folder(self, folder: Path) -> None:
        """Load the model in a folder, and list it with the others from now on."""
        self._workspace.models.load(folder)
        known = {model.found.folder.resolve() for model in self._library.local}
        if folder.resolve() not in known and (folder / "config.json").is_file():
            self._library.add_folder(folder)


class ComparingAnswers(QObject):
    """Asks what two answers differ in, begins both, and keeps one of them."""

    def __init__(
        self,
        workspace: Workspace,
        library: ModelLibrary,
        chat: ChatPanel,
        others: OtherWindows,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._library = library
        self._chat = chat
        self._parent = parent
        self.dialog: CompareDialog | None = None
        chat.sides.kept.connect(self._keep)
        chat.sides.compare_wanted.connect(others.show_comparison)
        chat.sides.run_wanted.connect(workspace.show_run)

    def ask(self) -> None:
        """Ask what differs; the question is the draft, or else the last one."""
        current, composer = self._workspace.current, self._chat.composer
        asked = [message for message in current.conversation.messages if message.run is None]
        draft = composer.text.strip() or ", ".join(f.name for f in composer.attachments.files)
        if current.is_busy:
            tell(self._parent, "Wait until the answer is finished.")
        elif not self._workspace.model.state.can_answer:
            tell(self._parent, "Choose a model first.")
        elif not draft and not asked:
            tell(self._parent, "Type a message first.")
        else:
            self.dialog = CompareDialog(
                draft or asked[-1].typed,
                Variant.of(current.conversation),
                self._models(),
                self._parent,
            )
            self.dialog.submitted.connect(self._begin)
            self.dialog.destroyed.connect(self._clear_dialog)
            self.dialog.open()

    def _models(self) -> list[tuple[str, Path | None]]:
        """Return the models with their folders; the conversation's own model comes first."""
        choice, info = self._workspace.model.choice, self._workspace.models.info
        own = choice.folder if choice is not None else None if info is None else info.path
        models = [
            (model.found.name, model.found.folder.resolve())
            for model in self._library.local
            if model.found.can_be_loaded
        ]
        others = [(name, folder) for name, folder in models if folder != own]
        return [(self._workspace.model.state.name, own), *others]

    def _begin(self, variant: Variant) -> None:
        composer, dialog = self._chat.composer, self.dialog
        if self._workspace.compare(variant, composer.text, composer.attachments.files):
            composer.clear()
            if dialog is not None:
                dialog.accept()
        elif dialog is not None:
            dialog.show_problem("No answer can be started now.")

    def _keep(self, side: ConversationController | None) -> None:
        self._workspace.end_comparison(side)
        self._chat.focus_composer()

    def _clear_dialog(self) -> None:
        self.dialog = None


_START, _STOP = "Star&t Local Server", "Sto&p Local Server"


class ServerMenu(QObject):
    """Fills the menu and keeps it up to date."""

    def __init__(
        self,
        menu: QMenu,
        switch: ServerSwitch,
        show_server: Callable[[], object],
        agents: AgentMenu,
    ) -> None:
        super().__init__(menu)
        self._switch = switch
        self.turn = add_entry(menu, _START, self._turn)
        add_entry(
            menu,
            WINDOW_TITLE.replace("Server", "&Server"),
            show_server,
            "Ctrl+Shift+R",
            works_everywhere=True,
        )
        menu.addSeparator()
        agents.fill(menu.addMenu("&Copy Setup Command"))
        switch.changed.connect(self._refresh)
        self._refresh()

    def _turn(self) -> None:
        self._switch.turn(not self._switch.is_wanted)

    def _refresh(self) -> None:
        self.turn.setText(_STOP if self._switch.is_wanted else _START)


class WindowMenu(QObject):
    """Fills the menu; it lists the windows again each time it is opened."""

    def __init__(self, menu: QMenu, places: Places, others: OtherWindows) -> None:
        super().__init__(menu)
        self._menu = menu
        add = partial(add_entry, menu, works_everywhere=True)
        self.minimize = add("Mi&nimize", self._minimize, "Ctrl+M")
        # Each desktop has its own word for it.
        self.zoom = add_entry(
            menu, "&Zoom" if sys.platform == "darwin" else "Ma&ximize", self._zoom
        )
        menu.addSeparator()
        places.fill(menu)
        menu.addSeparator()
        self._named = [
            add("Stop &Inspector", others.show_inspector, "Ctrl+Shift+I", is_checked=False),
            add("&Captured Answer", others.show_capture, "Ctrl+Shift+A", is_checked=False),
            add("&Probe a Server", others.show_probe, "Ctrl+Shift+B", is_checked=False),
            add("&Tool Servers", others.show_tool_servers, "Ctrl+Shift+L", is_checked=False),
        ]
        menu.addSeparator()
        self.to_front = add_entry(menu, "&Bring All to Front", self._bring_all)
        menu.addSeparator()
        self._listed: list[QAction] = []
        menu.aboutToShow.connect(self._list)

    def _list(self) -> None:
        for entry in self._listed:
            self._menu.removeAction(entry)
            entry.deleteLater()
        front = front_window()
        named = {plain(entry.text()): entry for entry in self._named}
        for title, entry in named.items():
            entry.setChecked(front is not None and front.windowTitle() == title)
        self._listed = [
            add_entry(
                self._menu,
                literal(window.windowTitle()),
                partial(bring_forward, window),
                is_checked=window is front,
            )
            for window in open_windows()
            if window.windowTitle() not in named
        ]
        for entry in (self.minimize, self.zoom):
            entry.setEnabled(front is not None)

    def _minimize(self) -> None:
        window = front_window()
        if window is not None:
            window.showMinimized()

    def _zoom(self) -> None:
        window = front_window()
        if window is not None:
            window.setWindowState(window.windowState() ^ Qt.WindowState.WindowMaximized)

    def _bring_all(self) -> None:
        front = front_window()
        for window in open_windows():
            if not window.isMinimized():
                window.raise_()
        if front is not None:
            bring_forward(front)


def open_windows() -> list[QWidget]:
    """Return the program's windows that are open, minimized ones included, by their titles."""
    windows = [
        widget
        for widget in QApplication.topLevelWidgets()
        if widget.isVisible()
        and widget.windowType() == Qt.WindowType.Window
        and not isinstance(widget, QDialog)
        and widget.windowTitle()
    ]
    return sorted(windows, key=lambda widget: (widget.parent() is not None, widget.windowTitle()))


def front_window() -> QWidget | None:
    """Return the window that has the focus; None if another program has it."""
    active = QApplication.activeWindow()
    windows = open_windows()
    while active is not None and active not in windows:
        active = active.parentWidget()
    return active


# While a text field has the focus, it handles the keys of these entries itself. The entries are
# for the mouse, for the Mac's menu bar, and for keys that no field handles.

_KEYS = QKeySequence.StandardKey
_IN_LIST = "in the List of Conversations"


class EditMenu(QObject):
    """Fills the menu, and adapts its entries to the widget that has the focus."""

    def __init__(
        self,
        menu: QMenu,
        workspace: Workspace,
        finding: FindingText,
        write_in: QPlainTextEdit,
        copy_answer: Callable[[], object],
    ) -> None:
        super().__init__(menu)
        self._group = QUndoGroup(self)
        self._finding = finding
        self._write_in = write_in
        self._focused: QWidget | None = None
        self.undo = self._add(menu, "&Undo", self._undo, "Ctrl+Z")
        self.redo = self._add(menu, "&Redo", self._redo, _KEYS.Redo)
        menu.addSeparator()
        self.cut = self._add(menu, "Cu&t", lambda: self._on_text("cut"), _KEYS.Cut)
        self.copy = self._add(menu, "&Copy", self._copy, _KEYS.Copy)
        self.copy_answer = self._add(menu, "Copy Last Ans&wer", copy_answer, "Ctrl+Shift+C")
        self.paste = self._add(menu, "&Paste", self._paste, _KEYS.Paste)
        self.paste_plain = self._add(
            menu, "Paste and &Match Style", self._paste_plain, "Ctrl+Shift+V"
        )
        self.delete = add_entry(menu, "&Delete", self._delete)
        self.select_all = self._add(menu, "Select &All", self._select_all, _KEYS.SelectAll)
        menu.addSeparator()
        find = menu.addMenu("&Find")
        bar = finding.bar
        self.find = add_entry(find, "&Find…", bar.begin, _KEYS.Find)
        add_entry(find, "Find &Next", lambda: bar.step(1), "Ctrl+G", "F3")
        add_entry(find, "Find &Previous", lambda: bar.step(-1), "Ctrl+Shift+G", "Shift+F3")
        self.find_selection = add_entry(find, "Use &Selection for Find", self._find_selection)
        menu.aboutToShow.connect(self.refresh)
        menu.aboutToHide.connect(self._enable_all)
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._note_focus)
        # Whether the list of conversations was changed after the stop list and the messages.
        self._is_list_latest = False
        self._list = workspace.conversations
        self._list.undoable.connect(lambda _: self._note_change(in_list=True))
        self._list.undone.connect(lambda: self._note_change(in_list=self._list.can_undo))
        self._group.indexChanged.connect(lambda _: self._note_change(in_list=False))
        workspace.opened.connect(self._follow_undo)
        self._follow_undo(workspace.current)

    def _note_change(self, *, in_list: bool) -> None:
        self._is_list_latest = in_list

    def _follow_undo(self, opened: ConversationController) -> None:
        stack = opened.stops.undo_stack
        in_list = self._is_list_latest
        self._group.addStack(stack)
        self._group.setActiveStack(stack)  # this is reported as a change
        self._is_list_latest = in_list

    def refresh(self) -> None:
        """Enable the entries that can be used now, and name the action that would be undone."""
        text, group = self._text, self._group
        writes = text is not None and can_write(text)
        has_selection = text is not None and bool(selected_text(text))
        is_list = isinstance(self._focused, QAbstractItemView)
        types = text is not None and can_undo(text)
        retypes = text is not None and can_redo(text)
        undone, redone = (name.replace("&", "&&") for name in (group.undoText(), group.redoText()))
        done = _IN_LIST if self._undoes_list else undone
        self.undo.setText("&Undo Typing" if types else f"&Undo {done}".rstrip())
        self.redo.setText("&Redo Typing" if retypes else f"&Redo {redone}".rstrip())
        self.undo.setEnabled(types or self._undoes_list or group.canUndo())
        self.redo.setEnabled(retypes or group.canRedo())
        self.cut.setEnabled(writes and has_selection)
        self.copy.setEnabled(has_selection or is_list)
        self.paste.setEnabled(self._takes_copied)
        self.paste_plain.setEnabled(bool(copied_text()))
        self.delete.setEnabled(writes and has_selection)
        self.select_all.setEnabled(text is not None or is_list)
        self.find_selection.setEnabled(has_selection)

    def _enable_all(self) -> None:
        """Enable all entries: their keys work while the menu is closed."""
        for entry in (
            self.undo, self.redo, self.cut, self.copy, self.paste, self.paste_plain, self.delete,
            self.select_all, self.find_selection,
        ):  # fmt: skip
            entry.setEnabled(True)
        self.undo.setText("&Undo")
        self.redo.setText("&Redo")

    @property
    def _text(self) -> TextWidget | None:
        return text_widget_of(self._focused)

    @property
    def _undoes_list(self) -> bool:
        """Whether the change to undo is one of the list of conversations."""
        return self._list.can_undo and (self._is_list_latest or not self._group.canUndo())

    @property
    def _takes_copied(self) -> bool:
        """Whether the field that would get it can take what is on the clipboard."""
        text = self._text
        field = text if text is not None and can_write(text) else self._write_in
        return field.canPaste() if isinstance(field, QPlainTextEdit) else bool(copied_text())

    @staticmethod
    def _add(
        menu: QMenu, words: str, intent: Callable[[], object], keys: QKeySequence.StandardKey | str
    ) -> QAction:
        """Add an entry with the shortcut that is usual on this system."""
        entry = add_entry(menu, words, intent)
        entry.setShortcut(QKeySequence(keys))
        return entry

    def _note_focus(self, _: QWidget | None, now: QWidget | None) -> None:
        # Opening a menu with the keyboard takes the focus; the entry acts on the widget before.
        if now is None or isinstance(now, QMenu | QMenuBar):
            return
        if self._focused is not None:
            self._focused.destroyed.disconnect(self._forget_focus)
        self._focused = now
        now.destroyed.connect(self._forget_focus)

    def _forget_focus(self) -> None:
        self._focused = None

    # -- intents ---------------------------------------------------------------------------

    def _undo(self) -> None:
        text = self._text
        if text is not None and can_undo(text):
            text.undo()
        elif self._undoes_list:
            self._list.undo_last()
        else:
            self._group.undo()

    def _redo(self) -> None:
        text = self._text
        if text is not None and can_redo(text):
            text.redo()
        else:
            self._group.redo()

    def _on_text(self, name: str) -> None:
        if self._text is not None:
            getattr(self._text, name)()

    def _copy(self) -> None:
        if self._text is not None:
            self._text.copy()
        elif isinstance(self._focused, QAbstractItemView):
            words = self._focused.currentIndex().data()
            if words:
                copy_text(str(words))

    def _paste(self) -> None:
        self._field.paste()

    def _paste_plain(self) -> None:
        insert_plain(self._field, copied_text())

    def _delete(self) -> None:
        if self._text is not None and can_write(self._text):
            delete_selected(self._text)

    def _select_all(self) -> None:
        if isinstance(self._focused, QAbstractItemView):
            self._focused.selectAll()
        else:
            self._on_text("selectAll")

    def _find_selection(self) -> None:
        if self._text is not None:
            self._finding.bar.begin(selected_text(self._text))

    @property
    def _field(self) -> TextWidget:
        """The field that text is pasted into."""
        text = self._text
        if text is not None and can_write(text):
            return text
        self._write_in.setFocus()
        return self._write_in


# Their shortcuts work in the program's other windows, too.
_add_everywhere = partial(add_entry, works_everywhere=True)


class WindowWithMenus(Protocol):
    """The parts of the main window that the menus use."""

    preferences: PreferencesState
    workspace: Workspace
    sidebar: Sidebar
    chat: ChatPanel
    stop_panel: StopPanel
    others: OtherWindows
    choosing_model: ChoosingModel
    comparing: ComparingAnswers
    server_panel: ServerPanel
    agents: AgentLines
    transfer_bar: TransferBar

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


_MORE_PX = 16  # the picture of the button for menus that have no room


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
        self._fill_view(bar.addMenu("&View"))
        self._fill_conversation(bar.addMenu("&Conversation"))
        self._fill_server(bar.addMenu("&Server"))
        places = Places(window.workspace, window.sidebar, window.chat, window.stop_panel, self)
        self.window = WindowMenu(bar.addMenu("&Window"), places, window.others)
        self._fill_help(bar.addMenu("&Help"))
        current_theme().changed.connect(self._tint_more)
        self._tint_more()
        self.conversation.order_wanted.connect(self._change_order)
        window.workspace.answering_changed.connect(self._refresh_stop)
        window.workspace.opened.connect(self._refresh_stop)
        self._refresh_stop()

    def _tint_more(self) -> None:
        # Qt's own picture for the menus that have no room is dark in every theme.
        theme = current_theme()
        for button in self._window.menuBar().findChildren(QToolButton, "qt_menubar_ext_button"):
            button.setIcon(icons.icon("chevron-down", theme.colors.text, _MORE_PX))

    def _refresh_stop(self) -> None:
        self.stop.setEnabled(self._window.workspace.current.is_running)

    def _change_order(self, order: ListOrder) -> None:
        self._window.preferences.change(list_order=order.value)

    def _fill_file(self, menu: QMenu) -> None:
        window = self._window
        add_entry(menu, "&New Conversation", window.new_conversation, _KEYS.New)
        add_entry(menu, "&Open Model Folder…", window.choosing_model.choose_folder, _KEYS.Open)
        _add_everywhere(menu, "&Models", window.others.show_models, "Ctrl+Shift+M")
        _add_everywhere(menu, "&Find Models", window.others.find_models, "Ctrl+Shift+F")
        menu.addSeparator()
        self.conversation.fill_file(menu)
        menu.addSeparator()
        action = _add_everywhere(menu, "&Settings…", window.others.show_preferences, "Ctrl+,")
        action.setMenuRole(QAction.MenuRole.PreferencesRole)
        add_entry(menu, "&Close Window", window.close, "Ctrl+W")
        action = _add_everywhere(menu, "&Quit", window.quit, "Ctrl+Q")
        action.setMenuRole(QAction.MenuRole.QuitRole)

    def _fill_edit(self, menu: QMenu) -> None:
        window = self._window
        chat = window.chat
        field, copy_answer = chat.composer.input, chat.copy_last_answer
        self.edit = EditMenu(menu, window.workspace, chat.finding, field, copy_answer)
        self.conversation.fill_edit(menu)

    def _fill_conversation(self, menu: QMenu) -> None:
        chat, sidebar = self._window.chat, self._window.sidebar
        # Escape in the chat does the same, unless it closes something first.
        self.stop = add_entry(menu, "&Stop Generating", chat.stop_answer, "Ctrl+.")
        add_entry(menu, "Go to Message &Field", chat.focus_composer, "Ctrl+L")
        add_entry(menu, "Scroll to &Bottom", chat.column.jump_to_latest, "Ctrl+J")
        menu.addSeparator()
        add_entry(menu, "Re&name…", sidebar.rename_current, "Ctrl+R")
        add_entry(menu, "&Delete", sidebar.delete_current, "Ctrl+Shift+Backspace")
        add_entry(menu, "Conversation Se&ttings…", chat.show_settings, "Ctrl+Shift+S")
        add_entry(menu, "T&ools…", chat.tools.pop_up, "Ctrl+T")
        add_entry(menu, "Switch &Model…", self._window.choosing_model.pop_up, "Ctrl+K")
        add_entry(menu, "Compare Ans&wers…", self._window.comparing.ask, "Ctrl+Shift+K")
        self.conversation.fill_conversation(menu)

    def _fill_view(self, menu: QMenu) -> None:
        window = self._window
        column = window.sidebar
        sidebar = add_entry(menu, "Hide Side&bar", window.toggle_sidebar, "Ctrl+B")
        panel = add_entry(
            menu, "Hide &Stop Panel", window.stop_panel.toggleViewAction().trigger, "Ctrl+I"
        )

        def name_views() -> None:
            sidebar.setText("Hide Side&bar" if column.isVisible() else "Show Side&bar")
            is_shown = window.stop_panel.isVisible()
            panel.setText("Hide &Stop Panel" if is_shown else "Show &Stop Panel")

        menu.aboutToShow.connect(name_views)
        menu.addSeparator()
        self.conversation.fill_view(menu)
        menu.addSeparator()
        AppearanceMenu(menu.addMenu("&Appearance"), window.preferences)

    def _fill_server(self, menu: QMenu) -> None:
        window = self._window
        agents = AgentMenu(
            window.server_panel,
            window.agents,
            lambda: window.workspace.model.state.info,
            self._parent,
        )
        self.server = ServerMenu(
            menu, window.server_panel.switch, window.others.show_server, agents
        )

    def _fill_help(self, menu: QMenu) -> None:
        others = self._window.others
        files = others.help_files
        add_entry(menu, "Fullstop &Guide", others.show_guide).setVisible(files.guide is not None)
        add_entry(menu, "What’s &New in Fullstop", others.show_changes).setVisible(
            files.changes is not None
        )
        _add_everywhere(menu, "&Keyboard Shortcuts", others.show_shortcuts, "Ctrl+/")
        menu.addSeparator()
        add_entry(menu, "&Report a Problem…", others.report_problem)
        menu.addSeparator()
        action = add_entry(menu, "&About Fullstop", others.show_about)
        action.setMenuRole(QAction.MenuRole.AboutRole)

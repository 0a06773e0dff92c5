"""The table of the main window's commands. Main thread."""

import sys
from functools import partial

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMenu, QWidget

from ui.chat.conversation_actions import EXPORT
from ui.chat.messages.answer_view import continue_title
from ui.chat.messages.message_menu import ANSWER_KEYS
from ui.chat.messages.stop_selection import StopSelection
from ui.kit.commands import Command, Entry, Menu, Submenu, fill_menu
from ui.kit.menus import copy_text, escape_mnemonics
from ui.kit.windows import bring_forward
from ui.preferences import TEXT_PERCENTS, declaration
from ui.records.conversations import ListOrder
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.server.agent_menu import AgentMenu
from ui.server.server_switch import WINDOW_TITLE
from ui.window.choosing_model import ChoosingModel
from ui.window.comparing import ComparingAnswers
from ui.window.edit_actions import EditActions
from ui.window.navigation import (
    Navigation,
    bring_all_to_front,
    front_window,
    minimize_front,
    open_windows,
    zoom_front,
)
from ui.window.window_parts import WindowParts

ORDERS: dict[ListOrder, str] = {
    "recent": "By &Last Message",
    "created": "&Newest First",
    "oldest": "&Oldest First",
    "title": "By &Title",
}
_KEYS = QKeySequence.StandardKey
# The pages of the right pane, with the shortcuts that show and hide them.
_PAGES = (
    ("&Stops", ("Ctrl+Alt+1",)),
    ("S&ettings", ("Ctrl+Alt+2", "Ctrl+Shift+S")),
    ("T&ools", ("Ctrl+Alt+3", "Ctrl+T")),
)
_ADD_MESSAGE = "&Add Message Without Reply"
# On a Mac, Qt's "Ctrl" is the Command key, and Command-Tab belongs to the system.
_CONTROL = "Meta" if sys.platform == "darwin" else "Ctrl"
_ZOOM = "&Zoom" if sys.platform == "darwin" else "Ma&ximize"  # the desktop's own word


class MainMenus(QObject):
    """The menu bar of a window."""

    quit_requested = Signal()

    def __init__(
        self,
        window: WindowParts,
        choosing_model: ChoosingModel,
        comparing: ComparingAnswers,
        agents: AgentMenu,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._choosing_model, self._comparing = choosing_model, comparing
        self._workspace = window.workspace
        self._chat = window.chat
        self._sidebar = window.sidebar
        self._edit = EditActions(window.workspace, window.chat.composer.input, self)
        self._navigation = Navigation(window)
        self._agents = agents
        window.menuBar().setAccessibleName("Menus")
        fill_menu(self._menu("&File"), self._file())
        fill_menu(self._menu("&Edit"), self._edit_entries())
        fill_menu(self._menu("&View"), self._view())
        fill_menu(self._menu("&Conversation"), self._conversation())
        message = self._menu("&Message")
        fill_menu(message, self._message())
        send = window.chat.composer.action
        send.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        actions = message.actions()
        send.addAction(next(action for action in actions if action.text() == _ADD_MESSAGE))
        fill_menu(self._menu("&Server"), self._server())
        self._fill_window(self._menu("&Window"))
        fill_menu(self._menu("&Help"), self._help())

    def _menu(self, title: str) -> Menu:
        bar = self._window.menuBar()
        menu = Menu(title, bar)
        bar.addMenu(menu)
        return menu

    # -- the table -----------------------------------------------------------------------------

    def _file(self) -> list[Entry]:
        window, others, files = self._window, self._window.others, self._window.files
        actions = self._sidebar.conversation_actions
        return [
            Command("&New Chat", self._chat.new_conversation, (_KEYS.New,)),
            Command("Ne&w Folder", actions.new_folder, ("Ctrl+Shift+N",)),
            None,
            Command("&Open Model Folder…", self._choosing_model.choose_folder, (_KEYS.Open,)),
            Command(
                "&Models",
                others.find_models,
                ("Ctrl+Shift+M", "Ctrl+Shift+F"),
                works_everywhere=True,
            ),
            None,
            Command("&Import Conversations…", files.import_file),
            Command("Import from Fol&der…", files.import_folder),
            Command("Restore &Backup…", files.restore_backup),
            None,
            Submenu(
                "&Export Conversation",
                actions.exports(self._sidebar.chosen),
            ),
            Command("Export &All Conversations…", files.export_all, enabled=self._has_any),
            None,
            Command(
                "&Settings…",
                others.show_preferences,
                ("Ctrl+,",),
                works_everywhere=True,
                role=QAction.MenuRole.PreferencesRole,
            ),
            Command("&Close Window", window.close, ("Ctrl+W",)),
            Command(
                "&Quit",
                self.quit_requested.emit,
                ("Ctrl+Q",),
                works_everywhere=True,
                role=QAction.MenuRole.QuitRole,
            ),
        ]

    def _edit_entries(self) -> list[Entry]:
        edit, bar = self._edit, self._chat.find_bar
        return [
            Command("&Undo", edit.undo, ("Ctrl+Z",), edit.can_undo, title=lambda: edit.undo_title),
            Command(
                "&Redo", edit.redo, (_KEYS.Redo,), edit.can_redo, title=lambda: edit.redo_title
            ),
            None,
            Command("Cu&t", edit.cut, (_KEYS.Cut,), edit.can_cut),
            Command("&Copy", edit.copy, (_KEYS.Copy,), edit.can_copy),
            Command(
                "Copy Last Ans&wer",
                lambda: copy_text(self._chat.last_answer_text),
                ("Ctrl+Shift+C",),
                lambda: bool(self._chat.last_answer_text),
            ),
            Command("&Paste", edit.paste, (_KEYS.Paste,), edit.can_paste),
            Command(
                "Paste and &Match Style", edit.paste_plain, ("Ctrl+Shift+V",), edit.can_paste_plain
            ),
            Command("&Delete", edit.delete, enabled=edit.can_cut),
            Command("Select &All", edit.select_all, (_KEYS.SelectAll,), edit.can_select_all),
            None,
            Submenu(
                "&Find",
                [
                    Command("&Find…", lambda: bar.begin(), (_KEYS.Find,)),
                    Command("Find &Next", lambda: bar.step(1), ("Ctrl+G", "F3")),
                    Command("Find &Previous", lambda: bar.step(-1), ("Ctrl+Shift+G", "Shift+F3")),
                    Command(
                        "Use &Selection for Find",
                        lambda: bar.begin(edit.selection()),
                        enabled=edit.has_selection,
                    ),
                ],
            ),
            Command("&Search Conversations", self._sidebar.search, ("Ctrl+Alt+F",)),
        ]

    def _view(self) -> list[Entry]:
        pane, rows = self._window.pane, self._sidebar.rows
        return [
            Command(
                "Hide Side&bar",
                self._sidebar.toggle,
                ("Ctrl+B",),
                title=partial(_show_or_hide, self._sidebar, "Side&bar"),
            ),
            Command(
                "Hide &Right Pane",
                pane.toggleViewAction().trigger,
                ("Ctrl+I",),
                title=partial(_show_or_hide, pane, "&Right Pane"),
            ),
            *(
                Command(
                    title,
                    partial(pane.toggle, page),
                    keys,
                    checked=page.isVisible,
                )
                for (title, keys), (_, page, _) in zip(_PAGES, pane.pages, strict=True)
            ),
            None,
            Submenu(
                "Sor&t Conversations",
                [
                    Command(
                        label,
                        partial(self._window.preferences.change, list_order=order),
                        checked=partial(self._is_sorted_by, order),
                    )
                    for order, label in ORDERS.items()
                ],
            ),
            Command(
                "Show Archi&ved Conversations",
                lambda: rows.show_archive(not rows.shows_archive),
                title=lambda: f"{'Hide' if rows.shows_archive else 'Show'} Archi&ved Conversations",
            ),
            None,
            Submenu("&Appearance", self._appearance()),
        ]

    def _appearance(self) -> list[Entry]:
        preferences = self._window.preferences
        resize = preferences.resize_text
        return [
            *(
                Command(
                    text,
                    partial(preferences.change, theme=mode),
                    checked=partial(self._has_theme, mode),
                )
                for mode, text in declaration("theme").choices.items()
            ),
            None,
            Command(
                "Zoom &In",
                partial(resize, 1),
                ("Ctrl++", "Ctrl+="),
                lambda: preferences.now.text_percent < TEXT_PERCENTS[-1],
            ),
            Command(
                "Zoom &Out",
                partial(resize, -1),
                ("Ctrl+-",),
                lambda: preferences.now.text_percent > TEXT_PERCENTS[0],
            ),
            Command(
                "&Actual Size",
                partial(resize, 0),
                ("Ctrl+0",),
                lambda: preferences.now.text_percent != 100,
            ),
        ]

    def _conversation(self) -> list[Entry]:
        sidebar = self._sidebar
        return [
            Command("Switch &Model…", self._choosing_model.pop_up, ("Ctrl+K",)),
            Command("Compare Ans&wers…", self._comparing.ask, ("Ctrl+Shift+K",)),
            None,
            # File has the exports.
            *(
                entry
                for entry in sidebar.conversation_actions.entries(sidebar.chosen)
                if not isinstance(entry, Submenu) or entry.label != EXPORT
            ),
        ]

    def _message(self) -> list[Entry]:
        chat, workspace = self._chat, self._workspace
        handling = chat.handling
        return [
            Command("Go to Message &Field", chat.focus_composer, ("Ctrl+L",)),
            Command("Atta&ch Files…", chat.composer.attachments.choose, ("Ctrl+Shift+O",)),
            Command(
                _ADD_MESSAGE,
                handling.add_written,
                ("Ctrl+Alt+Return",),
                lambda: bool(chat.composer.message.strip()) and not workspace.current.is_busy,
            ),
            Command(
                "&Quote Selection",
                lambda: handling.quote(handling.selection),
                ("Ctrl+'",),
                lambda: bool(handling.selection.strip()),
            ),
            Command("&Edit Last Message", chat.edit_last_question, ("Ctrl+E",), self._has_messages),
            Command(
                "&Pin Message",
                handling.pin_message,
                ("Ctrl+Alt+P",),
                lambda: handling.message_to_pin is not None,
                title=self._pin_message_title,
            ),
            None,
            # Escape in the chat does the same, unless it closes something first.
            Command(
                "&Stop Generating",
                chat.stop_answer,
                ("Ctrl+.",),
                lambda: workspace.current.is_running,
            ),
            Command(
                "Re&generate",
                lambda: workspace.ask(lambda current: current.regenerate(self._last_message())),
                (ANSWER_KEYS["Regenerate"],),
                lambda: self._last_run() is not None,
            ),
            Command(
                "Cont&inue Answer",
                lambda: workspace.ask(
                    lambda current: current.continue_answer(self._last_message())
                ),
                (ANSWER_KEYS["Continue Answer"],),
                self._can_continue,
                title=self._continue_title,
            ),
            Command(
                "Answer Several &Times…",
                self._answer_several,
                (ANSWER_KEYS["Answer Several Times…"],),
                lambda: self._ended_run() is not None,
            ),
            Command(
                "For&k at Token…",
                self._choose_fork,
                (ANSWER_KEYS["Fork at Token…"],),
                lambda: self._ended_run() is not None,
            ),
            Command(
                "Alwa&ys Stop Here",
                self._stop_at_selection,
                ("Ctrl+Alt+S",),
                lambda: self._stop_selection() is not None,
            ),
            None,
            Command(
                "Earlier &Version",
                lambda: self._step_version(-1),
                ("Ctrl+[",),
                lambda: self._has_version(-1),
            ),
            Command(
                "&Later Version",
                lambda: self._step_version(1),
                ("Ctrl+]",),
                lambda: self._has_version(1),
            ),
            None,
            Command(
                "Scroll to &Bottom", chat.column.jump_to_latest, ("Ctrl+J",), self._has_messages
            ),
        ]

    def _stop_selection(self) -> StopSelection | None:
        verdict = self._window.stop_panel.verdict
        is_there = verdict.tail.hasFocus()
        return verdict.selection if is_there else self._chat.handling.stop_selection

    def _stop_at_selection(self) -> None:
        if (selection := self._stop_selection()) is not None:
            self._chat.handling.stop_at(selection)

    def _server(self) -> list[Entry]:
        switch = self._window.local_server.switch
        return [
            Command(
                "Star&t Local Server",
                lambda: switch.turn(not switch.is_requested),
                title=lambda: f"{'Sto&p' if switch.is_requested else 'Star&t'} Local Server",
            ),
            Command(
                WINDOW_TITLE.replace("Server", "&Server"),
                self._window.others.show_server,
                ("Ctrl+Shift+R",),
                works_everywhere=True,
            ),
            None,
            Submenu("&Copy Setup Command", self._agents.entries()),
        ]

    def _fill_window(self, menu: QMenu) -> None:
        others, navigation = self._window.others, self._navigation
        windows = (
            ("Stop &Inspector", others.show_inspector, ANSWER_KEYS["Inspect"]),
            ("&Captured Answer", others.show_capture, "Ctrl+Shift+A"),
            ("&Probe Server", others.show_probe, "Ctrl+Shift+B"),
            ("&MCP Servers", others.show_tool_servers, "Ctrl+Shift+L"),
        )
        titles = {label.replace("&", "") for label, _, _ in windows}

        def has_others() -> bool:
            return any(one is not self._workspace.selected for one in navigation.listed())

        entries: list[Entry] = [
            Command(
                "Mi&nimize",
                minimize_front,
                ("Ctrl+M",),
                lambda: front_window() is not None,
                works_everywhere=True,
            ),
            Command(_ZOOM, zoom_front, enabled=lambda: front_window() is not None),
            None,
            Command(
                "Next Conversati&on",
                lambda: navigation.step_conversation(1),
                (f"{_CONTROL}+Tab",),
                has_others,
            ),
            Command(
                "Pre&vious Conversation",
                lambda: navigation.step_conversation(-1),
                (f"{_CONTROL}+Shift+Tab",),
                has_others,
            ),
            Submenu("&Go to Conversation", [self._numbered(n + 1) for n in range(9)]),
            None,
            Command("Next Pan&e", lambda: navigation.step_pane(1), ("F6",)),
            Command("Previo&us Pane", lambda: navigation.step_pane(-1), ("Shift+F6",)),
            None,
            *(
                Command(
                    label,
                    show,
                    (keys,),
                    checked=partial(_is_front, label.replace("&", "")),
                    works_everywhere=True,
                )
                for label, show, keys in windows
            ),
            None,
            Command("&Bring All to Front", bring_all_to_front),
            None,
        ]

        def others_open() -> list[Entry]:
            return [
                Command(
                    escape_mnemonics(window.windowTitle()),
                    partial(bring_forward, window),
                    checked=window is front_window(),
                )
                for window in open_windows()
                if window.windowTitle() not in titles
            ]

        fill_menu(menu, entries, others_open)

    def _numbered(self, number: int) -> Command:
        navigation = self._navigation
        return Command(
            f"Conversation {number}",
            lambda: navigation.open_numbered(number),
            (f"Ctrl+{number}",),
            title=lambda: escape_mnemonics(navigation.display_name(number)),
            checked=lambda: navigation.is_selected(number),
            visible=lambda: bool(navigation.display_name(number)),
        )

    def _help(self) -> list[Entry]:
        others = self._window.others
        return [
            Command(
                "Fullstop &Help", others.show_help, (_KEYS.HelpContents,), works_everywhere=True
            ),
            Command("What’s &New in Fullstop", others.show_changes),
            Command(
                "&Keyboard Shortcuts", others.show_shortcuts, ("Ctrl+/",), works_everywhere=True
            ),
            None,
            Command(
                "Check for &Updates…",
                others.check_for_updates,
                role=QAction.MenuRole.ApplicationSpecificRole,
            ),
            Command("&Report Problem…", others.report_problem),
            None,
            Command("&About Fullstop", others.show_about, role=QAction.MenuRole.AboutRole),
        ]

    # -- rules and actions ---------------------------------------------------------------------

    def _has_any(self) -> bool:
        conversations = self._workspace.conversations
        return len(conversations.every()) > 1 or self._workspace.current.conversation.has_messages

    def _has_messages(self) -> bool:
        return self._workspace.current.conversation.has_messages

    def _has_theme(self, mode: str) -> bool:
        return self._window.preferences.now.theme == mode

    def _is_sorted_by(self, order: ListOrder) -> bool:
        return self._workspace.conversations.order == order

    def _pin_message_title(self) -> str:
        message = self._chat.handling.message_to_pin
        return f"{'Un&pin' if message is not None and message.is_pinned else '&Pin'} Message"

    def _last_run(self) -> Run | None:
        """Return the run of the last message, if it is an answer and another one can begin."""
        current = self._workspace.current
        messages = current.conversation.messages
        if current.is_busy or not messages or not self._workspace.model_selection.state.can_answer:
            return None
        return messages[-1].run

    def _ended_run(self) -> Run | None:
        run = self._workspace.current.shown_run
        return None if run is None or run.finished is None else run

    def _answer_several(self) -> None:
        if (run := self._ended_run()) is not None:
            self._window.others.answer_several(run)

    def _choose_fork(self) -> None:
        if (run := self._ended_run()) is not None:
            self._window.others.choose_fork(run)

    def _can_continue(self) -> bool:
        run = self._last_run()
        return run is not None and run.can_be_continued

    def _continue_title(self) -> str:
        run = self._last_run()
        title = "Continue Answer" if run is None else continue_title(run)
        return title.replace("Cont", "Cont&", 1)

    def _last_message(self) -> ConversationMessage:
        return self._workspace.current.conversation.messages[-1]

    def _versions(self) -> tuple[ConversationMessage | None, int, int]:
        """Return the last message with several versions, its version, and their number."""
        conversation = self._workspace.current.conversation
        shown, tree = conversation.messages, conversation.tree
        if len(shown) < len(tree):  # else no message has another version
            for message in reversed(shown):
                versions = tree.versions(message)
                if len(versions) > 1:
                    return message, versions.index(message), len(versions)
        return None, 0, 1

    def _has_version(self, step: int) -> bool:
        _, index, count = self._versions()
        return not self._workspace.current.is_busy and 0 <= index + step < count

    def _step_version(self, step: int) -> None:
        message, _, _ = self._versions()
        if message is not None:
            self._workspace.show_version(message, step)


def _show_or_hide(column: QWidget, title: str) -> str:
    return f"{'Hide' if column.isVisible() else 'Show'} {title}"


def _is_front(title: str) -> bool:
    front = front_window()
    return front is not None and front.windowTitle() == title

"""The main window: the chat, its columns, and what connects them.

Main thread, inside the one loop that Qt and asyncio share. To compose it::

    window = MainWindow(engine, server=..., ...)  # ``MainWindow`` lists all parts
    window.closed.connect(done.set)  # setQuitOnLastWindowClosed(False)
    window.show()
    window.start(model_path)  # in the background; needs the loop
    await done.wait()
    await window.finish()  # answers, loading and server have ended

The application closes the engine itself, after ``finish``.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QEvent, QPoint, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QSplitter, QWidget

from engine import Engine
from engine.library.local_models import ModelFolders
from ui.chat.chat_panel import ChatPanel
from ui.chat.file_dialogs import FileDialogs
from ui.chat.session.traces import TraceStore
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar import Sidebar
from ui.chat.stop_panel import StopPanel
from ui.chat.unsaved_text import UnsavedText
from ui.inspector.inspector import Inspector
from ui.inspector.shown_run import InspectorTools
from ui.kit import icons
from ui.kit.commands import context_menu
from ui.kit.theme import current_theme, system_reduces_motion
from ui.kit.windows import bring_forward, fit_to_screen, move_focus
from ui.models.model_choices import ChoicesState
from ui.models.model_library import ModelLibrary
from ui.models.models import Models
from ui.preferences_state import PreferencesState
from ui.records.store import ConversationStore, Problem
from ui.records.tool_servers import ToolHost
from ui.server.agent_menu import AgentLines, AgentMenu
from ui.server.local_server import ApiKeyState, ApiKeyStore, LocalServerState
from ui.server.requests import RequestLog
from ui.server.server_switch import ServerControl
from ui.tools.toolbox import Toolbox
from ui.window.answer_notices import AnswerNotices
from ui.window.choosing_model import ChoosingModel
from ui.window.column_motion import ColumnMotion
from ui.window.comparing import ComparingAnswers
from ui.window.help_window import HelpFiles
from ui.window.main_menus import MainMenus
from ui.window.other_windows import OtherWindows
from ui.window.right_pane import WIDTH_PX, Page, RightPane
from ui.window.updates import Updates
from ui.window.window_parts import WindowParts

_SEPARATOR = b"\0fullstop\0"  # between the parts of a saved layout


def _lay_out_now() -> None:
    """Finish all layouts, which would otherwise be done at the next turn of the loop."""
    QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)


_CHAT_MIN_PX = 308  # beside a column that was opened in a narrow window


class _Columns(QSplitter):
    """Keeps the width of the first column where the other one's minimum allows it."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setHandleWidth(1)
        self.setAutoFillBackground(True)  # hides the separator of a pane that slides in
        self.setChildrenCollapsible(False)
        self.first_px = 240
        self.splitterMoved.connect(lambda position, _: self.set_first(position))

    def set_first(self, width_px: int) -> None:
        self.first_px = width_px or self.first_px
        self.setSizes([self.first_px, max(1, self.width() - self.first_px)])

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.set_first(self.first_px)


class MainWindow(WindowParts):
    """Conversations, chat and right pane."""

    closed = Signal()

    def __init__(
        self,
        engine: Engine,
        *,
        server: ServerControl,
        store: ConversationStore,
        preferences: PreferencesState,
        key: ApiKeyStore,
        log: RequestLog,
        tools: Callable[[], InspectorTools],
        model_folders: ModelFolders,
        agents: AgentLines,
        tool_host: ToolHost,
        trace_store: TraceStore | None = None,
        help_files: HelpFiles | None = None,
        updates: Updates | None = None,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Fullstop")
        self.setWindowIcon(icons.icon("stop-match", current_theme().colors.accent, 64))
        fit_to_screen(self, 1280, 820)
        self.setMinimumSize(min(_CHAT_MIN_PX + WIDTH_PX + 2, self.width()), min(480, self.height()))
        self.theme = current_theme()
        self.runs_in_background: Callable[[], bool] = lambda: False
        self._is_quitting = False
        self._may_lose = False
        self._without_room: set[QWidget] = set()  # columns that are open, but not shown
        self._is_fitting = False
        self.preferences = preferences
        self.toolbox = Toolbox(tool_host, preferences, self)
        models = Models(engine, ChoicesState(preferences), self)
        self.model_library = ModelLibrary(models, preferences, model_folders, self)
        self.workspace = Workspace(
            engine, self.model_library, store, self.toolbox, trace_store, self
        )
        self.local_server = LocalServerState(preferences, ApiKeyState(key), log, server, self)
        self.inspector = Inspector(engine, self.workspace, self)
        traces = None if trace_store is None else self.workspace.traces
        selection = self.workspace.model_selection
        setups = AgentMenu(self.local_server, agents, lambda: selection.state.info, self)
        self.others = OtherWindows(
            self,
            preferences,
            self.inspector,
            self.model_library,
            self.local_server,
            setups,
            self.toolbox,
            make_tools=tools,
            kept=(engine.disk, traces),
            help_files=help_files or HelpFiles(),
            updates=updates or Updates(""),
        )
        # In its place before it holds anything: a part that moves is styled again with all that it
        # holds. And before the right pane: what the window shows last has precedence.
        self._splitter = _Columns()
        self.setCentralWidget(self._splitter)
        self.files = FileDialogs(self.workspace, self)
        self.sidebar = Sidebar(self.workspace, self.files, self.local_server)
        self.chat = ChatPanel(self.workspace)
        self.stop_panel = StopPanel(self.workspace)
        settings, tools_page = self.chat.settings, self.chat.tools.page
        pages: list[Page] = [
            ("Stops", self.stop_panel, self.stop_panel.show_list),
            ("Settings", settings, settings.system_prompt.setFocus),
            ("Tools", tools_page, tools_page.focus),
        ]
        self.pane = RightPane(pages, self)
        self._motion = ColumnMotion(self, self._splitter, (self.sidebar, self.pane))
        self.choosing_model = ChoosingModel(self)
        self.comparing = ComparingAnswers(self)
        self._lay_out()
        self.notices = AnswerNotices(self)
        self._menus = MainMenus(self, self.choosing_model, self.comparing, setups)
        self._menus.quit_requested.connect(self.quit)
        self._unsaved = UnsavedText(self, store)
        self._unsaved.export_requested.connect(self.files.export_all)
        self._unsaved.quit_requested.connect(lambda may_lose: self.quit(confirm=not may_lose))
        preferences.changed.connect(self._apply_preferences)
        preferences.keeping_failed.connect(self._show_unsaved)
        self._apply_preferences()
        self._connect_signals()
        self.chat.focus_composer()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        return move_focus(self, is_next)

    def start(
        self,
        model_path: Path | None = None,
        draft: Path | None = None,
        user_template: str | None = None,
        base: Path | None = None,
    ) -> None:
        """Begin the background work. Needs the running loop."""
        models = self.workspace.models
        if model_path is not None:
            models.choices.use(model_path, draft, user_template, base)
            models.begin_to_load(model_path)
        # Look for models now, so that the switcher opens at once.
        self.model_library.refresh()
        self.local_server.start()
        self.toolbox.host.begin()
        self.others.start()

    def quit(self, *, confirm: bool = True) -> None:
        """Close the window and end the program, even if closing only hides the window."""
        self._is_quitting = True
        self._may_lose = self._may_lose or not confirm
        self.close()

    def come_forward(self) -> None:
        bring_forward(self)

    async def finish(self) -> None:
        await self._unsaved.finish()
        await self.local_server.finish()
        await self.chat.composer.attachments.finish()
        await self.workspace.finish()
        await self.chat.sides.finish()
        await self.chat.welcome.finish()
        await self.chat.tools.finish()
        await self.others.finish()
        await self.inspector.finish()
        await self.toolbox.host.finish()

    def open_run(self, path: Path) -> None:
        """Show a saved run in the inspector, which also reports a file that is not one."""
        self.come_forward()
        self.others.show_inspector()
        self.inspector.open_file(path)

    def attach(self, files: Iterable[Path]) -> None:
        """Let files go with the first question of a new conversation."""
        if not self.workspace.current.conversation.is_unused:
            self.workspace.new_conversation()
        self.chat.composer.attachments.attach(files)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Type letters into the composer if no field has the focus."""
        if not self.chat.take_typing(event):
            super().keyPressEvent(event)

    def save_layout(self) -> bytes:
        """Return size, position and columns, for ``restore_layout``."""
        parts = (bytes(self.saveGeometry().data()), bytes(self.saveState().data()))
        pages = ((title, page) for title, page, _ in self.pane.pages)
        columns = (("sidebar", self.sidebar), ("panel", self.pane), *pages)
        without_room = [name for name, column in columns if column in self._without_room]
        shown = [name for name, column in columns if not column.isHidden()]
        names = " ".join([*without_room, *shown])  # the last one has precedence
        return _SEPARATOR.join([*parts, b"%d" % self._splitter.first_px, names.encode()])

    def restore_layout(self, layout: bytes) -> None:
        """Restore size, position and columns of an earlier window; ignores what does not fit."""
        parts = layout.split(_SEPARATOR)
        if len(parts) == 4:
            self.restoreState(parts[1])
            if parts[2].isdigit():  # earlier versions have all sizes here
                self._splitter.set_first(int(parts[2]))
            self.restoreGeometry(parts[0])
            shown = parts[3].split()
            titles = (title.encode() for title, _, _ in self.pane.pages)
            shown_page = (index for index, title in enumerate(titles) if title in shown)
            self.pane.tabs.setCurrentIndex(next(shown_page, 0))
            columns = {b"sidebar": self.sidebar, b"panel": self.pane}
            self._without_room.clear()
            for column in columns.values():
                column.hide()
            for name in shown:
                if name in columns:
                    columns[name].show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._motion.finish()
        if self.isVisible():  # not while it is shown: Qt walks through the columns then
            self._fit_columns()

    def event(self, event: QEvent) -> bool:
        """Finish all layouts before a frame: each of them asks the one around it afterwards."""
        if event.type() == QEvent.Type.UpdateRequest:
            _lay_out_now()
        return super().event(event)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Hide the window; or ask running answers to end, and emit ``closed``."""
        self.chat.column.save_position()
        self.workspace.save_draft()
        if not self._is_quitting and self.runs_in_background():
            event.ignore()
            self.hide()
            return
        if not self._may_lose and self._unsaved.holds_window():
            event.ignore()
            self._is_quitting = False
            if self.workspace.store.has_unsaved:
                self.come_forward()
            return
        self.chat.handling.speech.stop()
        self.others.close_all()
        self.workspace.in_memory.cancel_all()
        super().closeEvent(event)
        self.closed.emit()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        splitter = self._splitter
        splitter.addWidget(self.sidebar)
        splitter.addWidget(self.chat)
        # On the smallest screens, the right pane has room beside it.
        self.chat.setMinimumWidth(min(_CHAT_MIN_PX, self.width() - WIDTH_PX - 4))
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.pane)
        self.resizeDocks([self.pane], [WIDTH_PX], Qt.Orientation.Horizontal)
        self.pane.hide()  # the line below an answer opens it

    def _connect_signals(self) -> None:
        workspace = self.workspace
        workspace.opened.connect(self._write_in_opened)
        self.sidebar.writing_requested.connect(self.chat.focus_composer)
        self.chat.header.sidebar.clicked.connect(self.sidebar.toggle)
        self.chat.header.pane.clicked.connect(self.pane.toggleViewAction().trigger)
        self.others.chat_requested.connect(self._start_chat)
        self.others.writing_requested.connect(self.come_forward)
        self.others.writing_requested.connect(self.chat.focus_composer)
        self.chat.handling.several_requested.connect(self.others.answer_several)
        self.chat.handling.fork_requested.connect(self.others.choose_fork)
        self.chat.handling.inspector_requested.connect(self.others.inspect_run)
        self.chat.tools.page.servers_requested.connect(self.others.show_tool_servers)
        self.chat.tools.page.adding_requested.connect(self.others.add_tool_server)
        self.chat.problem.restore_requested.connect(self.files.restore_backup)
        self.chat.problem.solved.connect(self._unsaved.note_saved)
        show_stops = partial(self.pane.open, self.stop_panel)
        self.chat.stops_requested.connect(show_stops)
        self.stop_panel.requested.connect(show_stops)
        self.pane.left.connect(self._leave_pane)
        self.chat.handling.stop_list_requested.connect(self.stop_panel.show_rows)
        self.stop_panel.verdict.stop_requested.connect(self.chat.handling.stop_at)
        self.stop_panel.visibility_changed.connect(self.chat.column.show_marks)
        for column in (self.sidebar, self.pane):
            column.opened.connect(partial(self._fit_columns, column))
            column.closed.connect(partial(self._close_column, column))
            column.changing.connect(self._note_columns)
            column.opened.connect(self._move_columns)
            column.closed.connect(self._move_columns)
        chips = (self.chat.composer.stops, self.chat.composer.settings, self.chat.composer.tools)
        for chip, (_, page, _) in zip(chips, self.pane.pages, strict=True):
            chip.clicked.connect(partial(self.pane.toggle, page))
        self.stop_panel.verdict.inspect.clicked.connect(self.others.inspect_answer)
        self.sidebar.downloads.requested.connect(self.others.show_model)
        self.chat.download_problem.show_requested.connect(self.others.show_model)
        self.chat.download_requested.connect(lambda name: self.others.models.start(name))
        self.sidebar.server.requested.connect(self.others.show_server)
        self.sidebar.server.settings_requested.connect(self.others.show_preferences)
        header = self.chat.header
        header.new.clicked.connect(self.chat.new_conversation)
        header.title.customContextMenuRequested.connect(self._show_title_menu)
        for changed in (self.sidebar.opened, self.sidebar.closed):
            changed.connect(lambda: header.new.setVisible(self.sidebar.isHidden()))
        self.theme.code_look_chosen.connect(self._save_code_look)
        self.theme.columns_chosen.connect(self._save_columns)

    def _show_title_menu(self, position: QPoint) -> None:
        entries = self.sidebar.conversation_actions.entries(lambda: [self.workspace.selected])
        menu = context_menu(self, "Conversation", entries)
        menu.popup(self.chat.header.title.mapToGlobal(position))

    def _show_unsaved(self, reason: str) -> None:
        problem = self.workspace.store.problem
        later = "They are saved with the next change, or when the window closes."
        if problem is None:
            problem = Problem(reason, later)
        else:  # unsaved conversations come first
            problem = replace(problem, detail=f"{problem.detail} {reason}")
        self.chat.problem.show_problem(problem)

    def _apply_preferences(self) -> None:
        now, theme = self.preferences.now, self.theme
        if theme.mode != now.theme:
            theme.set_mode(now.theme)
        theme.set_high_contrast(now.has_high_contrast)
        theme.has_motion = not (now.reduces_motion or system_reduces_motion())
        theme.set_code_look(code_wraps=now.code_wraps, code_has_numbers=now.code_has_numbers)
        theme.columns = now.columns
        if now.text_percent != theme.text_percent:
            theme.set_text_size(now.text_percent)
        self.workspace.apply(now)

    def _save_code_look(self, wraps: bool, has_numbers: bool) -> None:
        self.preferences.change(code_wraps=wraps, code_has_numbers=has_numbers)

    def _save_columns(self, columns: tuple[tuple[str, str], ...]) -> None:
        self.preferences.change(columns=columns)

    # -- intents ---------------------------------------------------------------------------

    def _fit_columns(self, opened: QWidget | None = None) -> None:
        """Hide open columns beside which the chat has no room: the pane first, never a new one."""
        if self._is_fitting:
            return
        self._is_fitting = True
        without_room, pane = self._without_room, self.pane
        widths = {
            self.sidebar: self._splitter.first_px,
            pane: 0 if pane.isFloating() else WIDTH_PX,
        }
        columns = [one for one in widths if one in without_room or not one.isHidden()]
        room_px = self.width() - 420
        for column in sorted(columns, key=lambda one: (one is not opened, one in without_room)):
            fits = column is opened or widths[column] <= room_px
            room_px -= widths[column] if fits else 0
            (without_room.discard if fits else without_room.add)(column)
            if column.isHidden() == fits:
                column.setVisible(fits)
        self._is_fitting = False

    def _close_column(self, column: QWidget) -> None:
        if not self._is_fitting:
            self._without_room.discard(column)
            self._fit_columns()

    def _note_columns(self) -> None:
        if not self._is_fitting:  # else they were noted before the first change
            self._motion.note()

    def _move_columns(self) -> None:
        if not self._is_fitting:
            self._motion.begin()

    def _leave_pane(self) -> None:
        self.activateWindow()
        self.chat.focus_composer()

    def _start_chat(self) -> None:
        """Show an empty chat, which says that the model is ready and takes the first message."""
        self.come_forward()
        self.chat.new_conversation()
        info = self.workspace.models.status().info
        if info is not None:
            # The empty conversation may be one for which another model was chosen before.
            self.workspace.model_selection.choose(info.path)

    def _write_in_opened(self) -> None:
        # The user who moves through a list with the arrow keys keeps the focus in it.
        if not (self.sidebar.list.is_walked or self.sidebar.results.is_walked):
            self.chat.focus_composer()

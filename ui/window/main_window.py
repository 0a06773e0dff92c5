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

import time
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QByteArray, QCoreApplication, QEvent, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QCloseEvent, QFontMetrics, QGuiApplication, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QApplication, QDockWidget, QMainWindow, QSplitter, QWidget

from engine import Engine, StopKind, counted
from engine.library.local_models import ModelFolders
from ui.chat.chat_panel import ChatPanel
from ui.chat.problem_bar import TransferBar, UnsavedText
from ui.chat.session.traces import TraceKeeper
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar import Sidebar
from ui.chat.stop_panel import WIDTH_PX, StopPanel
from ui.inspector.inspector import Inspector
from ui.inspector.shown_run import InspectorTools
from ui.kit import icons
from ui.kit.theme import CodeLook, current_theme
from ui.kit.windows import bring_forward, lay_out_hidden, move_focus
from ui.models.model_library import ModelLibrary
from ui.preferences_state import PreferencesState
from ui.records.conversations import Conversation, ListOrder, WhenFull
from ui.records.runs import Run, RunState
from ui.records.store import ConversationStore
from ui.records.tool_choice import ToolsInUse
from ui.records.tool_servers import ToolHost
from ui.server.server_panel import AgentLines, ServerPanel
from ui.server.server_switch import ServerControl, ServerSwitch
from ui.tools.toolbox import Toolbox
from ui.window.main_menus import ChoosingModel, ComparingAnswers, MainMenus
from ui.window.other_windows import NO_HELP_FILES, HelpFiles, OtherWindows

# A column that a person opened is wanted until that person closes it. It is shown while there is
# room for it beside a readable chat; the conversations come before the stop panel. A column that a
# person opens is shown first of all, until the size of the window or of the text changes: if there
# is no room for it, the window grows as far as the screen allows, and then the chat becomes
# narrower.

_READABLE_CHARACTERS = 45
_SIDEBAR_PX = 250
_SAMPLE = "The quick brown fox jumps over the lazy dog and goes on to the next line. "
_CHAT_MARGINS_PX = 2 * 26
_LEAST_PX = 410
_NARROWEST_PX = 240
_LINE_PX = 1  # between two columns


def readable_px(metrics: QFontMetrics) -> int:
    """Return the least width at which a chat reads well: 45 characters a line and its margins."""
    character = metrics.horizontalAdvance(_SAMPLE) / len(_SAMPLE)
    return max(_LEAST_PX, round(character * _READABLE_CHARACTERS) + _CHAT_MARGINS_PX)


class SideColumns(QObject):
    """Shows as many of the wanted side columns as fit beside the chat."""

    def __init__(
        self,
        window: QMainWindow,
        sidebar: QWidget,
        chat: QWidget,
        panel: QDockWidget,
    ) -> None:
        super().__init__(window)
        theme = current_theme()
        self._window, self._sidebar, self._chat, self._panel = window, sidebar, chat, panel
        self._order: tuple[QWidget, ...] = (sidebar, panel)
        self._wanted = {column for column in self._order if not column.isHidden()}
        self._asked_for: QWidget | None = None
        self._is_fitting = False
        self._is_due = False
        self._theme = theme
        self._width_before_growing = 0
        # What a column needed when it was last shown, or laid out while hidden, with this text.
        self._measured: dict[QWidget, int] = {}
        for column in self._order:
            column.installEventFilter(self)
        theme.changed.connect(self._fit_again)
        panel.topLevelChanged.connect(self.fit_soon)

    def wants(self, column: QWidget) -> bool:
        """Return whether a column is shown as soon as there is room for it."""
        return column in self._wanted

    def eventFilter(  # noqa: N802 - Qt's name
        self, watched: QObject, event: QEvent
    ) -> bool:
        """Note which columns a person opens and closes."""
        if isinstance(watched, QWidget) and watched in self._order and not self._is_fitting:
            if event.type() == QEvent.Type.ShowToParent:
                self._wanted.add(watched)
                self._asked_for = watched if self._window.isVisible() else None
                self._width_before_growing = 0
                self.fit_soon()
            elif event.type() == QEvent.Type.HideToParent:
                self._wanted.discard(watched)
                self.fit_soon()
        return False

    def fit_width(self) -> None:
        """Fit the columns to another width; a column that was just opened loses its precedence."""
        if self._is_fitting:
            return
        # A window manager may undo the growth of a window; the opened column stays nevertheless.
        if self._window.width() != self._width_before_growing:
            self.forget_opened()
        self.fit()

    def forget_opened(self) -> None:
        """Let the column that was opened last have room only in its turn."""
        self._asked_for = None
        self._width_before_growing = 0

    def fit_soon(self) -> None:
        """Fit the columns once the present event has been handled."""
        if not self._is_due:
            self._is_due = True
            QTimer.singleShot(0, self, self.fit)

    def fit(self) -> None:
        """Show the columns that fit and hide the others."""
        self._is_due = self._theme.is_changing
        if self._is_fitting or self._theme.is_changing:
            return
        readable = readable_px(self._chat.fontMetrics())
        room = self._window.width() - readable
        shown: list[QWidget] = []
        for column in sorted(self._order, key=lambda column: column is not self._asked_for):
            if column not in self._wanted:
                continue
            needed = self.needed_px(column)
            if needed <= room or column is self._asked_for:
                shown.append(column)
                room -= needed
        self._is_fitting = True
        if room < 0:
            room += self._grow(-room)
        self._chat.setMinimumWidth(max(_NARROWEST_PX, readable + min(0, room)))
        self._window.setMinimumWidth(readable)
        for column in self._order:
            if column.isHidden() == (column in shown):
                column.setVisible(column in shown)
        self._is_fitting = False

    def _fit_again(self) -> None:
        self._measured.clear()
        if self._is_due:
            self.fit()

    def _grow(self, missing_px: int) -> int:
        """Widen the window on its screen; returns by how much."""
        window, states = self._window, Qt.WindowState.WindowMaximized
        states |= Qt.WindowState.WindowFullScreen
        width = window.width()
        if width == self._width_before_growing or window.windowState() & states:
            return 0  # already tried, or impossible
        screen = window.screen().availableGeometry()
        frame = window.frameGeometry()
        grown_px = min(missing_px, screen.width() - frame.width())
        if grown_px <= 0:
            return 0
        self._width_before_growing = width
        window.resize(width + grown_px, window.height())
        beyond_px = frame.right() + grown_px - screen.right()
        if beyond_px > 0:
            window.move(max(screen.left(), frame.left() - beyond_px), frame.top())
        return grown_px

    def needed_px(self, column: QWidget) -> int:
        """Return the width that a column needs, whether it is shown or not."""
        if column is self._panel and self._panel.isFloating():
            return 0
        if column.isHidden():
            if column in self._measured:
                return self._measured[column]
            lay_out_hidden(column)
        needed = max(column.minimumSizeHint().width(), column.minimumWidth()) + _LINE_PX
        self._measured[column] = needed
        return needed


_SEPARATOR = b"\0fullstop\0"


class WindowLayout:
    """The layout of a window as bytes."""

    def __init__(
        self,
        window: QMainWindow,
        splitter: QSplitter,
        columns: SideColumns,
        sidebar: QWidget,
        panel: QWidget,
    ) -> None:
        self._window = window
        self._splitter = splitter
        self._columns = columns
        self._sidebar = sidebar
        self._panel = panel

    def save(self) -> bytes:
        """Return size, position and columns, for ``restore``."""
        window = self._window
        parts = (window.saveGeometry(), window.saveState(), self._splitter.saveState())
        columns = (("sidebar", self._sidebar), ("panel", self._panel))
        wanted = " ".join(name for name, column in columns if self._columns.wants(column))
        return _SEPARATOR.join([*(bytes(part.data()) for part in parts), wanted.encode()])

    def restore(self, layout: bytes) -> None:
        """Restore size, position and columns of an earlier window; ignores what does not fit."""
        parts = [QByteArray(part) for part in layout.split(_SEPARATOR)]
        if len(parts) == 4:
            self._window.restoreState(parts[1])
            self._splitter.restoreState(parts[2])
            wanted = bytes(parts[3].data()).split()
            self._sidebar.setVisible(b"sidebar" in wanted)
            # A panel without room is still wanted.
            self._panel.setVisible(b"panel" in wanted)
            # This comes last, because only now can the window become as narrow as it was.
            self._window.restoreGeometry(parts[0])


class AppliedPreferences(QObject):
    """Applies the preferences at once, and again whenever they change."""

    def __init__(
        self,
        window: QMainWindow,
        preferences: PreferencesState,
        workspace: Workspace,
        panel: StopPanel,
        columns: SideColumns,
        library: ModelLibrary,
    ) -> None:
        super().__init__(window)
        self._window = window
        self._library = library
        self._theme = current_theme()
        self._preferences = preferences
        self._workspace = workspace
        self._panel = panel
        self._columns = columns
        preferences.changed.connect(self._apply)
        self._theme.code_look_chosen.connect(self._remember)
        self._theme.columns_chosen.connect(self._remember_columns)
        workspace.model.changed.connect(self._begin_as_the_model_wants)
        self._apply()

    def _apply(self) -> None:
        now, theme = self._preferences.now, self._theme
        if theme.mode != now.theme:
            theme.set_mode(now.theme)
        theme.set_high_contrast(now.has_high_contrast)
        theme.set_code_look(CodeLook(now.code_wraps, now.code_has_numbers))
        theme.columns = now.columns
        if now.text_percent != theme.text_percent:
            theme.set_text_size(now.text_percent)
        self._workspace.conversations.sort_by(ListOrder(now.list_order))
        self._workspace.titles.is_on = now.names_conversations
        self._workspace.context.when_full = WhenFull(now.when_full)
        self._workspace.conversations.usual_settings = now.new_conversation.settings()
        self._begin_as_the_model_wants()
        self._workspace.conversations.begin_with(ToolsInUse(now.tools.in_new_conversations))

    def _begin_as_the_model_wants(self) -> None:
        """Let new conversations, and an empty one that is open, begin with the model's settings."""
        listed = self._workspace.conversations
        folder = self._workspace.model.state.folder
        saved = None if folder is None else self._library.settings_of(folder)
        before = listed.new_settings
        listed.new_settings = listed.usual_settings if saved is None else saved
        current = self._workspace.current.conversation
        if not current.has_messages and current.settings == before:
            self._workspace.change_settings(listed.new_settings)

    def _remember_columns(self, columns: tuple[tuple[str, str], ...]) -> None:
        self._preferences.change(columns=columns)

    def _remember(self, look: CodeLook) -> None:
        self._preferences.change(code_wraps=look.wraps, code_has_numbers=look.has_numbers)


# It decides when to notify and what to say; the application delivers it.

# In less time than this, a person has hardly turned to something else.
LONG_S = 10.0
# After a tool call the answer continues, and a person who stops an answer knows that it ended.
_SILENT = (StopKind.TOOL_CALL, StopKind.CANCELLED)

_PLAIN = str.maketrans("<>", "‹›")

Deliver = Callable[[str, str, Callable[[], None]], None]


class AnswerNotices(QObject):
    """Watches the answers of all conversations.

    Signals:
        waiting_changed: Other answers wait for a person now.

    Attributes:
        deliver: Shows a notification; None if the system has none.
        waiting: The conversations whose answers wait for a person, the latest last.
    """

    waiting_changed = Signal()

    def __init__(
        self,
        workspace: Workspace,
        preferences: PreferencesState,
        library: ModelLibrary,
        window: QMainWindow,
    ) -> None:
        super().__init__(window)
        self._workspace = workspace
        self._library = library
        self._preferences = preferences
        self._window = window
        self.deliver: Deliver | None = None
        self.waiting: list[Conversation] = []
        workspace.in_memory.answer_ended.connect(self._consider)
        workspace.in_memory.need_changed.connect(self._note_need)

    def _consider(self, conversation: Conversation, run: Run) -> None:
        is_seen = QApplication.activeWindow() is not None
        if is_seen or not self._preferences.now.tells_of_answers:
            return
        if time.time() - run.started_at < LONG_S or _is_silent(run):
            return
        QApplication.alert(self._window)
        if self.deliver is not None:
            words = notice_words(run)
            self.deliver(conversation.short_title, words, lambda: self._show(conversation))

    def _note_need(self, conversation: Conversation, run: Run) -> None:
        """Mark the app's icon while answers wait for a person, and tell who is elsewhere."""
        self.waiting = [waiting for waiting in self.waiting if waiting is not conversation]
        if conversation.needs_person:
            self.waiting.append(conversation)
        application = QApplication.instance()
        if isinstance(application, QGuiApplication):
            application.setBadgeNumber(len(self.waiting))  # where the system has badges
        choices = (conversation.model for conversation in self.waiting)
        self._library.mark_waiting(
            frozenset(
                choice.folder
                for choice in choices
                if choice is not None and choice.folder is not None
            )
        )
        self.waiting_changed.emit()
        is_seen = QApplication.activeWindow() is not None
        if conversation.needs_person and not is_seen and self._preferences.now.tells_of_answers:
            QApplication.alert(self._window)
            if self.deliver is not None:
                words = need_words(run)
                self.deliver(conversation.short_title, words, lambda: self._show(conversation))

    def _show(self, conversation: Conversation) -> None:
        """Bring the window to the front, with the conversation if it still exists."""
        bring_forward(self._window)
        if self._workspace.conversations.row_of(conversation) >= 0:
            self._workspace.open(conversation)


def need_words(run: Run) -> str:
    """Return what an answer waits for, without the arguments of the call."""
    asking = next(progress for progress in run.progress.values() if progress.needs_user)
    question = f"{asking.server} asks a question."
    words = question if asking.question else f"May the model use {asking.tool}?"
    return f"Needs you: {words}".translate(_PLAIN)


def _is_silent(run: Run) -> bool:
    return run.finished is not None and run.finished.stop.kind in _SILENT


def notice_words(run: Run) -> str:
    """Return why an answer ended and how long it is, without any of its text."""
    said = run.verdict
    if run.state is RunState.REFUSED or run.finished is None or said is None:
        return "The question could not be answered."
    # Some desktops read HTML tags in a notification, and a stop sequence may look like a tag.
    label = said.words.label.translate(_PLAIN)
    return f"{label} · {counted(run.finished.usage.output_tokens, 'token')}"


class MainWindow(QMainWindow):
    """Conversations, chat and stop panel.

    Signals:
        closed: The window was closed; running answers have been asked to end.

    Args:
        engine: Generates the answers.
        server: Starts and stops the local server.
        store: Keeps conversations.
        preferences: What a person chose for the whole program.
        server_panel: Makes the state of the server's window from the server's switch.
        tools: Makes the API's part of the inspector.
        model_folders: Says where models are looked for, given the folders that a person added.
        agents: The lines that make coding agents use the server.
        tool_host: Runs tool servers.
        kept_traces: Keeps the recorded tokens of answers; None keeps them in memory alone.
        help_files: The pages of the Help menu.

    Attributes:
        goes_on_when_closed: Whether closing only hides the window. The application sets it.
        choosing_model: Lets a person choose a model.
        comparing: Answers a question twice, with other settings.
        others: The program's other windows.
        notices: Tells of answers that end while another program is in front.
    """

    closed = Signal()

    def __init__(
        self,
        engine: Engine,
        *,
        server: ServerControl,
        store: ConversationStore,
        preferences: PreferencesState,
        server_panel: Callable[[ServerSwitch], ServerPanel],
        tools: Callable[[], InspectorTools],
        model_folders: Callable[[tuple[Path, ...]], ModelFolders],
        agents: AgentLines,
        tool_host: ToolHost,
        kept_traces: TraceKeeper | None = None,
        help_files: HelpFiles = NO_HELP_FILES,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Fullstop")
        self.resize(1280, 820)
        self.setMinimumHeight(480)
        self.theme = current_theme()
        self.agents = agents
        self.goes_on_when_closed: Callable[[], bool] = lambda: False
        self._is_quitting = False
        self._may_lose = False
        self.preferences = preferences
        self.toolbox = Toolbox(tool_host, preferences, self)
        self.workspace = Workspace(engine, server, store, self.toolbox, self)
        self.workspace.traces.keeper = kept_traces
        self.model_library = ModelLibrary(self.workspace.models, preferences, model_folders, self)
        self.server_panel = server_panel(self.workspace.server)
        self.inspector = Inspector(engine, self.workspace, self)
        self.others = OtherWindows(
            self,
            preferences=preferences,
            inspector=self.inspector,
            models=self.model_library,
            server_panel=self.server_panel,
            make_tools=tools,
            kept_prompts=engine.disk,
            toolbox=self.toolbox,
            kept_traces=None if kept_traces is None else self.workspace.traces,
            help_files=help_files,
        )
        # In its place before it holds anything: a part that moves is styled again with all that it
        # holds. And before the stop panel: what the window shows last has precedence.
        self._splitter = QSplitter(Qt.Orientation.Horizontal)
        self.setCentralWidget(self._splitter)
        self.sidebar = Sidebar(self.workspace)
        self.chat = ChatPanel(self.workspace)
        self.stop_panel = StopPanel(self.workspace, self)
        self.choosing_model = ChoosingModel(
            self.workspace, self.model_library, self.chat, self.others, self
        )
        self.comparing = ComparingAnswers(
            self.workspace, self.model_library, self.chat, self.others, self
        )
        self._lay_out()
        self.columns = SideColumns(self, self.sidebar, self.chat, self.stop_panel)
        self._layout = WindowLayout(
            self, self._splitter, self.columns, self.sidebar, self.stop_panel
        )
        self._applied = AppliedPreferences(
            self, preferences, self.workspace, self.stop_panel, self.columns, self.model_library
        )
        self.notices = AnswerNotices(self.workspace, preferences, self.model_library, self)
        self._menus = MainMenus(self, self)
        self._unsaved = UnsavedText(
            self,
            store,
            export=self._menus.conversation.export_all,
            leave=lambda may_lose: self.quit(asks=not may_lose),
        )
        self._connect_signals()
        self._tint()
        self.chat.focus_composer()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus in reading order."""
        return move_focus(self, is_next)

    def start(self, model_path: Path | None = None, draft: Path | None = None) -> None:
        """Begin the background work. Needs the running loop.

        Args:
            model_path: The model to load, if there is one.
            draft: Its draft model in this session; None for the one that a person chose before.
        """
        if model_path is not None:
            if draft is not None:
                self.model_library.use_draft(model_path, draft)
            self.workspace.models.begin_to_load(model_path)
        # Look for models now, so that the switcher opens at once.
        self.model_library.refresh()
        self.server_panel.start()
        self.toolbox.host.begin()

    def quit(self, *, asks: bool = True) -> None:
        """Close the window and end the program, even if closing only hides the window.

        Args:
            asks: Whether to ask the person first if something would be lost.
        """
        self._is_quitting = True
        self._may_lose = self._may_lose or not asks
        self.close()

    def come_forward(self) -> None:
        """Bring the window to the front."""
        bring_forward(self)

    async def finish(self) -> None:
        """End the answers and the server, and wait for all background work."""
        self.server_panel.end()
        await self._unsaved.finish()
        await self.model_library.finish()
        await self.chat.composer.attachments.reading.finish()
        await self.workspace.finish()
        await self.chat.sides.finish()
        await self.chat.welcome.finish()
        await self.chat.tools.finish()
        await self.others.finish()
        await self.inspector.finish()
        await self.server_panel.finish()
        await self.toolbox.host.finish()

    def new_conversation(self) -> None:
        """Show an empty conversation, to write in at once."""
        self.workspace.new_conversation()
        self.chat.focus_composer()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Type letters into the composer if no field has the focus."""
        if not self.chat.take_typing(event):
            super().keyPressEvent(event)

    def save_layout(self) -> bytes:
        """Return size, position and columns, for ``restore_layout``."""
        return self._layout.save()

    def restore_layout(self, layout: bytes) -> None:
        """Restore size, position and columns of an earlier window; ignores what does not fit."""
        self._layout.restore(layout)

    def event(self, event: QEvent) -> bool:
        """Finish all layouts before a frame: each of them asks the one around it afterwards."""
        if event.type() == QEvent.Type.UpdateRequest:
            QCoreApplication.sendPostedEvents(None, QEvent.Type.LayoutRequest.value)
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the columns that fit."""
        super().resizeEvent(event)
        self.columns.fit_width()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Hide the window; or ask running answers to end, and emit ``closed``."""
        self.chat.column.keep_place()
        self.workspace.save_draft()
        if not self._is_quitting and self.goes_on_when_closed():
            event.ignore()
            self.hide()
            return
        if not self._may_lose and self._unsaved.holds_window():
            event.ignore()
            self._is_quitting = False
            if self.workspace.store.has_unsaved:
                self.come_forward()
            return
        self.chat.handling.menu.speech.stop()
        self.others.close_all()
        self.workspace.in_memory.cancel_all()
        super().closeEvent(event)
        self.closed.emit()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        splitter = self._splitter
        splitter.setHandleWidth(1)
        splitter.addWidget(self.sidebar)
        splitter.addWidget(self.chat)
        splitter.setStretchFactor(0, 0)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        splitter.setSizes([_SIDEBAR_PX, 1000])
        self.transfer_bar = TransferBar(self.workspace.files.transfers)
        self.setStatusBar(self.transfer_bar)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.stop_panel)
        self.resizeDocks([self.stop_panel], [WIDTH_PX], Qt.Orientation.Horizontal)
        self.stop_panel.hide()  # the line below an answer opens it

    def _connect_signals(self) -> None:
        workspace = self.workspace
        workspace.opened.connect(self._write_in_opened)
        self.sidebar.writing_wanted.connect(self.chat.focus_composer)
        self.chat.header.sidebar.clicked.connect(self.toggle_sidebar)
        self.chat.header.stop_panel.clicked.connect(self.stop_panel.toggleViewAction().trigger)
        self.others.chat_wanted.connect(self._start_chat)
        self.chat.tools.servers_wanted.connect(self.others.show_tool_servers)
        self.chat.problem.solved.connect(self._unsaved.note_saved)
        self.chat.stops_wanted.connect(self.stop_panel.show)
        self.stop_panel.visibilityChanged.connect(self.chat.column.show_marks)
        self.chat.composer.stops.clicked.connect(self.stop_panel.show_list)
        self.stop_panel.verdict.inspect.clicked.connect(self.others.show_inspector)
        self.sidebar.server.details.clicked.connect(self.others.show_server)
        self.theme.changed.connect(self._tint)

    # -- intents ---------------------------------------------------------------------------

    def toggle_sidebar(self) -> None:
        """Show or hide the conversations."""
        self.sidebar.setVisible(not self.sidebar.isVisible())

    def _start_chat(self) -> None:
        """Show an empty chat, which says that the model is ready and takes the first message."""
        self.come_forward()
        self.new_conversation()
        info = self.workspace.models.info
        if info is not None:
            # The empty conversation may be one for which another model was chosen before.
            self.workspace.model.choose(info.path)

    def _write_in_opened(self) -> None:
        # A person who moves through a list with the arrow keys keeps the focus in it.
        if not (self.sidebar.list.is_walked or self.sidebar.results.is_walked):
            self.chat.focus_composer()

    def _tint(self) -> None:
        self.setWindowIcon(icons.icon("stop-match", self.theme.colors.match, 64))

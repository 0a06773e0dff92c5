"""The main window: three columns, menus and shortcuts; what the application composes.

Main thread, inside the one loop that Qt and asyncio share. To compose it::

    theme = Theme(qt_app)                              # light, dark, or as the system
    window = MainWindow(engine, theme, server=control, store=store)
    window.closed.connect(done.set)                    # setQuitOnLastWindowClosed(False)
    window.show()
    window.start(model_path)                           # needs the running loop; loads behind
    await done.wait()
    await window.finish()                              # answers, loading and server have ended

``server`` is a ``ui.server.server_switch.ServerControl``; without one the switch is not shown.
``tools`` makes what the inspector needs of the API; without it there are no API tab and no probe.
``model_folders`` says where models are, given the folders that a person added; without it the
window has no list of models.
``desk`` makes the rest of the server's side from its switch; without one there is no more of it.
``store`` is a ``ui.records.storing.ConversationStore``; without one, memory.
The engine itself is closed by the application, after ``finish``.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent, QUndoGroup
from PySide6.QtWidgets import QFileDialog, QMainWindow, QSplitter, QWidget

from engine import Engine
from engine.library.discovery import ModelFolders
from ui.chat.columns.chat_panel import ChatPanel
from ui.chat.columns.sidebar import Sidebar
from ui.chat.columns.stop_panel import WIDTH_PX, StopPanel
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.chat.storage.transfer_bar import TransferBar
from ui.chat.storage.unsaved_box import UnsavedBox
from ui.inspector.run.inspector import Inspector
from ui.inspector.run.tools import InspectorTools
from ui.kit.controls.reading_order import move_focus
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.models.model_library import ModelLibrary
from ui.preferences.preferences import Preferences
from ui.preferences.preferences_dialog import PreferencesDialog
from ui.preferences.preferences_state import PreferencesState
from ui.records.storing import ConversationStore
from ui.server.requests import RequestEntry
from ui.server.server_card import ServerCard
from ui.server.server_panel import ServerDesk
from ui.server.server_switch import ServerControl, ServerSwitch
from ui.server.server_window import ServerWindow
from ui.window.about import about_box
from ui.window.main_menus import MainMenus
from ui.window.shortcuts import ShortcutsDialog
from ui.window.side_columns import Columns

if TYPE_CHECKING:
    from ui.inspector.inspector_window import InspectorWindow
    from ui.inspector.servers.capture_window import CaptureWindow
    from ui.inspector.servers.probe_window import ProbeWindow
    from ui.models.models_window import ModelsWindow

_SIDEBAR_PX = 250


class MainWindow(QMainWindow):
    """Conversations, chat and stop panel.

    Signals:
        closed: The window was closed; running answers have been asked to end.

    Attributes:
        goes_on_when_closed: Whether closing only hides the window. The application decides.
    """

    closed = Signal()

    def __init__(
        self,
        engine: Engine,
        theme: Theme,
        server: ServerControl | None = None,
        store: ConversationStore | None = None,
        preferences: PreferencesState | None = None,
        desk: Callable[[ServerSwitch], ServerDesk] | None = None,
        tools: Callable[[], InspectorTools] | None = None,
        model_folders: Callable[[tuple[Path, ...]], ModelFolders] | None = None,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Fullstop")
        self.resize(1280, 820)
        self.setMinimumHeight(480)
        self.theme = theme
        self.goes_on_when_closed: Callable[[], bool] = lambda: False
        self._is_quitting = False
        self._may_lose = False
        self.preferences = preferences or PreferencesState(Preferences(theme=theme.mode))
        self.workspace = Workspace(engine, server, store, self)
        self.model_library: ModelLibrary | None = None
        if model_folders is not None:
            state = self.workspace.model
            self.model_library = ModelLibrary(state, self.preferences, model_folders, self)
        self.models_window: ModelsWindow | None = None
        self.sidebar = Sidebar(theme, self.workspace)
        self.chat = ChatPanel(theme, self.workspace)
        self.stop_panel = StopPanel(theme, self.workspace)
        switch = self.workspace.server
        self.desk = None if desk is None or switch is None else desk(switch)
        self.server_window: ServerWindow | None = None
        self.inspector = Inspector(engine, self.workspace, self)
        self.inspector_window: InspectorWindow | None = None
        self.capture_window: CaptureWindow | None = None
        self.probe_window: ProbeWindow | None = None
        self._make_tools = tools
        self._tools: InspectorTools | None = None
        self.undo_group = QUndoGroup(self)
        self._lay_out()
        self.columns = Columns(self, self.sidebar, self.chat, self.stop_panel)
        self._menus = MainMenus(self)
        self._connect_signals()
        self._follow_undo(self.workspace.current)
        self._tint()
        self.chat.focus_composer()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Go on with Tab as one reads."""
        return move_focus(self, is_next)

    def start(self, model_path: Path | None = None) -> None:
        """Begin the background work: load a model, if one is given. Needs the running loop."""
        if model_path is not None:
            self.workspace.load_model(model_path)
        if self.desk is not None:
            self.desk.start()

    def quit(self, *, asks: bool = True) -> None:
        """Close the window for good, whatever closing it does otherwise.

        Args:
            asks: Whether a person is asked first where something would be lost.
        """
        self._is_quitting = True
        self._may_lose = self._may_lose or not asks
        self.close()

    def come_forward(self) -> None:
        """Show the window above all others."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()

    def show_server(self) -> None:
        """Show the server's own window."""
        if self.desk is None:
            return
        if self.server_window is None:
            self.server_window = ServerWindow(self.theme, self.desk, self)
            detail = self.server_window.detail
            detail.inspector_wanted.connect(self._inspect_request)
            detail.inspect.setVisible(self.has_tools)
        _bring_forward(self.server_window)

    def show_inspector(self) -> None:
        """Show the Stop Inspector at the run that this window shows."""
        if self.inspector_window is None:
            # Imported when it is wanted: the window is not to wait for what few open at once.
            from ui.inspector.inspector_window import InspectorWindow

            self.inspector_window = InspectorWindow(self.theme, self.inspector, self.tools, self)
        _bring_forward(self.inspector_window)

    @property
    def has_tools(self) -> bool:
        """Whether captures can be read and servers be probed."""
        return self._make_tools is not None

    @property
    def tools(self) -> InspectorTools | None:
        """What the inspector needs of the API, made when it is first wanted."""
        if self._tools is None and self._make_tools is not None:
            self._tools = self._make_tools()
        return self._tools

    def _inspect_request(self, entry: RequestEntry) -> None:
        self.show_inspector()
        self.inspector.show_request(entry)

    def show_capture(self) -> None:
        """Show the window for captured answers."""
        if self.tools is None:
            return
        if self.capture_window is None:
            from ui.inspector.servers.capture_window import CaptureWindow

            self.capture_window = CaptureWindow(self.theme, self.tools, self)
        _bring_forward(self.capture_window)

    def show_probe(self) -> None:
        """Show the window that probes servers."""
        if self.tools is None:
            return
        if self.probe_window is None:
            from ui.inspector.servers.probe_window import ProbeWindow

            self.probe_window = ProbeWindow(self.theme, self.tools, self)
        _bring_forward(self.probe_window)

    def show_models(self) -> None:
        """Show the models on this computer; where they are not known, ask for a folder."""
        if self.model_library is None:
            self.choose_model()
            return
        if self.models_window is None:
            from ui.models.models_window import ModelsWindow

            self.models_window = ModelsWindow(self.theme, self.model_library, self)
        _bring_forward(self.models_window)

    async def finish(self) -> None:
        """End answers and server, and wait until nothing is under way."""
        if self.desk is not None:
            self.desk.end()
        if self.model_library is not None:
            await self.model_library.finish()
        await self.workspace.finish()
        for other in (self.inspector_window, self.capture_window, self.probe_window):
            if other is not None:
                await other.finish()
        await self.inspector.finish()
        if self.desk is not None:
            await self.desk.finish()
        if self.server_window is not None:
            await self.server_window.finish()

    def new_conversation(self) -> None:
        """Show an empty conversation, to write in at once."""
        self.workspace.new_conversation()
        self.chat.focus_composer()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Letters that no field takes are written in the composer."""
        if not self.chat.take_typing(event):
            super().keyPressEvent(event)

    def save_layout(self) -> bytes:
        """Return size, place and columns, for ``restore_layout``."""
        parts = (self.saveGeometry(), self.saveState(), self._splitter.saveState())
        columns = (("sidebar", self.sidebar), ("panel", self.stop_panel))
        wanted = " ".join(name for name, column in columns if self.columns.wants(column))
        return _SEPARATOR.join([*(bytes(part.data()) for part in parts), wanted.encode()])

    def restore_layout(self, layout: bytes) -> None:
        """Take over size, place and columns of an earlier window; ignores what does not fit."""
        parts = [QByteArray(part) for part in layout.split(_SEPARATOR)]
        if len(parts) == 4:
            self.restoreState(parts[1])
            self._splitter.restoreState(parts[2])
            wanted = bytes(parts[3].data()).split()
            self.sidebar.setVisible(b"sidebar" in wanted)
            # A panel that had no room is wanted all the same; an earlier version kept only its own.
            self.stop_panel.setVisible(b"panel" in wanted or not self.stop_panel.isHidden())
            # Last: only now may the window be as narrow as it was.
            self.restoreGeometry(parts[0])

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show the columns that fit."""
        super().resizeEvent(event)
        self.columns.fit_width()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Hide, or ask running answers to end and say that the window has gone."""
        if not self._is_quitting and self.goes_on_when_closed():
            event.ignore()
            self.hide()
            return
        if self.workspace.store.has_unsaved and not self._may_lose:
            event.ignore()
            self._is_quitting = False
            self._ask_about_unsaved()
            return
        others = (
            self.server_window,
            self.models_window,
            self.inspector_window,
            self.capture_window,
            self.probe_window,
        )
        for other in others:
            if other is not None:
                other.close()
        self.workspace.cancel_all()
        super().closeEvent(event)
        self.closed.emit()

    def _ask_about_unsaved(self) -> None:
        if self.findChild(UnsavedBox) is not None:
            return
        self.come_forward()
        box = UnsavedBox(self)
        box.export_wanted.connect(self._menus.export_all)
        box.close_wanted.connect(lambda: self.quit(asks=False))
        box.open()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        splitter = self._splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setHandleWidth(1)
        splitter.addWidget(self.sidebar)
        splitter.addWidget(self.chat)
        splitter.setStretchFactor(0, 0)
        splitter.setStretchFactor(1, 1)
        splitter.setChildrenCollapsible(False)
        splitter.setSizes([_SIDEBAR_PX, 1000])
        self.setCentralWidget(splitter)
        self.setStatusBar(TransferBar(self.workspace.library.transfers))
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.stop_panel)
        self.resizeDocks([self.stop_panel], [WIDTH_PX], Qt.Orientation.Horizontal)

    def _connect_signals(self) -> None:
        workspace = self.workspace
        workspace.opened.connect(self._follow_undo)
        workspace.conversations.dataChanged.connect(self._refresh_stop)
        workspace.opened.connect(self._refresh_stop)
        workspace.opened.connect(self._write_in_opened)
        self.sidebar.writing_wanted.connect(self.chat.focus_composer)
        self.chat.sidebar_toggled.connect(self.toggle_sidebar)
        self.chat.stop_panel_toggled.connect(self.stop_panel.toggleViewAction().trigger)
        self.chat.stops_wanted.connect(self.stop_panel.show)
        self.chat.models_wanted.connect(self.show_models)
        self.stop_panel.verdict.inspector_wanted.connect(self.show_inspector)
        self.preferences.changed.connect(self._apply)
        for card in self.findChildren(ServerCard):
            card.details.setVisible(self.desk is not None)
            card.details_wanted.connect(self.show_server)
        self.theme.changed.connect(self._tint)
        self._apply()
        self._refresh_stop()

    # -- intents ---------------------------------------------------------------------------

    def toggle_sidebar(self) -> None:
        """Show the conversations, or put them away."""
        self.sidebar.setVisible(not self.sidebar.isVisible())

    def choose_model(self) -> None:
        """Ask for a folder and load the model in it."""
        dialog = QFileDialog(self, "Open a model folder")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.workspace.load_model(Path(path)))
        dialog.open()

    def show_preferences(self) -> None:
        """Show what can be chosen for the whole program."""
        PreferencesDialog(self.theme, self.preferences, self).open()

    def show_shortcuts(self) -> None:
        """List every menu entry's keys."""
        ShortcutsDialog(self.menuBar(), self).open()

    def _apply(self) -> None:
        now = self.preferences.now
        if self.theme.mode != now.theme:
            self.theme.set_mode(now.theme)
        self.theme.set_high_contrast(now.has_high_contrast)
        if now.text_percent != self.theme.text_percent:
            self.theme.set_text_size(now.text_percent)
            width = self.theme.gap(WIDTH_PX)
            self.resizeDocks([self.stop_panel], [width], Qt.Orientation.Horizontal)
            self.columns.fit_soon()
        self.workspace.conversations.new_settings = now.new_conversation.settings()

    def show_about(self) -> None:
        """Say what this program is."""
        about_box(self).open()

    def _write_in_opened(self) -> None:
        # Who walks through the list with the arrow keys stays in it.
        if not self.sidebar.list.is_walked:
            self.chat.focus_composer()

    def _follow_undo(self, opened: OpenConversation) -> None:
        stack = opened.stops.undo_stack
        self.undo_group.addStack(stack)
        self.undo_group.setActiveStack(stack)

    def _refresh_stop(self) -> None:
        self._menus.stop.setEnabled(self.workspace.current.session.is_running)

    def _tint(self) -> None:
        self.setWindowIcon(icons.icon("stop-match", self.theme.colors.match, 64))


def _bring_forward(other: QWidget) -> None:
    other.show()
    other.raise_()
    other.activateWindow()


_SEPARATOR = b"\0fullstop\0"

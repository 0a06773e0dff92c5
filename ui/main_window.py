"""The main window: three columns, menus and shortcuts; what the application composes.

Main thread, inside the one loop that Qt and asyncio share. To compose it::

    theme = Theme(qt_app)                              # light, dark, or as the system
    window = MainWindow(engine, theme, server=control, store=store)
    window.closed.connect(done.set)                    # setQuitOnLastWindowClosed(False)
    window.show()
    window.start(model_path)                           # needs the running loop; loads behind
    await done.wait()
    await window.finish()                              # answers, loading and server have ended

``server`` is a ``ui.viewmodels.server.ServerControl``; without one the switch is not shown.
``store`` is a ``ui.viewmodels.conversations.ConversationStore``; without one, memory.
The engine itself is closed by the application, after ``finish``.
"""

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from PySide6.QtCore import QByteArray, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QCloseEvent, QKeySequence, QUndoGroup
from PySide6.QtWidgets import QFileDialog, QMainWindow, QMenu, QMessageBox, QSplitter

from engine.service import Engine
from ui import icons
from ui.panels.chat_panel import ChatPanel
from ui.panels.preferences import MODES, PreferencesDialog
from ui.panels.sidebar import Sidebar
from ui.panels.stop_panel import WIDTH_PX, StopPanel
from ui.theme import Theme, ThemeMode
from ui.viewmodels.conversations import ConversationStore
from ui.viewmodels.server import ServerControl
from ui.viewmodels.workspace import OpenConversation, Workspace

_SIDEBAR_PX = 250


class MainWindow(QMainWindow):
    """Conversations, chat and stop panel.

    Signals:
        closed: The window was closed; running answers have been asked to end.
    """

    closed = Signal()

    def __init__(
        self,
        engine: Engine,
        theme: Theme,
        server: ServerControl | None = None,
        store: ConversationStore | None = None,
    ) -> None:
        super().__init__()
        self.setWindowTitle("Fullstop")
        self.resize(1280, 820)
        self.setMinimumHeight(480)
        self.theme = theme
        self.workspace = Workspace(engine, server, store, self)
        self.sidebar = Sidebar(theme, self.workspace)
        self.chat = ChatPanel(theme, self.workspace)
        self.stop_panel = StopPanel(theme, self.workspace)
        self._undo_group = QUndoGroup(self)
        self._appearances: dict[ThemeMode, QAction] = {}
        self._lay_out()
        self._build_menus()
        self._connect_signals()
        self._follow_undo(self.workspace.current)
        self._tint()
        self.chat.focus_composer()

    def start(self, model_path: Path | None = None) -> None:
        """Begin the background work: load a model, if one is given. Needs the running loop."""
        if model_path is not None:
            self.workspace.load_model(model_path)

    async def finish(self) -> None:
        """End answers and server, and wait until nothing is under way."""
        await self.workspace.finish()

    def save_layout(self) -> bytes:
        """Return size, place and columns, for ``restore_layout``."""
        return bytes(self.saveGeometry().data()) + _SEPARATOR + bytes(self.saveState().data())

    def restore_layout(self, layout: bytes) -> None:
        """Take over size, place and columns of an earlier window; ignores what does not fit."""
        geometry, found, state = layout.partition(_SEPARATOR)
        if found:
            self.restoreGeometry(QByteArray(geometry))
            self.restoreState(QByteArray(state))

    def closeEvent(self, event: QCloseEvent) -> None:
        """Ask running answers to end, and say that the window has gone."""
        self.workspace.cancel_all()
        super().closeEvent(event)
        self.closed.emit()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        splitter = QSplitter(Qt.Orientation.Horizontal)
        splitter.setHandleWidth(1)
        splitter.addWidget(self.sidebar)
        splitter.addWidget(self.chat)
        splitter.setStretchFactor(0, 0)
        splitter.setStretchFactor(1, 1)
        splitter.setCollapsible(1, False)
        splitter.setSizes([_SIDEBAR_PX, 1000])
        self.setCentralWidget(splitter)
        self.addDockWidget(Qt.DockWidgetArea.RightDockWidgetArea, self.stop_panel)
        self.resizeDocks([self.stop_panel], [WIDTH_PX], Qt.Orientation.Horizontal)

    def _build_menus(self) -> None:
        bar = self.menuBar()
        bar.setAccessibleName("Menus")
        workspace, keys = self.workspace, QKeySequence.StandardKey
        menu = bar.addMenu("&File")
        self._add(menu, "&New Conversation", workspace.new_conversation, keys.New)
        self._add(menu, "&Open Model Folder…", self._choose_model, keys.Open)
        menu.addSeparator()
        action = self._add(menu, "&Preferences…", self._show_preferences, "Ctrl+,")
        action.setMenuRole(QAction.MenuRole.PreferencesRole)
        self._add(menu, "&Close Window", self.close, keys.Close)
        action = self._add(menu, "&Quit", self.close, "Ctrl+Q")
        action.setMenuRole(QAction.MenuRole.QuitRole)

        menu = bar.addMenu("&Edit")
        undo = self._undo_group.createUndoAction(self, "Undo")
        undo.setShortcut(keys.Undo)
        redo = self._undo_group.createRedoAction(self, "Redo")
        redo.setShortcut(keys.Redo)
        menu.addActions([undo, redo])

        menu = bar.addMenu("&Conversation")
        self._stop = self._add(menu, "&Stop the Answer", workspace.cancel, "Ctrl+.")
        self._stop.setShortcuts([QKeySequence("Ctrl+."), QKeySequence(Qt.Key.Key_Escape)])
        menu.addSeparator()
        self._add(menu, "&Rename…", self.sidebar.rename_current, "Ctrl+R")
        self._add(menu, "&Delete", self.sidebar.delete_current, "Ctrl+Shift+Backspace")
        self._add(menu, "Se&ttings…", self.chat.show_settings, "Ctrl+Shift+S")

        menu = bar.addMenu("&View")
        self._add(menu, "&Conversations", self._toggle_sidebar, "Ctrl+B")
        panel = self.stop_panel.toggleViewAction()
        panel.setText("&Stop Panel")
        panel.setShortcut("Ctrl+I")
        menu.addAction(panel)
        self._add(menu, "&Write a Message", self.chat.focus_composer, "Ctrl+L")
        menu.addSeparator()
        self._build_appearance(menu.addMenu("&Appearance"))

        menu = bar.addMenu("&Help")
        action = self._add(menu, "&About Fullstop", self._show_about)
        action.setMenuRole(QAction.MenuRole.AboutRole)

    def _build_appearance(self, menu: QMenu) -> None:
        group = QActionGroup(menu)
        for mode, words in MODES:
            action = menu.addAction(words)
            action.setCheckable(True)
            action.triggered.connect(lambda _=False, chosen=mode: self.theme.set_mode(chosen))
            group.addAction(action)
            self._appearances[mode] = action
        self._mark_appearance()

    def _add(
        self,
        menu: QMenu,
        words: str,
        intent: object,
        shortcut: QKeySequence.StandardKey | str | None = None,
    ) -> QAction:
        action = menu.addAction(words)
        if shortcut is not None:
            action.setShortcut(shortcut)
        assert callable(intent)
        action.triggered.connect(lambda: intent())
        return action

    def _connect_signals(self) -> None:
        workspace = self.workspace
        workspace.opened.connect(self._follow_undo)
        workspace.conversations.dataChanged.connect(self._refresh_stop)
        workspace.opened.connect(self._refresh_stop)
        self.chat.sidebar_toggled.connect(self._toggle_sidebar)
        self.chat.stop_panel_toggled.connect(self.stop_panel.toggleViewAction().trigger)
        self.chat.stops_wanted.connect(self.stop_panel.show)
        self.theme.changed.connect(self._tint)
        self.theme.changed.connect(self._mark_appearance)
        self._refresh_stop()

    # -- intents ---------------------------------------------------------------------------

    def _toggle_sidebar(self) -> None:
        self.sidebar.setVisible(not self.sidebar.isVisible())

    def _choose_model(self) -> None:
        dialog = QFileDialog(self, "Open a model folder")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.workspace.load_model(Path(path)))
        dialog.open()

    def _show_preferences(self) -> None:
        PreferencesDialog(self.theme, self).open()

    def _show_about(self) -> None:
        box = QMessageBox(self)
        box.setWindowTitle("About Fullstop")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(f"Fullstop {_version()}")
        box.setInformativeText(
            "Chat with MLX language models, serve them to other apps, and see exactly why a "
            "model stopped."
        )
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()

    def _follow_undo(self, opened: OpenConversation) -> None:
        stack = opened.stops.undo_stack
        self._undo_group.addStack(stack)
        self._undo_group.setActiveStack(stack)

    def _refresh_stop(self) -> None:
        self._stop.setEnabled(self.workspace.current.session.is_running)

    def _mark_appearance(self) -> None:
        self._appearances[self.theme.mode].setChecked(True)

    def _tint(self) -> None:
        self.setWindowIcon(icons.icon("stop-match", self.theme.colors.match, 64))


_SEPARATOR = b"\0fullstop\0"


def _version() -> str:
    try:
        return version("fullstop-chat")
    except PackageNotFoundError:
        return "(development)"

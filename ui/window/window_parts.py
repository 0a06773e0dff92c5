"""The parts of the main window, by name. Main thread."""

from PySide6.QtWidgets import QMainWindow

from ui.chat.chat_panel import ChatPanel
from ui.chat.file_dialogs import FileDialogs
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar import Sidebar
from ui.chat.stop_panel import StopPanel
from ui.models.model_library import ModelLibrary
from ui.preferences_state import PreferencesState
from ui.server.local_server import LocalServerState
from ui.window.other_windows import OtherWindows
from ui.window.right_pane import RightPane


class WindowParts(QMainWindow):
    """The window as its menus, its navigation and its notices see it; ``MainWindow`` makes them."""

    workspace: Workspace
    model_library: ModelLibrary
    preferences: PreferencesState
    local_server: LocalServerState
    files: FileDialogs
    sidebar: Sidebar
    chat: ChatPanel
    stop_panel: StopPanel
    pane: RightPane
    others: OtherWindows

"""The tray icon while the server runs and the window is closed; knows no window. Main thread."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from engine.wording import counted
from ui.kit import icons
from ui.kit.menus import copy_text
from ui.kit.theme import current_theme
from ui.server.server_switch import WINDOW_TITLE, ServerSwitch, pill_of


def has_tray() -> bool:
    """Whether this system has a tray."""
    return QSystemTrayIcon.isSystemTrayAvailable()


class Tray(QObject):
    """The tray icon with its menu."""

    show_requested = Signal()
    server_requested = Signal()
    quit_requested = Signal()
    notice_chosen = Signal(object)  # Conversation

    def __init__(self, switch: ServerSwitch, parent: QObject) -> None:
        super().__init__(parent)
        self._switch = switch
        self._waiting = 0
        menu = self.menu = QMenu()
        self._state = menu.addAction("")
        self._state.setEnabled(False)
        self.turn = menu.addAction("", lambda: switch.turn(not switch.is_requested))
        self.copy = menu.addAction("Copy Server Address", lambda: copy_text(switch.url))
        menu.addSeparator()
        self.open = menu.addAction("Show Fullstop", lambda: self.show_requested.emit())
        self.requests = menu.addAction(f"{WINDOW_TITLE}…", lambda: self.server_requested.emit())
        menu.addSeparator()
        self.quit = menu.addAction("Quit Fullstop", lambda: self.quit_requested.emit())
        self.icon = QSystemTrayIcon(self)
        self.icon.setContextMenu(self.menu)
        self.icon.activated.connect(self._activate)
        self._notified: object = None
        self.icon.messageClicked.connect(lambda: self.notice_chosen.emit(self._notified))
        switch.changed.connect(self._refresh)
        current_theme().changed.connect(self._refresh)
        self._refresh()

    def show(self) -> None:
        self.icon.show()

    def notify(self, title: str, text: str, conversation: object) -> None:
        """Show a notification of the system; a click on it emits ``notice_chosen``."""
        self._notified = conversation
        self.icon.showMessage(title, text, self.icon.icon())

    def show_waiting(self, count: int) -> None:
        self._waiting = count
        self._refresh()

    def close(self) -> None:
        self._switch.changed.disconnect(self._refresh)
        current_theme().changed.disconnect(self._refresh)
        self.icon.hide()
        self.menu.deleteLater()

    def _activate(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason == QSystemTrayIcon.ActivationReason.Trigger:
            self.show_requested.emit()

    def _refresh(self) -> None:
        word = pill_of(self._switch)[0].lower()
        url = self._switch.url
        self._state.setText(f"Server {word}: {url}" if url else f"Server {word}")
        self.turn.setText(
            "Stop Local Server" if self._switch.is_requested else "Start Local Server"
        )
        self.copy.setEnabled(bool(url))
        need = "needs" if self._waiting == 1 else "need"
        waiting = f"{counted(self._waiting, 'conversation')} {need} you, " if self._waiting else ""
        self.icon.setToolTip(f"Fullstop – {waiting}server {word}")
        name = "warning" if self._waiting else "stop-match"
        picture = icons.icon(name, current_theme().colors.text, 22)
        picture.setIsMask(True)  # macOS tints it for light and dark menu bars
        self.icon.setIcon(picture)

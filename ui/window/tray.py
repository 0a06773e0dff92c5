"""The icon in the system's tray: the server goes on there when the window is closed.

Main thread. Knows no window: it says what is wanted.
"""

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMenu, QSystemTrayIcon

from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.server.server_switch import ServerSwitch
from ui.server.server_words import pill_of

_SIZE = 22


def has_tray() -> bool:
    """Whether this system has a tray."""
    return QSystemTrayIcon.isSystemTrayAvailable()


class Tray(QObject):
    """Icon and menu.

    Signals:
        show_wanted: The window is to be shown.
        server_wanted: The server's window is to be shown.
        quit_wanted: Everything is to end.
    """

    show_wanted = Signal()
    server_wanted = Signal()
    quit_wanted = Signal()

    def __init__(self, theme: Theme, switch: ServerSwitch, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._switch = switch
        self.menu = QMenu()
        self._state = self.menu.addAction("")
        self._state.setEnabled(False)
        self.turn = self.menu.addAction("")
        self.copy = self.menu.addAction("Copy the Server’s Address")
        self.menu.addSeparator()
        self.open = self.menu.addAction("Show Fullstop")
        self.requests = self.menu.addAction("Server and Requests…")
        self.menu.addSeparator()
        self.quit = self.menu.addAction("Quit Fullstop")
        self.icon = QSystemTrayIcon(self)
        self.icon.setContextMenu(self.menu)
        self.turn.triggered.connect(lambda: switch.turn(not switch.is_wanted))
        self.copy.triggered.connect(lambda: QGuiApplication.clipboard().setText(switch.url))
        self.open.triggered.connect(self.show_wanted)
        self.requests.triggered.connect(self.server_wanted)
        self.quit.triggered.connect(self.quit_wanted)
        self.icon.activated.connect(self._activate)
        switch.changed.connect(self._refresh)
        theme.changed.connect(self._refresh)
        self._refresh()

    def show(self) -> None:
        """Appear in the tray."""
        self.icon.show()

    def close(self) -> None:
        """Leave the tray."""
        self.icon.hide()
        self.menu.deleteLater()

    def _activate(self, reason: QSystemTrayIcon.ActivationReason) -> None:
        if reason == QSystemTrayIcon.ActivationReason.Trigger:
            self.show_wanted.emit()

    def _refresh(self) -> None:
        word = pill_of(self._switch)[0].lower()
        url = self._switch.url
        self._state.setText(f"Server {word}: {url}" if url else f"Server {word}")
        self.turn.setText("Turn the Server Off" if self._switch.is_wanted else "Turn the Server On")
        self.copy.setEnabled(bool(url))
        self.icon.setToolTip(f"Fullstop – server {word}")
        picture = icons.icon("stop-match", self._theme.colors.text, _SIZE)
        picture.setIsMask(True)  # macOS tints it for light and dark menu bars
        self.icon.setIcon(picture)

"""The local server's switch, with its address. Main thread."""

from PySide6.QtCore import QTimer
from PySide6.QtGui import QFont, QGuiApplication
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout

from ui.theme import Theme, fixed_font
from ui.viewmodels.server import ServerSwitch
from ui.widgets.buttons import IconButton, ToggleSwitch
from ui.widgets.labels import ElidedLabel, label


class ServerCard(QFrame):
    """Turns the server on and off, shows its address to copy, and says what went wrong."""

    def __init__(self, theme: Theme, server: ServerSwitch) -> None:
        super().__init__()
        self._server = server
        card = QFrame()
        card.setObjectName("card")
        self.switch = ToggleSwitch(theme, "Local server")
        self._state = label("", "muted", 0.92, is_wrapped=True)
        self.address = ElidedLabel()
        self.address.setFont(fixed_font(self.address.font(), 0.88))
        self.copy = IconButton(theme, "copy", "Copy the server’s address", size=16)
        head = QHBoxLayout()
        head.addWidget(label("Local server", "title", 1.0, weight=QFont.Weight.DemiBold))
        head.addStretch(1)
        head.addWidget(self.switch)
        line = QHBoxLayout()
        line.setSpacing(4)
        line.addWidget(self.address, 1)
        line.addWidget(self.copy)
        inner = QVBoxLayout(card)
        inner.setContentsMargins(12, 10, 10, 10)
        inner.setSpacing(4)
        inner.addLayout(head)
        inner.addWidget(self._state)
        inner.addLayout(line)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(10, 6, 10, 12)
        outer.addWidget(card)
        self.switch.clicked.connect(server.turn)
        self.copy.clicked.connect(self._copy)
        server.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        server = self._server
        words = {
            "off": "Off. Other apps can use this model while it is on.",
            "starting": "Starting…",
            "on": "On, for this computer only.",
            "stopping": "Stopping…",
            "failed": f"Could not start: {server.message}",
        }
        self._state.setText(words[server.stage])
        self._state.setProperty("role", "fault" if server.stage == "failed" else "muted")
        self._state.style().unpolish(self._state)
        self._state.style().polish(self._state)
        self.switch.setChecked(server.is_wanted)
        is_on = server.stage == "on"
        self.address.setText(server.url)
        self.address.setAccessibleName(f"Server address {server.url}")
        self.address.setToolTip(server.url)
        self.address.setVisible(is_on)
        self.copy.setVisible(is_on)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._server.url)
        self.copy.show_icon("tick", "Copied")
        QTimer.singleShot(
            1500, self.copy, lambda: self.copy.show_icon("copy", "Copy the server’s address")
        )

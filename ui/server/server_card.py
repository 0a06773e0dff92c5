"""The local server's switch, its address, and a button for its window. Main thread."""

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout

from ui.kit.controls.buttons import ToggleSwitch
from ui.kit.controls.copy_button import CopyButton
from ui.kit.look.theme import Theme, fixed_font, restyle
from ui.kit.text.labels import ElidedLabel, label
from ui.server.server_switch import ServerSwitch
from ui.server.server_words import reach_words


class ServerCard(QFrame):
    """Turns the server on and off, and shows its address or why it could not start.

    Attributes:
        details: The button that shows the server's own window.
    """

    def __init__(self, theme: Theme, server: ServerSwitch) -> None:
        super().__init__()
        self._server = server
        card = QFrame()
        card.setObjectName("card")
        self.switch = ToggleSwitch(theme, "Local server")
        self._state = label("", "muted", 0.92, is_wrapped=True)
        self.address = ElidedLabel()
        self.address.setFont(fixed_font(self.address.font(), 0.88))
        self.copy = CopyButton(theme, "Copy the server’s address", lambda: server.url)
        self.details = QPushButton("Requests and Settings…")
        self.details.setProperty("kind", "link")
        self.details.setProperty("is_flush", True)
        self.details.setAccessibleName("Requests and settings of the server")
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
        inner.addWidget(self.details)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(10, 6, 10, 12)
        outer.addWidget(card)
        self.switch.clicked.connect(server.turn)
        server.changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        server = self._server
        words = {
            "off": "Off. Switch it on to let other apps use this model.",
            "starting": "Starting…",
            "on": f"On. {reach_words(server)}",
            "stopping": "Stopping…",
            "failed": f"Could not start: {server.message}",
        }
        self._state.setText(words[server.stage])
        restyle(self._state, "role", "fault" if server.stage == "failed" else "muted")
        self.switch.setChecked(server.is_wanted)
        is_on = server.stage == "on"
        self.address.setText(server.url)
        self.address.setAccessibleName(f"Server address {server.url}")
        self.address.setToolTip(server.url)
        self.address.setVisible(is_on)
        self.copy.setVisible(is_on)

"""The card of the local server at the foot of the sidebar. Main thread."""

from PySide6.QtWidgets import QFrame

from ui.kit.buttons import ToggleSwitch, copy_button, push_button
from ui.kit.labels import ElidedLabel, label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.theme import fixed_font, restyle
from ui.server.local_server import LocalServerState
from ui.server.requests import usage_text
from ui.server.server_switch import WINDOW_TITLE


class ServerCard(QFrame):
    """Turns the server on and off, and shows its address or why it could not start."""

    def __init__(self, server: LocalServerState) -> None:
        super().__init__()
        self._server = server
        self._is_roomy = True
        card = QFrame()
        card.setObjectName("card")
        self.switch = ToggleSwitch("Local server")
        self._state = label("", "muted", 0.92, is_wrapped=True)
        self.address = ElidedLabel()
        self.address.setFont(fixed_font(self.address.font(), 0.88))
        self.copy = copy_button("Copy the server’s address", lambda: server.switch.url)
        self.details = push_button(f"{WINDOW_TITLE}…", kind="link")
        self.details.setProperty("is_flush", True)
        self.details.setAccessibleName(f"{WINDOW_TITLE}: requests")
        column(
            row(label("Local server", "title"), STRETCH, self.switch),
            self._state,
            row((self.address, 1), self.copy, spacing=4),
            self.details,
            spacing=4,
            margins=(12, 10, 10, 10),
            on=card,
        )
        column(card, margins=(10, 6, 10, 12), on=self)
        self.switch.clicked.connect(server.switch.turn)
        log = server.log
        for changed in (server.switch.changed, server.preferences.changed, log.taken, log.cleared):
            changed.connect(self._refresh)
        self._refresh()

    def set_compact_height(self, is_low: bool) -> None:
        """Hide the text of a switched-off server to save height."""
        if self._is_roomy == is_low:
            self._is_roomy = not is_low
            self._refresh()

    def _refresh(self) -> None:
        server, use = self._server.switch, usage_text(self._server.log.open)
        text = {
            "off": "Off. Turn on to let other apps use this model.",
            "starting": "Starting…",
            "on": f"{use}." if use else f"On. {self._server.reach_text}",
            "stopping": "Stopping…",
            "failed": server.message,
        }
        self._state.setText(text[server.stage])
        self._state.setVisible(self._is_roomy or server.stage != "off")
        restyle(self._state, "role", "fault" if server.stage == "failed" else "muted")
        self.switch.setChecked(server.is_requested)
        is_on = server.stage == "on"
        self.address.setText(server.url)
        self.address.setAccessibleName(f"Server address {server.url}")
        self.address.setToolTip(server.url)
        self.address.setVisible(is_on)
        self.copy.setVisible(is_on)

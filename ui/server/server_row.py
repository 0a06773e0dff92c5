"""The line of the local server at the foot of the sidebar. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtGui import QContextMenuEvent
from PySide6.QtWidgets import QFrame, QSizePolicy

from ui.kit.buttons import IconButton, ToggleSwitch, with_keys
from ui.kit.commands import Command, context_menu
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import ElidedButton
from ui.kit.layouts import row
from ui.kit.menus import copy_text
from ui.server.local_server import LocalServerState
from ui.server.requests import usage_texts
from ui.server.server_switch import WINDOW_TITLE, pill_of

_COLORS = {"off": "faint", "on": "done", "failed": "fault"}


class ServerRow(QFrame):
    """Shows the state of the server, who uses it and where it is, beside its switch."""

    requested = Signal()
    settings_requested = Signal()

    def __init__(self, server: LocalServerState) -> None:
        super().__init__()
        self.setObjectName("server_row")
        self._server = server
        self.state = ElidedButton()
        self.state.setProperty("kind", "row")
        self.state.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.state.clicked.connect(self.requested)
        self.toggle = ToggleSwitch("Start Local Server")
        self.toggle.clicked.connect(server.switch.turn)
        self.settings = IconButton("gear", "Settings", keys="Ctrl+,")
        self.settings.clicked.connect(self.settings_requested)
        parts = ((self.state, 1), self.toggle, self.settings)
        line = row(*parts, spacing=4, margins=(8, 0, 6, 0), on=self)
        line.addStrut(32)
        log = server.log
        for changed in (server.switch.changed, server.preferences.changed, log.taken, log.replaced):
            changed.connect(self._refresh)
        self._refresh()

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        switch = self._server.switch
        is_on = switch.stage == "on"
        commands = [
            Command(self.toggle.toolTip(), self.toggle.click),
            Command("Copy Address", lambda: copy_text(switch.url), enabled=lambda: is_on),
            None,
            Command(WINDOW_TITLE, self.requested.emit),
        ]
        context_menu(self, WINDOW_TITLE, commands).popup(event.globalPos())

    def _refresh(self) -> None:
        server = self._server.switch
        usage, sentence = usage_texts(self._server.log.open)
        text = {
            "off": "Server off",
            "starting": "Server starting…",
            "on": usage or server.url.removeprefix("http://"),
            "stopping": "Server stopping…",
            "failed": pill_of(server)[0],  # the whole reason does not fit
        }[server.stage]
        detail = server.message or text
        if server.stage == "on":
            parts = (sentence and f"{sentence}.", server.url, self._server.reach_text)
            detail = "\n".join(filter(None, parts))
        self.state.setText(text)
        color = "match" if usage and server.stage == "on" else _COLORS.get(server.stage, "limit")
        self.state.setIcon(themed_icon("mark", color))
        self.state.setAccessibleName(f"Local server: {server.message or sentence or text}")
        self.state.setToolTip(f"{detail}\n{with_keys(f'Show {WINDOW_TITLE}', 'Ctrl+Shift+R')}")
        verb = f"{'Stop' if server.is_requested else 'Start'} Local Server"
        self.toggle.setChecked(server.is_requested)
        self.toggle.setToolTip(verb)
        self.toggle.setAccessibleName(verb)

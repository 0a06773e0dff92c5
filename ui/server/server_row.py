"""The line of the local server at the foot of the sidebar. Main thread."""

from PySide6.QtWidgets import QFrame, QMenu, QSizePolicy

from ui.kit.buttons import IconButton
from ui.kit.commands import Command, fill_menu
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import ElidedButton
from ui.kit.layouts import row
from ui.kit.menus import copy_text
from ui.server.local_server import LocalServerState
from ui.server.requests import usage_text
from ui.server.server_switch import WINDOW_TITLE, pill_of

_COLORS = {"off": "faint", "on": "done", "failed": "fault"}


class ServerRow(QFrame):
    """Shows the state of the server, who uses it and where it is; a click offers its switch."""

    def __init__(self, server: LocalServerState) -> None:
        super().__init__()
        self.setObjectName("server_row")
        self._server = server
        switch = server.switch
        self.state = ElidedButton()
        self.state.setProperty("kind", "row")
        self.state.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.details = IconButton("gear", WINDOW_TITLE, size=16, keys="Ctrl+Shift+R")
        menu = QMenu(self.state)
        self.state.setMenu(menu)
        fill_menu(
            menu,
            [
                Command(
                    "Start Local Server",
                    lambda: switch.turn(not switch.is_requested),
                    title=lambda: f"{'Stop' if switch.is_requested else 'Start'} Local Server",
                ),
                Command(
                    "Copy Address",
                    lambda: copy_text(switch.url),
                    enabled=lambda: switch.stage == "on",
                ),
            ],
        )
        line = row((self.state, 1), self.details, spacing=4, margins=(8, 0, 8, 0), on=self)
        line.addStrut(28)
        log = server.log
        for changed in (switch.changed, server.preferences.changed, log.taken, log.cleared):
            changed.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        server = self._server.switch
        on = usage_text(self._server.log.open) or server.url.removeprefix("http://")
        text = {
            "off": "Server off",
            "starting": "Server starting…",
            "on": on,
            "stopping": "Server stopping…",
            "failed": pill_of(server)[0],  # the whole reason does not fit
        }[server.stage]
        detail = server.message or text
        if server.stage == "on":
            detail = f"{server.url}\n{self._server.reach_text}"
        self.state.setText(text)
        self.state.setIcon(themed_icon("mark", _COLORS.get(server.stage, "limit")))
        self.state.setAccessibleName(f"Local server: {server.message or text}")
        self.state.setToolTip(detail)

"""The Server menu: its switch, its window, and the lines for agents. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QMenu

from ui.kit.system.menus import add_entry
from ui.server.server_panel import AgentMenu
from ui.server.server_switch import ServerSwitch


class ServerMenu(QObject):
    """Fills the menu and keeps it up to date."""

    def __init__(
        self,
        menu: QMenu,
        switch: ServerSwitch,
        show_server: Callable[[], object],
        agents: AgentMenu,
    ) -> None:
        super().__init__(menu)
        self._switch = switch
        self.turn = add_entry(menu, "&Local Server On", self._turn, is_checked=False)
        add_entry(menu, "&Server and Requests…", show_server, "Ctrl+Shift+R", works_everywhere=True)
        menu.addSeparator()
        agents.fill(menu.addMenu("&Copy Lines For"))
        switch.changed.connect(self._refresh)
        self._refresh()

    def _turn(self) -> None:
        self._switch.turn(self.turn.isChecked())

    def _refresh(self) -> None:
        self.turn.setChecked(self._switch.is_wanted)

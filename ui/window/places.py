"""Where the keyboard leads: from one conversation to another, and from one pane to the next.

Main thread.
"""

import sys
from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from ui.chat.chat_panel import ChatPanel
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar import Sidebar
from ui.chat.stop_panel import StopPanel
from ui.kit.menus import add_entry, literal
from ui.records.conversations import Conversation

_NUMBERED = 9
# On a Mac, Qt's "Ctrl" is the Command key, and Command-Tab belongs to the system.
_CONTROL = "Meta" if sys.platform == "darwin" else "Ctrl"


class Places(QObject):
    """Goes to other conversations in the order of the list, and through the panes of the window."""

    def __init__(
        self,
        workspace: Workspace,
        sidebar: Sidebar,
        chat: ChatPanel,
        stop_panel: StopPanel,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._sidebar = sidebar
        self._chat = chat
        self._stop_panel = stop_panel
        self._numbered: list[QAction] = []

    def fill(self, menu: QMenu) -> None:
        """Add the entries that go to a conversation or a pane."""
        add_entry(menu, "Next Conversati&on", lambda: self.step_conversation(1), f"{_CONTROL}+Tab")
        add_entry(
            menu,
            "Pre&vious Conversation",
            lambda: self.step_conversation(-1),
            f"{_CONTROL}+Shift+Tab",
        )
        numbered = menu.addMenu("&Go to Conversation")
        for number in range(1, _NUMBERED + 1):
            go = partial(self.open_numbered, number)
            self._numbered.append(add_entry(numbered, "", go, f"Ctrl+{number}"))
        numbered.aboutToShow.connect(self._name_numbered)
        numbered.aboutToHide.connect(self._forget_names)
        self._forget_names()
        menu.addSeparator()
        add_entry(menu, "Next Pan&e", lambda: self.step_pane(1), "F6")
        add_entry(menu, "Previo&us Pane", lambda: self.step_pane(-1), "Shift+F6")

    def step_conversation(self, step: int) -> None:
        """Open the next (1) or previous (-1) conversation of the list; after the last, the first.

        Args:
            step: How far to go.
        """
        listed = self._listed()
        selected = self._workspace.selected
        if not listed:
            return
        before = -1 if step > 0 else 0
        place = (listed.index(selected) if selected in listed else before) + step
        self._workspace.open(listed[place % len(listed)])

    def open_numbered(self, number: int) -> None:
        """Open one of the first conversations of the list; the first one is number 1."""
        listed = self._listed()
        if number <= len(listed):
            self._workspace.open(listed[number - 1])

    def step_pane(self, step: int) -> None:
        """Move the keyboard to the next (1) or previous (-1) pane that is shown."""
        panes = list(self._panes())
        focused = QApplication.focusWidget()
        inside = (
            number
            for number, (pane, _) in enumerate(panes)
            if focused is not None and (pane is focused or pane.isAncestorOf(focused))
        )
        place = next(inside, None)
        place = (-1 if step > 0 else 0) if place is None else place
        _, enter = panes[(place + step) % len(panes)]
        enter()

    def _panes(self) -> list[tuple[QWidget, Callable[[], object]]]:
        """Return the panes that are shown, from left to right, each with how it is entered."""
        sidebar, chat, panel = self._sidebar, self._chat, self._stop_panel
        reason = Qt.FocusReason.OtherFocusReason
        listed = sidebar.list if sidebar.list.isVisible() else sidebar.results.list
        panes: list[tuple[QWidget, Callable[[], object]]] = [
            (sidebar, partial(listed.setFocus, reason)),
            (chat.messages, chat.focus_messages),
            (chat.composer, chat.focus_composer),
            (panel, panel.show_list),
        ]
        return [pane for pane in panes if pane[0].isVisible()]

    def _listed(self) -> list[Conversation]:
        rows = self._sidebar.rows
        listed = (rows.at(place) for place in range(rows.rowCount()))
        return [row for row in listed if isinstance(row, Conversation)]

    def _name_numbered(self) -> None:
        listed = self._listed()
        for place, entry in enumerate(self._numbered):
            entry.setVisible(place < len(listed))
            if place < len(listed):
                entry.setText(literal(listed[place].short_title))

    def _forget_names(self) -> None:
        """Show all entries again: the key of a hidden one would not work."""
        for number, entry in enumerate(self._numbered, 1):
            entry.setText(f"Conversation {number}")
            entry.setVisible(True)

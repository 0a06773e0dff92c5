"""Moves the keyboard from one conversation to another, and from one pane to the next."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QDialog, QWidget

from ui.kit.windows import bring_forward
from ui.records.conversations import Conversation
from ui.window.window_parts import WindowParts


class Navigation:
    """Goes to other conversations in the order of the list, and through the panes of the window."""

    def __init__(self, window: WindowParts) -> None:
        self._window = window
        self._workspace = window.workspace

    def listed(self) -> list[Conversation]:
        rows = self._window.sidebar.rows
        listed = (rows.at(row) for row in range(rows.rowCount()))
        return [row for row in listed if isinstance(row, Conversation)]

    def step_conversation(self, step: int) -> None:
        """Open the next (1) or previous (-1) conversation; after the last comes the first."""
        listed, selected = self.listed(), self._workspace.selected
        if listed:
            before = -1 if step > 0 else 0
            row = (listed.index(selected) if selected in listed else before) + step
            self._workspace.open(listed[row % len(listed)])

    def open_numbered(self, number: int) -> None:
        """Open one of the first conversations of the list; the first one is number 1."""
        listed = self.listed()
        if number <= len(listed):
            self._workspace.open(listed[number - 1])

    def is_selected(self, number: int) -> bool:
        return self._workspace.selected in self.listed()[number - 1 : number]

    def display_name(self, number: int) -> str:
        listed = self.listed()
        return listed[number - 1].short_title if number <= len(listed) else ""

    def step_pane(self, step: int) -> None:
        """Move the keyboard to the next (1) or previous (-1) pane that is shown."""
        panes, focused = self._panes(), QApplication.focusWidget()
        inside = (
            number
            for number, (pane, _) in enumerate(panes)
            if focused is not None and (pane is focused or pane.isAncestorOf(focused))
        )
        index = next(inside, -1 if step > 0 else 0)
        _, enter = panes[(index + step) % len(panes)]
        enter()

    def _panes(self) -> list[tuple[QWidget, Callable[[], object]]]:
        """Return the panes that are shown, from left to right, each with how it is entered."""
        window = self._window
        sidebar, chat, pane = window.sidebar, window.chat, window.pane
        reason = Qt.FocusReason.OtherFocusReason
        conversations = sidebar.list if sidebar.list.isVisible() else sidebar.results.list
        panes: list[tuple[QWidget, Callable[[], object]]] = [
            (sidebar, partial(conversations.setFocus, reason)),
            (chat.messages_pane, chat.focus_messages),
            (chat.composer, chat.focus_composer),
            (pane, pane.enter),
        ]
        return [(part, enter) for part, enter in panes if part.isVisible()]


def open_windows() -> list[QWidget]:
    """Return the program's windows that are open, minimized ones included, by their titles."""
    windows = [
        widget
        for widget in QApplication.topLevelWidgets()
        if widget.isVisible()
        and widget.windowType() == Qt.WindowType.Window
        and not isinstance(widget, QDialog)
        and widget.windowTitle()
    ]
    return sorted(windows, key=lambda widget: (widget.parent() is not None, widget.windowTitle()))


def front_window() -> QWidget | None:
    """Return the window that has the focus; None if another program has it."""
    active = QApplication.activeWindow()
    windows = open_windows()
    while active is not None and active not in windows:
        active = active.parentWidget()
    return active


def minimize_front() -> None:
    """Minimize the window that has the focus."""
    if (window := front_window()) is not None:
        window.showMinimized()


def zoom_front() -> None:
    """Maximize the window that has the focus, or restore its size."""
    if (window := front_window()) is not None:
        window.setWindowState(window.windowState() ^ Qt.WindowState.WindowMaximized)


def bring_all_to_front() -> None:
    """Raise all windows, last the focused one."""
    front = front_window()
    for window in open_windows():
        if not window.isMinimized():
            window.raise_()
    if front is not None:
        bring_forward(front)

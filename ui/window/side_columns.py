"""Hides side columns when the chat between them would become too narrow to read.

Main thread. A column that a person opened is wanted until that person closes it. It is shown while
there is room for it beside a readable chat; the column that was opened last comes first. If a
person opens a column for which there is no room, the window grows as far as the screen allows. If
that is not enough, the chat becomes narrower, until the size of the window changes.
"""

from PySide6.QtCore import QEvent, QObject, Qt, QTimer
from PySide6.QtGui import QFontMetrics
from PySide6.QtWidgets import QDockWidget, QMainWindow, QWidget

_READABLE_CHARACTERS = 45
_SAMPLE = "The quick brown fox jumps over the lazy dog and goes on to the next line. "
_CHAT_MARGINS_PX = 2 * 26
_LEAST_PX = 410
_NARROWEST_PX = 240
_LINE_PX = 1  # between two columns


def readable_px(metrics: QFontMetrics) -> int:
    """Return the least width at which a chat reads well: 45 characters a line and its margins."""
    character = metrics.horizontalAdvance(_SAMPLE) / len(_SAMPLE)
    return max(_LEAST_PX, round(character * _READABLE_CHARACTERS) + _CHAT_MARGINS_PX)


class SideColumns(QObject):
    """Shows as many of the wanted side columns as fit beside the chat."""

    def __init__(
        self, window: QMainWindow, sidebar: QWidget, chat: QWidget, panel: QDockWidget
    ) -> None:
        super().__init__(window)
        self._window, self._sidebar, self._chat, self._panel = window, sidebar, chat, panel
        # The side columns; the first of them gets room first.
        self._order: list[QWidget] = [panel, sidebar]
        self._wanted = {one for one in self._order if not one.isHidden()}
        self._asked_for: QWidget | None = None
        self._is_fitting = False
        self._is_due = False
        self._width_before_growing = 0
        for one in self._order:
            one.installEventFilter(self)
        panel.topLevelChanged.connect(self.fit_soon)

    def wants(self, column: QWidget) -> bool:
        """Return whether a column is shown as soon as there is room for it."""
        return column in self._wanted

    def eventFilter(  # noqa: N802 - Qt's name
        self, watched: QObject, event: QEvent
    ) -> bool:
        """Note which columns a person opens and closes."""
        if isinstance(watched, QWidget) and watched in self._order and not self._is_fitting:
            if event.type() == QEvent.Type.ShowToParent:
                self._wanted.add(watched)
                self._asked_for = watched if self._window.isVisible() else None
                self._width_before_growing = 0
                self._order.sort(key=lambda one: one is not watched)
                self.fit_soon()
            elif event.type() == QEvent.Type.HideToParent:
                self._wanted.discard(watched)
                self.fit_soon()
        return False

    def fit_width(self) -> None:
        """Fit the columns to another width; a column that was just opened loses its precedence."""
        if self._is_fitting:
            return
        # A window manager may undo the growth of a window; the opened column stays nevertheless.
        if self._window.width() != self._width_before_growing:
            self._asked_for = None
            self._width_before_growing = 0
        self.fit()

    def fit_soon(self) -> None:
        """Fit the columns once the present event has been handled."""
        if not self._is_due:
            self._is_due = True
            QTimer.singleShot(0, self, self.fit)

    def fit(self) -> None:
        """Show the columns that fit and hide the others."""
        self._is_due = False
        if self._is_fitting:
            return
        readable = readable_px(self._chat.fontMetrics())
        room = self._window.width() - readable
        shown: list[QWidget] = []
        for one in self._order:
            if one not in self._wanted:
                continue
            needed = self._needed_px(one)
            if needed <= room or one is self._asked_for:
                shown.append(one)
                room -= needed
        self._is_fitting = True
        if room < 0:
            room += self._grow(-room)
        self._chat.setMinimumWidth(max(_NARROWEST_PX, readable + min(0, room)))
        self._window.setMinimumWidth(readable)
        for one in self._order:
            if one.isHidden() == (one in shown):
                one.setVisible(one in shown)
        self._is_fitting = False

    def _grow(self, missing_px: int) -> int:
        """Widen the window on its screen; returns by how much."""
        window, states = self._window, Qt.WindowState.WindowMaximized
        states |= Qt.WindowState.WindowFullScreen
        width = window.width()
        if width == self._width_before_growing or window.windowState() & states:
            return 0  # already tried, or impossible
        screen = window.screen().availableGeometry()
        frame = window.frameGeometry()
        grown_px = min(missing_px, screen.width() - frame.width())
        if grown_px <= 0:
            return 0
        self._width_before_growing = width
        window.resize(width + grown_px, window.height())
        beyond_px = frame.right() + grown_px - screen.right()
        if beyond_px > 0:
            window.move(max(screen.left(), frame.left() - beyond_px), frame.top())
        return grown_px

    def _needed_px(self, column: QWidget) -> int:
        if column is self._panel and self._panel.isFloating():
            return 0
        return max(column.minimumSizeHint().width(), column.minimumWidth()) + _LINE_PX

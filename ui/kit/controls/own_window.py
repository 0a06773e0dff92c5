"""A window of its own beside the main one: look, keys, and files that are dropped on it.

Main thread.
"""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QDragEnterEvent, QDropEvent, QKeySequence, QShortcut
from PySide6.QtWidgets import QWidget

from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme


def bring_forward(window: QWidget) -> None:
    """Show a window in front of the others, with the keyboard; a minimized one opens again."""
    window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
    window.show()
    window.raise_()
    window.activateWindow()


class OwnWindow(QWidget):
    """A window that the system's shortcut closes; Tab follows the reading order.

    Args:
        theme: The look.
        title: The window's title.
        size: Its first width and height, in pixels; larger where the text is.
        parent: The window that it belongs to.
        opens: Called with the first file that is dropped on it; None takes no files.
    """

    def __init__(
        self,
        theme: Theme,
        title: str,
        size: tuple[int, int],
        parent: QWidget | None,
        opens: Callable[[Path], object] | None = None,
    ) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWindowTitle(title)
        self.setAcceptDrops(opens is not None)
        self._opens = opens
        theme.open_size(self, *size)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus in reading order."""
        return move_focus(self, is_next)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take files, if this window opens any."""
        if self._opens is not None and event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open the first file."""
        files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if self._opens is not None and files:
            self._opens(Path(files[0]))

"""The base of the windows beside the main one: size, shortcuts, and files dropped on it.

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
        size: Its initial width and height, in pixels; they grow with the text size.
        parent: The window that it belongs to.
        opens: Called with the first file that is dropped on it; None accepts no files.
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
        """Accept files, if this window opens any."""
        if self._opens is not None and event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Open the first file."""
        files = [url.toLocalFile() for url in event.mimeData().urls() if url.isLocalFile()]
        if self._opens is not None and files:
            self._opens(Path(files[0]))

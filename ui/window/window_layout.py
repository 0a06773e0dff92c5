"""Saves the main window's size, position and columns, and restores them. Main thread."""

from PySide6.QtCore import QByteArray
from PySide6.QtWidgets import QMainWindow, QSplitter, QWidget

from ui.window.side_columns import SideColumns

_SEPARATOR = b"\0fullstop\0"


class WindowLayout:
    """The layout of a window as bytes."""

    def __init__(
        self,
        window: QMainWindow,
        splitter: QSplitter,
        columns: SideColumns,
        sidebar: QWidget,
        panel: QWidget,
    ) -> None:
        self._window = window
        self._splitter = splitter
        self._columns = columns
        self._sidebar = sidebar
        self._panel = panel

    def save(self) -> bytes:
        """Return size, position and columns, for ``restore``."""
        window = self._window
        parts = (window.saveGeometry(), window.saveState(), self._splitter.saveState())
        columns = (("sidebar", self._sidebar), ("panel", self._panel))
        wanted = " ".join(name for name, column in columns if self._columns.wants(column))
        return _SEPARATOR.join([*(bytes(part.data()) for part in parts), wanted.encode()])

    def restore(self, layout: bytes) -> None:
        """Restore size, position and columns of an earlier window; ignores what does not fit."""
        parts = [QByteArray(part) for part in layout.split(_SEPARATOR)]
        if len(parts) == 4:
            self._window.restoreState(parts[1])
            self._splitter.restoreState(parts[2])
            wanted = bytes(parts[3].data()).split()
            self._sidebar.setVisible(b"sidebar" in wanted)
            # A panel without room is still wanted; earlier versions saved only its own state.
            self._panel.setVisible(b"panel" in wanted or not self._panel.isHidden())
            # This comes last, because only now can the window become as narrow as it was.
            self._window.restoreGeometry(parts[0])

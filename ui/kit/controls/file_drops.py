"""Takes files that are dropped on a widget, or anywhere within it. Main thread."""

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget


class FileDrops(QObject):
    """Watches one widget; what within it takes drops itself goes first.

    Signals:
        files_given: Files were dropped; carries their paths.
        hovering: Files are dragged over the widget, or no longer; carries which.
    """

    files_given = Signal(list)
    hovering = Signal(bool)

    def __init__(self, watched: QWidget) -> None:
        super().__init__(watched)
        watched.setAcceptDrops(True)
        watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Take drags of files; everything else is the widget's."""
        kind = event.type()
        if kind == QEvent.Type.DragLeave:
            self.hovering.emit(False)
            return False
        if not isinstance(event, QDropEvent):  # what a drag sends is of this kind, too
            return False
        paths = local_paths(event.mimeData())
        if not paths:
            return False
        event.acceptProposedAction()
        if kind == QEvent.Type.Drop:
            self.hovering.emit(False)
            self.files_given.emit(paths)
        elif kind == QEvent.Type.DragEnter:
            self.hovering.emit(True)
        return True


def local_paths(source: QMimeData) -> list[Path]:
    """Return the files of this computer that are dragged or on the clipboard."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]

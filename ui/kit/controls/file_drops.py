"""Accepts files that are dropped on a widget or anywhere inside it. Main thread."""

from pathlib import Path

from PySide6.QtCore import QEvent, QMimeData, QObject, Signal
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QWidget


class FileDrops(QObject):
    """Watches one widget; a child that accepts drops itself comes first.

    Signals:
        files_given: Files were dropped; carries their paths.
        hovering: A drag of files entered or left the widget; carries whether it is over it.
    """

    files_given = Signal(list)
    hovering = Signal(bool)

    def __init__(self, watched: QWidget) -> None:
        super().__init__(watched)
        watched.setAcceptDrops(True)
        watched.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Accept drags of files; leave all other events to the widget."""
        kind = event.type()
        if kind == QEvent.Type.DragLeave:
            self.hovering.emit(False)
            return False
        if not isinstance(event, QDropEvent):  # the events of a drag are of this kind, too
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
    """Return the local files among dragged or copied data."""
    return [Path(url.toLocalFile()) for url in source.urls() if url.isLocalFile()]

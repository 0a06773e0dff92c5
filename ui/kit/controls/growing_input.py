"""A text field that grows with its text and emits when it should be sent. Main thread."""

from PySide6.QtCore import QEvent, QMimeData, QSize, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
)
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QSizePolicy, QWidget

from ui.kit.controls.file_drops import local_paths

_MOST_LINES = 10


def never_sideways(field: QPlainTextEdit) -> None:
    """Prevent a field that wraps its lines from scrolling sideways.

    Qt rounds the width of a line without spaces up and lets the field scroll by that pixel.
    """
    field.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    bar = field.horizontalScrollBar()
    bar.rangeChanged.connect(lambda: bar.setMaximum(0))


class GrowingInput(QPlainTextEdit):
    """Enter sends, and Shift+Enter breaks the line; an input method keeps its own Enter.

    Signals:
        submitted: Enter was pressed on finished text.
        files_given: Files were dropped or pasted; carries their paths.
        picture_given: A picture was dropped or pasted that is not a file.
        edge_pressed: Up was pressed in the first line (-1), or Down in the last one (1).
        focus_changed: The field got or lost the focus; carries whether it has it.
    """

    submitted = Signal()
    edge_pressed = Signal(int)
    focus_changed = Signal(bool)
    files_given = Signal(list)
    picture_given = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_composing = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        never_sideways(self)
        self.document().setDocumentMargin(2)
        self.textChanged.connect(self._fit)
        self._fit()

    def setPlaceholderText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Show another placeholder; Qt does not repaint a visible one when it changes."""
        super().setPlaceholderText(text)
        self.viewport().update()

    def event(self, event: QEvent) -> bool:
        """Leave Undo to the menu while nothing that was typed can be undone."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.matches(QKeySequence.StandardKey.Undo)
            and not self.document().isUndoAvailable()
        ):
            event.ignore()
            return False
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Send on a plain Enter; leave all other keys to the field."""
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        modifiers = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if is_enter and modifiers == Qt.KeyboardModifier.NoModifier and not self._is_composing:
            self.submitted.emit()
            event.accept()
        elif modifiers == Qt.KeyboardModifier.NoModifier and (edge := self._edge_of(event.key())):
            event.accept()
            self.edge_pressed.emit(edge)
        else:
            super().keyPressEvent(event)

    def _edge_of(self, key: int) -> int:
        """Return the edge of the text that a key would cross: -1 the upper, 1 the lower, 0 none."""
        cursor = self.textCursor()
        if cursor.hasSelection() or self._is_composing:
            return 0
        block = cursor.block()
        line = block.layout().lineForTextPosition(cursor.positionInBlock()).lineNumber()
        if key == Qt.Key.Key_Up and not block.previous().isValid() and line <= 0:
            return -1
        is_last = line >= block.layout().lineCount() - 1
        if key == Qt.Key.Key_Down and not block.next().isValid() and is_last:
            return 1
        return 0

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Notice whether an input method is composing."""
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802 - Qt's name
        """Accept files as well as text, and pictures so that the owner can explain the refusal."""
        takes = bool(local_paths(source)) or source.hasImage()
        return takes or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Pass files on; insert everything else as plain text."""
        paths = local_paths(source)
        if paths:
            self.files_given.emit(paths)
        elif source.hasImage() and not source.hasText():
            self.picture_given.emit()
        else:
            super().insertFromMimeData(source)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Emit ``focus_changed``."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Emit ``focus_changed``."""
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Adapt the height, because the number of lines depends on the width."""
        super().resizeEvent(event)
        self._fit()

    def sizeHint(self) -> QSize:
        """Return one line's height."""
        return QSize(200, self._height(1))

    def minimumSizeHint(self) -> QSize:
        """Return one line's height."""
        return QSize(80, self._height(1))

    def _fit(self) -> None:
        lines = max(1, round(self.document().size().height()))
        self.setFixedHeight(self._height(min(lines, _MOST_LINES)))
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if lines > _MOST_LINES else policy.ScrollBarAlwaysOff
        )

    def _height(self, lines: int) -> int:
        return lines * self.fontMetrics().lineSpacing() + 8

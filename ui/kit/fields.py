"""Fields to type into: growing text, numbers, searches, and files that are dropped. Main thread."""

import sys
from math import ceil
from pathlib import Path

from PySide6.QtCore import (
    QEvent,
    QLocale,
    QMimeData,
    QObject,
    QPoint,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QContextMenuEvent,
    QDropEvent,
    QFocusEvent,
    QImage,
    QInputMethodEvent,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QTextBlockFormat,
    QTextCursor,
    QWheelEvent,
)
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFrame,
    QLineEdit,
    QPlainTextEdit,
    QSizePolicy,
    QSlider,
    QTextEdit,
    QWidget,
)

from ui.kit.commands import Menu
from ui.kit.icon_engine import themed_icon
from ui.kit.theme import current_theme, restyle
from ui.kit.windows import round_corners

_HARMLESS = (
    Qt.KeyboardModifier.ShiftModifier
    | Qt.KeyboardModifier.KeypadModifier
    | Qt.KeyboardModifier.GroupSwitchModifier
)
# On a Mac, Option types letters; elsewhere Alt opens menus.
_WRITES = _HARMLESS | Qt.KeyboardModifier.AltModifier if sys.platform == "darwin" else _HARMLESS

_MENU_KEYS = {
    "edit-undo": QKeySequence.StandardKey.Undo,
    "edit-redo": QKeySequence.StandardKey.Redo,
    "edit-cut": QKeySequence.StandardKey.Cut,
    "edit-copy": QKeySequence.StandardKey.Copy,
    "edit-paste": QKeySequence.StandardKey.Paste,
    "select-all": QKeySequence.StandardKey.SelectAll,
}
_LINE_PERCENT = 122
_MARGIN_PX = 2
# A longer text that is pasted would fill the field with what no user reads there.
MAX_PASTED_CHARS = 8_000

_ROW_STEPS = {
    Qt.Key.Key_Down: 1,
    Qt.Key.Key_Up: -1,
    Qt.Key.Key_PageDown: 8,
    Qt.Key.Key_PageUp: -8,
}


def is_typed_text(event: QKeyEvent) -> bool:
    """Return whether a key types something visible; a space does not count: it presses buttons."""
    text = event.text()
    is_plain = not event.modifiers() & ~_WRITES
    return is_plain and bool(text) and text.isprintable() and not text.isspace()


class FileDrops(QObject):
    """Watches one widget; a child that accepts drops itself comes first."""

    files_given = Signal(list)  # paths
    hovering = Signal(bool)  # whether it is over the widget

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


def disable_horizontal_scrolling(field: QPlainTextEdit | QTextEdit) -> None:
    """Prevent a field that wraps its lines from scrolling sideways.

    Qt rounds the width of a line without spaces up and lets the field scroll by that pixel.
    """
    field.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
    bar = field.horizontalScrollBar()
    bar.rangeChanged.connect(lambda: bar.setMaximum(0))


class TextArea(QPlainTextEdit):
    """A field of several lines; Tab leaves it."""

    def __init__(
        self, accessible_name: str, placeholder: str, height_px: int, text: str = ""
    ) -> None:
        super().__init__()
        self.setAccessibleName(accessible_name)
        self.setPlaceholderText(placeholder)
        self.setTabChangesFocus(True)
        disable_horizontal_scrolling(self)
        self.setFixedHeight(height_px)
        self.show_text(text)

    def show_text(self, text: str) -> None:
        self._given = text
        self.setPlainText(text)
        self._shown = self.toPlainText()

    @property
    def text(self) -> str:
        """The text; exactly as it was given, of which Qt changes some characters, until edited."""
        typed = self.toPlainText()
        return self._given if typed == self._shown else typed


class GrowingInput(QTextEdit):
    """Enter sends, and Shift+Enter breaks the line; an input method keeps its own Enter."""

    submitted = Signal()
    edge_pressed = Signal(int)  # -1: Up in the first line, 1: Down in the last one
    focus_changed = Signal(bool)  # has the focus
    files_given = Signal(list)  # paths
    picture_given = Signal(QImage)
    text_given = Signal(str)  # a text too long for the field

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_composing = False
        self._max_px: int | None = None
        self.setAcceptRichText(False)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setTabChangesFocus(True)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        disable_horizontal_scrolling(self)
        self.document().setDocumentMargin(_MARGIN_PX)
        self._space_lines()
        self.textChanged.connect(self._fit)
        # Queued: Qt scrolls to the cursor after the signal.
        self.cursorPositionChanged.connect(
            self._begin_with_line, Qt.ConnectionType.QueuedConnection
        )
        current_theme().changed.connect(self._zoom)
        self._zoom()

    def _zoom(self) -> None:
        font = current_theme().message_font()
        self.setFont(font)
        self.viewport().setFont(font)  # draws the placeholder; the style sheet has fixed its font
        self._fit()

    def setPlainText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Replace the text, whose lines keep their height."""
        super().setPlainText(text)
        self._space_lines()

    def _space_lines(self) -> None:
        """Space the lines as in messages; lines that are typed later inherit it."""
        form, cursor = QTextBlockFormat(), QTextCursor(self.document())
        kind = QTextBlockFormat.LineHeightTypes.ProportionalHeight
        form.setLineHeight(_LINE_PERCENT, kind.value)
        cursor.select(cursor.SelectionType.Document)
        self.setUndoRedoEnabled(False)  # it is no step to undo
        cursor.mergeBlockFormat(form)
        self.setUndoRedoEnabled(True)

    def setPlaceholderText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Show another placeholder; Qt does not repaint a visible one when it changes."""
        super().setPlaceholderText(text)
        self.viewport().update()

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

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Show Qt's menu with the keys; Qt leaves out shortcuts of the menu bar."""
        standard, menu = self.createStandardContextMenu(event.pos()), Menu("", self)
        menu.addActions(standard.actions())
        standard.setParent(menu, standard.windowFlags())  # it owns the actions
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        round_corners(menu)
        for action in menu.actions():
            if (key := _MENU_KEYS.get(action.objectName())) is not None:
                keys = QKeySequence(key).toString(QKeySequence.SequenceFormat.NativeText)
                title = action.text().partition("\t")[0].replace("&", "")
                action.setText(f"{title}\t{keys}")
        menu.popup(event.globalPos())

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Notice whether an input method is composing."""
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:  # noqa: N802 - Qt's name
        """Accept files and pictures as well as text."""
        takes = bool(local_paths(source)) or source.hasImage()
        return takes or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Pass files, pictures and long texts on; insert everything else as plain text."""
        paths = local_paths(source)
        if paths:
            self.files_given.emit(paths)
        elif source.hasImage() and not source.hasText():
            self.picture_given.emit(QImage(source.imageData()))
        elif source.hasText() and len(source.text()) > MAX_PASTED_CHARS:
            self.text_given.emit(source.text())
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
        return QSize(200, self._height(1))

    def minimumSizeHint(self) -> QSize:
        return QSize(80, self._height(1))

    def limit_height(self, max_px: int) -> None:
        """Grow no higher than this, but to two lines in any case."""
        if max_px != self._max_px:
            self._max_px = max_px
            self._fit()

    def _fit(self) -> None:
        text_px = self.document().size().height() - 2 * _MARGIN_PX
        lines, maximum = max(1, round(text_px / self._line_px)), 10
        if self._max_px is not None:
            maximum = max(2, min(maximum, int(self._max_px / self._line_px)))
        self.setFixedHeight(self._height(min(lines, maximum)))
        policy = Qt.ScrollBarPolicy
        self.setVerticalScrollBarPolicy(
            policy.ScrollBarAsNeeded if lines > maximum else policy.ScrollBarAlwaysOff
        )
        if lines <= maximum:
            self.verticalScrollBar().setMaximum(0)  # Qt's is from before the field grew

    def _begin_with_line(self) -> None:
        """Scroll to the nearest line, so that none is cut at the top."""
        nearest = self.cursorForPosition(QPoint(0, round(self._line_px / 2)))
        bar, top_px = self.verticalScrollBar(), self.cursorRect(nearest).top()
        bar.setValue(bar.value() + top_px - _MARGIN_PX)

    @property
    def _line_px(self) -> float:
        return self.fontMetrics().lineSpacing() * _LINE_PERCENT / 100

    def _height(self, lines: int) -> int:
        return ceil(lines * self._line_px) + 2 * _MARGIN_PX + 2


class NumberField(QDoubleSpinBox):
    """Shows a number with all its digits, and never changes it unless it was edited.

    One step below the least number, the value is unset if there is a text for that.
    """

    number_edited = Signal(object)  # number or None

    def __init__(
        self,
        accessible_name: str,
        unset: str,
        minimum: float,
        maximum: float,
        step: float,
        *,
        is_whole: bool = False,
    ) -> None:
        super().__init__()
        self.unset_text = unset
        self._is_whole = is_whole
        self._minimum, self._maximum = minimum, maximum
        self._number: float | int | None = None
        self.setAccessibleName(accessible_name)
        self.setToolTip(accessible_name)
        # More decimals than anybody types; a number with fewer is shown as it is.
        self.setDecimals(0 if is_whole else 12)
        below = 1 if is_whole else step
        self.setRange(minimum - below if unset else minimum, maximum)
        self.setSingleStep(step)
        self.setSpecialValueText(unset)
        self.setKeyboardTracking(False)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        # A styled spin box leaves no room before its text.
        self.lineEdit().setTextMargins(8, 0, 8, 0)
        self.setValue(self.minimum())
        self.valueChanged.connect(self._edit)

    @property
    def number(self) -> float | int | None:
        """The number, exactly as it was shown or typed; None if it is unset."""
        return self._number

    def show_number(self, number: float | int | None) -> None:
        """Show a number without emitting ``number_edited``."""
        with QSignalBlocker(self):
            self.setMaximum(self._maximum if number is None else max(self._maximum, number))
            self.setValue(self.minimum() if number is None else number)
        self._number = number

    def textFromValue(self, value: float) -> str:  # noqa: N802 - Qt's name
        """Return a number without trailing zeros."""
        locale, options = self.locale(), QLocale.NumberOption
        is_grouped = self.isGroupSeparatorShown()
        locale.setNumberOptions(
            options.DefaultNumberOptions if is_grouped else options.OmitGroupSeparator
        )
        shortest = QLocale.FloatingPointPrecisionOption.FloatingPointShortest
        return locale.toString(value, "f", shortest.value)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()  # as in a slider

    def _edit(self, value: float) -> None:
        number: float | int | None = (
            round(value) if self._is_whole else round(value, self.decimals())
        )
        self._number = None if value < self._minimum else number
        self.number_edited.emit(self._number)


class Slider(QSlider):
    """Slides a number that a field beside it shows; the keyboard changes it in the field."""

    moved = Signal(float)  # place, from 0 to 1

    def __init__(self, accessible_name: str) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self.setAccessibleName(accessible_name)
        self.setRange(0, 200)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.valueChanged.connect(lambda value: self.moved.emit(value / self.maximum()))

    def show_share(self, share: float, *, is_set: bool) -> None:
        """Show a place from 0 to 1 without emitting ``moved``."""
        with QSignalBlocker(self):
            self.setValue(round(min(1.0, max(0.0, share)) * self.maximum()))
        restyle(self, "is_set", is_set)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the parent: a number must not change by scrolling past it."""
        event.ignore()


class SearchLineEdit(QLineEdit):
    """A line edit with a magnifier and a button that clears the text."""

    def __init__(self, accessible_name: str, clear_label: str, *, has_icon: bool = True) -> None:
        super().__init__()
        self.setAccessibleName(accessible_name)
        positions = QLineEdit.ActionPosition
        if has_icon:
            magnifier = self.addAction(themed_icon("search", "faint"), positions.LeadingPosition)
            magnifier.setText("Search")
            magnifier.triggered.connect(self.selectAll)
        self.clear_action = self.addAction(themed_icon("close"), positions.TrailingPosition)
        self.clear_action.setText(clear_label)
        self.clear_action.setVisible(False)
        self.clear_action.triggered.connect(self.clear)
        self.textChanged.connect(lambda text: self.clear_action.setVisible(bool(text)))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Clear the text with Escape, which closes the window once there is none."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            event.accept()
        else:
            super().keyPressEvent(event)


class ListSearchField(SearchLineEdit):
    """A search field whose arrow keys, Return and Escape act on the list below it."""

    step_requested = Signal(int)  # rows to go down
    chosen = Signal()
    left = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key = Qt.Key(event.key())
        if key in _ROW_STEPS:
            self.step_requested.emit(_ROW_STEPS[key])
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.chosen.emit()
        elif key == Qt.Key.Key_Escape:
            self.left.emit()
        else:
            super().keyPressEvent(event)

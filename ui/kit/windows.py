"""Windows beside the main one, cards that pop up, and the order of Tab. Main thread."""

from collections.abc import Iterator
from functools import cmp_to_key

from PySide6.QtCore import QEvent, QObject, QPoint, QRectF, QSize, Qt
from PySide6.QtGui import (
    QGuiApplication,
    QKeySequence,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QRegion,
    QShortcut,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFrame,
    QLineEdit,
    QPlainTextEdit,
    QScrollArea,
    QStyle,
    QStyleOption,
    QTextEdit,
    QWidget,
)

from ui.kit.tasks import finish_tasks

# Qt's own order is the order in which widgets were created: widgets that a conversation adds
# later would come after all others. Here the order is computed when a key is pressed.

# The widgets inside these belong to them, not to the window: also the buttons and bars in a text,
# whose caret and menu offer the same.
_WHOLE = (
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
)


def move_focus(top: QWidget, is_next: bool) -> bool:
    """Move the focus to the next or previous control of a window; return whether there was one."""
    widgets = list(in_reading_order(top))
    if not widgets:
        return False
    step = 1 if is_next else -1
    focused = QApplication.focusWidget()
    position = _index_of(focused, widgets)
    if position is None:
        position = -1 if is_next else len(widgets)
    reason = Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
    reached = widgets[(position + step) % len(widgets)]
    reached.setFocus(reason)
    for area in top.findChildren(QScrollArea):
        # A subclass scrolls by itself.
        if type(area) is QScrollArea and area.isAncestorOf(reached):
            area.ensureWidgetVisible(reached)
    return True


def _index_of(focused: QWidget | None, widgets: list[QWidget]) -> int | None:
    """Return the index of the focused widget, also if it is a part of a control."""
    while focused is not None:
        if focused in widgets:
            return widgets.index(focused)
        focused = focused.parentWidget()
    return None


def in_reading_order(widget: QWidget) -> Iterator[QWidget]:
    """Yield the widgets that Tab can reach in a widget, line by line."""
    if _takes_tab(widget):
        yield widget
    if not isinstance(widget, _WHOLE):
        children = [
            child
            for child in widget.children()
            if isinstance(child, QWidget) and not child.isWindow() and child.isVisible()
        ]
        for child in sorted(children, key=cmp_to_key(_compare_positions)):
            yield from in_reading_order(child)


def _takes_tab(widget: QWidget) -> bool:
    wants_all = QGuiApplication.styleHints().tabFocusBehavior() == (
        Qt.TabFocusBehavior.TabFocusAllControls
    )
    needed = Qt.FocusPolicy.TabFocus if wants_all else Qt.FocusPolicy.StrongFocus
    # The proxy is asked for last: asked for that of a viewport, PySide makes the area around it
    # its child, and calls widgets inside deleted once no user holds the viewport.
    return (
        not widget.isWindow()
        and widget.isEnabled()
        and widget.focusPolicy() & needed == needed
        and widget.focusProxy() is None
    )


def _compare_positions(first: QWidget, second: QWidget) -> int:
    """Compare from top to bottom; widgets side by side are one line."""
    area, other = first.geometry(), second.geometry()
    shared = min(area.bottom(), other.bottom()) - max(area.top(), other.top())
    if shared > min(area.height(), other.height()) / 2:
        return area.left() - other.left()
    return area.top() - other.top()


def lay_out_hidden(top: QWidget) -> None:
    """Give a hidden widget and all inside it their fonts, so that it knows the room it needs."""
    widgets = [top, *top.findChildren(QWidget)]
    for widget in widgets:
        widget.ensurePolished()
    for widget in reversed(widgets):  # children first
        widget.updateGeometry()
        layout = widget.layout()
        if layout is not None:
            layout.invalidate()
            layout.activate()


class _CornerMask(QObject):
    """Masks the corners of a popup that the style sheet rounds."""

    def __init__(self, popup: QWidget, radius_px: int) -> None:
        super().__init__(popup)
        self._radius_px = radius_px

    def eventFilter(self, popup: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        # When it is shown, too: the list of a combo box clears its mask on each resize.
        has_size = event.type() in (QEvent.Type.Resize, QEvent.Type.Show)
        if has_size and isinstance(popup, QWidget):
            path = QPainterPath()
            path.addRoundedRect(QRectF(popup.rect()), self._radius_px, self._radius_px)
            popup.setMask(QRegion(path.toFillPolygon().toPolygon()))
        return False


def round_corners(popup: QWidget, radius_px: int = 8) -> None:
    """Let nothing be seen outside the round corners that the style sheet gives a popup."""
    # X11 may have no compositor: translucent corners would be black there.
    if QGuiApplication.platformName() != "xcb":
        popup.setAttribute(Qt.WidgetAttribute.WA_TranslucentBackground)
    elif not popup.findChild(_CornerMask, options=Qt.FindChildOption.FindDirectChildrenOnly):
        popup.installEventFilter(_CornerMask(popup, radius_px))


class Popover(QFrame):
    """A card that pops up; Tab follows the reading order."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Popup | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("popover")
        round_corners(self, 12)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the style sheet's card, which Qt leaves out where the background is translucent."""
        option = QStyleOption()
        option.initFrom(self)
        painter = QPainter(self)
        self.style().drawPrimitive(QStyle.PrimitiveElement.PE_Widget, option, painter, self)
        painter.end()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        return move_focus(self, is_next)


def fit_to_screen(window: QWidget, width: int, height: int) -> None:
    """Give a window its initial size, reduced to what its screen offers."""
    # The desktop adds a title bar to the height.
    available = window.screen().availableSize() - QSize(4, 32)
    window.resize(QSize(width, height).boundedTo(available))


def bring_forward(window: QWidget) -> None:
    """Show a window in front of the others, with the keyboard; a minimized one opens again."""
    window.setWindowState(window.windowState() & ~Qt.WindowState.WindowMinimized)
    window.show()
    window.raise_()
    window.activateWindow()


class OwnWindow(QWidget):
    """A window that the system's shortcut closes; Tab follows the reading order."""

    def __init__(self, title: str, size: tuple[int, int], parent: QWidget | None) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setObjectName("canvas")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self.setWindowTitle(title)
        fit_to_screen(self, *size)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)

    async def finish(self) -> None:
        await finish_tasks(self)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        return move_focus(self, is_next)


class OwnDialog(QDialog):
    """A dialog that is deleted when it is closed, also by the system's shortcut."""

    def __init__(self, title: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle(title)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        QShortcut(QKeySequence.StandardKey.Close, self, self.close)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        return move_focus(self, is_next)


def pop_up_above(card: QWidget, anchor: QWidget) -> None:
    """Show a card above a widget, as large as its content."""
    lay_out_hidden(card)
    # Labels that wrap know their height only once the card is shown.
    for _ in range(2):
        card.resize(card.sizeHint())
        corner = anchor.mapToGlobal(QPoint(0, -card.height() - 8))
        move_within_screen(card, corner, card.size(), anchor)
        card.show()


def move_within_screen(card: QWidget, corner: QPoint, size: QSize, anchor: QWidget) -> None:
    """Move a card to a place, or as near to it as the screen allows."""
    area = anchor.screen().availableGeometry()
    x = max(area.left(), min(corner.x(), area.right() - size.width()))
    y = max(area.top(), min(corner.y(), area.bottom() - size.height()))
    card.move(x, y)

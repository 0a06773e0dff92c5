"""Parts of a text that are wider than it scroll in their place. Main thread."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import QScrollBar, QTextEdit, QWidget

from ui.kit.markdown.style import Decoration, MarkdownStyle
from ui.kit.motion import edge_fade
from ui.kit.theme import current_theme

_BAR_PX = 10
UNDER_PX = 2 + _BAR_PX  # the bar's height below a table or formula
_FADE_PX = 24  # at the edges that cut a part

# It moves the lines of a card in their layout, and a table by its margin, so that selection and
# mouse work on each character where it is drawn.


class PartBar(QScrollBar):
    """A scroll bar that is drawn while its part is pointed at, has the focus or moves.

    With high contrast it is always drawn.
    """

    def __init__(self, kind: str, parent: QWidget) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)
        self._is_pointed_at = False
        self._moves = QTimer(self, singleShot=True, interval=1_000)
        self._moves.timeout.connect(self.update)
        self.valueChanged.connect(lambda: self._moves.start())
        self.setAccessibleName(f"Scroll the {kind} sideways")
        self.setCursor(Qt.CursorShape.ArrowCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)

    @property
    def is_drawn(self) -> bool:
        is_used = self.hasFocus() or self.isSliderDown() or self._moves.isActive()
        return self._is_pointed_at or is_used or current_theme().colors.is_strong

    def point_at(self, is_pointed_at: bool) -> None:
        if is_pointed_at != self._is_pointed_at:
            self._is_pointed_at = is_pointed_at
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self.is_drawn:
            super().paintEvent(event)


@dataclass(slots=True)
class _Wide:
    """A part that is wider than its place."""

    decoration: Decoration
    area: QRectF
    bar: PartBar
    base_x: float = 0.0


class WideParts:
    """Keeps a scroll bar for each wide part of a document."""

    def __init__(self, view: QTextEdit, show_moved: Callable[[Decoration], None]) -> None:
        self._show_moved = show_moved
        self._document = view.document()
        self._viewport = view.viewport()
        self._wide: dict[int, _Wide] = {}

    @property
    def areas(self) -> list[QRectF]:
        return [self._wide[start].area for start in sorted(self._wide)]

    def offset(self, decoration: Decoration) -> int:
        """Return how far a part has been scrolled."""
        wide = self._wide.get(decoration.start)
        return 0 if wide is None else wide.bar.value()

    def clear(self) -> None:
        for wide in self._wide.values():
            wide.bar.hide()
            wide.bar.deleteLater()
        self._wide = {}

    def show(self, parts: Sequence[tuple[Decoration, QRectF, float]]) -> None:
        wide = {part.start for part, area, width in parts if width > area.width() + 1}
        for start in set(self._wide) - wide:
            bar = self._wide.pop(start).bar
            bar.hide()
            bar.deleteLater()
        for part, area, width in parts:
            if part.start in wide:
                self._show_bar(part, area, width)

    def paint_fades(self, painter: QPainter, style: MarkdownStyle, target: QRectF) -> None:
        """Let the content fade at the edges that cut it; the head and frame of code stay."""
        for wide in (wide for wide in self._wide.values() if wide.area.intersects(target)):
            is_code = wide.decoration.kind == "code"
            ground = style.colors.code if is_code else style.colors.canvas
            left, right = wide.area.left(), wide.area.right() + 1
            top = wide.area.top() + style.code_head_px * is_code
            height = wide.area.bottom() + 1 - 3 * is_code - top
            before_px, after_px = wide.bar.value(), wide.bar.maximum() - wide.bar.value()
            for hidden_px, edge, inner in (
                (before_px, left, left + _FADE_PX),
                (after_px, right, right - _FADE_PX),
            ):
                share = min(1.0, hidden_px / _FADE_PX)
                fade = edge_fade(QPointF(edge, 0), QPointF(inner, 0), ground, share)
                painter.fillRect(QRectF(min(edge, inner), top, _FADE_PX, height), fade)

    def point_at(self, y: float) -> None:
        """Draw the scroll bar of the part at a height; none for a negative one."""
        pointed_at = self._under(y)
        for wide in self._wide.values():
            wide.bar.point_at(wide.bar is pointed_at)

    def _under(self, y: float) -> PartBar | None:
        """Return the scroll bar of the part at a height."""
        for wide in self._wide.values():
            if wide.area.top() <= y <= wide.area.bottom() + UNDER_PX:
                return wide.bar
        return None

    def wheel(self, event: QWheelEvent) -> bool:
        """Scroll the part under the mouse sideways; return False if the column should scroll."""
        delta = event.pixelDelta() if not event.pixelDelta().isNull() else event.angleDelta()
        across, along = delta.x(), delta.y()
        if not across and event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            across, along = along, 0
        bar = self._under(event.position().y())
        if bar is None or abs(across) <= abs(along):
            return False
        bar.setValue(bar.value() - across)
        return True

    def drag(self, position: QPointF) -> None:
        """Scroll the part under a selection that is dragged past an edge."""
        bar, width = self._under(position.y()), self._viewport.width()
        if bar is not None:
            is_right, is_left = position.x() > width - 24, position.x() < 24
            bar.setValue(bar.value() + 16 * (is_right - is_left))

    def keep_shifted(self) -> None:
        """Move scrolled lines that were laid out again since."""
        for wide in self._wide.values():
            if wide.bar.value() and wide.decoration.kind != "table":
                self._shift(wide)

    def _show_bar(self, decoration: Decoration, area: QRectF, width: float) -> None:
        wide = self._wide.get(decoration.start)
        if wide is None:
            bar = PartBar(decoration.kind, self._viewport)
            lines = self._document.findBlock(decoration.start).layout()
            x = lines.lineAt(0).x() if lines.lineCount() else 0.0
            wide = self._wide[decoration.start] = _Wide(decoration, area, bar, x)
            start = decoration.start
            bar.valueChanged.connect(lambda: self._scrolled(start))
        wide.decoration, wide.area = decoration, area
        wide.bar.setPageStep(round(area.width()))
        wide.bar.setSingleStep(24)
        wide.bar.setRange(0, round(width - area.width()))
        is_inside = decoration.kind == "code"
        top = area.bottom() + (-_BAR_PX - 1 if is_inside else 2)
        wide.bar.setGeometry(QRect(round(area.left()), round(top), round(area.width()), _BAR_PX))
        wide.bar.show()

    def _scrolled(self, start: int) -> None:
        wide = self._wide[start]
        if wide.decoration.kind != "table":
            self._shift(wide)
        self._show_moved(wide.decoration)

    def _shift(self, wide: _Wide) -> None:
        x = wide.base_x - wide.bar.value()
        block = self._document.findBlock(wide.decoration.start)
        while block.isValid() and block.position() <= wide.decoration.end:
            layout = block.layout()
            if layout.lineCount() and layout.lineAt(0).x() != x:
                line = layout.lineAt(0)
                line.setPosition(QPointF(x, line.y()))
            block = block.next()

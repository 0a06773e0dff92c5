"""Scrolls code, tables and formulas that are wider than the text, each on its own.

Main thread. It moves the lines of a card in their layout, and a table by its margin, so that
selection and mouse work on each character where it is drawn.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QTextDocument, QWheelEvent
from PySide6.QtWidgets import QScrollBar, QWidget

from ui.kit.markdown.writing.markdown_style import Decoration

BAR_PX = 9
_EDGE_PX, _EDGE_STEP_PX = 24, 16
_WORDS = {"code": "code", "table": "table", "formula": "formula"}


@dataclass(slots=True)
class _Wide:
    """A part that is wider than its place."""

    decoration: Decoration
    place: QRectF
    bar: QScrollBar
    base_x: float = 0.0


class Sideways:
    """Keeps a scroll bar for each wide part of a document."""

    def __init__(
        self,
        document: QTextDocument,
        viewport: QWidget,
        moved: Callable[[Decoration, int], None],
    ) -> None:
        self._document = document
        self._viewport = viewport
        self._moved = moved
        self._wide: dict[int, _Wide] = {}

    @property
    def bars(self) -> tuple[QScrollBar, ...]:
        """The scroll bars, from the top down."""
        return tuple(self._wide[start].bar for start in sorted(self._wide))

    @property
    def places(self) -> list[QRectF]:
        """The areas of the wide parts, from the top down."""
        return [self._wide[start].place for start in sorted(self._wide)]

    def offset(self, decoration: Decoration) -> int:
        """Return how far a part has been scrolled."""
        wide = self._wide.get(decoration.start)
        return 0 if wide is None else wide.bar.value()

    def clear(self) -> None:
        """Forget everything."""
        for wide in self._wide.values():
            wide.bar.hide()
            wide.bar.deleteLater()
        self._wide = {}

    def show(self, found: Sequence[tuple[Decoration, QRectF, float]]) -> None:
        """Give each part that is too wide a scroll bar, and remove the other bars."""
        wanted = {one.start for one, place, width in found if width > place.width() + 1}
        for start in set(self._wide) - wanted:
            bar = self._wide.pop(start).bar
            bar.hide()
            bar.deleteLater()
        for one, place, width in found:
            if one.start in wanted:
                self._show_bar(one, place, width)

    def _under(self, y: float) -> QScrollBar | None:
        """Return the scroll bar of the part at a height."""
        for wide in self._wide.values():
            if wide.place.top() <= y <= wide.place.bottom() + BAR_PX:
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

    def drag(self, place: QPointF) -> None:
        """Scroll the part under a selection that is dragged past an edge."""
        bar, width = self._under(place.y()), self._viewport.width()
        if bar is not None and place.x() > width - _EDGE_PX:
            bar.setValue(bar.value() + _EDGE_STEP_PX)
        elif bar is not None and place.x() < _EDGE_PX:
            bar.setValue(bar.value() - _EDGE_STEP_PX)

    def keep_shifted(self) -> None:
        """Move scrolled lines that were laid out again since."""
        for wide in self._wide.values():
            if wide.bar.value() and wide.decoration.kind != "table":
                self._shift(wide)

    def _show_bar(self, one: Decoration, place: QRectF, width: float) -> None:
        wide = self._wide.get(one.start)
        if wide is None:
            bar = QScrollBar(Qt.Orientation.Horizontal, self._viewport)
            bar.setAccessibleName(f"Scroll the {_WORDS[one.kind]} sideways")
            bar.setCursor(Qt.CursorShape.ArrowCursor)
            bar.setFocusPolicy(Qt.FocusPolicy.TabFocus)
            wide = self._wide[one.start] = _Wide(one, place, bar, self._line_x(one))
            start = one.start
            bar.valueChanged.connect(lambda: self._scrolled(start))
        wide.decoration, wide.place = one, place
        wide.bar.setPageStep(round(place.width()))
        wide.bar.setSingleStep(24)
        wide.bar.setRange(0, round(width - place.width()))
        top = place.bottom() if one.kind != "code" else place.bottom() - BAR_PX
        wide.bar.setGeometry(
            QRect(round(place.left()), round(top) + 1, round(place.width()), BAR_PX)
        )
        wide.bar.show()

    def _line_x(self, one: Decoration) -> float:
        layout = self._document.findBlock(one.start).layout()
        return layout.lineAt(0).x() if layout.lineCount() else 0.0

    def _scrolled(self, start: int) -> None:
        wide = self._wide[start]
        if wide.decoration.kind != "table":
            self._shift(wide)
        self._moved(wide.decoration, wide.bar.value())

    def _shift(self, wide: _Wide) -> None:
        x = wide.base_x - wide.bar.value()
        block = self._document.findBlock(wide.decoration.start)
        while block.isValid() and block.position() <= wide.decoration.end:
            layout = block.layout()
            if layout.lineCount() and layout.lineAt(0).x() != x:
                line = layout.lineAt(0)
                line.setPosition(QPointF(x, line.y()))
            block = block.next()

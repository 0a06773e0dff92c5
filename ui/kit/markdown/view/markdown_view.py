"""Shows Markdown that grows: lays out closed blocks once, and only the last block again.

Main thread.
"""

import time
from collections.abc import Iterable

from PySide6.QtCore import QMimeData, QPointF, QRectF, QSizeF, Qt, QTimer, QUrl, Signal
from PySide6.QtGui import (
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QScrollBar, QWidget

from ui.kit.markdown.view.code_button import CodeButton, CodeButtons
from ui.kit.markdown.view.sideways import BAR_PX, Sideways
from ui.kit.markdown.view.text_copying import mime_of, text_between
from ui.kit.markdown.view.warming_up import warm_up
from ui.kit.markdown.view.wide_parts import fit_table, wide_parts
from ui.kit.markdown.writing.code_writer import TAB_CHARS
from ui.kit.markdown.writing.decorations import Decorations
from ui.kit.markdown.writing.growing_text import GrowingText
from ui.kit.markdown.writing.inline_writer import NOTE_PREFIX, REFERENCE_PREFIX
from ui.kit.markdown.writing.markdown_style import Decoration, MarkdownStyle, text_width
from ui.kit.text.flow_text import FlowText, Highlight
from ui.kit.text.places import anchor_position, link_targets

# Rendering the open text may take this share of the time, so that a huge block stays smooth.
_PAUSE_PER_COST = 3.0
# More of a text than this is rendered piece by piece, with other events in between.
_PIECE_CHARS = 12_000


class MarkdownView(FlowText):
    """Shows Markdown; ``append_markdown`` while it streams, ``finish`` at its end.

    Signals:
        link_chosen: A link to another place than this text was chosen; carries the ``QUrl``.
    """

    link_chosen = Signal(QUrl)

    def __init__(self, style: MarkdownStyle, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._style = style
        self._text = GrowingText(self.document(), style, lambda: self.viewport().width())
        self._is_whole = False
        self._rest = ""  # of a long text: what is not rendered yet
        self._is_complete = False
        self._buttons = CodeButtons(self.viewport())
        self._rendered_at_s = 0.0
        self._cost_s = 0.0
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._render)
        self._rendering_rest = QTimer(self, singleShot=True, interval=0)
        self._rendering_rest.timeout.connect(self._render_piece)
        self._geometry = Decorations(self.document(), style)
        self._sideways = Sideways(self.document(), self.viewport(), self._show_moved)
        self.document().documentLayout().documentSizeChanged.connect(self._place_buttons)
        self.anchorClicked.connect(self._follow)
        self._take_style(style)

    @property
    def markdown(self) -> str:
        """The text exactly as it was given."""
        return self._text.source + self._rest

    @property
    def decorations(self) -> tuple[Decoration, ...]:
        """The decorations painted beneath the text."""
        return tuple(self._text.decorations)

    @property
    def copy_buttons(self) -> tuple[CodeButton, ...]:
        """A button for each code block, once the text is complete."""
        return self._buttons.shown

    @property
    def sideways_bars(self) -> tuple[QScrollBar, ...]:
        """A scroll bar for each code card, table and formula that is wider than the text."""
        return self._sideways.bars

    def area(self, decoration: Decoration) -> QRectF:
        """Return the area of a decoration."""
        return self._geometry.area(decoration, self.viewport().width(), self._text.decorations)

    def shown_text(self) -> str:
        """Return the whole text, formulas as their source."""
        return text_between(self.document(), 0, self.document().characterCount() - 1)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy formulas as their source, tables as tables."""
        # Qt's own MIME data is filled in later, and would overwrite what is set here.
        as_html = super().createMimeDataFromSelection().html()
        return mime_of(self.textCursor(), as_html)

    def link_targets(self) -> list[str]:
        """Return where the links of the text lead, in their order."""
        return link_targets(self.document())

    def set_markdown(self, text: str) -> None:
        """Show another text; the rest of a long one follows in the next rounds of the loop."""
        self._later.stop()
        self._rendering_rest.stop()
        self._sideways.clear()
        self._is_complete = True
        piece, self._rest = _piece_of(text)
        self._text.show(piece)
        if self._rest:
            self._is_whole = False
            self._show_written()
            self._rendering_rest.start()
        else:
            self._finish_written()

    def append_markdown(self, text: str) -> None:
        """Show more text. Rendering is delayed if the last rendering was slow."""
        if not text:
            return
        warm_up(text)
        self._is_whole = self._is_complete = False
        if self._rest:
            self._rest += text
            return
        self._text.append(text)
        wait_s = self._rendered_at_s + self._cost_s * _PAUSE_PER_COST - time.monotonic()
        if wait_s <= 0:
            self._render()
        elif not self._later.isActive():
            self._later.start(round(wait_s * 1000) + 1)

    def render_rest(self) -> None:
        """Show all of a long text that is still being rendered."""
        if self._rest:
            self.render_now()

    def render_now(self) -> None:
        """Show the text whose rendering was delayed."""
        self._later.stop()
        self._rendering_rest.stop()
        self._text.append(self._rest)
        self._rest = ""
        self._render()
        if self._is_complete:
            self.finish()

    def finish(self) -> None:
        """Show the rest of the text, which is complete now."""
        self._is_complete = True
        if self._rest:
            return
        self._later.stop()
        if not self._is_whole:
            self._text.finish()
            self._finish_written()

    def highlight(self, wanted: Highlight) -> QRectF | None:
        """Highlight every occurrence of words, in the whole text."""
        if wanted.words:
            self.render_rest()
        return super().highlight(wanted)

    def set_style(self, style: MarkdownStyle) -> None:
        """Show the same text in other fonts and colors."""
        if style == self._style:
            return
        self._take_style(style)
        self._sideways.clear()
        self._text.show(self._text.source)
        self._show_written()
        if self._is_whole:
            self._add_buttons()

    # -- rendering -------------------------------------------------------------------------

    def _take_style(self, style: MarkdownStyle) -> None:
        self._style = self._text.style = style
        self._geometry = Decorations(self.document(), style)
        self.document().setDefaultFont(style.font)
        self.setTabStopDistance(TAB_CHARS * text_width(style.fixed, "0"))

    def _render_piece(self) -> None:
        """Show the next piece of a long text."""
        piece, self._rest = _piece_of(self._rest)
        self._text.append(piece)
        self._render()
        if self._rest:
            self._rendering_rest.start()
        elif self._is_complete:
            self.finish()

    def _finish_written(self) -> None:
        self._show_written()
        self._add_buttons()
        self._is_whole = True

    def _render(self) -> None:
        began_s = time.monotonic()
        self._text.write()
        self._show_written()
        self._rendered_at_s = time.monotonic()
        self._cost_s = self._rendered_at_s - began_s

    def _show_written(self) -> None:
        self._fit_tables(one for one in self._text.decorations if self._sideways.offset(one))
        self._show_wide()
        self._fit(self.document().size())
        self.show_found_again()
        self._update_from(self._text.changed_from)

    def _update_from(self, position: int) -> None:
        """Repaint everything below the start of a change, because Qt repaints only changed text."""
        block = self.document().findBlock(position)
        top = self.document().documentLayout().blockBoundingRect(block).top()
        above_px = self._style.code_head_px + self._style.gap_px
        area = self.viewport().rect()
        area.setTop(max(0, int(top - above_px)))
        self.viewport().update(area)

    # -- what is wider than the view ---------------------------------------------------------

    def _fit_tables(self, decorations: Iterable[Decoration]) -> None:
        """Share the width among the columns of tables."""
        for one in decorations:
            if one.kind == "table":
                table = self._geometry.table(one)
                fit_table(
                    table, one, self.viewport().width(), self._sideways.offset(one), self._style
                )

    def _show_wide(self) -> None:
        width = self.viewport().width()
        self._sideways.show(wide_parts(self._text.decorations, width, self._style, self.area))

    def _show_moved(self, decoration: Decoration, _: int) -> None:
        if decoration.kind == "table":
            self._fit_tables([decoration])
        self.viewport().update()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll a wide part under the mouse sideways; leave other scrolling to the column."""
        if self._sideways.wheel(event):
            event.accept()
        else:
            super().wheelEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Scroll sideways while a selection is dragged past an edge."""
        super().mouseMoveEvent(event)
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._sideways.drag(event.position())

    def _fit(self, size: QSizeF) -> None:
        """Set the height, with room for what is painted around the last lines."""
        if self._text.is_writing:
            return
        end = self.document().lastBlock().position()
        areas = [self.area(one) for one in self._text.decorations if one.end >= end - 1]
        bottom = max((area.bottom() for area in areas), default=0.0)
        has_bar_below = any(
            one.kind == "table" and one.end >= end - 1 for one in self._text.decorations
        )
        super()._fit(
            QSizeF(size.width(), max(size.height(), bottom + has_bar_below * (BAR_PX + 2)))
        )

    # -- painting --------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint code cards, quote bars and rules, then the text over them."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        wanted = QRectF(event.rect())
        for decoration in self._seen(wanted):
            area = self.area(decoration)
            if area.intersects(wanted):
                self._geometry.paint(painter, decoration, area)
        painter.end()
        self._sideways.keep_shifted()
        # Wide parts are clipped to their areas, so that they cover nothing else.
        top = wanted.top()
        for place in self._sideways.places:
            self._paint_text(QRectF(wanted.left(), top, wanted.width(), place.top() - top))
            self._paint_text(place.intersected(wanted))
            top = max(top, place.bottom())
        self._paint_text(QRectF(wanted.left(), top, wanted.width(), wanted.bottom() + 1 - top))

    def _seen(self, wanted: QRectF) -> list[Decoration]:
        """Return the decorations that may be in an area, found by text position, which is fast."""
        layout, around = self.document().documentLayout(), 4 * self._style.code_head_px
        fuzzy = Qt.HitTestAccuracy.FuzzyHit
        first = layout.hitTest(QPointF(0, wanted.top() - around), fuzzy)
        last = layout.hitTest(QPointF(0, wanted.bottom() + around), fuzzy)
        return [
            one
            for one in self._text.decorations
            if last < 0 or (one.end >= first and one.start <= last + 1)
        ]

    def _paint_text(self, area: QRectF) -> None:
        if area.isValid():
            super().paintEvent(QPaintEvent(area.toRect()))

    # -- links -----------------------------------------------------------------------------

    def _follow(self, url: QUrl) -> None:
        name = url.toString()
        if not name.startswith((NOTE_PREFIX, REFERENCE_PREFIX)):
            self.link_chosen.emit(url)
            return
        decoded = url.fragment(QUrl.ComponentFormattingOption.FullyDecoded)
        position = anchor_position(self.document(), f"#{decoded}")
        if position is not None:
            self.scroll_to(position)

    # -- copy buttons ----------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the copy buttons at their corners."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit_tables(self._text.decorations)
            self._fit(self.document().size())
        self._place_buttons(QSizeF())
        self._show_wide()

    def _add_buttons(self) -> None:
        self._buttons.show(self._text.decorations)
        self._place_buttons(QSizeF())

    def _place_buttons(self, _: QSizeF) -> None:
        if not self._text.is_writing:
            self._buttons.place(self._text.decorations, self.area, self._style.code_head_px)


def _piece_of(text: str) -> tuple[str, str]:
    """Return the beginning of a text that is rendered at once, and the rest."""
    if len(text) <= 2 * _PIECE_CHARS:
        return text, ""
    at = text.find("\n", _PIECE_CHARS) + 1 or len(text)
    return text[:at], text[at:]

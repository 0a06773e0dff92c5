"""Shows Markdown: selectable, with buttons on code and parts that scroll sideways. Main thread."""

import threading
import time
from bisect import bisect_left
from collections.abc import Iterable
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING

from PySide6.QtCore import (
    QEvent,
    QMimeData,
    QRectF,
    QSizeF,
    Qt,
    QTimer,
    QUrl,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextCursor,
    QTextLength,
    QWheelEvent,
)
from PySide6.QtWidgets import QMenu, QToolButton, QWidget

from engine.wording import visible
from ui.kit.commands import Command, context_menu, popup_below
from ui.kit.flow_text import FlowText, Highlight, anchor_position, link_targets
from ui.kit.icon_engine import themed_icon
from ui.kit.markdown.block_writer import TAB_CHARS, TABLE_FOOT_PX
from ui.kit.markdown.clipboard import mime_of, text_between
from ui.kit.markdown.growing_text import GrowingText
from ui.kit.markdown.inline_writer import (
    FOLD_PREFIX,
    NOTE_PREFIX,
    PICTURE_PREFIX,
    REFERENCE_PREFIX,
)
from ui.kit.markdown.pictures import MAX_PICTURE_BYTES, Drawn, drawn_picture
from ui.kit.markdown.style import (
    Decoration,
    Decorations,
    MarkdownStyle,
    code_head_font,
    paint_code_label,
)
from ui.kit.markdown.wide_parts import UNDER_PX, WideParts
from ui.kit.menus import copy_from
from ui.kit.theme import current_theme

if TYPE_CHECKING:
    from PySide6.QtNetwork import QNetworkReply


def _address(link: QUrl) -> str:
    """Return the address of the picture that a link loads; empty for another link."""
    decoded = f"#{link.fragment(QUrl.ComponentFormattingOption.FullyDecoded)}"
    return decoded.removeprefix(PICTURE_PREFIX) if decoded.startswith(PICTURE_PREFIX) else ""


def warm_up(text: str) -> None:
    """Start the imports that a text will need, while the model still writes its code or formula."""
    if "`" in text:
        _import_on_thread("pygments.lexers.python")
    if "$" in text or "\\" in text:
        _import_on_thread("ziamath")


@cache
def _import_on_thread(module: str) -> None:
    threading.Thread(target=import_module, args=(module,), name="fullstop-warm-up").start()


def _code_button(parent: QWidget, text: str, accessible_name: str) -> QToolButton:
    button = QToolButton(parent)
    button.setFont(code_head_font(current_theme().message_font()))
    button.setText(text)
    button.setProperty("kind", "code")
    button.setAccessibleName(accessible_name)
    button.setToolTip(accessible_name)
    button.setCursor(Qt.CursorShape.PointingHandCursor)
    button.show()
    return button


def _code_menu(button: QToolButton, *, can_wrap: bool) -> QMenu:
    """Return the menu that sets how all code is shown."""
    theme = current_theme()

    def switch(label: str, name: str) -> Command:
        is_on = getattr(theme, name)
        return Command(label, lambda: theme.set_code_look(**{name: not is_on}), checked=is_on)

    entries = [switch("Number Lines in All Code", "code_has_numbers")]
    entries += [switch("Wrap Lines in All Code", "code_wraps")] if can_wrap else []
    return context_menu(button, "How all code is shown", entries)


class _CodeHead(QWidget):
    """The head of a card whose own is scrolled out of sight, below its buttons."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._style_and_card: tuple[MarkdownStyle, Decoration] | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.lower()

    def show_card(self, style: MarkdownStyle, card: Decoration, area: QRectF) -> None:
        self._style_and_card = style, card
        self.setGeometry(area.toRect())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._style_and_card is None:
            return
        style, card = self._style_and_card
        painter, area = QPainter(self), QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.setPen(QColor(style.colors.line))
        painter.setBrush(QColor(style.colors.code))
        painter.drawRect(area)
        paint_code_label(painter, style, card, QRectF(self.rect()))
        painter.end()


class MarkdownView(FlowText):
    """Shows Markdown; ``append_markdown`` while it streams, ``finish`` at its end."""

    link_chosen = Signal(QUrl)

    def __init__(self, style: MarkdownStyle) -> None:
        super().__init__()
        self._style = style
        self._text = GrowingText(self.document(), style)
        self._text.width_px = self.viewport().width()
        self._is_whole = False
        self._cut, self._cut_area = "", QRectF()
        self._cards: list[list[QToolButton]] = []
        self._head: _CodeHead | None = None
        self._seen_top, self._pinned = 0, -1  # the upper edge, and the card whose head is there
        self._rendered_at_s = 0.0
        self._cost_s = 0.0
        self._later = QTimer(self, singleShot=True)
        self._later.timeout.connect(self._render)
        self._geometry = Decorations(self.document(), style)
        self._sideways = WideParts(self, self.show_moved)
        self.document().documentLayout().documentSizeChanged.connect(self._move_buttons)
        self.anchorClicked.connect(self._follow)
        self._take_style(style)

    @property
    def markdown(self) -> str:
        """The text exactly as it was given."""
        return self._text.source

    @property
    def decorations(self) -> tuple[Decoration, ...]:
        return tuple(self._text.decorations)

    @property
    def copy_buttons(self) -> tuple[QToolButton, ...]:
        """A button for each code block, once the text is complete."""
        return tuple(buttons[0] for buttons in self._cards)

    def area(self, decoration: Decoration) -> QRectF:
        return self._geometry.area(decoration, self.viewport().width(), self._text.decorations)

    def shown_text(self) -> str:
        """Return the whole text, formulas as their source; folded parts are opened."""
        self._unfold()
        return text_between(self.document(), 0, self.document().characterCount() - 1)

    def createMimeDataFromSelection(self) -> QMimeData:
        """Copy formulas as their source, tables as tables, lists with their indentation."""
        return mime_of(self.textCursor())

    def copy_part(self, part: Decoration) -> None:
        """Copy all of a table, as text and as a real table."""
        cursor = QTextCursor(self.document())
        cursor.setPosition(part.start)
        cursor.setPosition(part.end, QTextCursor.MoveMode.KeepAnchor)
        QGuiApplication.clipboard().setMimeData(mime_of(cursor))

    def link_targets(self) -> list[str]:
        """Return where the links of the text lead, in their order."""
        targets = link_targets(self.document())
        return [_address(QUrl(one)) or one for one in targets if not one.startswith(FOLD_PREFIX)]

    def set_markdown(self, text: str) -> None:
        """Show another text, which is complete."""
        self._later.stop()
        self._text.show(text)
        self._is_whole = True
        self._show_rewritten()

    def append_markdown(self, text: str) -> None:
        """Show more text. Rendering is delayed if the last rendering was slow."""
        if not text:
            return
        warm_up(text)
        self._is_whole = False
        self._text.append(text)
        # Rendering takes a quarter of the time, so that a huge open block stays smooth.
        wait_s = self._rendered_at_s + self._cost_s * 3.0 - time.monotonic()
        if wait_s <= 0:
            self._render()
        elif not self._later.isActive():
            self._later.start(round(wait_s * 1000) + 1)

    def finish(self) -> None:
        """Show the end of a streamed text, with a button for each code block."""
        self._later.stop()
        if not self._is_whole:
            self._text.write()
            self._is_whole = True
            self._show_written()
            self._add_buttons()

    def show_cut(self, text: str) -> None:
        """Show the cut text after the end, struck; it is no part of the text."""
        if text != self._cut:
            self._cut = text
            self._fit(self.document().size())
            self.viewport().update()

    def find_matches(self, query: Highlight) -> list[tuple[int, int]]:
        """Open the folded parts, then find the words."""
        if query.terms:
            self._unfold()
        return super().find_matches(query)

    def set_style(self, style: MarkdownStyle) -> None:
        if style == self._style:
            return
        self._take_style(style)
        self._text.show(self._text.source)
        self._show_rewritten()

    def _unfold(self) -> None:
        if self._text.unfold_all():
            self._show_rewritten()

    def _show_rewritten(self) -> None:
        self._sideways.clear()
        self._show_written()
        if self._is_whole:
            self._add_buttons()

    # -- rendering -------------------------------------------------------------------------

    def _take_style(self, style: MarkdownStyle) -> None:
        self._style = self._text.style = style
        self._geometry = Decorations(self.document(), style)
        self.document().setDefaultFont(style.font)
        self.setTabStopDistance(TAB_CHARS * style.fixed_width("0"))

    def _render(self) -> None:
        began_s = time.monotonic()
        self._text.write()
        self._show_written()
        self._rendered_at_s = time.monotonic()
        self._cost_s = self._rendered_at_s - began_s

    def _show_written(self) -> None:
        self._fit_tables(self._text.decorations)
        self._show_wide()
        self._fit(self.document().size())
        self.mark_again()
        self._update_from(self._text.changed_from)

    def _update_from(self, position: int) -> None:
        """Repaint everything below the start of a change, because Qt repaints only changed text."""
        block = self.document().findBlock(position)
        top = self.document().documentLayout().blockBoundingRect(block).top()
        above_px = self._style.code_head_px + self._style.gap_px
        area = self.viewport().rect()
        area.setTop(max(0, int(top - above_px)))
        self.viewport().update(area)

    # -- parts wider than the view ----------------------------------------------------------

    def _fit_tables(self, decorations: Iterable[Decoration]) -> None:
        """Give each table its place, and its least width where there is less."""
        for decoration in decorations:
            if decoration.kind == "table":
                table = self._geometry.table(decoration)
                form = table.format()
                left = decoration.left_px - self._sideways.offset(decoration) - 1  # its frame
                is_narrow = self._is_wide(decoration)
                # Qt's width of a table includes its margins.
                fixed = QTextLength(QTextLength.Type.FixedLength, decoration.width_px + left)
                width = fixed if is_narrow else QTextLength()
                columns = [
                    QTextLength(QTextLength.Type.FixedLength, px) if is_narrow else QTextLength()
                    for px in decoration.columns_px
                ]
                foot_px = self._style.px(TABLE_FOOT_PX) + UNDER_PX * is_narrow
                form.setBottomMargin(foot_px)
                if form.width() != width or form.leftMargin() != left:
                    form.setWidth(width)
                    form.setLeftMargin(left)
                    form.setRightMargin(0 if is_narrow else -2)  # its frame, and that of a cell
                    form.setColumnWidthConstraints(columns)
                    table.setFormat(form)

    def _show_wide(self) -> None:
        """Give each part that is wider than the view a scroll bar."""
        parts = []
        for decoration in self._text.decorations:
            if self._is_wide(decoration):
                area = self.area(decoration)
                area.setLeft(decoration.left_px + self._insets_px(decoration)[0])
                area.setWidth(self._available_px(decoration))
                border_px = decoration.kind == "table"  # that of the last column is outside
                parts.append((decoration, area, decoration.width_px + border_px))
        self._sideways.show(parts)

    def _insets_px(self, decoration: Decoration) -> tuple[float, float]:
        """Return the margins of a card at the left and at the right of its lines."""
        if decoration.kind != "code":
            return 0, 0
        return self._style.code_pad_px + self._style.code_numbers_px, self._style.code_pad_px

    def _available_px(self, decoration: Decoration) -> float:
        width = self.viewport().width() - decoration.left_px
        return width - sum(self._insets_px(decoration))

    def _is_wide(self, decoration: Decoration) -> bool:
        min_px = decoration.min_px or decoration.width_px
        return min_px > self._available_px(decoration)

    def show_moved(self, decoration: Decoration) -> None:
        """Show a part that was scrolled sideways."""
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
        self._sideways.point_at(event.position().y())
        if event.buttons() & Qt.MouseButton.LeftButton:
            self._sideways.drag(event.position())

    def leaveEvent(self, event: QEvent) -> None:
        super().leaveEvent(event)
        self._sideways.point_at(-1)

    def _fit(self, size: QSizeF) -> None:
        if self._text.is_writing:
            return
        end = self.document().lastBlock().position()
        areas = [
            self.area(decoration)
            for decoration in self._text.decorations
            if decoration.end >= end - 1
        ]
        bottom = max((area.bottom() for area in areas), default=0.0)
        has_bar_below = any(
            decoration.kind == "table" and decoration.end >= end - 1
            for decoration in self._text.decorations
        )
        height = max(size.height(), bottom + has_bar_below * UNDER_PX)
        if self._cut:
            self._cut_area = self._place_cut(
                height if self._text.source else 0.0, is_plain=not areas
            )
            height = max(height, self._cut_area.bottom())
        super()._fit(QSizeF(size.width(), height))

    def _place_cut(self, below: float, *, is_plain: bool) -> QRectF:
        """Return the place of the text that was cut off: in the last line if it fits there."""
        metrics, lines = QFontMetricsF(self._style.font), self.document().lastBlock().layout()
        width = metrics.horizontalAdvance(visible(self._cut)) + 1
        if is_plain and lines.lineCount():
            line = lines.lineAt(lines.lineCount() - 1)
            left = lines.position().x() + line.x() + line.naturalTextWidth()
            source = self._text.source  # a document has no space at the end of a block
            left += metrics.horizontalAdvance(source[len(source.rstrip(" ")) :])
            is_below = source.endswith("\n")
            if not is_below and left + width <= self.viewport().width():
                base = lines.position().y() + line.y() + line.ascent()
                return QRectF(left, base - metrics.ascent(), width, metrics.height())
        gap_px = 0 if is_plain else self._style.px(8)
        return QRectF(0, below + gap_px, self.viewport().width(), metrics.height())

    def _paint_cut(self, painter: QPainter) -> None:
        font, color = QFont(self._style.font), QColor(self._style.colors.text)
        font.setStrikeOut(True)
        color.setAlphaF(1.0 if self._style.colors.is_strong else 0.5)
        painter.setFont(font)
        painter.setPen(color)
        right, area = Qt.TextElideMode.ElideRight, self._cut_area
        text = QFontMetricsF(font).elidedText(visible(self._cut), right, area.width())
        painter.drawText(area, Qt.AlignmentFlag.AlignVCenter, text)

    # -- painting --------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        target = QRectF(event.rect())
        for decoration in self._text.decorations:
            area = self.area(decoration)
            if area.intersects(target):
                self._geometry.paint(painter, decoration, area)
        self._geometry.paint_chips(painter, target)
        if self._cut and self._cut_area.intersects(target):
            self._paint_cut(painter)
        painter.end()
        self._sideways.keep_shifted()
        # Wide parts are clipped to their areas, so that they cover nothing else.
        top = target.top()
        for part_area in self._sideways.areas:
            self._paint_text(QRectF(target.left(), top, target.width(), part_area.top() - top))
            self._paint_text(part_area.intersected(target))
            top = max(top, part_area.bottom())
        self._paint_text(QRectF(target.left(), top, target.width(), target.bottom() + 1 - top))
        if self._sideways.areas:
            painter = QPainter(self.viewport())
            self._sideways.paint_fades(painter, self._style, target)
            painter.end()

    def _paint_text(self, area: QRectF) -> None:
        if area.isValid():
            super().paintEvent(QPaintEvent(area.toRect()))

    # -- links -----------------------------------------------------------------------------

    def _follow(self, url: QUrl) -> None:
        name = url.toString()
        if name.startswith(FOLD_PREFIX):
            self._text.fold(int(name.removeprefix(FOLD_PREFIX)))
            self._show_rewritten()
            return
        if address := _address(url):
            self._load_picture(address)
            return
        if not name.startswith((NOTE_PREFIX, REFERENCE_PREFIX)):
            self.link_chosen.emit(url)
            return
        decoded = url.fragment(QUrl.ComponentFormattingOption.FullyDecoded)
        position = anchor_position(self.document(), f"#{decoded}")
        if position is not None:
            self.scroll_to(position)

    def _load_picture(self, address: str) -> None:
        from PySide6.QtNetwork import QNetworkAccessManager, QNetworkRequest  # most texts have none

        request = QNetworkRequest(QUrl(address))
        request.setTransferTimeout(20_000)
        reply = QNetworkAccessManager(self).get(request)
        reply.downloadProgress.connect(
            lambda got, _: reply.abort() if got > MAX_PICTURE_BYTES else None
        )
        reply.finished.connect(partial(self._show_loaded, address, reply))
        self._show_state(address, "Loading…")

    def _show_loaded(self, address: str, reply: "QNetworkReply") -> None:
        shown = drawn_picture(bytes(reply.readAll().data()), self._style.em)
        reply.manager().deleteLater()
        self._show_state(address, shown or "Could not be loaded.")

    def _show_state(self, address: str, shown: Drawn | str) -> None:
        self._text.show_loaded(address, shown)
        self._show_rewritten()

    # -- copy buttons ----------------------------------------------------------------------

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._text.width_px = self.viewport().width()
            self._fit_tables(self._text.decorations)
            self._text.fit_drawn()
            self._fit(self.document().size())
        self._move_buttons(QSizeF())
        self._show_wide()

    def _code(self) -> list[Decoration]:
        return [decoration for decoration in self._text.decorations if decoration.kind == "code"]

    def _add_buttons(self) -> None:
        for button in (button for buttons in self._cards for button in buttons):
            button.deleteLater()
        self._cards = [self._buttons_of(card) for card in self._code()]
        self._move_buttons(QSizeF())

    def _buttons_of(self, card: Decoration) -> list[QToolButton]:
        parent = self.viewport()
        copy = _code_button(parent, "Copy", f"Copy {card.label or 'code'}")
        copy.clicked.connect(lambda: copy_from(copy, card.text))
        if "\n" not in card.text and not self._can_wrap(card):
            return [copy]
        more = _code_button(parent, "", "How all code is shown")
        more.setIcon(themed_icon("more"))

        def open_menu() -> None:
            menu = _code_menu(more, can_wrap=self._can_wrap(card))
            popup_below(more, menu)

        more.clicked.connect(open_menu)
        return [copy, more]

    def _can_wrap(self, card: Decoration) -> bool:
        """Return whether a line of code is longer than its card."""
        lines = (line.expandtabs(TAB_CHARS) for line in card.text.split("\n"))
        return max(map(self._style.fixed_width, lines)) > self._available_px(card)

    def _move_buttons(self, _: QSizeF) -> None:
        """Put the buttons at the corner of each code card."""
        if not self._text.is_writing:
            for buttons, card in zip(self._cards, self._code(), strict=False):
                area = self.area(card)
                self._move_to_corner(buttons, area, round(area.top()))
            self._pinned = -1
            self._pin_head()

    def _move_to_corner(self, buttons: list[QToolButton], area: QRectF, top: int) -> None:
        right, head_px = round(area.right()) - 6, round(self._style.code_head_px)
        for button in buttons:
            button.adjustSize()
            right -= button.width()
            button.move(right, top + (head_px - button.height()) // 2)

    def _pin_head(self) -> None:
        """Keep the head of the card at the upper edge in sight; no other card is touched."""
        cards = list(zip(self._cards, self._code(), strict=False))
        if 0 <= self._pinned < len(cards):
            buttons, card = cards[self._pinned]
            area = self.area(card)
            self._move_to_corner(buttons, area, round(area.top()))
        top, head_px = self._seen_top, round(self._style.code_head_px)
        at_edge = bisect_left(cards, top, key=lambda each: round(self.area(each[1]).top())) - 1
        self._pinned = -1
        if at_edge >= 0:
            buttons, card = cards[at_edge]
            area = self.area(card)
            if top < area.bottom() - 2 * head_px:
                self._pinned = at_edge
                self._head = self._head or _CodeHead(self.viewport())
                self._head.show_card(
                    self._style, card, QRectF(area.left(), top, area.width(), head_px)
                )
                self._move_to_corner(buttons, area, top)
        if self._head is not None:
            self._head.setVisible(self._pinned >= 0)

    def follow_scrolling(self) -> None:
        """Keep the head of code in sight whose beginning is scrolled out of it."""
        if self._cards and not self._text.is_writing:
            seen_top = self.visibleRegion().boundingRect().top()
            if seen_top != self._seen_top:
                self._seen_top = seen_top
                self._pin_head()

"""Writes inline text of Markdown: emphasis, code, links, boxes and formulas."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache

from markdown_it.token import Token
from PySide6.QtCore import QByteArray, QPointF, QRectF, Qt, QUrl
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QImage,
    QPainter,
    QPen,
    QPolygonF,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextImageFormat,
)
from PySide6.QtSvg import QSvgRenderer

from ui.kit.labels import plain_tool_tip
from ui.kit.markdown.parser import formula_source
from ui.kit.markdown.style import MarkdownStyle, text_width

# For a formula that cannot be drawn, the caller shows the source.

# Drawn finer than the screen, so that it is sharp on a high-resolution one.
FINENESS = 3.0
_PX_PER_POINT = 4 / 3
_MOST_CHARS = 2_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Formula:
    """A drawn formula."""

    image: QImage
    width_px: float
    height_px: float


@lru_cache(maxsize=512)
def formula(tex: str, points: float, color: str, *, is_display: bool) -> Formula | None:
    """Return the picture of a formula; None if it cannot be drawn."""
    if len(tex) > _MOST_CHARS:
        return None
    try:
        svg = _svg(tex, points * _PX_PER_POINT * 1.05, color, is_display=is_display)
    except Exception as error:  # the library raises exceptions of any kind
        _log.debug("a formula cannot be drawn: %s", error)
        return None
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    size = renderer.defaultSize()
    if not renderer.isValid() or size.isEmpty():
        return None
    image = QImage(size * FINENESS, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter, QRectF(image.rect()))
    painter.end()
    return Formula(image, size.width(), size.height())


def _svg(tex: str, size_px: float, color: str, *, is_display: bool) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it finds its own font
        # Imported for the first formula: importing takes a moment, and most answers have none.
        import ziamath

        ziamath.config.svg2 = False  # Qt draws SVG 1.2 only
        drawn = ziamath.Latex(tex, size=size_px, color=color, inline=not is_display)
        return str(drawn.svg())


@lru_cache(maxsize=16)
def box(is_done: bool, size_px: float, filled: str, edge: str, tick: str) -> Formula:
    """Return the picture of a box."""
    side = round(size_px * FINENESS)
    image = QImage(side, side, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    inset = side * 0.08
    square = QRectF(inset, inset, side - 2 * inset, side - 2 * inset)
    radius = side * 0.18
    if is_done:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(filled))
        painter.drawRoundedRect(square, radius, radius)
        pen = QPen(QColor(tick), side * 0.11)
        pen.setCapStyle(Qt.PenCapStyle.RoundCap)
        pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
        painter.setPen(pen)
        corners = ((0.28, 0.52), (0.44, 0.68), (0.73, 0.34))
        painter.drawPolyline(QPolygonF([QPointF(x * side, y * side) for x, y in corners]))
    else:
        painter.setPen(QPen(QColor(edge), side * 0.08))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(square, radius, radius)
    painter.end()
    return Formula(image, size_px, size_px)


_CODE_SCALE = 0.94
NOTE_PREFIX = "#note-"
REFERENCE_PREFIX = "#reference-"
LINE_SEPARATOR = "\u2028"
# The source of a picture in the text, which is copied instead of the picture.
SOURCE_PROPERTY = QTextFormat.Property.UserProperty.value + 1


class InlineWriter:
    """Inserts formatted text at a cursor."""

    def __init__(self, cursor: QTextCursor, style: MarkdownStyle, notes: Mapping[str, int]) -> None:
        self._cursor = cursor
        self._style = style
        self._notes = notes

    @contextmanager
    def writing_at(self, cursor: QTextCursor) -> Iterator[None]:
        """Write at another cursor inside the ``with`` block."""
        outer, self._cursor = self._cursor, cursor
        try:
            yield
        finally:
            self._cursor = outer

    def plain(self) -> QTextCharFormat:
        """Return the format of plain text."""
        return QTextCharFormat(self._style.plain)

    def write(self, token: Token, form: QTextCharFormat) -> None:
        """Write the text of a block: emphasis, code, links, formulas, line breaks."""
        stack = [form]
        link_began = 0
        for child in token.children or []:
            now = QTextCharFormat(stack[-1])
            match child.type:
                case "text" | "text_special":
                    self._cursor.insertText(child.content, now)
                case "softbreak" | "hardbreak":
                    self._cursor.insertText(LINE_SEPARATOR, now)
                case "code_inline":
                    self._write_code(child.content, now)
                case "strong_open":
                    now.setFontWeight(QFont.Weight.Bold)
                    stack.append(now)
                case "em_open":
                    now.setFontItalic(True)
                    stack.append(now)
                case "s_open":
                    now.setFontStrikeOut(True)
                    stack.append(now)
                case "link_open":
                    stack.append(self._linked(now, str(child.attrGet("href") or "")))
                    link_began = self._cursor.position()
                case "link_close":
                    if self._cursor.position() == link_began:  # a link without text
                        self._cursor.insertText(now.anchorHref(), now)
                    stack.pop()
                case "strong_close" | "em_close" | "s_close":
                    stack.pop()
                case "image":
                    self._write_image(child, now)
                case "footnote_ref":
                    self._write_reference(str(child.meta["label"]), now)
                case "math_inline" | "math_inline_double":
                    self.write_formula(child, now, is_display=child.type == "math_inline_double")
                case _:
                    self._cursor.insertText(child.content, now)

    def _write_code(self, code: str, form: QTextCharFormat) -> None:
        font = QFont(self._style.inline_code)
        font.setPointSizeF(form.font().pointSizeF() * _CODE_SCALE)
        font.setWeight(form.font().weight())
        font.setItalic(form.font().italic())
        font.setStrikeOut(form.font().strikeOut())
        font.setUnderline(form.font().underline())
        form.setFont(font)
        form.setBackground(QBrush(QColor(self._style.code_background)))
        self._cursor.insertText(code, form)

    def _linked(self, form: QTextCharFormat, target: str) -> QTextCharFormat:
        form.setAnchor(True)
        form.setAnchorHref(target)
        form.setToolTip(plain_tool_tip(target))
        form.setForeground(QBrush(QColor(self._style.link)))
        form.setFontUnderline(True)
        return form

    def _write_image(self, token: Token, form: QTextCharFormat) -> None:
        """Show an image as its source with a link: nothing is downloaded without asking."""
        target = str(token.attrGet("src") or "")
        title = token.attrGet("title")
        end = f' "{title}")' if title else ")"
        self._cursor.insertText(f"![{token.content}]({target}{end}", self._linked(form, target))

    def _write_reference(self, label: str, form: QTextCharFormat) -> None:
        form = self._linked(form, NOTE_PREFIX + label)
        form.setAnchorNames([REFERENCE_PREFIX + label])
        form.setToolTip("To the footnote")
        form.setFontUnderline(False)
        form.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignSuperScript)
        self._cursor.insertText(str(self._notes.get(label, label)), form)

    def write_way_back(self, label: str) -> None:
        """Write the link from a footnote back to its reference."""
        form = self._linked(self.plain(), REFERENCE_PREFIX + label)
        form.setToolTip("Back to the text")
        form.setFontUnderline(False)
        self._cursor.insertText("\u00a0\u21a9", form)

    def write_box(self, is_done: bool) -> None:
        """Draw the box of a task."""
        style = self._style
        drawn = box(is_done, style.em, style.link, style.muted, style.code_background)
        source = "[x]" if is_done else "[ ]"
        name = f"box:{style.link}:{style.em}:{source}"
        self._insert_picture(drawn, name, source, "Done" if is_done else "Not done")

    def write_formula(self, token: Token, form: QTextCharFormat, *, is_display: bool) -> float:
        """Show a formula as a picture, or as its source; it is always copied as its source."""
        source = formula_source(token)
        drawn = self._drawn(token, is_display=is_display)
        if drawn is None:
            self._cursor.insertText(source.replace("\n", LINE_SEPARATOR), form)
            return 0
        name = f"formula:{self._style.text}:{is_display}:{source}"
        self._insert_picture(drawn, name, source, source)
        return drawn.width_px

    def _drawn(self, token: Token, *, is_display: bool) -> Formula | None:
        points = self._style.font.pointSizeF() * (1.12 if is_display else 1.0)
        return formula(token.content.strip(), points, self._style.text, is_display=is_display)

    def _insert_picture(self, drawn: Formula, name: str, source: str, says: str) -> None:
        document = self._cursor.document()
        document.addResource(QTextDocument.ResourceType.ImageResource, QUrl(name), drawn.image)
        picture = QTextImageFormat()
        picture.setName(name)
        picture.setWidth(drawn.width_px)
        picture.setHeight(drawn.height_px)
        picture.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        picture.setProperty(SOURCE_PROPERTY, source)
        picture.setToolTip(plain_tool_tip(says))
        self._cursor.insertImage(picture)

    # -- measuring -------------------------------------------------------------------------

    def widths(self, token: Token, *, is_head: bool) -> tuple[float, float]:
        """Return the width of the widest word of a text, and of the whole text in one line."""
        style = self._style
        widest = word = whole = 0.0
        is_bold = 0
        for child in token.children or []:
            is_bold += (child.type == "strong_open") - (child.type == "strong_close")
            font = style.inline_code if child.type == "code_inline" else QFont(style.font)
            if is_head or is_bold:
                font.setWeight(QFont.Weight.Bold)
            if child.type in ("math_inline", "math_inline_double"):
                drawn = self._drawn(child, is_display=child.type == "math_inline_double")
                width = drawn.width_px if drawn else text_width(font, formula_source(child))
                word, whole = word + width, whole + width
                widest = max(widest, word)
                continue
            said = child.content
            if child.type == "image":
                said = f"![{said}]({child.attrGet('src')})"
            elif child.type == "footnote_ref":
                said = str(self._notes.get(str(child.meta["label"]), ""))
            for number, piece in enumerate(said.split(" ")):
                if number:
                    word, whole = 0.0, whole + text_width(font, " ")
                width = text_width(font, piece)
                word, whole = word + width, whole + width
                widest = max(widest, word)
        return widest, whole

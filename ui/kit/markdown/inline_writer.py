"""Writes inline text of Markdown: emphasis, code, links, boxes and formulas."""

from markdown_it.token import Token
from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextCharFormat,
    QTextCursor,
    QTextFormat,
    QTextImageFormat,
)

from ui.kit.icons import svg
from ui.kit.labels import plain_tooltip
from ui.kit.markdown.parser import formula_source
from ui.kit.markdown.pictures import Drawn, Pictures, formula, picture
from ui.kit.markdown.style import CHIP_PROPERTY, MarkdownStyle

NOTE_PREFIX = "#note-"
REFERENCE_PREFIX = "#reference-"
FOLD_PREFIX = "#fold-"
PICTURE_PREFIX = "#picture-"
LINE_SEPARATOR = "\u2028"
# The source of a drawn formula or picture, which is copied in its stead; the tag of a format.
SOURCE_PROPERTY = QTextFormat.Property.UserProperty.value + 1
TAG_PROPERTY = QTextFormat.Property.UserProperty.value + 2
# Of a block: how deep in lists it is, and its mark there; how many quotes it is in.
DEPTH_PROPERTY = QTextFormat.Property.UserProperty.value + 3
MARK_PROPERTY = QTextFormat.Property.UserProperty.value + 4
QUOTE_PROPERTY = QTextFormat.Property.UserProperty.value + 6
# Of a block of text: its lines are no longer than is readable; code and tables take all the width.
MEASURE_PROPERTY = QTextFormat.Property.UserProperty.value + 7


class InlineWriter:
    """Inserts formatted text at a cursor.

    Attributes:
        color: The color of plain text and formulas.
        ascent_px: The height of the highest formula above the base line.
    """

    def __init__(
        self,
        cursor: QTextCursor,
        style: MarkdownStyle,
        pictures: Pictures,
        available_px: float = 0.0,
        *,
        color: str = "",
        has_large_formulas: bool = False,
    ) -> None:
        self._cursor = cursor
        self._style = style
        self._pictures = pictures
        self._available_px = available_px
        self._has_large_formulas = has_large_formulas
        self.color = color or style.colors.text
        self.ascent_px = 0.0

    def plain(self) -> QTextCharFormat:
        """Return the format of plain text."""
        form = QTextCharFormat(self._style.plain)
        form.setForeground(QBrush(QColor(self.color)))
        return form

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
                    _pop(stack)
                case "u_open" | "mark_open" | "kbd_open" | "sub_open" | "sup_open":
                    if child.type == "kbd_open" and not self._cursor.atBlockStart():
                        self._space_last()
                    self._apply_tag(now, child.tag)
                    stack.append(now)
                case (
                    "strong_close" | "em_close" | "s_close" | "u_close" | "mark_close"
                    | "kbd_close" | "sub_close" | "sup_close"
                ):  # fmt: skip
                    if child.type == "kbd_close":
                        self._space_last()
                    _pop(stack)
                case "image":
                    self._write_image(child, now)
                case "footnote_ref":
                    self._write_reference(str(child.meta["label"]), now)
                case "math_inline" | "math_inline_double":
                    is_display = self._has_large_formulas or child.type == "math_inline_double"
                    self.write_formula(child, now, is_display=is_display)
                case _:
                    self._cursor.insertText(child.content, now)

    def _apply_tag(self, form: QTextCharFormat, tag: str) -> None:
        """Give a format the look of a tag of HTML."""
        form.setProperty(TAG_PROPERTY, tag)
        if tag == "u":
            form.setFontUnderline(True)
        elif tag == "mark":
            form.setBackground(QBrush(QColor(self._style.colors.found)))
        elif tag in ("sub", "sup"):
            align = QTextCharFormat.VerticalAlignment
            form.setVerticalAlignment(
                align.AlignSubScript if tag == "sub" else align.AlignSuperScript
            )
        else:
            font = QFont(self._style.fixed)
            font.setPointSizeF(form.font().pointSizeF() * 0.86)
            form.setFont(font)
            form.setProperty(CHIP_PROPERTY, True)

    def _write_code(self, code: str, form: QTextCharFormat) -> None:
        font = QFont(self._style.fixed)
        font.setPointSizeF(form.font().pointSizeF() * 0.9)
        font.setWeight(form.font().weight())
        font.setItalic(form.font().italic())
        font.setStrikeOut(form.font().strikeOut())
        font.setUnderline(form.font().underline())
        form.setFont(font)
        form.setProperty(CHIP_PROPERTY, True)
        if self._is_after_space:
            self._space_last()
        self._cursor.insertText(code, form)
        self._space_last()

    @property
    def _is_after_space(self) -> bool:
        return bool(self._cursor.document().characterAt(self._cursor.position() - 1) == " ")

    def _space_last(self) -> None:
        """Give the last character room after it, for the edge of a chip's ground."""
        cursor, end = self._cursor, self._cursor.position()
        cursor.setPosition(end - 1, QTextCursor.MoveMode.KeepAnchor)
        spaced = QTextCharFormat()
        spaced.setFontLetterSpacingType(QFont.SpacingType.AbsoluteSpacing)
        spaced.setFontLetterSpacing(2.5)
        cursor.mergeCharFormat(spaced)
        cursor.setPosition(end)

    def _linked(self, form: QTextCharFormat, target: str) -> QTextCharFormat:
        form.setAnchor(True)
        form.setAnchorHref(target)
        form.setToolTip(plain_tooltip(target))
        form.setForeground(QBrush(QColor(self._style.colors.match)))
        form.setFontUnderline(True)
        return form

    def _write_image(self, token: Token, form: QTextCharFormat) -> None:
        """Show an inline or loaded picture; of others, the address."""
        target = str(token.attrGet("src") or "")
        shown = self._pictures.loaded.get(target)
        if _is_data(target):
            shown = picture(target, self._style.em)
        if isinstance(shown, Drawn):
            accessible_name = token.content or "Picture"
            source = accessible_name if _is_data(target) else _image_source(token)
            self._insert(shown, f"picture:{hash(target)}", source, accessible_name)
            return
        title = token.attrGet("title")
        if _is_data(target):
            target = "cannot be shown"
        else:
            can_load = _is_remote(target)
            form = self._linked(form, _loading(target) if can_load else target)
            verb = "Load the picture" if can_load else "This picture is not loaded"
            form.setToolTip(plain_tooltip(f"{verb} from {target}"))
        form.setForeground(QBrush(QColor(self._style.colors.muted)))
        form.setBackground(QBrush(QColor(self._style.colors.sunken)))
        form.setFontUnderline(False)
        form.setProperty(SOURCE_PROPERTY, _image_source(token))
        name = f"Picture: {token.content}" if token.content else "Picture"
        card = " · ".join(filter(None, (name, target, str(title or ""))))
        self._cursor.insertText(f"\u00a0{card}\u00a0", form)

    def remote_picture(self, inline: Token) -> Token | None:
        """Return the picture of an address that is all of a paragraph and is not loaded."""
        children = inline.children or []
        if len(children) != 1 or children[0].type != "image":
            return None
        target = str(children[0].attrGet("src") or "")
        is_shown = isinstance(self._pictures.loaded.get(target), Drawn)
        return children[0] if _is_remote(target) and not is_shown else None

    def write_picture_card(self, image: Token) -> None:
        """Write the lines of a card: the picture's name, its address, and a link that loads it."""
        target, rest = str(image.attrGet("src") or ""), self.plain()
        name = QTextCharFormat(rest)
        name.setFontWeight(QFont.Weight.DemiBold)
        name.setProperty(SOURCE_PROPERTY, _image_source(image))
        self._cursor.insertText(image.content or "Picture", name)
        rest.setProperty(SOURCE_PROPERTY, "")  # the source is copied once
        link = self._linked(QTextCharFormat(rest), _loading(target))
        rest.setForeground(QBrush(QColor(self._style.colors.muted)))
        rest.setToolTip(plain_tooltip(target))
        address = target.partition("://")[2] or target
        self._cursor.insertText(f"{LINE_SEPARATOR}{address.partition('?')[0]}", rest)
        self._cursor.insertText(LINE_SEPARATOR, rest)
        state = self._pictures.loaded.get(target, "")
        if isinstance(state, str) and state:
            self._cursor.insertText(f"{state}  ", rest)
        self._cursor.insertText("Load Picture", link)

    def _write_reference(self, label: str, form: QTextCharFormat) -> None:
        form = self._linked(form, NOTE_PREFIX + label)
        form.setAnchorNames([REFERENCE_PREFIX + label])
        form.setToolTip("To the footnote")
        form.setFontUnderline(False)
        form.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignSuperScript)
        self._cursor.insertText(label, form)

    def write_way_back(self, label: str) -> None:
        """Write the link from a footnote back to its reference."""
        form = self._linked(self.plain(), REFERENCE_PREFIX + label)
        form.setToolTip("Back to the text")
        form.setFontUnderline(False)
        self._cursor.insertText("\u00a0\u21a9", form)

    def write_box(self, is_done: bool) -> None:
        """Write the box of a task."""
        colors = self._style.colors
        name, color = ("box-ticked", colors.match) if is_done else ("box", colors.muted)
        form = self._icon(f"box:{is_done}", svg(name, color))
        form.setProperty(SOURCE_PROPERTY, "[x]" if is_done else "[ ]")
        form.setToolTip("Done" if is_done else "Not done")
        self._cursor.insertImage(form)

    def _icon(self, name: str, icon: bytes) -> QTextImageFormat:
        """Return the format of an icon as high as the letters."""
        side_px = self._style.em
        drawn = Drawn(side_px, side_px, descent_px=side_px * 0.2, svg=icon)
        return self._pictures.format(name, drawn, self._style.font, side_px)

    def write_summary(self, token: Token, number: int, *, is_open: bool) -> None:
        """Write the summary of a fold: a link that shows and hides its content."""
        form = self.plain()
        name = "chevron-down" if is_open else "chevron-right"
        arrow = self._icon(f"fold:{name}", svg(name, self._style.colors.muted))
        arrow.setProperty(SOURCE_PROPERTY, "")
        for link in (form, arrow):
            link.setAnchor(True)
            link.setAnchorHref(f"{FOLD_PREFIX}{number}")
            link.setToolTip("Show or hide")
        self._cursor.insertImage(arrow)
        self._cursor.insertText("\u00a0", form)
        self.write(token, form)

    def write_formula(self, token: Token, form: QTextCharFormat, *, is_display: bool) -> float:
        """Show a formula as a picture, or as its source; it is always copied as its source."""
        source, drawn = formula_source(token), self._drawn(token, is_display=is_display)
        if drawn is None:
            self._cursor.insertText(source.replace("\n", LINE_SEPARATOR), form)
            return 0
        self.ascent_px = max(self.ascent_px, drawn.height_px - drawn.descent_px)
        self._insert(drawn, f"formula:{is_display}:{self.color}:{source}", source, source)
        return drawn.width_px

    def formula_px(self, token: Token) -> float:
        """Return the width of a formula in a table, or of its source."""
        drawn = self._drawn(token, is_display=True)
        return self._style.width(formula_source(token)) if drawn is None else drawn.width_px

    def _drawn(self, token: Token, *, is_display: bool) -> Drawn | None:
        points = self._style.font.pointSizeF() * 1.12  # small signs are legible
        return formula(token.content.strip(), points, self.color, is_display=is_display)

    def _insert(self, drawn: Drawn, name: str, source: str, accessible_name: str) -> None:
        form = self._pictures.format(name, drawn, self._style.font, self._available_px)
        form.setProperty(SOURCE_PROPERTY, source)
        form.setToolTip(plain_tooltip(accessible_name))
        self._cursor.insertImage(form)


def _pop(stack: list[QTextCharFormat]) -> None:
    if len(stack) > 1:  # a tag may end in a link that it began before
        stack.pop()


def _loading(target: str) -> str:
    """Return the link that loads a picture."""
    return PICTURE_PREFIX + bytes(QUrl.toPercentEncoding(target).data()).decode()


def _image_source(image: Token) -> str:
    title = image.attrGet("title")
    end = f' "{title}")' if title else ")"
    return f"![{image.content}]({image.attrGet('src')}{end}"


def _is_remote(target: str) -> bool:
    return target.startswith(("https://", "http://"))


def _is_data(target: str) -> bool:
    return target.startswith("data:")

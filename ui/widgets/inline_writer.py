"""Writes the text within a Markdown block. Main thread."""

from markdown_it.token import Token
from PySide6.QtCore import QUrl
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextImageFormat,
)

from ui.markdown import formula_source
from ui.widgets.formulas import formula
from ui.widgets.markdown_style import MarkdownStyle

LINE_SEPARATOR = "\u2028"
# What a picture in the text stands for: a copy of the text has that instead.
SOURCE_PROPERTY = QTextFormat.Property.UserProperty.value + 1


class InlineWriter:
    """Inserts formatted text where a cursor is.

    Args:
        cursor: Where to write; shared with whoever writes the blocks.
        style: Fonts and colours.
    """

    def __init__(self, cursor: QTextCursor, style: MarkdownStyle) -> None:
        self._cursor = cursor
        self._style = style

    def plain(self) -> QTextCharFormat:
        """Return the format of plain text."""
        form = QTextCharFormat()
        form.setFont(self._style.font)
        form.setForeground(QBrush(QColor(self._style.text)))
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
                    stack.pop()
                case "strong_close" | "em_close" | "s_close":
                    stack.pop()
                case "image":
                    self._write_image(child, now)
                case "math_inline" | "math_inline_double":
                    self.write_formula(child, now, is_display=child.type == "math_inline_double")
                case _:
                    self._cursor.insertText(child.content, now)

    def _write_code(self, code: str, form: QTextCharFormat) -> None:
        font = QFont(self._style.fixed)
        font.setPointSizeF(form.font().pointSizeF() * 0.94)
        form.setFont(font)
        form.setBackground(QBrush(QColor(self._style.code_background)))
        self._cursor.insertText(code, form)

    def _linked(self, form: QTextCharFormat, target: str) -> QTextCharFormat:
        form.setAnchor(True)
        form.setAnchorHref(target)
        form.setToolTip(target)
        form.setForeground(QBrush(QColor(self._style.link)))
        form.setFontUnderline(True)
        return form

    def _write_image(self, token: Token, form: QTextCharFormat) -> None:
        """Show an image as its source and a link: nothing is fetched unasked."""
        target = str(token.attrGet("src") or "")
        title = token.attrGet("title")
        end = f' "{title}")' if title else ")"
        self._cursor.insertText(f"![{token.content}]({target}{end}", self._linked(form, target))

    def write_formula(self, token: Token, form: QTextCharFormat, *, is_display: bool) -> None:
        """Show a formula as a picture that is copied as its source, or as that source."""
        source = formula_source(token)
        style = self._style
        points = style.font.pointSizeF() * (1.12 if is_display else 1.0)
        drawn = formula(token.content.strip(), points, style.text, is_display=is_display)
        if drawn is None:
            self._cursor.insertText(source.replace("\n", LINE_SEPARATOR), form)
            return
        name = f"formula:{style.text}:{is_display}:{source}"
        document = self._cursor.document()
        document.addResource(QTextDocument.ResourceType.ImageResource, QUrl(name), drawn.image)
        picture = QTextImageFormat()
        picture.setName(name)
        picture.setWidth(drawn.width_px)
        picture.setHeight(drawn.height_px)
        picture.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignMiddle)
        picture.setProperty(SOURCE_PROPERTY, source)
        picture.setToolTip(source)
        self._cursor.insertImage(picture)

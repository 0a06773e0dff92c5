"""Markdown as pages of a PDF file. Any thread."""

import re
from collections.abc import Sequence
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from PySide6.QtCore import QBuffer, QIODevice, QMarginsF, QRectF, Qt, QUrl
from PySide6.QtGui import (
    QFont,
    QImage,
    QPageLayout,
    QPainter,
    QPdfWriter,
    QTextDocument,
    QTextOption,
)

from ui.kit.markdown.parser import formula_source, parse, prepared
from ui.kit.markdown.pictures import formula

_FOLD = re.compile(r"^(?:<details><summary>(?P<title>.*)</summary>|</details>)$", re.MULTILINE)
_POINTS = 10.5
_SHARPNESS = 4  # pixels of a formula per pixel of the page
# Qt's own sizes of headings are larger, and code would be cut at the edge of the page.
_STYLE = """
p, ul, ol, li, pre, blockquote { margin-top: 7px; margin-bottom: 7px; }
h1 { font-size: x-large; margin-top: 0; margin-bottom: 10px; }
h2 { font-size: large; }
h3, h4, h5, h6 { font-size: medium; }
h2, h3, h4, h5, h6 { margin-top: 14px; margin-bottom: 4px; }
a { text-decoration: none; }
pre { font-size: 9pt; background-color: #f4f4f2; white-space: pre-wrap; }
table { border-collapse: collapse; border-style: solid; border-color: #c8c8c4; }
table { margin-top: 8px; margin-bottom: 8px; }
"""


def pdf_of(markdown: str) -> bytes:
    """Return a PDF file with numbered pages; folds are open."""
    document = QTextDocument()
    font = QFont(document.defaultFont())
    font.setPointSizeF(_POINTS)
    document.setDefaultFont(font)
    document.setDefaultStyleSheet(_STYLE)
    # Long words of code and addresses would be cut at the edge of the page.
    wrapping = QTextOption()
    wrapping.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    document.setDefaultTextOption(wrapping)
    unfolded = _FOLD.sub(lambda fold: f"*{fold['title']}*" if fold["title"] else "", markdown)
    tokens = parse(prepared(unfolded))
    document.setHtml(_PageRenderer(document).render(tokens, MarkdownIt().options, {}))
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    writer = QPdfWriter(buffer)
    # The document has margins of 2 cm itself.
    writer.setPageMargins(QMarginsF(), QPageLayout.Unit.Millimeter)
    document.print_(writer)
    del writer  # it completes the file
    return bytes(buffer.data().data())


class _PageRenderer(RendererHTML):
    """Renders HTML for a document, which gets the pictures of formulas."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__()
        self._document = document

    def math_inline(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        token = tokens[idx]
        is_display = token.markup in ("$$", "\\[")
        drawn = formula(token.content.strip(), _POINTS, "#000000", is_display=is_display)
        if drawn is None:
            return escape(formula_source(token))
        width, height = drawn.width_px * _SHARPNESS, drawn.height_px * _SHARPNESS
        image = QImage(round(width) + 1, round(height) + 1, QImage.Format.Format_ARGB32)
        image.setDevicePixelRatio(_SHARPNESS)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        drawn.paint(painter, QRectF(0, 0, drawn.width_px, drawn.height_px))
        painter.end()
        name = f"formula:{image.cacheKey()}"
        kind = QTextDocument.ResourceType.ImageResource
        self._document.addResource(kind.value, QUrl(name), image)
        # On the base line, or in the middle of the line if higher.
        place = "baseline" if drawn.descent_px < 1 else "middle"
        size = f'width="{drawn.width_px}" height="{drawn.height_px}"'
        return f'<img src="{name}" {size} style="vertical-align: {place}">'

    math_inline_double = math_inline

    def math_block(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f"<p>{self.math_inline(tokens, idx)}</p>"

    math_block_eqno = math_block

    def fence(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        code = tokens[idx].content.removesuffix("\n")
        return f"<pre>{escape(code)}</pre>"

    code_block = fence  # type: ignore[assignment]  # it has the types of the base's method

    def footnote_ref(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return escape(f"[^{tokens[idx].meta['label']}]")

    def footnote_reference_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        return f"<p>{self.footnote_ref(tokens, idx)}:</p>"

    def footnote_reference_close(self, *_: Any) -> str:
        return ""

    def list_item_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        is_done = tokens[idx].meta.get("is_done")
        return "<li>" if is_done is None else f'<li class="{"" if is_done else "un"}checked">'

    def table_open(self, *_: Any) -> str:
        return '<table border="1" cellspacing="0" cellpadding="5">'

    def th_open(self, tokens: Sequence[Token], idx: int, *_: Any) -> str:
        # Qt reads no alignment from a style, and centers a head without one.
        align = str(tokens[idx].attrGet("style") or "left").removeprefix("text-align:")
        return f'<{tokens[idx].tag} align="{align}">'

    td_open = th_open

"""Builds HTML for Qt's text widgets, and escapes text so that it is never read as markup."""

import ast
import re
from collections.abc import Iterable
from html import escape

from engine.wording import visible

# Qt supports a subset of HTML and CSS: https://doc.qt.io/qt-6/richtext-html-subset.html.


# 'x' or "x", with escaped quotes inside, if neither side touches a word.
_QUOTATION = re.compile(r"""(?<!\w)(?:'(?:[^'\\]|\\.)+'|"(?:[^"\\]|\\.)+")(?!\w)""")


class Html(str):
    """Complete markup, which is inserted without escaping."""

    __slots__ = ()


def element(name: str, *inner: str, style: str = "", **attributes: str | int) -> Html:
    """Return an element."""
    if style:
        attributes["style"] = style
    text = "".join(f' {key}="{escape(str(value))}"' for key, value in attributes.items())
    return Html(f"<{name}{text}>{joined(*inner)}</{name}>")


def joined(*parts: str) -> Html:
    """Return parts one after the other; a plain string is escaped."""
    return Html("".join(part if isinstance(part, Html) else escape(part) for part in parts))


def paragraph(*inner: str, style: str = "") -> Html:
    """Return a paragraph."""
    return element("p", *inner, style=style)


def code(*inner: str, style: str = "") -> Html:
    """Return a span in the fixed font."""
    return element("code", *inner, style=style)


def strong(*inner: str, style: str = "") -> Html:
    """Return bold text."""
    return element("b", *inner, style=style)


def colored(text: str, color: str, ground: str = "") -> Html:
    """Return text in a color, on another background if one is given."""
    style = f"background:{ground};color:{color}" if ground else f"color:{color}"
    return element("span", text, style=style)


def badge(word: str, color: str, ground: str) -> Html:
    """Return a word on a background of its color, with a little space at both sides."""
    return colored(joined(SPACE, word, SPACE), color, ground)


def cell(*inner: str, style: str = "", **attributes: str | int) -> Html:
    """Return one cell of a table's row."""
    return element("td", *inner, style=style, **attributes)


def table(rows: Iterable[Iterable[Html]], **attributes: str | int) -> Html:
    """Return a table; each row is a list of its cells."""
    lines = (element("tr", *cells) for cells in rows)
    return element("table", *lines, style="", **attributes)


def lines(text: str) -> Html:
    """Return a text with its line breaks."""
    return Html(escape(text).replace("\n", "<br>"))


def visible_breaks(text: str) -> Html:
    """Return a text with its line breaks, and a visible sign for each of them."""
    return Html(escape(text).replace("\n", "⏎<br>"))


def visible_lines(text: str) -> Html:
    """Return a text with visible line breaks and control characters; spaces stay spaces."""
    return Html(escape(visible(text)).replace("⏎", "⏎<br>").replace("·", " "))


def with_code_spans(sentence: str) -> Html:
    """Return a sentence in which text in straight quotes is code with visible white space.

    Reports quote text as Python does, with escapes. An apostrophe does not begin a quotation.
    """
    parts: list[str] = []
    end = 0
    for quotation in _QUOTATION.finditer(sentence):
        quoted = code(visible(_unquoted(quotation[0])))
        parts += [sentence[end : quotation.start()], "“", quoted, "”"]
        end = quotation.end()
    return joined(*parts, sentence[end:])


def _unquoted(quotation: str) -> str:
    try:
        return str(ast.literal_eval(quotation))
    except (SyntaxError, ValueError):
        return quotation[1:-1]


SPACE = Html("&nbsp;")
BREAK = Html("<br>")

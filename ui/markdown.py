"""Markdown as models write it: the parser, and which blocks of a growing text are closed.

Pure; knows no Qt. Nothing that a model says may vanish: HTML stays text, so do entities, link
definitions, images and backslashes that escape nothing of Markdown's own (LaTeX needs them).
"""

from functools import cache

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.dollarmath.index import math_inline_dollar
from mdit_py_plugins.texmath import texmath_plugin

from ui.visible import with_control_pictures

_TEX_SIGNS = frozenset("\\^_{}=+<>/")
_ESCAPABLE = frozenset("*_~`#|<>!")
# What QTextDocument would take as its own marks, or as the end of a paragraph.
_UNSAFE = str.maketrans(
    {"\u2029": "\u2028", "\ufdd0": "\ufffd", "\ufdd1": "\ufffd", "\ufffc": "\ufffd"}
)


def prepared(text: str) -> str:
    """Return the text as it is parsed: line ends unified, control characters made visible."""
    return with_control_pictures(text.replace("\r\n", "\n")).translate(_UNSAFE)


def parse(text: str) -> list[Token]:
    """Return the block tokens of prepared text, in the manner of markdown-it."""
    return _parser().parse(text)


def closed_tokens(text: str, tokens: list[Token]) -> tuple[int, int]:
    """Return how much of a text can no longer change, whatever is appended to it.

    A top-level block, or an item of a top-level list, is closed once another one follows whose
    first line is complete: blocks are decided line by line. What follows a closed item is
    written like a list of its own, so that a long list need not be rendered again and again.

    Args:
        text: Prepared text.
        tokens: ``parse(text)``.

    Returns:
        The number of tokens that belong to closed blocks, and the number of the first open line.
    """
    lines = text.split("\n")
    boundary = (0, 0)
    for number, token in enumerate(tokens):
        if token.map is None or token.nesting < 0:
            continue
        if token.map[0] >= len(lines) - 1:
            break
        if token.level == 0 or (token.level == 1 and _begins_item(token, lines)):
            boundary = (number, token.map[0])
    return boundary


def _begins_item(token: Token, lines: list[str]) -> bool:
    """Whether a list item can be parsed by itself: further in, it would be code."""
    if token.type != "list_item_open" or token.map is None:
        return False
    line = lines[token.map[0]]
    return len(line) - len(line.lstrip(" ")) < 4 and not line.startswith("\t")


def is_ragged(token: Token, text: str) -> bool:
    """Return whether a table has rows with more cells than its head: Markdown drops those."""
    if token.map is None:
        return False
    rows = text.split("\n")[token.map[0] : token.map[1]]
    counts = [_cells(row) for row in rows]
    return bool(counts) and max(counts) > counts[0]


def _cells(row: str) -> int:
    row = row.strip()
    bars = row.replace("\\|", "").count("|")
    return bars + 1 - row.startswith("|") - (row.endswith("|") and not row.endswith("\\|"))


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"])
    parser.disable(["reference", "entity", "html_block", "html_inline"])
    # Before our rule for backslashes, so that \\( is found; sums of money are no formulas.
    parser.use(
        dollarmath_plugin,
        allow_labels=False,
        allow_space=False,
        allow_digits=False,
        double_inline=True,
    )
    parser.inline.ruler.at("math_inline", _dollars)
    parser.use(texmath_plugin, delimiters="brackets")
    parser.inline.ruler.at("escape", _escape)
    return parser


def formula_source(token: Token) -> str:
    """Return a formula as it was written, delimiters included."""
    closing = {"\\(": "\\)", "\\[": "\\]"}.get(token.markup, token.markup)
    return f"{token.markup}{token.content}{closing}"


_between_dollars = math_inline_dollar(allow_space=False, allow_digits=False, allow_double=True)


def _dollars(state: StateInline, silent: bool) -> bool:
    """Take what stands between dollars as a formula only where it is likely meant as one."""
    position, pending, count = state.pos, state.pending, len(state.tokens)
    if not _between_dollars(state, False):
        return False
    is_meant = _is_formula(state.tokens[-1])
    if silent or not is_meant:
        del state.tokens[count:], state.tokens_meta[count:]
        state.pending = pending
    if not is_meant:
        state.pos = position
    return is_meant


def _is_formula(token: Token) -> bool:
    content = token.content
    is_amount = content[:1].isdigit() and not _TEX_SIGNS & set(content)
    return token.markup != "$" or not ("`" in content or is_amount)


def _escape(state: StateInline, silent: bool) -> bool:
    """Take a backslash away only where it keeps one of Markdown's own signs from acting."""
    if state.src[state.pos] != "\\":
        return False
    following = state.src[state.pos + 1 : min(state.pos + 2, state.posMax)]
    if following in _ESCAPABLE:
        if not silent:
            token = state.push("text_special", "", 0)
            token.content = following
            token.markup = "\\" + following
            token.info = "escape"
        state.pos += 2
    else:
        if not silent:
            state.pending += "\\"
        state.pos += 1
    return True

"""Rules that our Markdown adds or changes: formulas, backslashes, tasks, footnotes, bare links.

Pure; knows no Qt.
"""

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.dollarmath.index import math_inline_dollar
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin
from mdit_py_plugins.texmath import texmath_plugin

_TEX_SIGNS = frozenset("\\^_{}=+<>/")
_ESCAPABLE = frozenset("*_~`#|<>!")
_BOXES = {"[ ]": False, "[x]": True, "[X]": True}


def add_rules(parser: MarkdownIt, *, with_bare_links: bool) -> None:
    """Add the rules to a parser."""
    # Runs before our rule for backslashes, so that \\( is found; sums of money are not formulas.
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
    # A footnote stays where it is written. Models write footnotes at the end; moving them there
    # would move them again with each new block of a growing text.
    parser.use(footnote_plugin, inline=False, move_to_end=False)
    if with_bare_links:
        parser.use(gfm_autolink_plugin)
    # The text of a link is shown as it was written, including percent signs.
    parser.normalizeLinkText = _as_written  # type: ignore[method-assign]
    parser.core.ruler.push("task_list", _mark_tasks)


def _as_written(link: str) -> str:
    return link


def formula_source(token: Token) -> str:
    """Return a formula as it was written, with its delimiters."""
    closing = {"\\(": "\\)", "\\[": "\\]"}.get(token.markup, token.markup)
    return f"{token.markup}{token.content}{closing}"


_between_dollars = math_inline_dollar(allow_space=False, allow_digits=False, allow_double=True)


def _dollars(state: StateInline, silent: bool) -> bool:
    """Read text between dollar signs as a formula only if it probably is one."""
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
    """Remove a backslash only if it escapes one of Markdown's own characters."""
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


def _mark_tasks(state: StateCore) -> None:
    """Mark each item that begins with a box as checked or unchecked, and remove the box."""
    tokens = state.tokens
    for at, item in enumerate(tokens[:-2]):
        if item.type != "list_item_open" or tokens[at + 1].type != "paragraph_open":
            continue
        children = tokens[at + 2].children or []
        if not children or children[0].type != "text":
            continue
        box, space, said = children[0].content[:3], children[0].content[3:4], children[0]
        has_more = bool(said.content[4:].strip()) or len(children) > 1
        if box in _BOXES and space in (" ", "\t") and has_more:
            item.meta = {**item.meta, "is_done": _BOXES[box]}
            said.content = said.content[4:]

"""Parses Markdown into blocks, also while the text still grows. Pure; any thread.

The little HTML that models mean as formatting is read as well: bare tags without attributes, each
only with its end. Everything else stays text: a script, a style, a picture at an address, a tag
that is not closed.
"""

import re
from functools import cache
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from mdit_py_plugins.dollarmath.index import math_inline_dollar
from mdit_py_plugins.footnote import footnote_plugin
from mdit_py_plugins.gfm_autolink import gfm_autolink_plugin
from mdit_py_plugins.texmath import texmath_plugin

from ui.words import with_control_pictures

# A tag, and the token that it means; some mean the same as a mark of Markdown. ``<s>`` is none of
# them: models of the Llama family begin and end with it, and the user wants to see that.
TAGS = {
    "b": "strong", "strong": "strong", "i": "em", "em": "em", "del": "s",
    "u": "u", "ins": "u", "mark": "mark", "kbd": "kbd", "sub": "sub", "sup": "sup",
}  # fmt: skip
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{'|'.join(TAGS)})>", re.IGNORECASE)
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_DETAILS = re.compile(r"<details(?P<open> open(?:=\"\")?)?>(?P<rest>.*)", re.IGNORECASE)
_SUMMARY = re.compile(r"\s*<summary>(?P<text>.*?)</summary>(?P<rest>.*)", re.IGNORECASE)
_BEGINS_FORMULAS = re.compile(r"\\begin\{(?P<name>(?:align|equation|gather|multline)\*?)\}")
_ENDS = re.compile(r"</details>\s*", re.IGNORECASE)


def _tag(state: StateInline, silent: bool) -> bool:
    """Read a line break, or a tag that is closed in the same text."""
    source, at = state.src, state.pos
    if source[at] != "<":
        return False
    if line_break := _BREAK.match(source, at):
        if not silent:
            state.push("hardbreak", "br", 0)
        state.pos = line_break.end()
        return True
    tag = None if silent else _TAG.match(source, at)
    if tag is None:
        return False
    name = tag["name"].lower()
    waiting = _waiting(state)
    if not tag["end"]:
        if f"</{name}>" not in source[tag.end() : tag.end() + 1_000].lower():
            return False
        waiting.append(name)
        state.push(f"{TAGS[name]}_open", TAGS[name], 1)
    elif waiting and waiting[-1] == name:
        waiting.pop()
        state.push(f"{TAGS[name]}_close", TAGS[name], -1)
    else:
        return False
    state.pos = tag.end()
    return True


def _waiting(state: StateInline) -> list[str]:
    """Return the tags of this text that are open."""
    of, waiting = cast("tuple[str, list[str]]", state.env.get("bare_tags", ("", [])))
    if of is not state.src:
        waiting = []
        state.env["bare_tags"] = (state.src, waiting)
    return waiting


def _details(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Read a part that can be folded: from its first line to the line that ends it."""
    if state.is_code_block(begin):
        return False
    opening = _DETAILS.fullmatch(_line(state, begin).strip())
    if opening is None:
        return False
    rest, first = opening["rest"], begin + 1
    summary = _SUMMARY.fullmatch(rest)
    if summary is None and not rest.strip():
        while first < end and not _line(state, first).strip():
            first += 1
        summary = _SUMMARY.fullmatch(_line(state, first)) if first < end else None
        first += summary is not None
    if summary is None and rest.strip():
        return False
    after = summary["rest"] if summary else ""
    if after.strip():
        return False
    if silent:
        return True
    last, is_closed = _last_line(state, first, end)
    token = state.push("details_open", "details", 1)
    token.block = True
    token.map = [begin, last + is_closed]
    token.meta = {"is_open": bool(opening["open"])}
    text = state.push("inline", "", 0)
    text.content = summary["text"].strip() if summary else "Details"
    text.map = [begin, first]
    text.children = []
    outer, state.lineMax = state.lineMax, last
    kind, state.parentType = state.parentType, "details"
    state.md.block.tokenize(state, first, last)
    state.lineMax, state.parentType = outer, kind
    state.push("details_close", "details", -1).block = True
    state.line = last + is_closed
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _environment(state: StateBlock, begin: int, end: int, silent: bool) -> bool:
    """Read an environment of formulas, which needs no delimiters."""
    opening = None if state.is_code_block(begin) else _BEGINS_FORMULAS.match(_line(state, begin))
    if opening is None:
        return False
    closing = f"\\end{{{opening['name']}}}"
    lines: list[str] = []
    for number in range(begin, end):
        lines.append(_line(state, number).rstrip())
        if lines[-1].endswith(closing):
            break
    else:
        return False
    if not silent:
        token = state.push("math_block", "math", 0)
        token.block = True
        token.content = "\n".join(lines)
        token.map = [begin, begin + len(lines)]
        state.line = begin + len(lines)
    return True


def _last_line(state: StateBlock, first: int, end: int) -> tuple[int, bool]:
    """Return the line that closes the part, and whether it is there yet."""
    depth = 1
    for number in range(first, end):
        line = _line(state, number).strip()
        if _ENDS.fullmatch(line):
            depth -= 1
            if not depth:
                return number, True
        elif _DETAILS.fullmatch(line):
            depth += 1
    return end, False


_TEX_SIGNS = frozenset("\\^_{}=+<>/")
_ESCAPABLE = frozenset("*_~`#|<>!$")
_MENTION = re.compile(r"\[\^(\d{1,4})\]")
_BOXES = {"[ ]": False, "[x]": True, "[X]": True}


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
    token = state.tokens[-1]
    is_amount = token.content[:1].isdigit() and not _TEX_SIGNS & set(token.content)
    is_meant = token.markup != "$" or not ("`" in token.content or is_amount)
    if silent or not is_meant:
        del state.tokens[count:], state.tokens_meta[count:]
        state.pending = pending
    if not is_meant:
        state.pos = position
    return is_meant


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


def _footnote_reference(state: StateInline, silent: bool) -> bool:
    """Read a number as a reference to a footnote, which a growing text may define later."""
    mention = _MENTION.match(state.src, state.pos)
    if mention is None:
        return False
    if not silent:
        state.push("footnote_ref", "", 0).meta = {"label": mention[1]}
    state.pos = mention.end()
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
        box, space, text = children[0].content[:3], children[0].content[3:4], children[0]
        has_more = bool(text.content[4:].strip()) or len(children) > 1
        if box in _BOXES and space in (" ", "\t") and has_more:
            item.meta = {**item.meta, "is_done": _BOXES[box]}
            text.content = text.content[4:]


# No text of a model may disappear: HTML stays text, apart from a few tags that only format, and so
# do entities, link definitions, images at an address, and backslashes before characters without a
# meaning in Markdown (LaTeX needs them).

# Quote marks, list marks and indentation before the row of a table.
_CONTAINER = re.compile(r"^(?:\s|>|[-*+]\s|\d{1,9}[.)]\s)*")
# Characters that QTextDocument uses for itself, or reads as the end of a paragraph.
_UNSAFE = str.maketrans(
    {"\u2029": "\u2028", "\ufdd0": "\ufffd", "\ufdd1": "\ufffd", "\ufffc": "\ufffd"}
)


def prepared(text: str) -> str:
    """Return the text for parsing: with uniform line ends and visible control characters."""
    return with_control_pictures(text.replace("\r\n", "\n")).translate(_UNSAFE)


def parse(text: str) -> list[Token]:
    """Return the block tokens of prepared text, as markdown-it has them."""
    return _parser().parse(text)


def closed_tokens(text: str, tokens: list[Token]) -> tuple[int, int]:
    """Return how much of a text can no longer change when more text is appended.

    A top-level block, or an item of a top-level list, is closed once another one follows whose
    first line is complete, because Markdown decides blocks line by line. A following table also
    needs its second line: if the marks below its head do not fit, both lines belong to the
    paragraph above. The items after a closed one are written like a separate list, so that a long
    list is not rendered again and again.
    """
    lines = text.split("\n")
    boundary = (0, 0)
    for number, token in enumerate(tokens):
        if not token.map or token.map[0] == 0 or token.nesting < 0:
            continue
        deciding = token.map[0] + (token.type == "table_open")
        if deciding >= len(lines) - 1:
            break
        if token.level == 0 or (token.level == 1 and _begins_item(token, lines)):
            boundary = (number, token.map[0])
    return boundary


def _begins_item(token: Token, lines: list[str]) -> bool:
    """Return whether a list item can be parsed alone; with more indentation it would be code."""
    if token.type != "list_item_open" or token.map is None:
        return False
    line = lines[token.map[0]]
    return len(line) - len(line.lstrip(" ")) < 4 and not line.startswith("\t")


def table_tokens(tokens: list[Token], text: str) -> list[Token] | None:
    """Return the tokens of a table with all its cells.

    Markdown drops the cells of a row that the head has no columns for; here it gets more columns.
    """
    where = tokens[0].map
    if where is None:
        return tokens
    rows = text.split("\n")[where[0] : where[1]]
    counts = [_cells(row) for row in rows]
    if not counts or max(counts) <= counts[0]:
        return tokens
    bare = [_CONTAINER.sub("", row, count=1) for row in rows]
    surplus = max(counts) - counts[0]
    bare[0] = _closed(bare[0]) + " |" * surplus
    bare[1] = _closed(bare[1]) + " --- |" * surplus
    again = parse("\n".join(bare))
    return again if again and again[0].type == "table_open" else None


def _cells(row: str) -> int:
    row = _CONTAINER.sub("", row, count=1).strip()
    bars = row.replace("\\|", "").count("|")
    return bars + 1 - row.startswith("|") - (row.endswith("|") and not row.endswith("\\|"))


def _closed(row: str) -> str:
    row = row.rstrip()
    return row if row.endswith("|") and not row.endswith("\\|") else row + " |"


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"])
    parser.disable(["reference", "entity", "html_block", "html_inline"])
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
    parser.inline.ruler.at("footnote_ref", _footnote_reference)
    parser.use(gfm_autolink_plugin)
    parser.inline.ruler.before("autolink", "bare_tag", _tag)
    parser.block.ruler.before(
        "fence", "details", _details, {"alt": ["paragraph", "blockquote", "list"]}
    )
    parser.block.ruler.before(
        "fence", "environment", _environment, {"alt": ["paragraph", "blockquote", "list"]}
    )
    # The text of a link is shown as it was written, including percent signs.
    is_allowed = parser.validateLink
    # A picture that cannot be shown is a card; as source it would be lines of base64.
    parser.validateLink = lambda url: (  # type: ignore[method-assign]
        url.startswith("data:image/") or is_allowed(url)
    )
    parser.normalizeLinkText = lambda link: link  # type: ignore[method-assign]
    parser.core.ruler.push("task_list", _mark_tasks)
    return parser

"""Parses Markdown of models, and tells which blocks of a growing text are closed.

Pure; knows no Qt. No text of a model may disappear: HTML stays text, and so do entities, link
definitions, images, and backslashes before characters without a meaning in Markdown (LaTeX needs
them).
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache

from markdown_it import MarkdownIt
from markdown_it.token import Token

from ui.kit.markdown.parsing.markdown_rules import add_rules
from ui.words.visible import with_control_pictures

# Every bare link has one of these.
_LINK_SIGNS = "://", "www.", "@"
_MENTION = re.compile(r"\[\^([^\]\s]+)\]")
# Quote marks, list marks and indentation before the row of a table.
_CONTAINER = re.compile(r"^(?:\s|>|[-*+]\s|\d{1,9}[.)]\s)*")
# Characters that QTextDocument uses for itself, or reads as the end of a paragraph.
_UNSAFE = str.maketrans(
    {"\u2029": "\u2028", "\ufdd0": "\ufffd", "\ufdd1": "\ufffd", "\ufffc": "\ufffd"}
)


def prepared(text: str) -> str:
    """Return the text for parsing: with uniform line ends and visible control characters."""
    return with_control_pictures(text.replace("\r\n", "\n")).translate(_UNSAFE)


def parse(text: str, notes: Iterable[str] = ()) -> list[Token]:
    """Return the block tokens of prepared text, as markdown-it has them."""
    refs = {f":{label}": -1 for label in notes}
    may_have_links = any(sign in text for sign in _LINK_SIGNS)
    return _parser(may_have_links).parse(text, {"footnotes": {"refs": refs, "list": {}}})


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


def note_labels(tokens: Iterable[Token]) -> set[str]:
    """Return the labels of the footnotes that tokens define."""
    return {str(t.meta["label"]) for t in tokens if t.type == "footnote_reference_open"}


def note_mentions(text: str) -> set[str]:
    """Return every label that a text may refer to, whether it is defined or not."""
    return set(_MENTION.findall(text))


def note_numbers(tokens: Iterable[Token], before: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of footnotes, in the order in which a text first refers to them."""
    numbers = dict(before)
    for token in tokens:
        for child in token.children or ():
            if child.type == "footnote_ref":
                numbers.setdefault(str(child.meta["label"]), len(numbers) + 1)
    return numbers


@cache
def _parser(with_bare_links: bool) -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.enable(["table", "strikethrough"])
    parser.disable(["reference", "entity", "html_block", "html_inline"])
    add_rules(parser, with_bare_links=with_bare_links)
    return parser

"""The little HTML that models mean as formatting, as rules of the parser. Pure; any thread.

Only bare tags without attributes count, and each only with its end. Everything else stays text: a
script, a style, a picture at an address, a tag that is not closed.
"""

import re
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_inline import StateInline

# A tag, and the token that it means; some mean the same as a mark of Markdown. ``<s>`` is none of
# them: models of the Llama family begin and end with it, and a person wants to see that.
TAGS = {
    "b": "strong", "strong": "strong", "i": "em", "em": "em", "del": "s",
    "u": "u", "ins": "u", "mark": "mark", "kbd": "kbd", "sub": "sub", "sup": "sup",
}  # fmt: skip
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{'|'.join(TAGS)})>", re.IGNORECASE)
_BREAK = re.compile(r"<br ?/?>", re.IGNORECASE)
_DETAILS = re.compile(r"<details(?P<open> open(?:=\"\")?)?>(?P<rest>.*)", re.IGNORECASE)
_SUMMARY = re.compile(r"\s*<summary>(?P<text>.*?)</summary>(?P<rest>.*)", re.IGNORECASE)
_ENDS = re.compile(r"</details>\s*", re.IGNORECASE)
# A tag is short: looking for its end in all of a long text would be slow.
_MOST_CHARS = 1_000
_FENCE = re.compile(r"(`{3,}|~{3,})")


def add_html(parser: MarkdownIt) -> None:
    """Add the rules to a parser."""
    parser.inline.ruler.before("autolink", "bare_tag", _tag)
    parser.block.ruler.before(
        "fence", "details", _details, {"alt": ["paragraph", "blockquote", "list"]}
    )


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
        if not _is_closed(source, tag.end(), name):
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


def _is_closed(source: str, at: int, name: str) -> bool:
    """Return whether the tag that ends at a place is closed after it, not counting code."""
    depth = 1
    for tag in _TAG.finditer(source, at, at + _MOST_CHARS):
        if tag["name"].lower() == name and source.count("`", at, tag.start()) % 2 == 0:
            depth += -1 if tag["end"] else 1
            if not depth:
                return True
    return False


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
    said = state.push("inline", "", 0)
    said.content = summary["text"].strip() if summary else "Details"
    said.map = [begin, first]
    said.children = []
    outer, state.lineMax = state.lineMax, last
    kind, state.parentType = state.parentType, "details"
    state.md.block.tokenize(state, first, last)
    state.lineMax, state.parentType = outer, kind
    state.push("details_close", "details", -1).block = True
    state.line = last + is_closed
    return True


def _line(state: StateBlock, number: int) -> str:
    return state.src[state.bMarks[number] + state.tShift[number] : state.eMarks[number]]


def _last_line(state: StateBlock, first: int, end: int) -> tuple[int, bool]:
    """Return the line that closes the part, and whether it is there yet."""
    depth, fence = 1, ""
    for number in range(first, end):
        line = _line(state, number).strip()
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif line.startswith(fence) and not line.strip(fence[0]):
                fence = ""
        if fence:
            continue
        if _ENDS.fullmatch(line):
            depth -= 1
            if not depth:
                return number, True
        elif _DETAILS.fullmatch(line):
            depth += 1
    return end, False

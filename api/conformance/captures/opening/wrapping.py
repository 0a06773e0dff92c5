"""Removes quotation marks, fences, times and indentation around a pasted answer.

Pure; any thread.
"""

import re
from collections.abc import Iterator

from api.conformance.captures.text_lines import line_start

# The beginning of a line of an answer.
_ANSWER = r"(?:data:|event:|HTTP/\d|\{|\[ *\{|\[ *$)"
_BEGINNING_CHARS = 1024 * 1024
_MOST_QUOTED = 5
_QUOTED = re.compile(rf"^[ \t]*>[> \t]*(?:{_ANSWER}|```|~~~)", re.MULTILINE)
_QUOTE = re.compile(r"^[ \t]*>(?:[> \t]*>)? ?", re.MULTILINE)
_ONE_QUOTE = re.compile(r"^[ \t]*> ?", re.MULTILINE)
_UNQUOTED_LINE = re.compile(r"^[ \t]*[^\s>]", re.MULTILINE)
_FENCE = re.compile(r"^[ \t]*(`{3,}|~{3,})[^\n`]*$", re.MULTILINE)
_INDENTED = re.compile(r"^[ \t]+(?:data:|event:|HTTP/\d)", re.MULTILINE)
_INDENT = re.compile(r"^[ \t]+", re.MULTILINE)
# 2026-11-22T14:10:39.123Z, Nov 22 14:10:39, [14:10:39], 1763820639.123, [  12.345678]; the name of
# a Docker service may precede it.
_STAMP = (
    r"(?:[\w.\-/]{1,60} +\| +)?[\[(]?(?:"
    r"(?:(?:\d{4}[-/.]\d\d[-/.]\d\d[T ]|(?:[A-Z][a-z]{2},? )?[A-Z][a-z]{2} +\d{1,2} (?:\d{4} )?"
    r"|\d{1,2}[/ ][A-Z][a-z]{2}[/ ]\d{4}[: ])? *\d{1,2}:\d\d:\d\d(?:[.,]\d{1,9})?"
    r"(?: ?(?:Z|UTC|GMT|[AP]M|[+-]\d\d:?\d\d))?)"
    r"|\d{10}(?:\.\d{1,9})?|\d{13}| *\d{1,7}\.\d{3,9}s?)[\])]?"
)
_MIDDLE = r"[^{}\"\r\n]{0,120}?"
_STAMPED = re.compile(rf"^{_STAMP}[ \t|:\-,]{_MIDDLE}(?=data:|event:|HTTP/\d|\{{)", re.MULTILINE)
_TIME = re.compile(
    rf"^{_STAMP}(?:[ \t|:\-,]{_MIDDLE}(?=data:|event:|id: |retry:|HTTP/\d|\{{|\[ *\{{)|[ \t]?)",
    re.MULTILINE,
)


def unwrapped(text: str) -> Iterator[str]:
    """Yield the parts of a text that may contain answers, without the text around their lines."""
    text = _without_quotes(text)
    blocks = _fenced(text)
    for block in blocks or [text]:
        yield _without_indent(_without_times(block))


def _without_quotes(text: str) -> str:
    for _ in range(_MOST_QUOTED):
        beginning = text[:_BEGINNING_CHARS]
        if ">" not in beginning or _UNQUOTED_LINE.search(beginning):
            break
        text = _ONE_QUOTE.sub("", text)
    # curl -v marks sent lines in the same way.
    if line_start(text, "< HTTP/") is None and _QUOTED.search(text[:_BEGINNING_CHARS]):
        text = _QUOTE.sub("", text)
    return text


def _fenced(text: str) -> list[str]:
    """Return the texts between fences; [] if there are none."""
    if "```" not in text and "~~~" not in text:
        return []
    blocks: list[str] = []
    opening: re.Match[str] | None = None
    for found in _FENCE.finditer(text):
        if opening is None:
            opening = found
        elif found[1].startswith(opening[1]):
            blocks.append(text[opening.end() + 1 : found.start()])
            opening = None
    if opening is not None:
        blocks.append(text[opening.end() + 1 :])
    return [block for block in blocks if block.strip()]


def _without_times(text: str) -> str:
    return _TIME.sub("", text) if _STAMPED.search(text[:_BEGINNING_CHARS]) else text


def _without_indent(text: str) -> str:
    beginning = text[:_BEGINNING_CHARS]
    if not _INDENTED.search(beginning):
        return text
    if any(line_start(beginning, word) is not None for word in ("data:", "event:", "HTTP/")):
        return text
    return _INDENT.sub("", text)

"""Titles of conversations: text as one safe, plain line."""

import re
from collections.abc import Iterable

UNTITLED = "New Chat"
_EARLIER_UNTITLED = "New conversation"  # in stores and archives of earlier versions
# Characters that control a terminal or change the direction of text.
_STEERING = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)
# The marks of Markdown, HTML and LaTeX, and their replacements.
_MARKS = (
    (re.compile(r"^\s*(?:```|~~~).*$", re.M), " "),
    (re.compile(r"^\s*(?:[-*_]\s*){3,}$", re.M), " "),
    (re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*(?::?-{2,}:?)?\s*$", re.M), " "),
    (re.compile(r"^\s*(?:#{1,6}|>|[-*+])\s+", re.M), ""),
    (re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)?"), r"\1"),
    (re.compile(r"</?[a-zA-Z][^<>\n]*>?"), " "),
    (re.compile(r"(?<!\w)([*_~]{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"(?<!\w)(?:\*\*|__|~~)(?=\w)"), ""),  # the text ends before the other mark
    (re.compile(r"`+([^`]*)`*"), r"\1"),
    (re.compile(r"\$\$|\\[()\[\]]"), ""),
    (re.compile(r"\s\|\s|^\||\|$", re.M), " "),
)


def plain_line(text: str) -> str:
    """Return a text as one line without the marks of Markdown, HTML and LaTeX."""
    for pattern, left in _MARKS:
        text = pattern.sub(left, text)
    return " ".join(text.split())


def title_of(question: str, files: Iterable[str] = ()) -> str:
    """Return the title for a conversation that begins with this question, or with files' names."""
    text = question if question.strip() else ", ".join(files)
    return " ".join(text[:1_000].split())


def title_from_file(text: str) -> str:
    """Return a title from a file in a safe form: one line of limited length.

    Characters that control a terminal or change the direction of text become ``\ufffd``.
    """
    line = " ".join(text[:1_000].split()).translate(_STEERING)
    return UNTITLED if line in ("", _EARLIER_UNTITLED) else line

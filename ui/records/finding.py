"""Search in messages: the words of a query, and the snippet of a text that shows them.

Pure; any thread. Each store has its own way to search; stores and the window use these values.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

MOST_HITS = 100
_BEFORE_CHARS = 24
_SNIPPET_CHARS = 110


@dataclass(frozen=True, slots=True)
class Hit:
    """A place where the searched words occur.

    Attributes:
        conversation_id: The conversation.
        message_id: The message; None if the title or a tag matches.
        title: The conversation's title.
        role: ``user``, ``assistant``, ``title``, or ``tag``.
        said_at: Unix time of the message, in seconds.
        snippet: The words around the match, on one line.
        spans: The start and length of each match in the snippet.
    """

    conversation_id: str
    message_id: str | None
    title: str
    role: str
    said_at: float
    snippet: str
    spans: tuple[tuple[int, int], ...]


def words_of(query: str) -> tuple[str, ...]:
    """Return the words of a query, each once; a hit has all of them. Quotes keep words together."""
    found = (quoted or plain for quoted, plain in re.findall(r'"([^"]+)"|(\S+)', query))
    words = (word.strip() if word.strip('" ') else "" for word in found)
    return tuple(dict.fromkeys(word for word in words if word))


def matches(text: str, words: Sequence[str]) -> bool:
    """Return whether a text has all the words, ignoring case."""
    folded = text.casefold()
    return all(word.casefold() in folded for word in words)


def snippet_of(text: str, words: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Return a line of text around the first match, and the places of the words in it."""
    pattern = re.compile("|".join(re.escape(word) for word in words) or r"(?!)", re.IGNORECASE)
    first = pattern.search(text)
    begin = max(0, (first.start() if first else 0) - _BEFORE_CHARS)
    if begin and (space := text.find(" ", begin, begin + 12)) >= 0:
        begin = space + 1
    piece = text[begin : begin + _SNIPPET_CHARS]
    line = ("…" if begin else "") + re.sub(r"\s", " ", piece)
    if begin + _SNIPPET_CHARS < len(text):
        line += "…"
    return line, tuple((m.start(), m.end() - m.start()) for m in pattern.finditer(line))


def named_hit(
    conversation_id: str,
    title: str,
    tags: Sequence[str],
    updated_at: float,
    words: Sequence[str],
) -> Hit | None:
    """Return the hit of a conversation whose title and tags have all the words; None for no hit.

    Args:
        conversation_id: The conversation.
        title: Its title.
        tags: Its tags.
        updated_at: Unix time of its last message.
        words: The words of the query.
    """
    role, text, listed = "title", title, ", ".join(tags)
    if not matches(title, words):
        role, text = "tag", listed
        if not matches(listed, words):
            text = f"{title} · {listed}"
            if not matches(text, words):
                return None
    line, spans = snippet_of(text, words)
    return Hit(conversation_id, None, title, role, updated_at, line, spans)

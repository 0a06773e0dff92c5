"""Escapes any text for Markdown: code spans, cells, fences. Pure; any thread."""

import re

from api.conformance.captures.harmless import harmless, on_one_line

# A quoted text, as ``repr`` writes it, and not an apostrophe.
_QUOTED = re.compile(r"(?<![\w`])('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?![\w`])")
_TICKS = re.compile(r"`+")


def code(text: str) -> str:
    """Return any text as a code span."""
    shown = on_one_line(text)
    longest = max((len(found) for found in _TICKS.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}"


def with_code(sentence: str) -> str:
    """Return a sentence with its quoted texts as code spans."""
    return _QUOTED.sub(lambda found: code(found[0]), on_one_line(sentence))


def cell(text: str, most_chars: int) -> str:
    """Return a sentence for a cell of a table, shortened if it is too long."""
    shown = harmless(text)
    if len(shown) > most_chars:
        # A quoted text that was cut is no longer a code span.
        shown = shown[: most_chars - 1] + "…"
    return with_code(shown).replace("|", "\\|")


def fenced(text: str, language: str = "") -> list[str]:
    """Return a block of text as lines between fences that it cannot end."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *harmless(text).split("\n"), fence]

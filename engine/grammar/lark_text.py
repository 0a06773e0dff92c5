"""Texts, regular expressions and special tokens as symbols of llguidance's Lark dialect."""

import json
import re
from collections.abc import Callable, Mapping

Spell = Callable[[str], str]
"""Writes a text as symbols of Lark, in which special tokens stand for their texts."""

_REGEX_SPECIAL = re.compile(r"[.*+?^$|()\[\]{}\\/#&~-]")


def quoted(text: str) -> str:
    """Return a text as a string of Lark, which may not contain control characters."""
    return json.dumps(text).replace("\x7f", "\\u007f")


def in_slashes(regex: str) -> str:
    """Return a regular expression between slashes, without control characters."""
    parts: list[str] = []
    is_escaped = False
    for character in regex:
        if character == "/" and not is_escaped:
            parts.append("\\/")
        elif character.isprintable():
            parts.append(character)
        else:
            # If it is escaped, its backslash is in ``parts`` already.
            parts.append(f"{'' if is_escaped else chr(92)}x{{{ord(character):x}}}")
        is_escaped = character == "\\" and not is_escaped
    return f"/{''.join(parts)}/"


def escaped_regex(text: str) -> str:
    """Return the regular expression of exactly this text."""
    return _REGEX_SPECIAL.sub(r"\\\g<0>", text)


def speller(specials: Mapping[str, int]) -> Spell:
    """Return the function that writes text in Lark; ``specials`` are special tokens by text."""
    texts = sorted(filter(None, specials), key=len, reverse=True)
    special = re.compile("|".join(map(re.escape, texts)) or "(?!)")

    def spell(text: str) -> str:
        parts: list[str] = []
        end = 0
        for match in special.finditer(text):
            if match.start() > end:
                parts.append(quoted(text[end : match.start()]))
            parts.append(f"<[{specials[match[0]]}]>")
            end = match.end()
        if end < len(text):
            parts.append(quoted(text[end:]))
        return " ".join(parts)

    return spell

"""Text of strangers for terminals, pipes and reports: what steers or hides is shown as an escape.

Servers, files and models may send what moves a cursor, rewrites a line, turns the direction of
writing or hides words. Pure; any thread.
"""

import json
import re
from typing import Any

# Controls of ASCII but newline and tab, those of Latin-1, soft hyphens, marks and overrides of
# direction, invisible spaces and operators, line separators, annotations, halves of characters,
# and the tags of Unicode. Joiners stay: scripts and emoji are written with them.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})


def harmless(text: str) -> str:
    """Return text with every such character, newline and tab apart, shown as an escape."""
    return _STEERING.sub(_escape, text)


def on_one_line(text: str, most_chars: int = 0) -> str:
    """Return harmless text without line breaks, cut where it is longer than ``most_chars``."""
    shown = text if not most_chars or len(text) <= most_chars else text[: most_chars - 1] + "…"
    return harmless(shown).translate(_BREAKS)


def harmless_json(value: Any) -> str:
    """Return a value as JSON on one line that reads back the same and steers nothing."""
    return _STEERING.sub(_json_escape, json.dumps(value, ensure_ascii=False))


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]  # beyond the first plane, it is written as two halves

"""Makes foreign text safe for terminals and reports: control characters become escapes.

Servers, files and models may send characters that move the cursor, rewrite a line, reverse the
direction of writing or hide words. Pure; any thread.
"""

import json
import re
from typing import Any

# Controls of ASCII except newline and tab, those of Latin-1, soft hyphens, marks and overrides of
# direction, invisible spaces and operators, line separators, annotations, lone surrogates, and the
# tags of Unicode. Joiners stay, because scripts and emoji need them.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)
_BREAKS = str.maketrans({"\n": "\\n", "\t": "\\t"})


def harmless(text: str) -> str:
    """Return text with every such character shown as an escape; newline and tab stay."""
    return _STEERING.sub(_escape, text)


def on_one_line(text: str, max_chars: int = 0) -> str:
    """Return harmless text without line breaks, shortened to ``max_chars``."""
    shortened = text if not max_chars or len(text) <= max_chars else text[: max_chars - 1] + "…"
    return harmless(shortened).translate(_BREAKS)


def harmless_json(value: Any) -> str:
    """Return a value as JSON on one line, with every such character escaped."""
    return _STEERING.sub(_json_escape, json.dumps(value, ensure_ascii=False))


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escape(match: re.Match[str]) -> str:
    return json.dumps(match[0])[1:-1]  # beyond the first plane, it is written as two halves

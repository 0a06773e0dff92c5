"""JSON as it goes out: compact, ASCII. Pure; any thread."""

import json
from typing import Any

# ASCII alone: some clients split a stream's lines at U+0085 and U+2028 too.
_ENCODER = json.JSONEncoder(separators=(",", ":"))


def json_text(value: Any) -> str:
    """Return a value as compact JSON text; fast for a plain string."""
    return _ENCODER.encode(value)

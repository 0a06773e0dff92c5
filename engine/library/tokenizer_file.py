"""Whether a tokenizer.json lets texts grow without bounds, before its library reads it. Any thread.

Rules that replace a letter by a long text multiply: a few turn a short prompt into gigabytes.
"""

import base64
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadFailed
from engine.files.json_fields import DamagedFile, parsed_json
from engine.files.safe_files import read_bounded
from engine.library.model_files import MAX_TEXT_BYTES, file_label

_MAX_GROWTH = 256
"""How many times as long a text may become, and how many tokens are put around it; known tokenizers
stay below 10.
"""


def check_tokenizer(folder: Path) -> None:
    """Check the tokenizer.json of a model, if it has one; raises ``ModelLoadFailed``."""
    file = folder / "tokenizer.json"
    try:
        state = file.stat()
    except OSError:
        return  # loading reports the missing file
    if fault := _fault(file, state.st_size, state.st_mtime_ns):
        raise ModelLoadFailed(f"{file_label(file)} is damaged: {fault}")


@lru_cache(maxsize=64)
def _fault(file: Path, _size: int, _changed_ns: int) -> str:
    """Return the fault of a tokenizer's file; empty if none is known."""
    try:
        stated = parsed_json(read_bounded(file, MAX_TEXT_BYTES))
    except (OSError, DamagedFile) as error:
        return str(error)
    if not isinstance(stated, dict):
        return "it does not contain a JSON object"
    try:
        for name in ("normalizer", "pre_tokenizer", "decoder"):
            if (times := _growth(stated.get(name))) > _MAX_GROWTH:
                return f"its {name} makes texts up to {times:,} times as long"
        added = json.dumps(stated.get("post_processor")).count('"SpecialToken"')
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError):
        return "one of its rules is incomplete"
    return f"it adds {added:,} tokens to each text" if added > _MAX_GROWTH else ""


def _growth(part: Any) -> int:
    """Return how many times as long a text can become by the rules that the file itself states."""
    if not isinstance(part, dict):
        return 1
    match part.get("type"):
        case "Replace":
            content, pattern = len(part["content"]), part["pattern"]
            matched = len(pattern.get("String") or "") if isinstance(pattern, dict) else 0
            # An expression, and an empty text, match between all letters.
            return max(1, -(-content // matched) if matched else content + 1)
        case "Prepend":
            return 1 + len(part["prepend"])
        case "Precompiled":
            table = base64.b64decode(part.get("precompiled_charsmap") or "")
            texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
            return max(1, max(map(len, texts), default=0) // 64)
    times = 1
    for name in ("normalizers", "pretokenizers", "decoders"):
        for inner in part.get(name) or ():
            times = min(times * _growth(inner), 1 << 60)
    return times

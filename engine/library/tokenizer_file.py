"""What a tokenizer.json tells before its library reads it. Any thread.

Whether its texts grow without bounds: rules that replace a letter by a long text multiply, and a
few turn a short prompt into gigabytes. And whether two models have the same vocabulary, without
loading them: the parts of the large files that list the tokens are compared.
"""

import base64
import hashlib
import json
import os
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from engine.errors import ModelDamaged
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
        raise ModelDamaged(f"{file_label(file)} is damaged: {fault}")


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


def vocabulary_key(folder: Path) -> str:
    """Return a text that is the same for models with the same tokens; empty where it is unknown."""
    file = folder / "tokenizer.json"
    try:
        state = os.stat(file)
    except OSError:
        return ""
    return _key(str(file.resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=512)
def _key(path: str, _size: int, _changed_ns: int) -> str:
    try:
        data = read_bounded(Path(path), MAX_TEXT_BYTES)
    except OSError:
        return ""
    model = _section(data, b"model")
    begin = _section(data, b"vocab", model)
    added = data[_section(data, b"added_tokens") : model].decode("utf-8", "replace")
    try:
        tokens = json.JSONDecoder().raw_decode(added)[0] if added else []
        kinds = [(one.get("id"), one.get("content"), bool(one.get("special"))) for one in tokens]
    except (ValueError, RecursionError, AttributeError):
        return ""
    vocabulary = data[begin : _section(data, b"merges", begin)].translate(None, b" \n\r\t")
    digest = hashlib.sha256(vocabulary.rstrip(b",}") + repr(kinds).encode())
    return digest.hexdigest() if vocabulary else ""


def _section(data: bytes, name: bytes, start: int = 0) -> int:
    """Return where the object or list of a field begins, else the end; a token has a number."""
    match = re.compile(rb'"%s"\s*:\s*(?=[\[{])' % name).search(data, start)
    return len(data) if match is None else match.end()

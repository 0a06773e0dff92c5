"""Whether models on disk have the same vocabulary, without loading them.

A tokenizer's file is large, so it is not parsed as a whole: the parts that list the tokens are
compared.
"""

import hashlib
import json
import os
import re
from functools import lru_cache
from pathlib import Path

from engine.files.safe_files import read_bounded
from engine.library.model_files import MAX_TEXT_BYTES


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

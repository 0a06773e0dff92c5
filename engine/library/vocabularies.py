"""Tells of models on disk whether they have the same vocabulary, without loading them. Any thread.

The tokenizer's file is large, so it is not parsed as a whole: what lists the tokens is compared.
"""

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path

from engine.files.safe_files import read_bounded

_MOST_BYTES = 256 << 20
_SPACE = b" \n\r\t"


def vocabulary_key(folder: Path) -> str:
    """Return a text that is the same for models with the same tokens; empty where that is unknown.

    Args:
        folder: A model's folder. Only the form of tokenizers that has a ``tokenizer.json`` is read.
    """
    file = folder / "tokenizer.json"
    try:
        state = os.stat(file)
    except OSError:
        return ""
    return _key(str(file.resolve()), state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=512)
def _key(path: str, size: int, _changed_ns: int) -> str:
    if size > _MOST_BYTES:
        return ""
    try:
        data = read_bounded(Path(path), _MOST_BYTES)
    except OSError:
        return ""
    model = data.rfind(b'"model"')
    begin = data.find(b'"vocab"', model)
    if model < 0 or begin < 0:
        return ""
    end = data.find(b'"merges"', begin)
    listed = data[begin : end if end > 0 else len(data)]
    if b"\\u" in listed:  # another program wrote the file, which escapes letters
        listed = _unescaped(listed)
    listed = listed.translate(None, _SPACE).rstrip(b",}")
    digest = hashlib.sha256(listed)
    digest.update(repr(_added(data[:model])).encode())
    return digest.hexdigest()


def _unescaped(listed: bytes) -> bytes:
    name, _, value = listed.decode("utf-8", "replace").partition(":")
    try:
        tokens, _ = json.JSONDecoder().raw_decode(value.lstrip())
    except (ValueError, RecursionError):
        return listed
    return f"{name}:{json.dumps(tokens, ensure_ascii=False)}".encode("utf-8", "replace")


def _added(beginning: bytes) -> list[tuple[object, object, bool]]:
    """Return the id, the text and the kind of each token that was added to the vocabulary."""
    begin = beginning.find(b'"added_tokens"')
    begin = beginning.find(b"[", begin) if begin >= 0 else -1
    if begin < 0:
        return []
    try:
        tokens, _ = json.JSONDecoder().raw_decode(beginning[begin:].decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return []
    return [
        (token.get("id"), token.get("content"), bool(token.get("special")))
        for token in tokens
        if isinstance(token, dict)
    ]

"""Whether models on disk have the same vocabulary, without loading them.

A tokenizer's file is large, so it is not parsed as a whole: the parts that list the tokens are
compared.
"""

import hashlib
import json
import os
from functools import lru_cache
from pathlib import Path

from engine.files.safe_files import read_bounded
from engine.library.model_files import MAX_TEXT_BYTES

_SPACE = b" \n\r\t"


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
    model = data.rfind(b'"model"')
    begin = data.find(b'"vocab"', model)
    if model < 0 or begin < 0:
        return ""
    end = data.find(b'"merges"', begin)
    listed = data[begin : end if end > 0 else len(data)]
    listed = listed.translate(None, _SPACE).rstrip(b",}")
    digest = hashlib.sha256(listed)
    digest.update(repr(_added(data[:model])).encode())
    return digest.hexdigest()


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

"""The fingerprint of a model: caches of prompts that one model made are never used with another.

It covers the model's folder, the name, size and time of change of each file that a model, its
tokenizer and its template are read from, the versions of mlx and mlx-lm, the device, and the kinds
of the cache's parts.
"""

import hashlib
from importlib.metadata import version
from pathlib import Path

# Raised whenever files of earlier versions can no longer be used; they are evicted first.
FORMAT = 5
_SUFFIXES = (".safetensors", ".json", ".jinja", ".model", ".tiktoken", ".txt")

Stamps = tuple[tuple[str, int, int], ...]
"""The names, sizes and times of change of a folder's files."""


def stamps_of(folder: Path) -> Stamps:
    """Return the stamps that show later whether a model's files changed; raises ``OSError``."""
    stamps = []
    for path in sorted(folder.iterdir()):
        if path.suffix in _SUFFIXES and not path.name.startswith(".") and path.is_file():
            status = path.stat()
            stamps.append((path.name, status.st_size, status.st_mtime_ns))
    return tuple(stamps)


def fingerprint_of(folder: Path, stamps: Stamps, kinds: tuple[str, ...], device: str) -> str | None:
    """Return the fingerprint of a loaded model; None if its files changed since it was loaded."""
    if stamps_of(folder) != stamps:
        return None
    covered = [FORMAT, version("mlx"), version("mlx-lm"), device, kinds, str(folder), stamps]
    return hashlib.sha256(repr(covered).encode()).hexdigest()

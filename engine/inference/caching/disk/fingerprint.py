"""Tells models apart: files kept for one must never be used with another. Any thread.

A fingerprint covers the small files of a model (configuration, tokenizer, chat template, index of
the weights) and, of each file of weights, its name, size, time of change, header (the names,
types and places of all weights) and samples spread over the file. Reading all weights would take as
long as loading the model. Different weights have different times and samples, even if names and
sizes are the same, as in another fine-tune. Someone who could forge all of these in a person's own
folder could as well replace the program. A fingerprint also covers everything else that a cache
depends on: the versions of mlx and mlx-lm, the device, and the kinds of the cache's parts.
"""

import hashlib
from importlib.metadata import version
from pathlib import Path

from engine.inference.caching.disk.segment import FORMAT

_SAMPLES = 16
_SAMPLE_BYTES = 4096
_MOST_SMALL = 64 << 20
_WEIGHTS = ".safetensors"
# The kinds of files that a model, its tokenizer and its template are read from.
_READ = (_WEIGHTS, ".json", ".jinja", ".model", ".tiktoken", ".txt")

Stamps = tuple[tuple[str, int, int], ...]
"""The names, sizes and times of change of a folder's files."""


def stamps_of(folder: Path) -> Stamps:
    """Return what tells later whether a model's files were changed; raises ``OSError``."""
    found = []
    for path in sorted(folder.iterdir()):
        if path.suffix in _READ and not path.name.startswith(".") and path.is_file():
            seen = path.stat()
            found.append((path.name, seen.st_size, seen.st_mtime_ns))
    return tuple(found)


def fingerprint_of(folder: Path, stamps: Stamps, kinds: tuple[str, ...], device: str) -> str | None:
    """Return the fingerprint of a loaded model; None if its files changed since it was loaded."""
    digest = hashlib.sha256()
    words = [FORMAT, version("mlx"), version("mlx-lm"), device, *kinds]
    digest.update(repr(words).encode())
    for name, size, changed_ns in stamps:
        path = folder / name
        digest.update(f"\n{name!r} {size} ".encode())
        if path.suffix == _WEIGHTS or size > _MOST_SMALL:
            digest.update(f"{changed_ns} ".encode())
            _add_samples(digest, path, size)
        else:
            digest.update(path.read_bytes())
    return digest.hexdigest() if stamps_of(folder) == stamps else None


def _add_samples(digest: "hashlib._Hash", path: Path, size: int) -> None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if path.suffix == _WEIGHTS and length <= min(_MOST_SMALL, size):
            digest.update(file.read(length))
        for number in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))

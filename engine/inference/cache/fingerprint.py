"""The fingerprint of a model: caches of prompts that one model made are never used with another.

It covers the model's small files (configuration, tokenizer, chat template, index of the weights)
and, of each file of weights, its name, size, time of change, header and samples spread over it:
reading all weights would take as long as loading them. It also covers the versions of mlx and mlx-
lm, the device, and the kinds of the cache's parts.
"""

import hashlib
from importlib.metadata import version
from pathlib import Path

# Raised whenever files of earlier versions can no longer be used; they are evicted first.
FORMAT = 4
_SAMPLES = 16
_SAMPLE_BYTES = 4096
_MAX_SMALL_BYTES = 64 << 20
_WEIGHTS = ".safetensors"
# The kinds of files that a model, its tokenizer and its template are read from.
_SUFFIXES = (_WEIGHTS, ".json", ".jinja", ".model", ".tiktoken", ".txt")

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
    digest = hashlib.sha256()
    digest.update(repr([FORMAT, version("mlx"), version("mlx-lm"), device, *kinds]).encode())
    for name, size, changed_ns in stamps:
        path = folder / name
        digest.update(f"\n{name!r} {size} ".encode())
        if path.suffix == _WEIGHTS or size > _MAX_SMALL_BYTES:
            digest.update(f"{changed_ns} ".encode())
            _add_samples(digest, path, size)
        else:
            digest.update(path.read_bytes())
    return digest.hexdigest() if stamps_of(folder) == stamps else None


def _add_samples(digest: "hashlib._Hash", path: Path, size: int) -> None:
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if path.suffix == _WEIGHTS and length <= min(_MAX_SMALL_BYTES, size):
            digest.update(file.read(length))
        for number in range(_SAMPLES):
            file.seek(max(0, size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))

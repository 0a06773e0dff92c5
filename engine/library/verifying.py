"""Compares a file with the size and the digest that its source names. Any thread; blocks."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from engine.wording import counted

_READ_BYTES = 4 << 20


class Damaged(Exception):
    """A file differs from its source's size or digest; it has been removed."""


def verify(
    path: Path,
    size: int,
    *,
    sha256: str | None,
    git_sha1: str | None,
    on_read: Callable[[int], None],
) -> None:
    """Compare a file, and remove it if it differs."""
    found = path.stat().st_size
    if found != size:
        _remove(path)
        raise Damaged(f"{path.name} is damaged: expected {counted(size, 'byte')}, found {found:,}")
    if sha256 is not None:
        digest, expected = hashlib.sha256(), sha256
    elif git_sha1 is not None:
        digest, expected = hashlib.sha1(f"blob {size}\0".encode(), usedforsecurity=False), git_sha1
    else:
        on_read(size)
        return
    with path.open("rb") as file:
        while part := file.read(_READ_BYTES):
            digest.update(part)
            on_read(len(part))
    if digest.hexdigest() != expected:
        _remove(path)
        raise Damaged(
            f"{path.name} is damaged: its digest is {digest.hexdigest()[:12]}…, expected "
            f"{expected[:12]}…"
        )


def _remove(path: Path) -> None:
    content = path.resolve()
    path.unlink(missing_ok=True)
    content.unlink(missing_ok=True)

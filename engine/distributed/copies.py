"""Compares the copies of a model on two machines by a fingerprint.

Reads names, sizes and one small file, but no weights; must not import MLX. Any thread.
"""

import hashlib
from pathlib import Path


def portable(folder: Path) -> str:
    """Return a folder's path, with ``~`` for the home, which differs between users."""
    try:
        return f"~/{folder.relative_to(Path.home()).as_posix()}"
    except ValueError:
        return str(folder)


def fingerprint_of(folder: Path) -> str:
    """Return a model's fingerprint: a digest of its configuration and weight files."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()

"""Whether two machines have the same model, and where the other one finds it.

Reads names, sizes and one small file, never the weights; must not import MLX. Any thread.
"""

import hashlib
from pathlib import Path


def portable(folder: Path) -> str:
    """Return a folder's path so that a user of another name finds it under their own home."""
    try:
        return f"~/{folder.relative_to(Path.home()).as_posix()}"
    except ValueError:
        return str(folder)


def mark_of(folder: Path) -> str:
    """Return what differs where models do: a digest of the configuration and the weights' sizes."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()

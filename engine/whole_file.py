"""Writes a file whole or not at all: a reader finds the old text or the new, never a part.

Any thread; blocks while the disk works.
"""

import os
import tempfile
from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write text as UTF-8 in a file's place; what was there before stays if that fails.

    A device or a pipe is written to as it is: there is nothing to put in its place.

    Raises:
        OSError: It cannot be written, or the disk is full.
    """
    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")
        return
    # Of a link, what it points to is replaced, and not the link.
    path = path.resolve()
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(number, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise

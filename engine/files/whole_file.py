"""Writes a file completely or not at all: a reader finds the old or the new text, never a part.

Any thread; blocks while the disk works.
"""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO, TextIO


class WholeFile:
    """A file that is written piece by piece and replaces the old one at the end.

    A device or a pipe is written directly, because it cannot be replaced.

    Args:
        path: The file's path; for a link, the file that it points to is replaced.
    """

    def __init__(self, path: Path) -> None:
        self._is_device = path.exists() and not path.is_file()
        self._path = path if self._is_device else path.resolve()
        self._beside: Path | None = None
        self._file: TextIO | None = None

    def open(self) -> None:
        """Open a file beside the place; raises ``OSError`` where none can be made."""
        if self._is_device:
            self._file = self._path.open("w", encoding="utf-8")
            return
        prefix, folder = f".{self._path.name}.", self._path.parent
        number, name = tempfile.mkstemp(prefix=prefix, dir=folder)
        self._beside = Path(name)
        self._file = os.fdopen(number, "w", encoding="utf-8")

    def write(self, text: str) -> None:
        """Append text; raises ``OSError`` where the disk is full."""
        assert self._file is not None, "a file is opened before it is written"
        self._file.write(text)

    @property
    def raw(self) -> BinaryIO:
        """The open file, for a format that is bytes and not text."""
        assert self._file is not None, "a file is opened before it is written"
        return self._file.buffer

    def commit(self) -> None:
        """Replace the old file; raises ``OSError`` if the new one cannot be written completely."""
        assert self._file is not None, "a file is opened before it is written"
        with self._file as file:
            file.flush()
            if self._beside is not None:
                os.fsync(file.fileno())
        if self._beside is not None:
            os.replace(self._beside, self._path)
            self._beside = None

    def forget(self) -> None:
        """Keep the old file and delete the new one; does nothing after ``commit``."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)
            self._beside = None


def write_whole(path: Path, text: str) -> None:
    """Replace a file by text in UTF-8; the old file stays if that fails.

    Raises:
        OSError: It cannot be written, or the disk is full.
    """
    file = WholeFile(path)
    try:
        file.open()
        file.write(text)
        file.commit()
    finally:
        file.forget()

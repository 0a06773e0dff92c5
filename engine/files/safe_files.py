"""Files that are read only if they are small, written whole or not at all, or written later."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import IO, BinaryIO, TextIO

SETTINGS_BYTES = 16 << 20
"""More than any file of settings, keys, or a model's configuration needs."""

# Windows has no such files, and no such flag.
_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading; raises ``OSError``."""
    # Opening a pipe that nobody writes to would block forever.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_bounded(path: Path, max_bytes: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a file; raises ``OSError``."""
    with open_regular(path) as file:
        content = file.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {max_bytes >> 20} MiB", str(path))
    return content


def make_folders(folder: Path) -> None:
    """Make a folder, and those around it that are missing, for this user alone."""
    for missing in [parent for parent in (folder, *folder.parents) if not parent.exists()][::-1]:
        # One by one: ``mkdir(parents=True)`` does not apply the mode to the parents.
        missing.mkdir(mode=0o700, exist_ok=True)
    folder.mkdir(exist_ok=True)


class WholeFile:
    """A file that is written piece by piece and replaces the old one at the end.

    A device or a pipe is written directly, because it cannot be replaced.
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


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file by bytes, or by text in UTF-8; the old file stays if that fails."""
    file = WholeFile(path)
    try:
        file.open()
        if isinstance(content, bytes):
            file.raw.write(content)
        else:
            file.write(content)
        file.commit()
    finally:
        file.forget()

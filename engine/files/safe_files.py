"""Files that are read only if they are small, written whole or not at all, or written later."""

import contextlib
import errno
import os
import stat
import tempfile
from pathlib import Path
from typing import IO

SETTINGS_BYTES = 16 << 20
"""More than any file of settings, keys, or a model's configuration needs."""

# Windows has no such files, and no such flag.
_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path) -> IO[bytes]:
    # Opening a pipe that nobody writes to would block forever.
    """Open a file for reading; raises ``OSError``."""
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
    """A new file, in bytes, that replaces the old one once it is complete; raises ``OSError``.

    A device or a pipe is written directly, because it cannot be replaced.
    """

    def __init__(self, path: Path) -> None:
        self._beside: Path | None = None
        if path.exists() and not path.is_file():
            self._path, self.file = path, path.open("wb")
            return
        self._path = path.resolve()
        number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=self._path.parent)
        self._beside = Path(name)
        self.file = os.fdopen(number, "wb")

    def commit(self) -> None:
        with self.file as file:
            file.flush()
            if self._beside is not None:
                os.fsync(file.fileno())
        if self._beside is not None:
            os.replace(self._beside, self._path)
            self._beside = None

    def forget(self) -> None:
        """Keep the old file and delete the new one; does nothing after ``commit``."""
        with contextlib.suppress(OSError):
            self.file.close()
        if self._beside is not None:
            self._beside.unlink(missing_ok=True)
            self._beside = None


def write_whole(path: Path, content: str | bytes) -> None:
    """Replace a file by bytes, or by text in UTF-8; the old file stays if that fails."""
    written = WholeFile(path)
    try:
        written.file.write(content if isinstance(content, bytes) else content.encode("utf-8"))
        written.commit()
    finally:
        written.forget()

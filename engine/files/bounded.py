"""Reads a file that should be small: refuses a huge file before it takes memory, and pipes at once.

Any thread; blocks while the disk works.
"""

import errno
import os
import stat
from pathlib import Path
from typing import IO

SETTINGS_BYTES = 16 << 20
"""More than any file of settings, keys, or a model's configuration needs."""

# Windows has no such files, and no such flag.
_AT_ONCE: int = getattr(os, "O_NONBLOCK", 0)


def open_regular(path: Path) -> IO[bytes]:
    """Open a file for reading.

    Raises:
        OSError: It cannot be read; ``EINVAL`` if it is a pipe, a device or a socket.
    """
    # Opening a pipe that nobody writes to would block forever.
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AT_ONCE))  # noqa: SIM115
    if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        file.close()
        raise OSError(errno.EINVAL, "it is not a regular file", str(path))
    return file


def read_bounded(path: Path, most_bytes: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: It cannot be read; ``EFBIG`` if it is larger than ``most_bytes``, ``EINVAL`` if it
            is a pipe, a device or a socket.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes >> 20} MiB", str(path))
    return content

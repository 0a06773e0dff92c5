"""Reads a file that should be small, whatever it is: a device or 100 GB take no more memory.

Any thread; blocks while the disk works.
"""

import errno
from pathlib import Path

SETTINGS_BYTES = 16 << 20
"""More than any file of settings, of a model's configuration or of keys has."""


def read_bounded(path: Path, most_bytes: int = SETTINGS_BYTES) -> bytes:
    """Return the content of a file.

    Raises:
        OSError: It cannot be read; ``EFBIG`` where it has more than ``most_bytes``.
    """
    with path.open("rb") as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(errno.EFBIG, f"it is larger than {most_bytes >> 20} MiB", str(path))
    return content

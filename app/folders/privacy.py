"""Keeps what is written about a person readable by that person alone, whatever the umask says.

Prompts and answers are private, and so are settings and logs. Any thread.
"""

import contextlib
import os
import stat
from pathlib import Path

_FOLDER, _FILE = 0o700, 0o600
# A person may have named a folder that holds more than ours.
_OUR_FILES = (
    "conversations*",
    "settings.json*",
    "api-key*",
    "tool-servers*",
    "tool-secrets*",
    "serve.toml",
    "running.lock",
    "fullstop.log*",
)


def made_private(folder: Path) -> Path:
    """Return the folder after making sure that it exists and that no other user can open it.

    Raises:
        OSError: It cannot be made.
    """
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        # Each by itself: the mode of ``mkdir`` does not hold for the parents that it makes.
        missing.mkdir(mode=_FOLDER, exist_ok=True)
    folder.mkdir(exist_ok=True)
    _tighten(folder, _FOLDER)
    return folder


def tighten(folder: Path) -> None:
    """Make a folder and the program's files in it private, where they were left open.

    Other files, links, and what a file system without permissions holds stay as they are.
    """
    _tighten(folder, _FOLDER)
    with contextlib.suppress(OSError):
        for pattern in _OUR_FILES:
            for path in folder.glob(pattern):
                if not path.is_symlink() and path.is_file():
                    _tighten(path, _FILE)


def touch_private(path: Path) -> None:
    """Make sure that a file exists and is private before anybody else writes to it.

    Raises:
        OSError: It cannot be made.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, _FILE))
    _tighten(path, _FILE)


def open_private(path: str, flags: int) -> int:
    """Open a file that is private from its first moment on: an ``opener`` for ``open``."""
    return os.open(path, flags, _FILE)


def _tighten(path: Path, allowed: int) -> None:
    with contextlib.suppress(OSError):
        # A person's home that was named as the folder is theirs to share.
        if path == Path.home():
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        # A sticky folder, such as /tmp, belongs to everybody.
        if mode & ~allowed and not mode & stat.S_ISVTX:
            path.chmod(mode & allowed)

"""Keeps what is written about a person readable by that person alone, whatever the umask says.

Prompts and answers are private, and so are settings and logs. Any thread.
"""

import contextlib
import os
import stat
from pathlib import Path

_FOLDER, _FILE = 0o700, 0o600


def made_private(folder: Path) -> Path:
    """Return the folder after making sure that it exists and that no other user can open it.

    Raises:
        OSError: It cannot be made.
    """
    folder.mkdir(mode=_FOLDER, parents=True, exist_ok=True)
    _tighten(folder, _FOLDER)
    return folder


def tighten(folder: Path) -> None:
    """Make a folder and the files in it private, where an earlier version left them open.

    Files of others, links, and what a file system without permissions holds stay as they are.
    """
    _tighten(folder, _FOLDER)
    with contextlib.suppress(OSError):
        for path in folder.iterdir():
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
        if mode & ~allowed:
            path.chmod(mode & allowed)

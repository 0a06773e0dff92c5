"""Makes a person's files readable only by that person, whatever the umask is.

Prompts and answers are private, and so are settings and logs. Any thread.
"""

import contextlib
import os
import stat
from pathlib import Path

_FOLDER, _FILE = 0o700, 0o600
# The folder may contain other files, because the person can choose it.
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
    """Create a folder if needed, make sure that no other user can open it, and return it.

    Raises:
        OSError: It cannot be made.
    """
    for missing in reversed([one for one in (folder, *folder.parents) if not one.exists()]):
        # One by one: ``mkdir(parents=True)`` does not apply the mode to the parents.
        missing.mkdir(mode=_FOLDER, exist_ok=True)
    folder.mkdir(exist_ok=True)
    _tighten(folder, _FOLDER)
    return folder


def tighten(folder: Path) -> None:
    """Make a folder and the program's files in it private, if they are not.

    Other files, links, and files on a file system without permissions stay as they are.
    """
    _tighten(folder, _FOLDER)
    with contextlib.suppress(OSError):
        for pattern in _OUR_FILES:
            for path in folder.glob(pattern):
                if not path.is_symlink() and path.is_file():
                    _tighten(path, _FILE)


def touch_private(path: Path) -> None:
    """Create a file if needed, and make it private before anything is written to it.

    Raises:
        OSError: It cannot be made.
    """
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, _FILE))
    _tighten(path, _FILE)


def open_private(path: str, flags: int) -> int:
    """Open a file that is private from its creation on: an ``opener`` for ``open``."""
    return os.open(path, flags, _FILE)


def _tighten(path: Path, allowed: int) -> None:
    with contextlib.suppress(OSError):
        # If the folder is a person's home, they may share it.
        if path == Path.home():
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        # A sticky folder, such as /tmp, is shared by all users.
        if mode & ~allowed and not mode & stat.S_ISVTX:
            path.chmod(mode & allowed)

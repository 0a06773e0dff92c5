"""Makes the program's files readable only by their owner, whatever the umask is."""

import contextlib
import os
import pwd
import shlex
import stat
from pathlib import Path

from app import paths
from engine.files.safe_files import make_folders

_FOLDER, _FILE = 0o700, 0o600
# The folder may contain other files, because the user can choose it. Copies are ours, too.
_OUR_FILES = (
    f"{Path(paths.CONVERSATIONS_FILE).stem}*",
    f"{Path(paths.TOOL_SERVERS_FILE).stem}*",
    f"{Path(paths.TOOL_SECRETS_FILE).stem}*",
    f"{paths.SETTINGS_FILE}*",
    f"{Path(paths.SETTINGS_FILE).stem}.set-aside-*",
    f"{paths.KEY_FILE}*",
    f"{paths.LOG_FILE}*",
    paths.SERVE_FILE,
    paths.LOCK_FILE,
)


def made_private(folder: Path) -> Path:
    """Create a folder if needed, make sure that no other user can open it, and return it."""
    make_folders(folder)
    _tighten(folder, _FOLDER)
    return folder


def tighten(folder: Path) -> None:
    """Make a folder and the program's files in it private; other files and links stay."""
    _tighten(folder, _FOLDER)
    with contextlib.suppress(OSError):
        for pattern in _OUR_FILES:
            for path in folder.glob(pattern):
                if not path.is_symlink() and path.is_file():
                    _tighten(path, _FILE)


def touch_private(path: Path) -> None:
    """Create a file if needed, and make it private before anything is written to it."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, _FILE))
    _tighten(path, _FILE)


def open_private(path: str, flags: int) -> int:
    """Open a file that is private from its creation on: an ``opener`` for ``open``."""
    return os.open(path, flags, _FILE)


def _tighten(path: Path, allowed: int) -> None:
    with contextlib.suppress(OSError):
        # A home folder may be shared.
        if path == Path.home():
            return
        mode = stat.S_IMODE(path.stat().st_mode)
        # A sticky folder, such as /tmp, is shared by all users.
        if mode & ~allowed and not mode & stat.S_ISVTX:
            path.chmod(mode & allowed)


def access_problem(path: Path, mode: int) -> str | None:
    """Return what forbids access to a path, as after a start with ``sudo``, with the remedy."""
    nearest = None
    for folder in (*reversed(path.parents), path):
        try:
            owner = folder.stat().st_uid
        except FileNotFoundError:
            break
        except OSError:
            return None if nearest is None else _forbidden(*nearest)
        nearest = folder, owner
        if folder != path and not os.access(folder, os.X_OK):
            return _forbidden(folder, owner)
    if nearest is None or os.access(nearest[0], mode if nearest[0] == path else mode | os.W_OK):
        return None
    return _forbidden(*nearest)


def _forbidden(folder: Path, owner: int) -> str:
    quoted, own = shlex.quote(str(folder)), os.geteuid()
    if owner == own:
        return f"{folder} has no permission for you (chmod -R u+rwX {quoted} gives it)"
    return f"{folder} belongs to {_user(owner)} (sudo chown -R {_user(own)} {quoted} changes that)"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)

"""Where things are on this machine, and who may read them: models, settings, data, logs."""

import contextlib
import json
import logging
import os
import pwd
import shlex
import stat
import time
from pathlib import Path
from typing import Literal

import platformdirs

from engine.files.causes import os_cause
from engine.files.safe_files import make_folders, read_bounded
from engine.library.local_models import (
    FoundModel,
    ModelFolders,
    discover,
    hub_cache,
    lm_studio_folders,
    models_named,
)

# Makes a person's files readable only by that person, whatever the umask is.
#
# Prompts and answers are private, and so are settings and logs.

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
    make_folders(folder)
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


def access_problem(path: Path, mode: int) -> str | None:
    """Return which part of a path forbids access, whose it is, and the remedy; None if none does.

    One start with ``sudo`` makes folders that belong to root.

    Args:
        path: A file or folder; what is missing would have to be created.
        mode: ``os.R_OK``, ``os.W_OK``, or both.
    """
    nearest = None
    for place in (*reversed(path.parents), path):
        try:
            owner = place.stat().st_uid
        except FileNotFoundError:
            break
        except OSError:
            return None if nearest is None else _forbidden(*nearest)
        nearest = place, owner
        if place != path and not os.access(place, os.X_OK):
            return _forbidden(place, owner)
    if nearest is None or os.access(nearest[0], mode if nearest[0] == path else mode | os.W_OK):
        return None
    return _forbidden(*nearest)


def _forbidden(place: Path, owner: int) -> str:
    quoted, own = shlex.quote(str(place)), os.geteuid()
    if owner == own:
        return f"{place} has no permission for you (chmod -R u+rwX {quoted} gives it)"
    return f"{place} belongs to {_user(owner)} (sudo chown -R {_user(own)} {quoted} changes that)"


def _user(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


# Renames a damaged file, so that the program can start and the file is not lost.

_log = logging.getLogger(__name__)


def move_aside(path: Path) -> Path:
    """Rename a damaged file to ``NAME.broken-DATE-TIME`` beside it, and return its new path.

    Raises:
        OSError: It cannot be renamed.
    """
    aside = _free(path, f"broken-{time.strftime('%Y%m%d-%H%M%S')}")
    os.replace(path, aside)
    return aside


class DamagedFileKeeper:
    """Sets a damaged file aside, and lets nothing be written over it until it is.

    Args:
        path: The place of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._is_in_the_way = False

    def set_aside(self) -> str:
        """Rename the file; return a sentence with its new name, or with why it keeps its own."""
        try:
            aside = move_aside(self._path)
        except OSError as error:
            _log.warning("cannot set %s aside: %s", self._path, error)
            self._is_in_the_way = True
            return f"It could not be set aside, and nothing is saved over it: {os_cause(error)}."
        return f"It is kept as {aside.name}."

    def make_room(self) -> None:
        """Rename a file that could not be set aside, before another is written in its place.

        Raises:
            OSError: It still cannot be renamed.
        """
        if self._is_in_the_way and os.path.lexists(self._path):
            move_aside(self._path)
        self._is_in_the_way = False


def _free(path: Path, mark: str) -> Path:
    """Return an unused name: two files may be damaged within the same second."""
    aside, number = path.with_name(f"{path.name}.{mark}"), 1
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{path.name}.{mark}-{number}")
    return aside


# The model folders that a person added in the window, for commands without a window.
#
# The window reads them with all other settings. A command reads only these, without checking the
# rest of the file: completion in a shell must be fast, and the window reports a damaged file.


def added_folders(settings_file: Path) -> tuple[Path, ...]:
    """Return the folders that a settings file lists; none if it cannot be read."""
    try:
        values = json.loads(read_bounded(settings_file))
        listed = values["models"]["folders"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return ()
    if not isinstance(listed, list) or not all(isinstance(folder, str) for folder in listed):
        return ()  # the settings accept or refuse a list as a whole
    return tuple(Path(folder) for folder in listed)


# Where things are on this machine: the demo model, settings, data and logs.
#
# Looks, but creates nothing.

_NAME = "fullstop"
DATA_VARIABLE = "FULLSTOP_DATA_DIR"

# The wheel contains the demo model inside the package; a clone (or an editable install of one) has
# it next to the package.
PACKAGED_DEMO_MODEL = Path(__file__).parent / "demo-model"
CLONED_DEMO_MODEL = Path(__file__).parents[1] / "assets" / "demo-model"


def demo_model() -> Path:
    """Return the folder of the model that comes with the program."""
    return PACKAGED_DEMO_MODEL if PACKAGED_DEMO_MODEL.is_dir() else CLONED_DEMO_MODEL


def page(name: str) -> Path | None:
    """Return a page of documentation by its file name; None if it is not here."""
    packaged, cloned = (
        Path(__file__).parent / "pages" / name,
        Path(__file__).parents[1] / ".github" / name,
    )
    return next((path for path in (packaged, cloned) if path.is_file()), None)


def library_folders(folders: tuple[Path, ...]) -> ModelFolders:
    """Return the folders that are searched for models, including those that a person added."""
    return ModelFolders(demo_model(), folders, hub_cache(), lm_studio_folders())


def local_models() -> list[FoundModel]:
    """Return the models on this computer, the same as the window lists."""
    return discover(library_folders(added_folders(settings_file())))


def model_names() -> list[str]:
    """Return the names of the complete models on this computer."""
    return [model.name for model in local_models() if model.can_be_loaded]


def model_folder(text: str) -> Path:
    """Return the folder of a model, given as a path or as the name of a local model."""
    path = Path(text).expanduser()
    if not path.exists():
        named = models_named(local_models(), text)
        return named[0].folder if named else path
    return path


def config_folder() -> Path:
    """Return the folder of a user's settings; ``FULLSTOP_CONFIG_DIR`` overrides it."""
    if chosen := os.environ.get("FULLSTOP_CONFIG_DIR"):
        return Path(chosen).expanduser()
    return Path(platformdirs.user_config_dir(_NAME, appauthor=False))


def settings_file() -> Path:
    """Return the file of the settings that are chosen in the window."""
    return config_folder() / "settings.json"


def data_folder() -> Path:
    """Return the folder of conversations and models.

    ``FULLSTOP_DATA_DIR`` overrides it, for tests and for data on a USB stick.
    """
    if chosen := os.environ.get(DATA_VARIABLE):
        return Path(chosen).expanduser()
    return Path(platformdirs.user_data_dir(_NAME, appauthor=False))


def conversations_file() -> Path:
    """Return the database of conversations and presets."""
    return data_folder() / "conversations.db"


def traces_folder() -> Path:
    """Return the folder of the recorded tokens of conversations."""
    return data_folder() / "traces"


def kept_prompts_folder(whose: Literal["conversations", "served"]) -> Path:
    """Return the folder of prompt caches: of this person's conversations, or of the server."""
    return _cache_folder() / "prompts" / whose


def _cache_folder() -> Path:
    """Return the folder of what can be made again.

    ``FULLSTOP_CACHE_DIR`` overrides it. Data on a USB stick has its caches there.
    """
    if chosen := os.environ.get("FULLSTOP_CACHE_DIR"):
        return Path(chosen).expanduser()
    if os.environ.get(DATA_VARIABLE):
        return data_folder() / "cache"
    return Path(platformdirs.user_cache_dir(_NAME, appauthor=False))


def log_folder() -> Path:
    """Return the folder of log files."""
    return Path(platformdirs.user_log_dir(_NAME, appauthor=False))

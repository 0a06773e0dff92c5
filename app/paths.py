"""Where things are on this machine, and who may read them: models, settings, data, logs."""

import json
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import platformdirs

from engine.files.safe_files import read_bounded
from engine.library.local_models import (
    FoundModel,
    ModelFolders,
    Origin,
    discover,
    hub_cache,
    lm_studio_folders,
    look_into,
    models_named,
    with_base,
)

# The names of the files in the folders of settings, data and logs.
SETTINGS_FILE = "settings.json"
SERVE_FILE = "serve.toml"
KEY_FILE = "api-key"
LOCK_FILE = "running.lock"
CONVERSATIONS_FILE = "conversations.db"
TOOL_SERVERS_FILE = "tool-servers.json"
TOOL_SECRETS_FILE = "tool-secrets.json"
LOG_FILE = "fullstop.log"


def added_folders(settings_file: Path) -> tuple[Path, ...]:
    """Return the folders that a settings file lists, unchecked as completion is fast; else none."""
    try:
        values = json.loads(read_bounded(settings_file))
        listed = values["models"]["folders"]
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return ()
    if not isinstance(listed, list) or not all(isinstance(folder, str) for folder in listed):
        return ()  # the settings accept or refuse a list as a whole
    return tuple(Path(folder) for folder in listed)


_NAME = "fullstop"
DATA_VARIABLE = "FULLSTOP_DATA_DIR"

# The wheel contains the bundled models inside the package; a clone (or an editable install of one)
# has them next to the package.
PACKAGED_DEMO_MODEL = Path(__file__).parent / "demo-model"
CLONED_DEMO_MODEL = Path(__file__).parents[1] / "assets" / "demo-model"
PACKAGED_SEEING_MODEL = PACKAGED_DEMO_MODEL.with_name("seeing-model")
CLONED_SEEING_MODEL = CLONED_DEMO_MODEL.with_name("seeing-model")


def demo_model() -> Path:
    """Return the folder of the model that comes with the program."""
    return PACKAGED_DEMO_MODEL if PACKAGED_DEMO_MODEL.is_dir() else CLONED_DEMO_MODEL


def seeing_model() -> Path:
    """Return the folder of the small model that sees, which the extra ``vision`` reads."""
    return PACKAGED_SEEING_MODEL if PACKAGED_SEEING_MODEL.is_dir() else CLONED_SEEING_MODEL


def page(name: str) -> Path | None:
    """Return a page of documentation by its file name; None if it is not here."""
    packaged, cloned = (
        Path(__file__).parent / "pages" / name,
        Path(__file__).parents[1] / ".github" / name,
    )
    return next((path for path in (packaged, cloned) if path.is_file()), None)


def library_folders(folders: tuple[Path, ...] = ()) -> ModelFolders:
    """Return the folders that are searched for models, including added ones."""
    seeing = seeing_model() if find_spec("mlx_vlm") else None
    return ModelFolders(demo_model(), folders, hub_cache(), lm_studio_folders(), seeing)


def local_models() -> list[FoundModel]:
    """Return the models on this computer, the same as the window lists."""
    return discover(library_folders(added_folders(settings_file())))


def adapter_at(folder: Path) -> FoundModel:
    """Return an adapter with the base that it names among the models on this computer."""
    return with_base(look_into(folder, Origin.FOLDER), local_models())


def model_names() -> list[str]:
    """Return the names of the complete models on this computer."""
    return [model.name for model in local_models() if model.can_be_loaded]


def typed_path(text: str) -> Path:
    """Return the path that a user typed, which may be too long for ``Path.exists``."""
    return Path(os.path.expanduser(text))


def model_folder(text: str) -> Path:
    """Return the folder of a model, given as a path or as the name of a local model."""
    path = typed_path(text)
    if not os.path.exists(path):
        named = models_named(local_models(), text)
        return named[0].folder if named else path
    return path


def config_folder() -> Path:
    """Return the folder of a user's settings; ``FULLSTOP_CONFIG_DIR`` overrides it."""
    if chosen := os.environ.get("FULLSTOP_CONFIG_DIR"):
        return Path(chosen).expanduser()
    return Path(platformdirs.user_config_dir(_NAME, appauthor=False))


def claude_desktop_file() -> Path:
    """Return the path of Claude Desktop's configuration."""
    folder = platformdirs.user_config_dir("Claude", appauthor=False)
    return Path(folder) / "claude_desktop_config.json"


def settings_file() -> Path:
    """Return the file of the settings that are chosen in the window."""
    return config_folder() / SETTINGS_FILE


def data_folder() -> Path:
    """Return the folder of conversations and models."""
    if chosen := os.environ.get(DATA_VARIABLE):
        return Path(chosen).expanduser()
    return Path(platformdirs.user_data_dir(_NAME, appauthor=False))


def conversations_file() -> Path:
    """Return the database of conversations and presets."""
    return data_folder() / CONVERSATIONS_FILE


def traces_folder() -> Path:
    """Return the folder of the recorded tokens of conversations."""
    return data_folder() / "traces"


def kept_prompts_folder(whose: Literal["conversations", "served"]) -> Path:
    """Return the folder of prompt caches: of conversations, or of the server."""
    return _cache_folder() / "prompts" / whose


def servers_folder() -> Path:
    """Return the folder with the addresses of the servers that run now."""
    return _cache_folder() / "servers"


def _cache_folder() -> Path:
    """Return the folder of what can be made again; that of data on a USB stick is there."""
    if chosen := os.environ.get("FULLSTOP_CACHE_DIR"):
        return Path(chosen).expanduser()
    if os.environ.get(DATA_VARIABLE):
        return data_folder() / "cache"
    return Path(platformdirs.user_cache_dir(_NAME, appauthor=False))


def log_folder() -> Path:
    """Return the folder of log files."""
    return Path(platformdirs.user_log_dir(_NAME, appauthor=False))

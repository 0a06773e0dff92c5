"""Where things are on this machine: the demo model, settings, data and logs.

Looks, but creates nothing. Any thread.
"""

import os
from pathlib import Path
from typing import Literal

import platformdirs

from app.folders.added_folders import added_folders
from engine.library.discovery import (
    ModelFolders,
    discover,
    hub_cache,
    lm_studio_folders,
    models_named,
)
from engine.library.found import FoundModel

_NAME = "fullstop"
DATA_VARIABLE = "FULLSTOP_DATA_DIR"

# The wheel contains the demo model inside the package; a clone (or an editable install of one) has
# it next to the package.
PACKAGED_DEMO_MODEL = Path(__file__).parents[1] / "demo-model"
CLONED_DEMO_MODEL = Path(__file__).parents[2] / "assets" / "demo-model"


def demo_model() -> Path:
    """Return the folder of the model that comes with the program."""
    return PACKAGED_DEMO_MODEL if PACKAGED_DEMO_MODEL.is_dir() else CLONED_DEMO_MODEL


def library_folders(folders: tuple[Path, ...]) -> ModelFolders:
    """Return the folders that are searched for models, including those that a person added."""
    return ModelFolders(demo_model(), folders, hub_cache(), lm_studio_folders())


def local_models() -> list[FoundModel]:
    """Return the models on this computer, the same as the window lists."""
    return discover(library_folders(added_folders(settings_file())))


def model_names() -> list[str]:
    """Return the names of the complete models on this computer."""
    return [model.name for model in local_models() if not model.is_partial]


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
    """Return the folder of prompt caches: of this person's conversations, or of the server.

    ``FULLSTOP_CACHE_DIR`` overrides the cache folder. Data on a USB stick has its caches there.
    """
    if chosen := os.environ.get("FULLSTOP_CACHE_DIR"):
        folder = Path(chosen).expanduser()
    elif os.environ.get(DATA_VARIABLE):
        folder = data_folder() / "cache"
    else:
        folder = Path(platformdirs.user_cache_dir(_NAME, appauthor=False))
    return folder / "prompts" / whose


def log_folder() -> Path:
    """Return the folder of log files."""
    return Path(platformdirs.user_log_dir(_NAME, appauthor=False))

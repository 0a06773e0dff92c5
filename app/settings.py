"""The settings file: one JSON file, checked, of a known version, written whole or not at all.

Knows no toolkit. Main thread; the file is a few kilobytes.
"""

import json
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from app.private import made_private
from engine.whole_file import write_whole

FILE_NAME = "settings.json"
VERSION = 1

_log = logging.getLogger(__name__)


class _Section(BaseModel):
    """What all parts have in common: unknown fields are refused, values are checked when set."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class ServerSettings(_Section):
    """How other programs are served; the key is kept elsewhere."""

    port: Annotated[int, Field(ge=1, le=65535)] = 8642
    is_on_network: bool = False
    is_key_required: bool = False
    allowed_origins: tuple[str, ...] = ()
    at_launch: Literal["as_left", "on", "off"] = "as_left"
    was_on: bool = False


class NewConversationSettings(_Section):
    """What a new conversation begins with."""

    system_prompt: str = ""
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    max_tokens: Annotated[int, Field(ge=1, le=2**31 - 1)] | None = None
    is_thinking: bool = False


class ModelSettings(_Section):
    """Where models are, and when they free their memory."""

    folders: tuple[str, ...] = ()
    rests_after_min: Annotated[int, Field(ge=0, le=1440)] = 0
    last_used: tuple[tuple[str, float], ...] = ()


class Settings(_Section):
    """Everything that outlives the program, conversations and models apart."""

    version: Literal[1] = 1
    theme: Literal["system", "light", "dark"] = "system"
    has_high_contrast: bool = False
    text_percent: Annotated[int, Field(ge=70, le=200)] = 100
    stays_in_tray: bool = True
    server: ServerSettings = Field(default_factory=ServerSettings)
    new_conversation: NewConversationSettings = Field(default_factory=NewConversationSettings)
    models: ModelSettings = Field(default_factory=ModelSettings)
    last_model: str = ""
    window_layout: str = ""


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings as they were found.

    Attributes:
        settings: The settings; the defaults where there were none that could be used.
        notice: What a person should know of it; empty where all was well.
    """

    settings: Settings
    notice: str = ""


class SettingsFile:
    """The file in a folder.

    Attributes:
        path: Where it is.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE_NAME

    def load(self) -> Loaded:
        """Return the settings. A file that cannot be used is set aside, never overwritten."""
        try:
            raw = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return Loaded(Settings())
        except UnicodeDecodeError:
            return self._set_aside("it is not text")
        except OSError as error:
            return Loaded(
                Settings(),
                f"The settings in {self.path} cannot be read ({error.strerror}); "
                "the usual ones are used.",
            )
        try:
            return Loaded(Settings.model_validate(migrated(json.loads(raw))))
        except json.JSONDecodeError as error:
            return self._set_aside(f"line {error.lineno} is not valid JSON ({error.msg})")
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"])
            return self._set_aside(f"{where}: {first['msg']}")
        except (UnknownVersion, RecursionError) as error:
            return self._set_aside(str(error))

    def save(self, settings: Settings) -> None:
        """Write the settings; a reader finds the old ones or the new ones, never a part.

        Raises:
            OSError: They cannot be written.
        """
        made_private(self.path.parent)
        text = settings.model_dump_json(indent=2) + "\n"
        write_whole(self.path, text)

    def _set_aside(self, reason: str) -> Loaded:
        aside = self.path.with_name(f"{FILE_NAME}.broken-{time.strftime('%Y%m%d-%H%M%S')}")
        try:
            os.replace(self.path, aside)
        except OSError as error:
            _log.warning("cannot set %s aside: %s", self.path, error)
            kept = f"It could not be set aside ({error.strerror})."
        else:
            kept = f"It is kept as {aside.name}."
        return Loaded(
            Settings(),
            f"The settings file could not be used: {reason}. {kept} The usual settings apply.",
        )


class UnknownVersion(ValueError):
    """The file was written by a later version of the program."""


def migrated(value: Any) -> Any:
    """Return the file's value as the present version has it.

    Raises:
        UnknownVersion: It is of a version that is not known here.
    """
    if not isinstance(value, dict):
        return value
    version = value.get("version", 0)
    if not isinstance(version, int) or not 0 <= version <= VERSION:
        raise UnknownVersion(f"it is of version {version}, which this program does not know")
    for step in _STEPS[version:]:
        value = step(value)
    return value


def _to_1(value: dict[str, Any]) -> dict[str, Any]:
    """Files written by hand may leave the version out."""
    return {**value, "version": 1}


_STEPS: tuple[Callable[[dict[str, Any]], dict[str, Any]], ...] = (_to_1,)

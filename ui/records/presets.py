"""Presets: named settings with a stop list. Plain values and their JSON; any thread."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from engine.files.fields import Fields, parsed_json
from ui.records import codec
from ui.records.conversations import ConversationSettings, StopEntry

VERSION = 1


@dataclass(frozen=True, slots=True)
class Preset:
    """Settings and stops for a conversation.

    Attributes:
        name: Its unique name.
        settings: System prompt, sampling and limits.
        stops: The stop list.
    """

    name: str
    settings: ConversationSettings
    stops: tuple[StopEntry, ...] = ()


def presets_json(presets: Iterable[Preset]) -> str:
    """Return presets as the text of a file."""
    listed = [preset_values(preset) for preset in presets]
    return json.dumps({"fullstop_presets": VERSION, "presets": listed}, indent=1) + "\n"


def presets_from_json(text: str) -> list[Preset]:
    """Return the presets of a file.

    Raises:
        DamagedFile: It is not a file of presets; the message names the field.
    """
    top = Fields(parsed_json(text))
    codec.check_version(top, "fullstop_presets", VERSION)
    return [preset_from(fields) for fields in top.items("presets")]


def preset_values(preset: Preset) -> dict[str, Any]:
    """Return a preset as JSON values."""
    return {
        "name": preset.name,
        "settings": codec.settings_values(preset.settings),
        "stops": codec.stops_values(list(preset.stops)),
    }


def preset_from(fields: Fields) -> Preset:
    """Return a preset; raises ``DamagedFile`` if a value cannot be used."""
    name = fields.take("name", str).strip()
    if not name:
        raise fields.wrong("name", "must not be empty")
    settings = codec.settings_from(fields.inner("settings"))
    return Preset(name, settings, tuple(codec.stops_from(fields)))

"""The options of stops in files: those that differ from their defaults, by name. Pure."""

from enum import Enum
from typing import Any

from engine.files.fields import Fields
from engine.stopping.rules import STOP_OPTIONS, StopOption, StopOptions


def stop_options_to_fields(options: StopOptions) -> dict[str, object]:
    """Return the options that differ from their defaults, as JSON values."""
    values = ((option, getattr(options, option.name)) for option in STOP_OPTIONS)
    return {option.name: value for option, value in values if value != option.default}


def stop_options_from_fields(fields: Fields) -> StopOptions:
    """Return the options that a file names; others have their defaults.

    Raises:
        DamagedFile: One of them has the wrong type.
    """
    return StopOptions(**{option.name: _value(fields, option) for option in STOP_OPTIONS})


def _value(fields: Fields, option: StopOption) -> Any:
    if not fields.has(option.name):
        return option.default
    if isinstance(option.default, Enum):
        return fields.choice(option.name, type(option.default))
    return fields.take(option.name, type(option.default))

"""The facts that a model's config.json states, which may be anything. Pure; any thread."""

from collections.abc import Mapping
from typing import Any, TypeGuard

MAX_FIGURE = 1 << 53
"""Floats hold every whole number up to here, and no model has more of anything."""


def is_count(value: Any) -> TypeGuard[int]:
    """Return whether a value is a whole number that a model can have."""
    return type(value) is int and 0 < value <= MAX_FIGURE


def text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the part for the text of a model that reads pictures too; else the whole."""
    text = config.get("text_config")
    return text if isinstance(text, dict) else config


def architecture_of(config: Mapping[str, Any]) -> str:
    """Return the ``model_type``; empty where none that is a text is stated."""
    kind = config.get("model_type")
    return kind if isinstance(kind, str) else ""


def context_length(config: Mapping[str, Any]) -> int:
    """Return the context length, in tokens."""
    for scope in (config, text_part(config)):
        for key in ("max_position_embeddings", "max_sequence_length", "n_positions", "seq_length"):
            value = scope.get(key)
            if is_count(value):
                return value
    return 4096


def bits_of(config: Mapping[str, Any]) -> int | None:
    """Return the bits of a quantized weight; None if it is not quantized."""
    for key in ("quantization", "quantization_config"):
        stated = config.get(key)
        if isinstance(stated, dict) and is_count(bits := stated.get("bits")):
            return bits
    return None

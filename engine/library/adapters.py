"""LoRA adapters of mlx-lm's trainer: their names, and the checks before one is loaded. Any thread.

A folder of an adapter stands for the model that its base and the adapter make.
"""

import os
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import ModelLoadFailed
from engine.files.causes import os_cause
from engine.library.configuration import is_count
from engine.library.model_files import file_label, model_name, read_json
from engine.library.weights import check_weights, read_header
from engine.wording import escaped

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapters.safetensors"
ADAPTED = " + "
"""Between the names of a base and of its adapter."""
_MAX_NAME_CHARS = 200
# Far beyond usual training; mlx-lm would reserve memory for any figure.
_MAX_RANK, _MAX_LAYERS, _MAX_SCALE = 65_536, 65_536, 1e6


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter; a fused model may keep the adapter's configuration."""
    has_config = os.path.isfile(folder / ADAPTER_CONFIG)
    return has_config and not os.path.isfile(folder / "config.json")


def is_model(folder: Path) -> bool:
    """Whether a folder holds a model, or an adapter, which stands for one."""
    return os.path.isfile(folder / "config.json") or is_adapter(folder)


def adapted_name(folder: Path, base: Path | None) -> str:
    """Return the name of a folder's model: with its base's for an adapter."""
    return model_name(folder) if base is None else model_name(base) + ADAPTED + model_name(folder)


def base_name(config: dict[str, Any]) -> str:
    """Return the name or path of the base that an adapter was trained for; empty if not stated."""
    name = config.get("model")
    return escaped(name)[:_MAX_NAME_CHARS] if isinstance(name, str) else ""


class CheckedAdapter(NamedTuple):
    """An adapter that mlx-lm can build: its bytes on disk, and the names of its weights."""

    stored_bytes: int
    names: frozenset[str]


def check_adapter(folder: Path) -> CheckedAdapter:
    """Check an adapter's files; raises ``ModelLoadFailed`` if they are not those of mlx-lm."""
    config = read_json(folder / ADAPTER_CONFIG)
    if problem := adapter_problem(config):
        raise ModelLoadFailed(f"{model_name(folder)} cannot be loaded: {problem}")
    weights = folder / ADAPTER_WEIGHTS
    try:
        size = weights.stat().st_size
    except FileNotFoundError:
        raise ModelLoadFailed(f"{file_label(weights)} is missing") from None
    except OSError as error:
        raise ModelLoadFailed(f"{file_label(weights)} cannot be read: {os_cause(error)}") from error
    check_weights(weights, size)
    names = read_header(weights)[1].keys() - {"__metadata__"}
    return CheckedAdapter(size, frozenset(names))


def adapter_problem(config: dict[str, Any]) -> str:
    """Return why mlx-lm cannot build an adapter's layers, as a clause; empty if it can."""
    if "peft_type" in config:
        return "it was made with PEFT, and mlx-lm reads only adapters of mlx_lm.lora"
    kind = config.get("fine_tune_type", "lora")
    if kind == "full":
        return ""
    if kind not in ("lora", "dora"):
        return f"its fine_tune_type is {_shown(kind)}, and mlx-lm knows lora, dora and full"
    layers, stated = config.get("num_layers"), config.get("lora_parameters")
    if type(layers) is not int or not -1 <= layers <= _MAX_LAYERS:
        return f"its num_layers is {_shown(layers)}, not a number of layers, or -1 for all"
    if not isinstance(stated, dict):
        return "its adapter_config.json has no lora_parameters"
    rank, keys = stated.get("rank"), stated.get("keys")
    if not is_count(rank) or rank > _MAX_RANK:
        return f"its rank is {_shown(rank)}, not a whole number from 1 to {_MAX_RANK:,}"
    for name, low, high in (("scale", -_MAX_SCALE, _MAX_SCALE), ("dropout", 0, 0.999)):
        value = stated.get(name)
        if type(value) is bool or not isinstance(value, (int, float)) or not low <= value <= high:
            return f"its {name} is {_shown(value)}, not a number from {low:g} to {high:g}"
    if not (keys is None or isinstance(keys, list)) or any(type(k) is not str for k in keys or ()):
        return "its keys are not a list of names of layers"
    return ""


def _shown(value: Any) -> str:
    return escaped(repr(value))[:60]

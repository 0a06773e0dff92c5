"""Describes the model in a folder without loading it. Any thread."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from engine.errors import ModelLoadFailed
from engine.files.bounded import read_bounded
from engine.library.architectures import problem_of
from engine.library.cache_size import is_count
from engine.library.models import (
    INDEX,
    context_length,
    indexed_weights,
    listed,
    model_name,
    read_json,
    weights_size,
)


class Origin(StrEnum):
    """Where a model on this machine comes from."""

    BUNDLED = "bundled"
    FOLDER = "folder"
    HUGGING_FACE = "hugging_face"
    LM_STUDIO = "lm_studio"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model folder on disk.

    Attributes:
        name: The folder's name, or the repository in a Hugging Face cache.
        folder: Where its configuration and weights are.
        origin: Where it comes from.
        size_bytes: Size of its weight files.
        architecture: ``model_type`` of its configuration; empty if it has none.
        context_length: Most tokens of prompt and answer; 0 if it cannot be read.
        bits: Bits of a quantized weight; None for a model that is not quantized.
        problem: Why it cannot be loaded, in words; empty if no reason is known.
        obstacle: Why the installed mlx-lm cannot load it, as a sentence; empty if none is known.
        is_partial: Whether files are missing that a download would add.
    """

    name: str
    folder: Path
    origin: Origin
    size_bytes: int = 0
    architecture: str = ""
    context_length: int = 0
    bits: int | None = None
    problem: str = ""
    obstacle: str = ""
    is_partial: bool = False


def look_into(folder: Path, origin: Origin) -> FoundModel:
    """Describe a model folder; lists its files and reads its JSON, but no weights."""
    name = model_name(folder)
    try:
        config = read_json(folder / "config.json")
    except ModelLoadFailed as error:
        return FoundModel(name, folder, origin, problem=str(error), is_partial=True)
    missing = _missing(folder)
    return FoundModel(
        name,
        folder,
        origin,
        size_bytes=weights_size(folder),
        architecture=str(config.get("model_type") or ""),
        context_length=context_length(config),
        bits=bits_of(config),
        problem=f"{listed(missing)} missing" if missing else "",
        obstacle=problem_of(config),
        is_partial=bool(missing),
    )


def bits_of(config: Mapping[str, Any]) -> int | None:
    """Return the bits of a quantized weight that a configuration states; None if it is not."""
    for key in ("quantization", "quantization_config"):
        stated = config.get(key)
        if isinstance(stated, dict) and is_count(bits := stated.get("bits")):
            return bits
    return None


def chat_template(folder: Path) -> str:
    """Return a model's chat template; empty if it has none that can be read."""
    file = folder / "chat_template.jinja"
    try:
        if file.is_file():
            return read_bounded(file).decode("utf-8", "replace")
        stated = read_json(folder / "tokenizer_config.json").get("chat_template")
    except (OSError, ModelLoadFailed):
        return ""
    if isinstance(stated, list):  # several, each with a name
        return "\n".join(str(one.get("template")) for one in stated if isinstance(one, dict))
    return stated if isinstance(stated, str) else ""


def _missing(folder: Path) -> list[str]:
    """Return the names of the files that are missing and needed."""
    there = {path.name for path in folder.glob("*.safetensors") if path.is_file()}
    try:
        wanted = indexed_weights(folder)
    except ModelLoadFailed:
        return [INDEX]
    missing = sorted(wanted - there)
    if not there and not missing:
        missing = ["weights (*.safetensors)"]
    if not any((folder / name).is_file() for name in ("tokenizer.json", "tokenizer.model")):
        missing.append("tokenizer.json")
    return missing

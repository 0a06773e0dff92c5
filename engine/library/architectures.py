"""Which architectures the installed mlx-lm supports.

Reads the names of mlx-lm's files and never imports it: importing MLX takes long, and a model that
is only offered needs none of it.
"""

import ast
import pkgutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, NamedTuple

from engine.library.configuration import architecture_of, is_count, text_part
from engine.threads import syntax_of
from engine.wording import escaped

ASSISTANTS = {"gemma4_assistant", "gemma4_unified_assistant"}
"""Architectures that draft from the cache of another model, and answer nothing by themselves."""
RopeStyle = Literal["interleaved", "sectioned"]


class SeeingFamily(NamedTuple):
    """Lets a text model of mlx-lm read the features of pictures from a tower of mlx-vlm.

    Attributes:
        mark: The name of the processor's attribute with the mark of a picture in prompts.
        rope: How frequencies turn by positions in three dimensions, where it has any.
        scales_embeddings: mlx-lm multiplies what its tables of embeddings return, and gives each
            layer inputs of its own, in which a picture has those of id 0.
        needs_audio: Its tower embeds ids of its own, told from those of sound.
    """

    mark: str = "image_token"
    rope: RopeStyle = "interleaved"
    scales_embeddings: bool = False
    needs_audio: bool = False


SEEING = {
    "gemma3": SeeingFamily(mark="boi_token"),
    "gemma3n": SeeingFamily(scales_embeddings=True, needs_audio=True),
    "gemma4": SeeingFamily(scales_embeddings=True),
    "lfm2-vl": SeeingFamily(),
    "lfm2_vl": SeeingFamily(),
    "mistral3": SeeingFamily(),
    "qwen2_5_vl": SeeingFamily(rope="sectioned"),
    "qwen2_vl": SeeingFamily(rope="sectioned"),
    "qwen3_5": SeeingFamily(),
    "qwen3_5_moe": SeeingFamily(),
    "qwen3_vl": SeeingFamily(),
    "qwen3_vl_moe": SeeingFamily(),
}
"""The architectures that read pictures."""
_WITH_ASSISTANTS = {"gemma4", "gemma4_text", "gemma4_unified"}


def pairing_of(config: dict[str, Any]) -> str:
    """Return a text that is the same for a model and its assistants; empty for all other models."""
    kind = architecture_of(config)
    if kind in ASSISTANTS:
        size = config.get("backbone_hidden_size")
    elif kind in _WITH_ASSISTANTS:
        size = text_part(config).get("hidden_size")
    else:
        return ""
    return f"gemma4 {size}" if is_count(size) else ""


def sees(config: dict[str, Any]) -> bool:
    """Whether a model of this configuration reads pictures, with the installed packages."""
    is_made_for_it = bool(config.get("vision_config")) and architecture_of(config) in SEEING
    return is_made_for_it and find_spec("mlx_vlm") is not None


def problem_of(config: dict[str, Any]) -> str:
    """Return why no model of this configuration can be loaded, as a sentence, or nothing."""
    kind = architecture_of(config)
    if not kind:
        return "It is not a language model: its config.json names no model_type."
    if config.get("model_file"):
        return "It needs code of its own, and code from models is never run."
    if kind in ASSISTANTS:
        return "It drafts for a model of Gemma 4, as whose draft model it can be chosen."
    known = _modules()
    if known and _module(config) not in known:
        name = escaped(" ".join(kind.split()))[:60]
        return f"It is of architecture {unsupported(name)}."
    return ""


def unsupported(architecture: str) -> str:
    """Return the words for an architecture that the installed mlx-lm does not support."""
    try:
        library = f"mlx-lm {version('mlx-lm')}"
    except PackageNotFoundError:
        library = "the installed mlx-lm"
    return f"{architecture}, which {library} does not support; a later version may"


def _module(config: dict[str, Any]) -> str:
    """Return the module in which mlx-lm looks for a model, by its own type and not by a part's."""
    kind = architecture_of(config)
    by_class = _table("MODEL_ARCHITECTURE_REMAPPING")
    classes = config.get("architectures")
    for name in classes if isinstance(classes, list) else [classes]:
        if isinstance(name, str) and (kind, name) in by_class:
            return str(by_class[kind, name])
    return str(_table("MODEL_REMAPPING").get(kind, kind))


@cache
def _folder() -> Path | None:
    package = find_spec("mlx_lm")  # of a package at the top, this imports nothing
    folders = package.submodule_search_locations if package is not None else None
    return Path(next(iter(folders))) if folders else None


@cache
def _modules() -> frozenset[str]:
    """Return the names of mlx-lm's modules of models; none if its files cannot be listed."""
    folder = _folder()
    if folder is None:
        return frozenset()
    return frozenset(module.name for module in pkgutil.iter_modules([str(folder / "models")]))


@cache
def _table(name: str) -> dict[Any, Any]:
    """Return a table of ``mlx_lm/utils.py``; empty if the file has none of this name."""
    folder = _folder()
    try:
        source = (folder / "utils.py").read_text(encoding="utf-8") if folder is not None else ""
        for statement in syntax_of(source).body:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
                value = ast.literal_eval(statement.value)
                return value if isinstance(value, dict) else {}
    except (OSError, SyntaxError, ValueError):
        pass
    return {}

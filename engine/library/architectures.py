"""Tells from a configuration whether the installed mlx-lm can load a model. Any thread.

Reads the names of mlx-lm's files and never imports it: importing MLX takes long, and a model that
is only offered needs none of it.
"""

import ast
import pkgutil
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from engine.wording import escaped

_MOST_NAME_CHARS = 60


def problem_of(config: dict[str, Any]) -> str:
    """Return why no model of this configuration can be loaded, as a sentence.

    Empty if nothing is known against it.
    """
    kind = config.get("model_type")
    if not kind or not isinstance(kind, str):
        return "It is not a language model: its config.json names no model_type."
    if config.get("model_file"):
        return "It needs code of its own, and code from models is never run."
    known = _modules()
    if known and _module(config) not in known:
        name = escaped(" ".join(kind.split()))[:_MOST_NAME_CHARS]
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
    """Return the name of the module in which mlx-lm looks for a model.

    It goes by the model's own type, never by that of a part such as ``text_config``: a module for
    models that also see takes the parts that it knows.
    """
    kind: str = config["model_type"]
    by_class = _table("MODEL_ARCHITECTURE_REMAPPING")
    classes = config.get("architectures")
    for one in classes if isinstance(classes, list) else [classes]:
        if isinstance(one, str) and (kind, one) in by_class:
            return str(by_class[kind, one])
    return str(_table("MODEL_REMAPPING").get(kind, kind))


@cache
def _folder() -> Path | None:
    found = find_spec("mlx_lm")  # of a package at the top, this imports nothing
    places = found.submodule_search_locations if found is not None else None
    return Path(next(iter(places))) if places else None


@cache
def _modules() -> frozenset[str]:
    """Return the names of mlx-lm's modules of models; none if its files cannot be listed."""
    folder = _folder()
    if folder is None:
        return frozenset()
    return frozenset(one.name for one in pkgutil.iter_modules([str(folder / "models")]))


@cache
def _table(name: str) -> dict[Any, Any]:
    """Return a table of ``mlx_lm/utils.py``; empty if the file has none of this name."""
    folder = _folder()
    try:
        source = (folder / "utils.py").read_text(encoding="utf-8") if folder is not None else ""
        for one in ast.parse(source).body:
            if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == name:
                found = ast.literal_eval(one.value)
                return found if isinstance(found, dict) else {}
    except (OSError, SyntaxError, ValueError):
        pass
    return {}

"""Finds the models on this machine's disks. Opens no weights. Any thread."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.library.found import FoundModel, Origin, look_into

_REPOSITORY = "models--"
# A folder of models holds model folders, or folders of makers that hold model folders.
_DEPTH = 2


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """The places where models may be.

    Attributes:
        bundled: The model that comes with the program.
        added: Folders that a person added: a model's own, or one that holds model folders.
        hub_cache: The cache of Hugging Face's tools.
        lm_studio: Where LM Studio keeps models.
    """

    bundled: Path | None = None
    added: tuple[Path, ...] = ()
    hub_cache: Path | None = None
    lm_studio: tuple[Path, ...] = ()


def hub_cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of Hugging Face's cache, as its own tools determine it."""
    if chosen := environment.get("HF_HUB_CACHE"):
        return Path(chosen).expanduser()
    if home := environment.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    caches = environment.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(caches).expanduser() / "huggingface" / "hub"


def lm_studio_folders(home: Path | None = None) -> tuple[Path, ...]:
    """Return where LM Studio keeps models, in its present and its earlier versions."""
    home = home or Path.home()
    return (home / ".lmstudio" / "models", home / ".cache" / "lm-studio" / "models")


def discover(places: ModelFolders) -> list[FoundModel]:
    """Return the models that exist: the bundled one, then the others by name, each folder once.

    Folders that do not exist or cannot be read count as empty.
    """
    found: dict[Path, FoundModel] = {}
    if places.bundled is not None:
        _add(found, [look_into(places.bundled, Origin.BUNDLED)])
    rest: dict[Path, FoundModel] = {}
    for folder in places.added:
        _add(rest, _inside(folder, Origin.FOLDER, is_named=True))
    if places.hub_cache is not None:
        _add(rest, _cached(places.hub_cache))
    for folder in places.lm_studio:
        _add(rest, _inside(folder, Origin.LM_STUDIO))
    for model in sorted(rest.values(), key=lambda model: model.name.casefold()):
        _add(found, [model])
    return list(found.values())


def models_named(models: Iterable[FoundModel], text: str) -> list[FoundModel]:
    """Return the models with this name, or else those whose name ends in it after a slash."""
    every = list(models)
    exact = [model for model in every if model.name == text]
    return exact or [model for model in every if model.name.rpartition("/")[2] == text]


def _add(found: dict[Path, FoundModel], models: Iterable[FoundModel]) -> None:
    for model in models:
        found.setdefault(model.folder.resolve(), model)


def _inside(
    folder: Path, origin: Origin, depth: int = _DEPTH, *, is_named: bool = False
) -> Iterator[FoundModel]:
    # For text in settings that cannot be a path, ``os.path`` returns False where ``Path`` raises.
    if os.path.isfile(folder / "config.json"):
        model = look_into(folder, origin)
        # A folder with a config.json and no weights belongs to another program.
        if is_named or not model.is_partial:
            yield model
        return
    if depth == 0:
        return
    for child in _children(folder):
        yield from _inside(child, origin, depth - 1)


def _cached(cache: Path) -> Iterator[FoundModel]:
    """Yield the text models of a Hugging Face cache, partial downloads included."""
    for repository in _children(cache):
        if not repository.name.startswith(_REPOSITORY):
            continue
        snapshot = _snapshot(repository)
        if snapshot is None:
            continue
        model = look_into(snapshot, Origin.HUGGING_FACE)
        if model.is_partial and not _has_begun(repository, snapshot):
            continue
        yield model


def _snapshot(repository: Path) -> Path | None:
    """Return a cached repository's folder of files: that of ``main``, or else the newest."""
    try:
        commit = (repository / "refs" / "main").read_text().strip()
    except (OSError, UnicodeDecodeError):
        commit = ""
    if commit and os.path.isdir(repository / "snapshots" / commit):
        return repository / "snapshots" / commit
    snapshots = _children(repository / "snapshots")
    return max(snapshots, key=lambda path: path.stat().st_mtime, default=None)


def _has_begun(repository: Path, snapshot: Path) -> bool:
    """Whether a download of weights that MLX can read has begun."""
    if (snapshot / "model.safetensors.index.json").exists():
        return True
    return any(repository.glob("blobs/*.incomplete")) or any(snapshot.glob("*.safetensors"))


def _children(folder: Path) -> list[Path]:
    try:
        return sorted(
            path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except (OSError, ValueError):
        return []

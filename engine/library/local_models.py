"""The models on this machine: discovery, description and removal.

Who removes one must know whether it is in use: a loaded model keeps working on Linux and macOS, but
cannot be loaded again.
"""

import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from engine.errors import EngineError, ModelLoadFailed
from engine.files.causes import os_cause
from engine.library.adapters import (
    ADAPTED,
    ADAPTER_CONFIG,
    adapter_problem,
    base_name,
    check_adapter,
    is_adapter,
    is_model,
)
from engine.library.architectures import ASSISTANTS, pairing_of, problem_of, sees
from engine.library.configuration import architecture_of, bits_of, context_length
from engine.library.model_files import listed, model_name, read_json
from engine.library.model_folder import missing_files
from engine.library.weights import INDEX, weights_size
from engine.wording import as_sentence, format_size

GGUF_OBSTACLE = (
    "It is a GGUF file, which llama.cpp reads and MLX does not. Look for the same model in MLX’s "
    "format, such as those of mlx-community."
)
REPOSITORY_PREFIX = "models--"


class Origin(StrEnum):
    """Where a model on this machine comes from."""

    BUNDLED = "bundled"
    FOLDER = "folder"
    HUGGING_FACE = "hugging_face"
    LM_STUDIO = "lm_studio"


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model folder on disk.

    ``problem`` is the fault of the folder, ``obstacle`` a sentence why the installed mlx-lm
    cannot load it; ``pairing`` is the same for a model and the assistants that draft for it.
    An adapter's figures are its base's, but for its size; ``trained_for`` names that base.
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
    is_gguf: bool = False
    pairing: str = ""
    can_see: bool = False
    is_adapter: bool = False
    trained_for: str = ""
    base: Path | None = None

    @property
    def model_folder(self) -> Path:
        """The folder with its configuration, tokenizer and template."""
        return self.base or self.folder

    @property
    def is_assistant(self) -> bool:
        """Whether it can only draft for another model, for which it is complete."""
        return self.architecture in ASSISTANTS and not (self.is_partial or self.problem)

    @property
    def can_be_loaded(self) -> bool:
        return not (self.is_partial or self.problem or self.obstacle)

    @property
    def can_be_fetched_again(self) -> bool:
        return self.origin is Origin.HUGGING_FACE and "/" in self.name

    @property
    def trouble(self) -> str:
        """Why it cannot be loaded, as a sentence; empty if no reason is known."""
        if not self.problem:
            return self.obstacle
        if not self.is_partial:
            return f"Damaged: {self.problem}."
        arrived = f" {self.arrived}." if self.arrived else ""
        return f"Incomplete: {self.problem}.{arrived}"

    @property
    def arrived(self) -> str:
        there = self.is_partial and self.size_bytes > 0
        return f"{format_size(self.size_bytes)} has arrived" if there else ""


def gguf_models(folder: Path, origin: Origin) -> Iterator[FoundModel]:
    """Yield what a folder has in the format of llama.cpp, under the folder's name."""
    files = [path for path in _files(folder, ".gguf") if not path.name.startswith("mmproj")]
    if files and not _files(folder, ".safetensors"):
        size = sum(path.stat().st_size for path in files if path.exists())
        name = model_name(folder)
        yield FoundModel(name, folder, origin, size, obstacle=GGUF_OBSTACLE, is_gguf=True)


def look_into(folder: Path, origin: Origin) -> FoundModel:
    """Describe a model folder; lists its files and reads its JSON, but no weights."""
    name = model_name(folder)
    if is_adapter(folder):
        return _look_into_adapter(folder, origin)
    try:
        config = read_json(folder / "config.json")
    except ModelLoadFailed as error:
        return FoundModel(name, folder, origin, problem=str(error), is_partial=True)
    try:
        missing = missing_files(folder, config)
    except ModelLoadFailed:
        missing = [INDEX]
    return FoundModel(
        name,
        folder,
        origin,
        size_bytes=weights_size(folder),
        architecture=architecture_of(config),
        context_length=context_length(config),
        bits=bits_of(config),
        problem=f"{listed(missing)} missing" if missing else "",
        obstacle=problem_of(config),
        is_partial=bool(missing),
        pairing=pairing_of(config),
        can_see=sees(config),
    )


def _look_into_adapter(folder: Path, origin: Origin) -> FoundModel:
    """Describe an adapter, whose base is not known yet."""
    found = FoundModel(model_name(folder), folder, origin, is_adapter=True)
    try:
        config = read_json(folder / ADAPTER_CONFIG)
        found = replace(found, trained_for=base_name(config))
        if problem := adapter_problem(config):
            return replace(found, obstacle=as_sentence(problem))
        return replace(found, size_bytes=check_adapter(folder).stored_bytes)
    except ModelLoadFailed as error:
        return replace(found, problem=str(error))


@dataclass(frozen=True, slots=True)
class ModelFolders:
    """The places where models may be; ``seeing`` is bundled, too."""

    bundled: Path | None = None
    added: tuple[Path, ...] = ()
    hub_cache: Path | None = None
    lm_studio: tuple[Path, ...] = ()
    seeing: Path | None = None


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


def discover(
    folders: ModelFolders, chosen_base: Callable[[Path], Path | None] = lambda _: None
) -> list[FoundModel]:
    """Return the models that exist: the bundled ones, then the others by name, each folder once.

    ``chosen_base`` returns the folder of the base that the user chose for an adapter.
    """
    folders_of_ours = filter(None, (folders.bundled, folders.seeing))
    bundled = [look_into(folder, Origin.BUNDLED) for folder in folders_of_ours]
    others = [
        model for folder in folders.added for model in _inside(folder, Origin.FOLDER, is_named=True)
    ]
    if folders.hub_cache is not None:
        others += _cached(folders.hub_cache)
    # LM Studio's models are in folders of makers. A model elsewhere would be the folder of others,
    # and they would be removed with it.
    makers = [maker for folder in folders.lm_studio for maker in _children(folder)]
    for folder in [folder for maker in makers for folder in _children(maker)]:
        others += _inside(folder, Origin.LM_STUDIO, depth=0)
    every = [*bundled, *others]
    others = [
        with_base(each, every, chosen_base(each.folder)) if each.is_adapter else each
        for each in others
    ]
    by_folder: dict[Path, FoundModel] = {}
    for model in (*bundled, *sorted(others, key=lambda model: model.name.casefold())):
        by_folder.setdefault(model.folder.resolve(), model)
    return list(by_folder.values())


def with_base(
    adapter: FoundModel, models: Iterable[FoundModel], chosen: Path | None = None
) -> FoundModel:
    """Return an adapter with the figures of its base: the chosen one, or that of its config.

    The name is compared and never opened, so that an adapter reaches no folder outside the library.
    """
    bases = [model for model in models if model.can_be_loaded and not model.is_adapter]
    stated = adapter.trained_for
    names = ([] if chosen is None else [str(chosen)]) + [stated]
    named = (model for name in names for model in bases if name in _names_of(model))
    if (base := next(named, None)) is None:
        last = stated.rstrip("/").rpartition("/")[2]
        same = [model for model in bases if model.name.rpartition("/")[2] == last]
        base = same[0] if len(same) == 1 else None
    if base is None:
        missing = f"{stated} is not among the models on this computer: add or download it, or"
        missing = f"Its base {missing}" if stated else "Its adapter_config.json names no base:"
        return replace(adapter, obstacle=adapter.obstacle or f"{missing} choose another base.")
    return replace(
        adapter,
        name=base.name + ADAPTED + adapter.name,
        base=base.folder,
        architecture=base.architecture,
        context_length=base.context_length,
        bits=base.bits,
        pairing=base.pairing,
        can_see=base.can_see,
    )


def _names_of(model: FoundModel) -> tuple[str, ...]:
    return model.name, str(model.folder), str(model.folder.resolve())


def models_named(models: Iterable[FoundModel], text: str) -> list[FoundModel]:
    """Return the models with this name, or else those whose name ends in it after a slash.

    The name of an adapter alone is enough.
    """
    every = list(models)
    exact = [model for model in every if model.name == text]
    last = [model for model in every if model.name.rpartition("/")[2] == text]
    return exact or last or [model for model in every if model_name(model.folder) == text]


def _inside(
    folder: Path, origin: Origin, depth: int = 2, *, is_named: bool = False
) -> Iterator[FoundModel]:
    # A folder of models holds model folders, or folders of makers that hold model folders.
    # For text in settings that cannot be a path, ``os.path`` returns False where ``Path`` raises.
    if is_model(folder):
        model = look_into(folder, origin)
        # A folder with a config.json and no weights belongs to another program.
        if is_named or not model.is_partial:
            yield model
        return
    yield from gguf_models(folder, origin)
    if depth == 0:
        return
    for child in _children(folder):
        yield from _inside(child, origin, depth - 1)


def _cached(cache: Path) -> Iterator[FoundModel]:
    """Yield the text models of a Hugging Face cache, partial downloads included."""
    for repository in _children(cache):
        if not repository.name.startswith(REPOSITORY_PREFIX):
            continue
        snapshot = _snapshot(repository)
        if snapshot is None:
            continue
        model = look_into(snapshot, Origin.HUGGING_FACE)
        gguf = list(gguf_models(snapshot, Origin.HUGGING_FACE)) if model.is_partial else []
        if gguf:
            yield from gguf
            continue
        if model.is_partial:
            if not _has_begun(repository, snapshot):
                continue
            model = replace(model, size_bytes=model.size_bytes + begun_bytes(repository))
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
    return max(snapshots, key=_changed_at, default=None)


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # it is being deleted
        return 0.0


def _has_begun(repository: Path, snapshot: Path) -> bool:
    """Whether a download of weights that MLX can read has begun."""
    if (snapshot / "model.safetensors.index.json").exists():
        return True
    return any(repository.glob("blobs/*.incomplete")) or any(snapshot.glob("*.safetensors"))


def begun_bytes(repository: Path) -> int:
    """Return how many bytes have arrived of the files that are not complete."""
    size = 0
    for path in repository.glob("blobs/*.incomplete"):
        with contextlib.suppress(OSError):  # it was complete meanwhile
            size += path.stat().st_size
    return size


def _files(folder: Path, suffix: str) -> list[Path]:
    listed = _entries(folder)
    return [path for path in listed if path.name.casefold().endswith(suffix) and path.is_file()]


def _children(folder: Path) -> list[Path]:
    return [path for path in _entries(folder) if path.is_dir() and not path.name.startswith(".")]


def _entries(folder: Path) -> list[Path]:
    """Return what a folder contains, by name; nothing where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except (OSError, ValueError):
        return []


def removal_of(model: FoundModel) -> tuple[Path, int]:
    """Return the folder that removing a model deletes, and its bytes; raises ``EngineError``."""
    match model.origin:
        case Origin.BUNDLED:
            raise EngineError(f"{model.name} comes with Fullstop and cannot be removed")
        case Origin.FOLDER:
            raise EngineError(
                f"{model.name} is in a folder of yours; delete {model.folder} yourself"
            )
        case Origin.LM_STUDIO:
            folder = model.folder
        case Origin.HUGGING_FACE:
            folder = model.folder.parent.parent  # models--owner--name/snapshots/<commit>
            if not folder.name.startswith(REPOSITORY_PREFIX):
                raise EngineError(f"{model.folder} is not in a Hugging Face cache")
    if folder.is_symlink():
        raise EngineError(f"{folder} is a link to another place; delete the model there")
    states = (path.lstat() for path in folder.rglob("*"))  # links to files take nothing
    return folder, sum(state.st_size for state in states if stat.S_ISREG(state.st_mode))


def remove(folder: Path) -> None:
    """Delete the folder of ``removal_of``; raises ``EngineError``."""
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        if folder.exists():
            raise EngineError(f"{folder} changes meanwhile; try again") from None
    except OSError as error:
        path = error.filename or folder
        raise EngineError(f"{path} cannot be deleted: {os_cause(error)}") from error
    if folder.name.startswith(REPOSITORY_PREFIX):
        locks = folder.parent / ".locks" / folder.name
        shutil.rmtree(locks, ignore_errors=True)


def remove_replaced_revision(folder: Path) -> int:
    """Delete a downloaded revision that a newer one has replaced; return the bytes that it frees.

    Files that it shares with another revision stay, and a revision that a branch or tag names.
    """
    from huggingface_hub import scan_cache_dir

    repository = folder.parent.parent
    if folder.parent.name != "snapshots" or not repository.name.startswith(REPOSITORY_PREFIX):
        raise EngineError(f"{folder} is not a revision in a Hugging Face cache")
    cache = scan_cache_dir(repository.parent)
    for revision in (revision for found in cache.repos for revision in found.revisions):
        if revision.snapshot_path == folder.resolve() and not revision.refs:
            strategy = cache.delete_revisions(revision.commit_hash)
            strategy.execute()
            return strategy.expected_freed_size
    return 0

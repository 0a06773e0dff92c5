"""Removes a model, or a replaced revision of it, from this computer's disk. Blocks.

``removal_of`` tells in advance how many bytes a removal frees. The caller must know whether the
model is in use: a loaded model keeps working on Linux and macOS, but cannot be loaded again.
"""

import os
import shutil
import stat
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from engine.errors import EngineError
from engine.files.causes import os_cause
from engine.library.found import FoundModel, Origin

_REPOSITORY = "models--"
_LOCKS = ".locks"


class RemovalFailed(EngineError):
    """A model cannot be removed; the message says why and what would help."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What removing a model deletes.

    Attributes:
        name: The model.
        folder: The folder that is deleted, with everything in it.
        freed_bytes: How many bytes that frees.
    """

    name: str
    folder: Path
    freed_bytes: int


def removal_of(model: FoundModel) -> Removal:
    """Return what removing a model would delete; deletes nothing.

    Raises:
        RemovalFailed: It is not one that a program downloaded; the message says what to do.
    """
    match model.origin:
        case Origin.BUNDLED:
            raise RemovalFailed(f"{model.name} comes with Fullstop and cannot be removed")
        case Origin.FOLDER:
            raise RemovalFailed(
                f"{model.name} is in a folder of yours; delete {model.folder} yourself"
            )
        case Origin.LM_STUDIO:
            folder = model.folder
        case Origin.HUGGING_FACE:
            folder = model.folder.parent.parent  # models--owner--name/snapshots/<commit>
            if not folder.name.startswith(_REPOSITORY):
                raise RemovalFailed(f"{model.folder} is not in a Hugging Face cache")
    if folder.is_symlink():
        raise RemovalFailed(f"{folder} is a link to another place; delete the model there")
    return Removal(model.name, folder, _freed_bytes(folder))


def remove(removal: Removal) -> None:
    """Delete the files.

    Raises:
        RemovalFailed: One of them cannot be deleted; the message names it.
    """
    try:
        shutil.rmtree(removal.folder)
    except FileNotFoundError:
        if removal.folder.exists():
            raise RemovalFailed(f"{removal.folder} changes meanwhile; try again") from None
    except OSError as error:
        place = error.filename or removal.folder
        raise RemovalFailed(f"{place} cannot be deleted: {os_cause(error)}") from error
    if removal.folder.name.startswith(_REPOSITORY):
        locks = removal.folder.parent / _LOCKS / removal.folder.name
        shutil.rmtree(locks, ignore_errors=True)


def remove_replaced_revision(folder: Path) -> int:
    """Delete the files of a downloaded revision that a newer one has replaced.

    Files that it shares with another revision stay. A revision that a branch or tag of the cache
    names is not deleted.

    Args:
        folder: The revision in a Hugging Face cache: ``models--owner--name/snapshots/<commit>``.

    Returns:
        The number of bytes that were freed.

    Raises:
        RemovalFailed: One of the files cannot be deleted; the message names it.
    """
    repository = folder.parent.parent
    if folder.parent.name != "snapshots" or not repository.name.startswith(_REPOSITORY):
        raise RemovalFailed(f"{folder} is not a revision in a Hugging Face cache")
    if folder.is_symlink() or not folder.is_dir() or folder.name in _named_revisions(repository):
        return 0
    linked = _linked_files(folder, repository)
    own = 0 if linked else _freed_bytes(folder)  # without links, the files are in the folder
    remove(Removal("", folder, own))
    kept = {
        file
        for other in (repository / "snapshots").iterdir()
        for file in _linked_files(other, repository)
    }
    freed = own
    for file in linked - kept:
        try:
            size = file.stat().st_size
            file.unlink()
        except FileNotFoundError:
            continue
        except OSError as error:
            raise RemovalFailed(f"{file} cannot be deleted: {os_cause(error)}") from error
        freed += size
    return freed


def _named_revisions(repository: Path) -> set[str]:
    """Return the commits that a cache's branches and tags name."""
    named = set()
    for path in (repository / "refs").rglob("*"):
        try:
            named.add(path.read_text().strip())
        except (OSError, UnicodeDecodeError):
            continue
    return named


def _linked_files(snapshot: Path, repository: Path) -> set[Path]:
    """Return the files of the cache that a revision links to."""
    blobs = (repository / "blobs").resolve()
    links = (path for path in snapshot.rglob("*") if path.is_symlink())
    return {file for link in links if (file := link.resolve()).parent == blobs}


def _freed_bytes(folder: Path) -> int:
    """Return the size of the files inside that have no hard link outside."""
    names: Counter[tuple[int, int]] = Counter()
    files: dict[tuple[int, int], os.stat_result] = {}
    for place, _, inside in os.walk(folder):
        for name in inside:
            try:
                file = os.lstat(os.path.join(place, name))
            except OSError:
                continue
            if stat.S_ISREG(file.st_mode):
                key = (file.st_dev, file.st_ino)
                names[key] += 1
                files[key] = file
    return sum(file.st_size for key, file in files.items() if names[key] >= file.st_nlink)

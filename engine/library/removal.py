"""Removes downloaded models; the freed bytes are known in advance.

The caller must know whether the model is in use: a loaded model keeps working on Linux and macOS,
but cannot be loaded again.
"""

import shutil
import stat
from pathlib import Path

from engine.errors import EngineError
from engine.files.causes import os_cause
from engine.library.local_models import REPOSITORY_PREFIX, FoundModel, Origin


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

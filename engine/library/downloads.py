"""Downloads a model from a Hugging Face hub into the hub's usual cache, and verifies every file.

Blocks, so the caller gives it a separate thread. A partial download is kept when it fails or is
cancelled; the next download of the same model resumes it.
"""

import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from engine.files.whole_file import write_whole
from engine.library.cache_size import is_count
from engine.library.download_progress import (
    DownloadCancelled,
    DownloadFailed,
    DownloadProgress,
)
from engine.library.fetching import SPARE_BYTES, begun_bytes, fetch_file
from engine.library.hub.asking import Hub
from engine.library.hub_failures import failures_in_words
from engine.library.models import check_folder
from engine.library.verifying import verify
from engine.wording import size_in_words

# The files of a repository that mlx-lm reads. No code: a model's own code is never run.
_WANTED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model", "*.tiktoken")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# Not in a folder, without control characters, and short enough for any disk.
_FILE = re.compile(r"[\w][\w .+()-]{0,199}")
_MOST_FILES = 10_000
_ASKING_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository, as the hub describes it."""

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


def repository_of(text: str) -> str:
    """Return the repository that a person named by ``owner/name`` or by its page's address.

    Raises:
        DownloadFailed: The text is neither; the message says what is needed.
    """
    wanted = re.sub(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/", "", text.strip())
    wanted = "/".join(wanted.split("/")[:2]).split("?")[0].rstrip("/")
    if not _NAME.fullmatch(wanted):
        raise DownloadFailed(
            f"“{text.strip()}” is not the name of a repository; write owner/name, such as "
            "mlx-community/Qwen3-4B-4bit"
        )
    return wanted


def download(
    repository: str,
    cache: Path,
    *,
    on_progress: Callable[[DownloadProgress], None],
    gives_up: threading.Event,
    endpoint: str | None = None,
) -> Path:
    """Download a repository's model; return its folder once every file has been verified.

    Args:
        repository: ``owner/name``.
        cache: The folder of Hugging Face's cache.
        on_progress: Called for each part that arrives, on the calling thread.
        gives_up: Set on any thread to cancel; the partial download is kept.
        endpoint: The address of another hub than huggingface.co.

    Raises:
        DownloadCancelled: ``gives_up`` was set.
        DownloadFailed: The message says why and what would help.
    """
    on_progress(DownloadProgress("asking"))
    with failures_in_words(repository, cache):
        commit, files = _listing(repository, Hub(endpoint, gives_up))
        total = sum(file.size for file in files)
        meter = _Meter(total, on_progress, gives_up)
        _check_disk(repository, cache, commit, files)
        for file in sorted(files, key=lambda file: file.size):
            meter.begin(file)
            fetch_file(
                _folder(cache, repository),
                repository,
                commit,
                file.name,
                file.size,
                endpoint=endpoint,
                on_bytes=meter.add,
            )
            meter.end(file)
        folder = _snapshot(cache, repository, commit)
        _compare(folder, files, on_progress, gives_up)
        check_folder(folder)
        # From here on other tools of the hub find the model under this name.
        references = _folder(cache, repository) / "refs"
        references.mkdir(parents=True, exist_ok=True)
        write_whole(references / "main", commit)
    return folder


# -- asking -----------------------------------------------------------------------------------


def _listing(repository: str, hub: Hub) -> tuple[str, list[HubFile]]:
    """Return the newest commit of ``main``, and those of its files that are needed."""
    path = f"/api/models/{repository}"
    said = hub.within(
        _ASKING_TIMEOUT_S,
        lambda asked: asked.get(path, {"blobs": True}, repository=repository).value(),
    )
    siblings = said.get("siblings") if isinstance(said, dict) else None
    if not isinstance(said, dict) or not isinstance(siblings, list):
        raise DownloadFailed("the hub's answer cannot be read; try again later")
    listed = [file for one in siblings if (file := _file(one)) is not None]
    files = [one for one in listed if any(fnmatch(one.name, wanted) for wanted in _WANTED)]
    if not any(file.name.endswith(".safetensors") for file in files):
        others = sorted({Path(one.name).suffix for one in listed} & {".gguf", ".bin", ".pt"})
        there = f" (only {', '.join(others)})" if others else ""
        raise DownloadFailed(
            f"{repository} has no weights that MLX can read{there}; mlx-community has many "
            "models as *.safetensors"
        )
    if len(files) > _MOST_FILES:
        raise DownloadFailed(f"{repository} has more than {_MOST_FILES:,} files")
    commit = said.get("sha")
    if not isinstance(commit, str) or not _COMMIT.fullmatch(commit):
        raise DownloadFailed(f"the hub names no commit of {repository}; try again later")
    return commit, files


def _file(one: Any) -> HubFile | None:
    """Return a file that the hub describes; None for one in a folder, or of no usable name."""
    name = one.get("rfilename") if isinstance(one, dict) else None
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        return None
    size, large, own = one.get("size"), one.get("lfs"), one.get("blobId")
    digest = large.get("sha256") if isinstance(large, dict) else None
    return HubFile(
        name,
        size if is_count(size) else 0,
        digest if isinstance(digest, str) else None,
        own if isinstance(own, str) else None,
    )


def _check_disk(repository: str, cache: Path, commit: str, files: list[HubFile]) -> None:
    folder = _snapshot(cache, repository, commit)
    missing = sum(file.size for file in files if not (folder / file.name).exists())
    if why := no_room(repository, cache, missing):
        raise DownloadFailed(why)


def no_room(repository: str, cache: Path, missing_bytes: int) -> str:
    """Return why a download does not fit on the disk, with a remedy; empty if it fits.

    Args:
        repository: ``owner/name``.
        cache: The folder to write to.
        missing_bytes: The size of the files that are not there; begun ones count in full.
    """
    needed = max(0, missing_bytes - begun_bytes(_folder(cache, repository)))
    place = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(place).free
    if not needed or needed + SPARE_BYTES <= free:
        return ""
    return (
        f"{repository} needs {size_in_words(needed)} more, and {place} has "
        f"{size_in_words(free)} free; make room, or choose a smaller model"
    )


# -- fetching ---------------------------------------------------------------------------------


class _Meter:
    """Adds up the bytes that arrive; when cancelled, ends the transfer after a chunk."""

    def __init__(
        self,
        total: int,
        on_progress: Callable[[DownloadProgress], None],
        gives_up: threading.Event,
    ) -> None:
        self._total = total
        self._on_progress = on_progress
        self._gives_up = gives_up
        self._before = 0
        self._here = 0
        self._file = ""

    def begin(self, file: HubFile) -> None:
        self._file, self._here = file.name, 0
        self.add(0)

    def end(self, file: HubFile) -> None:
        self._before += file.size
        self._here = 0
        self.add(0)

    def add(self, count: int) -> None:
        if self._gives_up.is_set():
            raise DownloadCancelled
        self._here += count
        done = min(self._before + self._here, self._total)
        self._on_progress(DownloadProgress("fetching", done, self._total, self._file))


def _compare(
    folder: Path,
    files: list[HubFile],
    on_progress: Callable[[DownloadProgress], None],
    gives_up: threading.Event,
) -> None:
    total, done = sum(file.size for file in files), 0

    def read(count: int) -> None:
        nonlocal done
        if gives_up.is_set():
            raise DownloadCancelled
        done += count
        on_progress(DownloadProgress("verifying", done, total, file.name))

    for file in files:
        verify(
            folder / file.name,
            file.size,
            sha256=file.sha256,
            git_sha1=file.git_sha1,
            on_read=read,
        )


def _folder(cache: Path, repository: str) -> Path:
    return cache / f"models--{repository.replace('/', '--')}"


def _snapshot(cache: Path, repository: str, commit: str) -> Path:
    return _folder(cache, repository) / "snapshots" / commit

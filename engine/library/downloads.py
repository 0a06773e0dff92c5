"""Fetches a model from a Hugging Face hub into its usual cache, and proves that it came whole.

Blocks; whoever calls it gives it a thread of its own. What has come is kept when a download fails
or is given up, so that asking again goes on from there.
"""

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, Literal

from engine.errors import EngineError, ModelLoadFailed
from engine.files.whole_file import write_whole
from engine.library.fetching import begun_bytes, fetch_file
from engine.library.hub_internals import progress_bar_class, set_chunk_bytes
from engine.library.models import check_folder
from engine.library.verifying import Damaged, verify

# What mlx-lm reads of a repository. No code: none that comes with a model is ever run.
_WANTED = ("*.json", "*.safetensors", "*.jinja", "*.txt", "tokenizer.model", "*.tiktoken")
_COMMIT = re.compile(r"[0-9a-f]{7,64}")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# A file system that is full to the last byte harms more than this program.
_SPARE_BYTES = 256 << 20
# Progress, and what a broken connection can cost, go by it.
_CHUNK_BYTES = 1 << 20
_ASKING_TIMEOUT_S = 20.0

DownloadPhase = Literal["asking", "fetching", "verifying"]


class DownloadFailed(EngineError):
    """A model did not come; the message says why and what would help."""


class DownloadCancelled(DownloadFailed):
    """The download was given up because somebody asked for it."""

    def __init__(self) -> None:
        super().__init__("the download was cancelled; the partial download is kept")


@dataclass(frozen=True, slots=True)
class DownloadProgress:
    """How far a download has come.

    Attributes:
        phase: Asking the hub, fetching files, comparing them with what the hub states.
        done_bytes: Bytes that are there, or have been compared.
        total_bytes: Bytes of all files; 0 while they are not known.
        file: The file that is fetched or compared.
    """

    phase: DownloadPhase
    done_bytes: int = 0
    total_bytes: int = 0
    file: str = ""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository as the hub states it.

    Attributes:
        name: Path inside the repository.
        size: Bytes.
        sha256: Of the content, for large files; else None.
        git_sha1: Git's object id, for the others.
    """

    name: str
    size: int
    sha256: str | None
    git_sha1: str | None


def repository_of(text: str) -> str:
    """Return the repository that a person means: ``owner/name`` or a page's address.

    Raises:
        DownloadFailed: It is neither; the message says what would be.
    """
    wanted = re.sub(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/", "", text.strip())
    wanted = "/".join(wanted.split("/")[:2]).split("?")[0].rstrip("/")
    if not _NAME.fullmatch(wanted):
        raise DownloadFailed(
            f"“{text.strip()}” is no repository; give owner/name, such as "
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
    """Fetch a repository's model and return its folder once every byte has been compared.

    Args:
        repository: ``owner/name``.
        cache: The folder of Hugging Face's cache.
        on_progress: Told of all that comes; on the calling thread.
        gives_up: Set it, from any thread, to end the download; what has come is kept.
        endpoint: Another hub than huggingface.co.

    Raises:
        DownloadCancelled: ``gives_up`` was set.
        DownloadFailed: It did not come; the message says why and what would help.
    """
    on_progress(DownloadProgress("asking"))
    set_chunk_bytes(_CHUNK_BYTES)
    with _in_words(repository, cache):
        commit, files = _listing(repository, endpoint)
        total = sum(file.size for file in files)
        meter = _Meter(total, on_progress, gives_up)
        _check_disk(repository, cache, commit, files)
        bar = meter.tqdm_class()
        for file in sorted(files, key=lambda file: file.size):
            meter.begin(file)
            fetch_file(
                _folder(cache, repository),
                repository,
                commit,
                file.name,
                endpoint=endpoint,
                tqdm_class=bar,
            )
            meter.end(file)
        folder = _snapshot(cache, repository, commit)
        _compare(folder, files, on_progress, gives_up)
        check_folder(folder)
        # Only now is it the model that other tools of the hub find under this name.
        references = _folder(cache, repository) / "refs"
        references.mkdir(parents=True, exist_ok=True)
        write_whole(references / "main", commit)
    return folder


# -- asking -----------------------------------------------------------------------------------


def _listing(repository: str, endpoint: str | None) -> tuple[str, list[HubFile]]:
    """Return the commit that ``main`` is at, and what of it is wanted."""
    import huggingface_hub

    api = huggingface_hub.HfApi(endpoint=endpoint)
    info = api.model_info(repository, files_metadata=True, timeout=_ASKING_TIMEOUT_S)
    siblings = info.siblings or []
    files = [
        HubFile(
            one.rfilename,
            one.size or 0,
            None if one.lfs is None else one.lfs.sha256,
            one.blob_id,
        )
        for one in siblings
        if any(fnmatch(one.rfilename, wanted) for wanted in _WANTED) and "/" not in one.rfilename
    ]
    if not any(file.name.endswith(".safetensors") for file in files):
        others = sorted({Path(one.rfilename).suffix for one in siblings} & {".gguf", ".bin", ".pt"})
        there = f" (only {', '.join(others)})" if others else ""
        raise DownloadFailed(
            f"{repository} has no weights that MLX can read{there}; mlx-community has many "
            "models as *.safetensors"
        )
    commit = str(info.sha)
    if not _COMMIT.fullmatch(commit):
        raise DownloadFailed(f"the hub states no commit of {repository}; try again later")
    return commit, files


def _check_disk(repository: str, cache: Path, commit: str, files: list[HubFile]) -> None:
    folder = _snapshot(cache, repository, commit)
    missing = sum(file.size for file in files if not (folder / file.name).exists())
    begun = begun_bytes(_folder(cache, repository))
    place = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(place).free
    needed = max(0, missing - begun)
    if needed and needed + _SPARE_BYTES > free:
        raise DownloadFailed(
            f"{repository} needs {_size(needed)} more, and {place} has {_size(free)} free; "
            "make room, or choose a smaller model"
        )


# -- fetching ---------------------------------------------------------------------------------


class _Meter:
    """Adds up what comes, and ends the transfer between two chunks when it is given up."""

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

    def tqdm_class(self) -> type[Any]:
        """Return what huggingface_hub reports to: a progress bar that is drawn nowhere."""
        meter = self

        class Bar(progress_bar_class()):  # type: ignore[misc]
            def __init__(self, *args: Any, **options: Any) -> None:
                options["disable"] = True
                super().__init__(*args, **options)
                meter.add(options.get("initial") or 0)

            def update(self, n: float | None = 1) -> None:
                meter.add(int(n or 0))

        return Bar


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


# -- failures in words ------------------------------------------------------------------------


@contextmanager
def _in_words(repository: str, cache: Path) -> Iterator[None]:
    from huggingface_hub import errors

    try:
        yield
    except EngineError as error:
        if isinstance(error, ModelLoadFailed):
            raise DownloadFailed(f"{repository} was downloaded, but {error}") from error
        raise
    except Damaged as damage:
        raise DownloadFailed(f"{damage}; it was removed: download it again") from damage
    except errors.GatedRepoError as error:
        raise DownloadFailed(
            f"{repository} is gated: accept its terms on its page at huggingface.co, then sign in "
            "with “hf auth login”, or set HF_TOKEN"
        ) from error
    except errors.RepositoryNotFoundError as error:
        raise DownloadFailed(
            f"there is no repository {repository}; a private one needs “hf auth login” or HF_TOKEN"
        ) from error
    except errors.HfHubHTTPError as error:
        raise DownloadFailed(f"the hub refused: {_status(error)}; try again later") from error
    except OSError as error:
        if error.errno == 28:
            free = _size(shutil.disk_usage(cache).free)
            raise DownloadFailed(
                f"the disk is full ({free} free at {cache}); the partial download is kept: make "
                "room and resume"
            ) from error
        if error.filename is not None:
            raise DownloadFailed(f"{error.filename} cannot be written: {error.strerror}") from error
        raise DownloadFailed(_broken(error)) from error
    except Exception as error:
        if type(error).__module__.split(".")[0] not in {"httpx", "httpx2", "httpcore", "requests"}:
            raise
        raise DownloadFailed(_broken(error)) from error


def _broken(error: Exception) -> str:
    cause = str(error).splitlines()[0] if str(error) else type(error).__name__
    return f"the connection broke: {cause.rstrip('.')}. The partial download is kept: resume later"


def _status(error: Any) -> str:
    response = getattr(error, "response", None)
    if response is None:
        return str(error).splitlines()[0]
    return f"{response.status_code} {response.reason_phrase}".strip()


def _size(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.1f} MB"


def _folder(cache: Path, repository: str) -> Path:
    return cache / f"models--{repository.replace('/', '--')}"


def _snapshot(cache: Path, repository: str, commit: str) -> Path:
    return _folder(cache, repository) / "snapshots" / commit

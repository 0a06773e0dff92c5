"""Downloads models from a hub: file by file, resumed after a failure, and verified. Blocks.

huggingface_hub signs in and follows redirects; it keeps no partial file between two calls, so the
bytes are transferred here.
"""

import errno
import fcntl
import hashlib
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import ModelLoadFailed
from engine.files.causes import is_of_network, os_cause
from engine.files.safe_files import write_whole
from engine.library.adapters import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    check_adapter,
    is_adapter,
)
from engine.library.configuration import is_count
from engine.library.hub import (
    DownloadPhase,
    DownloadProgress,
    Hub,
    HubCancelled,
    HubFailed,
    hub_errors,
    parsed_reply,
    requested,
)
from engine.library.hub_models import COMMIT, NAME
from engine.library.local_models import begun_bytes
from engine.library.model_folder import check_folder
from engine.library.weights import is_read
from engine.wording import format_size

# The files of a repository that mlx-lm reads. No code: a model's own code is never run.
_PATTERNS = ("*.json", "*.jinja", "*.txt", "tokenizer.model", "*.tiktoken")
# Not in a folder, without control characters, and short enough for any disk.
_FILE = re.compile(r"[\w][\w .+()-]{0,199}")
_BEGUN = ".fullstop.incomplete"
# The digest of a large file, or of a small one. It becomes a file's name.
_DIGEST = re.compile(r"[0-9a-f]{64}|[0-9a-f]{40}")
# Left free on the disk, because a full file system harms other programs too.
SPARE_BYTES = 256 << 20
# Bytes between two figures of progress, and the most that a broken connection loses.
_CHUNK_BYTES = 1 << 20


class _Damaged(HubFailed):
    """A file differs from the hub's, and was removed."""


@dataclass(frozen=True, slots=True)
class HubFile:
    """A file of a repository, as the hub describes it; ``digest`` is SHA-256, or Git's SHA-1."""

    name: str
    size: int
    digest: str


def repository_of(text: str) -> str:
    """Return the repository named by ``owner/name`` or by its page; raises ``HubFailed``."""
    name = re.sub(r"^(https?://)?(www\.)?(huggingface\.co|hf\.co)/", "", text.strip())
    name = "/".join(name.split("/")[:2]).split("?")[0].rstrip("/")
    if not NAME.fullmatch(name):
        raise HubFailed(
            f"“{text.strip()}” is not the name of a repository; write owner/name, such as "
            "mlx-community/Qwen3-4B-4bit"
        )
    return name


class HubDownload:
    """Downloads one repository's model; its files are in the cache of Hugging Face's own tools.

    Attributes:
        progress: How far it is. Any thread.
        gives_up: Set on any thread to cancel it; the partial download is kept.
    """

    def __init__(self, repository: str, cache: Path) -> None:
        self.progress = DownloadProgress("asking")
        self.gives_up = threading.Event()
        self._repository, self._cache = repository, cache
        self._folder = _folder(cache, repository)
        self._hub = Hub(gives_up=self.gives_up)
        self._done = self._total = 0

    def run(self) -> Path:
        """Return the model's folder once every file has been verified.

        Raises ``HubCancelled`` when ``gives_up`` is set, and ``HubFailed``.
        """
        with _download_errors(self._repository, self._cache):
            return self._run()

    def _run(self) -> Path:
        commit, files = _listing(self._repository, self._hub)
        snapshot = self._folder / "snapshots" / commit
        self._folder.mkdir(parents=True, exist_ok=True)
        self._total = sum(file.size for file in files)
        with self._alone():
            missing = [
                file
                for file in files
                if not (snapshot / file.name).exists() and not self._blob(file).exists()
            ]
            missing_bytes = sum(file.size for file in missing)
            if why := disk_shortage(self._repository, self._cache, missing_bytes):
                raise HubFailed(why)
            for file in sorted(files, key=lambda file: file.size):
                done = self._done
                self._advance("fetching", file, 0)
                self._fetch(file, commit, snapshot / file.name)
                self._advance("fetching", file, done + file.size - self._done)
            self._done = 0
            for file in files:
                done = self._done
                try:
                    self._verify(file, snapshot / file.name)
                except _Damaged:
                    if file in missing:
                        raise
                    self._done = done
                    self._fetch(file, commit, snapshot / file.name)
                    self._done = done
                    self._verify(file, snapshot / file.name)
            if is_adapter(snapshot):
                check_adapter(snapshot)
            else:
                check_folder(snapshot)
            # From here on other tools of the hub find the model under this name.
            references = self._folder / "refs"
            references.mkdir(parents=True, exist_ok=True)
            write_whole(references / "main", commit)
        return snapshot

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait until no other download, of this program or another, writes to the folder."""
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            with suppress(OSError):  # a network drive may know no locks
                while True:
                    with suppress(BlockingIOError):
                        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        break
                    if self.gives_up.wait(0.1):
                        raise HubCancelled("the download was cancelled")
            yield
        finally:
            os.close(folder)

    def _advance(self, phase: DownloadPhase, file: HubFile, count: int) -> None:
        if self.gives_up.is_set():
            raise HubCancelled("the download was cancelled")
        self._done += count
        done = min(self._done, self._total)
        self.progress = DownloadProgress(phase, done, self._total, file.name)

    def _fetch(self, file: HubFile, commit: str, pointer: Path) -> None:
        """Fetch the missing part of a file; link to it from the snapshot."""
        from huggingface_hub import hf_hub_url

        if pointer.exists():
            return
        blob = self._blob(file)
        if not blob.exists():
            url = hf_hub_url(
                self._repository, file.name, revision=commit, endpoint=self._hub.address
            )
            begun = blob.with_name(blob.name + _BEGUN)
            begun.parent.mkdir(parents=True, exist_ok=True)
            if begun.exists() and begun.stat().st_size > file.size:
                begun.unlink()  # it cannot be resumed: the hub would refuse the request
            with begun.open("ab") as output:
                self._advance("fetching", file, output.tell())
                self._transfer(url, output, file)
                output.flush()
                os.fsync(output.fileno())
            os.replace(begun, blob)
        pointer.parent.mkdir(parents=True, exist_ok=True)
        pointer.unlink(missing_ok=True)
        pointer.symlink_to(os.path.relpath(blob, pointer.parent))

    def _blob(self, file: HubFile) -> Path:
        return self._folder / "blobs" / file.digest

    def _transfer(self, url: str, output: BinaryIO, file: HubFile) -> None:
        """Append the missing part of a file to it; try again while that brings something."""
        tries = 0
        while output.tell() < file.size:
            before = output.tell()
            self._advance("fetching", file, 0)
            try:
                self._receive(url, output, file)
            except Exception as error:
                tries = 1 if output.tell() > before else tries + 1
                if not is_of_network(error) or tries >= 5:  # in a row, without a byte
                    raise
                time.sleep(1.0)
            else:
                if output.tell() < file.size:
                    raise OSError(
                        f"{output.tell():,} of {file.size:,} bytes arrived, and the hub sends "
                        "no more"
                    )

    def _receive(self, url: str, output: BinaryIO, file: HubFile) -> None:
        begun = output.tell()
        headers = {"accept-encoding": "identity"}
        if begun:
            headers["range"] = f"bytes={begun}-"
        with requested(url, headers=headers) as response:
            if begun and response.status_code == 200:  # it does not resume
                output.seek(0)
                output.truncate()
                self._advance("fetching", file, -begun)
            for chunk in response.iter_bytes(_CHUNK_BYTES):
                if output.tell() + len(chunk) > file.size:
                    Path(output.name).unlink()
                    raise HubFailed(
                        f"{file.name} is damaged: the hub stated {format_size(file.size)} and "
                        "sends more; it was removed: download it again"
                    )
                self._advance("fetching", file, len(chunk))
                output.write(chunk)

    def _verify(self, file: HubFile, path: Path) -> None:
        """Compare a file, and remove it if it differs."""
        if len(file.digest) == 64:
            digest = hashlib.sha256()
        else:
            digest = hashlib.sha1(f"blob {file.size}\0".encode(), usedforsecurity=False)
        with path.open("rb") as content:
            while part := content.read(_CHUNK_BYTES):
                digest.update(part)
                self._advance("verifying", file, len(part))
        if digest.hexdigest() != file.digest:
            path.resolve().unlink(missing_ok=True)
            path.unlink(missing_ok=True)
            raise _Damaged(
                f"{path.name} is damaged: its digest is {digest.hexdigest()[:12]}…, expected "
                f"{file.digest[:12]}…; it was removed: download it again"
            )


def _listing(repository: str, hub: Hub) -> tuple[str, list[HubFile]]:
    """Return the newest commit of ``main``, and those of its files that are needed."""
    path = f"/api/models/{repository}"
    body, _ = hub.get(path, {"blobs": True}, repository=repository)
    reply = parsed_reply(body)
    siblings = reply.get("siblings") if isinstance(reply, dict) else None
    if not isinstance(reply, dict) or not isinstance(siblings, list):
        raise HubFailed("the hub's answer cannot be read; try again later")
    listed = [file for sibling in siblings if (file := _file(sibling)) is not None]
    weights = [file for file in listed if is_read(file.name)]
    if any(file.name == ADAPTER_CONFIG for file in listed):
        weights = weights or [file for file in listed if file.name == ADAPTER_WEIGHTS]
    files = [file for file in listed if any(fnmatch(file.name, form) for form in _PATTERNS)]
    if not weights:
        others = sorted({Path(file.name).suffix for file in listed} & {".gguf", ".bin", ".pt"})
        there = f" (only {', '.join(others)})" if others else ""
        raise HubFailed(
            f"{repository} has no weights that MLX can read{there}; mlx-community has many "
            "models as *.safetensors"
        )
    commit = reply.get("sha")
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit):
        raise HubFailed(f"the hub names no commit of {repository}; try again later")
    for file in (files := [*files, *weights]):
        if not _DIGEST.fullmatch(file.digest):
            raise HubFailed(f"the hub names no digest of {file.name}; try again later")
    return commit, files


def _file(sibling: Any) -> HubFile | None:
    """Return a file that the hub describes; None for one in a folder, or of no usable name."""
    name = sibling.get("rfilename") if isinstance(sibling, dict) else None
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        return None
    size, large = sibling.get("size"), sibling.get("lfs")
    digest = large.get("sha256") if isinstance(large, dict) else sibling.get("blobId")
    return HubFile(name, size if is_count(size) else 0, str(digest))


def disk_shortage(repository: str, cache: Path, missing_bytes: int) -> str:
    """Return why a download does not fit on the disk, with a remedy; empty if it fits."""
    needed = max(0, missing_bytes - begun_bytes(_folder(cache, repository)))
    folder = next(path for path in (cache, *cache.parents) if path.exists())
    free = shutil.disk_usage(folder).free
    if not needed or needed + SPARE_BYTES <= free:
        return ""
    return (
        f"not enough disk space: {repository} needs {format_size(needed)} more, and {folder} has "
        f"{format_size(free)} free; make room, or choose a smaller model"
    )


@contextmanager
def _download_errors(repository: str, cache: Path) -> Iterator[None]:
    """Turn the errors of a download inside the block into ``HubFailed``."""
    with hub_errors(repository, "The partial download is kept: resume later"):
        try:
            yield
        except ModelLoadFailed as error:
            raise HubFailed(f"{error}; {repository} was downloaded") from error
        except OSError as error:
            if error.errno == errno.ENOSPC:
                free = format_size(shutil.disk_usage(cache).free)
                raise HubFailed(
                    f"the disk is full ({free} free at {cache}); the partial download is kept: "
                    "make room and resume"
                ) from error
            if error.filename is not None:
                raise HubFailed(f"{error.filename} cannot be written: {os_cause(error)}") from error
            raise


def _folder(cache: Path, repository: str) -> Path:
    return cache / f"models--{repository.replace('/', '--')}"

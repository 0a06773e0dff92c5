"""Fetches one file of a hub's repository into the hub's usual cache, and resumes a partial file.

huggingface_hub signs in and follows redirects. It has no limit for what a hub sends and does not
keep a partial file between two calls, so this module transfers the bytes. Blocks; any thread.
"""

import errno
import os
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import urlsplit

from engine.files.causes import is_of_network
from engine.library.hub_internals import keep_content, request_headers
from engine.library.verifying import Damaged
from engine.wording import size_in_words

_BEGUN = ".fullstop.incomplete"
# A digest becomes a file's name, so it must not contain a path.
_DIGEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
# Left free on the disk, because a full file system harms other programs too.
SPARE_BYTES = 256 << 20
# Bytes between two reports of progress, and the most that a broken connection loses.
_CHUNK_BYTES = 1 << 20
_LOOK_AT_DISK_BYTES = 64 << 20
_MOST_ERROR_BYTES = 1 << 16
_TIMEOUT_S = 20.0
# Tries in a row that bring no byte.
_MOST_TRIES = 5
_REST_S = 1.0


def begun_bytes(repository_folder: Path) -> int:
    """Return the bytes of all partial files."""
    return sum(path.stat().st_size for path in repository_folder.glob(f"blobs/*{_BEGUN}"))


def fetch_file(
    repository_folder: Path,
    repository: str,
    commit: str,
    name: str,
    size: int,
    *,
    endpoint: str | None,
    on_bytes: Callable[[int], None],
) -> Path:
    """Fetch the missing part of a file; return its path in the cache."""
    import huggingface_hub

    pointer = repository_folder / "snapshots" / commit / name
    if pointer.exists():
        return pointer
    url = huggingface_hub.hf_hub_url(repository, name, revision=commit, endpoint=endpoint)
    stated = huggingface_hub.get_hf_file_metadata(url, endpoint=endpoint)
    if not stated.etag or not _DIGEST.fullmatch(stated.etag):
        raise OSError(f"the hub names no digest of {name}")
    blob = repository_folder / "blobs" / stated.etag
    if not blob.exists():
        headers = {**request_headers(), "accept-encoding": "identity"}
        if urlsplit(stated.location)[:2] != urlsplit(url)[:2]:  # scheme, host and port
            headers.pop("authorization", None)  # the token is for the hub alone
        begun = blob.with_name(blob.name + _BEGUN)
        begun.parent.mkdir(parents=True, exist_ok=True)
        if begun.exists() and begun.stat().st_size > size:
            begun.unlink()  # it cannot be resumed: the hub would refuse the request
        with begun.open("ab") as file:
            on_bytes(file.tell())
            try:
                _transfer(stated.location, headers, file, size, on_bytes)
            except _TooLong:
                begun.unlink()
                raise Damaged(
                    f"{name} is damaged: the hub stated {size_in_words(size)} and sends more"
                ) from None
            file.flush()
            os.fsync(file.fileno())
        os.replace(begun, blob)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    return pointer


class _TooLong(Exception):
    """More arrives than was stated."""


def _transfer(
    url: str,
    headers: dict[str, str],
    file: BinaryIO,
    size: int,
    on_bytes: Callable[[int], None],
) -> None:
    """Append the missing part of a file to it; try again while that brings something."""
    tries = 0
    while file.tell() < size:
        before = file.tell()
        try:
            _receive(url, headers, file, size, on_bytes)
        except Exception as error:
            tries = 1 if file.tell() > before else tries + 1
            if not is_of_network(error) or tries >= _MOST_TRIES:
                raise
            time.sleep(_REST_S)
        else:
            if file.tell() < size:
                raise OSError(
                    f"{file.tell():,} of {size:,} bytes arrived, and the hub sends no more"
                )


def _receive(
    url: str,
    headers: dict[str, str],
    file: BinaryIO,
    size: int,
    on_bytes: Callable[[int], None],
) -> None:
    """Append what one answer brings."""
    from huggingface_hub import get_session, hf_raise_for_status

    begun = file.tell()
    wanted = {**headers, "range": f"bytes={begun}-"} if begun else headers
    with get_session().stream("GET", url, headers=wanted, timeout=_TIMEOUT_S) as response:
        if response.status_code >= 400:
            keep_content(response, _beginning(response))
            hf_raise_for_status(response)
        if begun and response.status_code == 200:  # it does not resume
            file.seek(0)
            file.truncate()
            on_bytes(-begun)
        looked_at: int | None = None
        for chunk in response.iter_bytes(_CHUNK_BYTES):
            if file.tell() + len(chunk) > size:
                raise _TooLong
            if looked_at is None or file.tell() - looked_at >= _LOOK_AT_DISK_BYTES:
                looked_at = file.tell()
                _check_room(file, min(size - looked_at, _LOOK_AT_DISK_BYTES))
            on_bytes(len(chunk))
            file.write(chunk)


def _beginning(response: Any) -> bytes:
    """Return the beginning of an error's text, which may be endless."""
    found = bytearray()
    for chunk in response.iter_bytes(_MOST_ERROR_BYTES):
        found += chunk
        if len(found) >= _MOST_ERROR_BYTES:
            break
    return bytes(found)


def _check_room(file: BinaryIO, wanted: int) -> None:
    """Refuse to write into the disk's reserve, which other programs may have come close to."""
    if shutil.disk_usage(os.path.dirname(file.name)).free < wanted + SPARE_BYTES:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

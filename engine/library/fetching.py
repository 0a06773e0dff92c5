"""Fetches one file of a hub's repository into the hub's usual cache, and resumes a partial file.

huggingface_hub transfers the bytes, follows redirects, signs in, and tries again when a connection
breaks. It does not keep a partial file between two calls, so this module does. Blocks; any thread.
"""

import os
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from engine.library.hub_internals import request_headers, transfer

_BEGUN = ".fullstop.incomplete"
# A digest becomes a file's name, so it must not contain a path.
_DIGEST = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def begun_bytes(repository_folder: Path) -> int:
    """Return the bytes of all partial files."""
    return sum(path.stat().st_size for path in repository_folder.glob(f"blobs/*{_BEGUN}"))


def fetch_file(
    repository_folder: Path,
    repository: str,
    commit: str,
    name: str,
    *,
    endpoint: str | None,
    tqdm_class: type[Any],
) -> Path:
    """Fetch the missing part of a file; return its path in the cache.

    Args:
        repository_folder: The repository's folder in the cache.
        repository: ``owner/name``.
        commit: The commit whose file it is.
        name: The file's name.
        endpoint: The address of another hub than huggingface.co.
        tqdm_class: Progress bar; counts arriving bytes, those of earlier tries as ``initial``.

    Raises:
        OSError: It cannot be written, or the connection broke too often.
        huggingface_hub.errors.HfHubHTTPError: The hub refused.
    """
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
        headers = request_headers()
        if urlsplit(stated.location)[:2] != urlsplit(url)[:2]:  # scheme, host and port
            headers.pop("authorization", None)  # the token is for the hub alone
        begun = blob.with_name(blob.name + _BEGUN)
        begun.parent.mkdir(parents=True, exist_ok=True)
        if stated.size is not None and begun.exists() and begun.stat().st_size > stated.size:
            begun.unlink()  # it cannot be resumed: the hub would refuse the request
        with begun.open("ab") as file:
            transfer(
                stated.location, file, headers, name=name, size=stated.size, tqdm_class=tqdm_class
            )
            file.flush()
            os.fsync(file.fileno())
        os.replace(begun, blob)
    pointer.parent.mkdir(parents=True, exist_ok=True)
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(os.path.relpath(blob, pointer.parent))
    return pointer

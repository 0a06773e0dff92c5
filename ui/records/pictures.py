"""Pictures in the store's folder, each named by its content, so that none is kept twice."""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from engine.files.safe_files import WholeFile
from ui.records.attachments import PICTURE_KINDS, Attachment, kept_picture


def picture_kind(data: bytes) -> str:
    """Return the suffix of a picture's file; empty for what is no picture that is kept."""
    return next((kind for kind, form in PICTURE_KINDS.items() if form.match(data)), "")


def keep_pictures(folder: Path, pictures: Iterable[bytes], name: str) -> tuple[Attachment, ...]:
    """Write pictures to the folder.

    Args:
        folder: Where they are kept; it is made if it is not there.
        pictures: Their contents.
        name: What a person knows them by, to which a number is added.

    Raises:
        OSError: One of them cannot be written.
    """
    kept = []
    for number, data in enumerate(pictures, 1):
        kind = picture_kind(data)
        file = f"{hashlib.sha256(data).hexdigest()[:32]}.{kind}"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.path.exists(folder / file):
            _write(folder / file, data)
        kept.append(kept_picture(f"{name} {number}.{kind}", file))
    return tuple(kept)


def _write(path: Path, data: bytes) -> None:
    file = WholeFile(path)
    try:
        file.open()
        file.raw.write(data)
        file.commit()
    finally:
        file.forget()

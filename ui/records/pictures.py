"""Pictures of messages, in files that are named by their content. Blocks; any thread."""

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

from engine.files.safe_files import read_bounded, write_whole
from engine.values.request import Picture
from ui.records.attachments import Attachment, kept_as, picture_kind
from ui.records.messages import ConversationMessage

MAX_PICTURE_BYTES = 10 << 20
Pictures = Mapping[str, Picture]
"""What a model that sees is shown, by the names of the pictures' files."""
NO_PICTURES: Pictures = MappingProxyType({})


def kept_name(data: bytes) -> str:
    """Return the name of a picture's file."""
    return f"{hashlib.sha256(data).hexdigest()[:32]}.{picture_kind(data)}"


def keep_picture(folder: Path, name: str, data: bytes) -> Attachment:
    """Write a picture to the store's folder, unless it is there, and return it as an attachment."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = kept_name(data)
    if not (folder / file).exists():
        write_whole(folder / file, data)
    return kept_as(name, file)


def read_pictures(folder: Path | None, messages: Iterable[ConversationMessage]) -> Pictures:
    """Return the pictures of questions and of tools' results; missing files are left out."""
    read: dict[str, Picture] = {}
    for message in messages:
        for file in message.pictures:
            name = file.kept_file
            if folder is None or file.is_sound or name in read:
                continue
            with contextlib.suppress(OSError):
                read[name] = Picture(read_bounded(folder / name, MAX_PICTURE_BYTES))
    return read

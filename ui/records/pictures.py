"""Pictures of messages, in files that are named by their content. Blocks; any thread."""

import contextlib
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from engine.files.safe_files import read_bounded, write_whole
from engine.values.request import GenerationRequest, Picture
from ui.records.attachments import Attachment, kept_as, picture_kind
from ui.records.messages import ConversationMessage
from ui.words import PICTURE_FIELD

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


def read_pictures(
    folder: Path | None,
    messages: Iterable[ConversationMessage],
    known: Pictures = NO_PICTURES,
) -> Pictures:
    """Return the pictures of questions and of tools' results; missing files are left out."""
    read: dict[str, Picture] = {}
    for message in messages:
        for file in message.pictures:
            name = file.kept_file
            if folder is None or file.is_sound or name in read:
                continue
            with contextlib.suppress(OSError):
                title = f"{PICTURE_FIELD}{file.name}"
                read[name] = known.get(name) or Picture(_read(folder, name), field=title)
    return read


def _read(folder: Path, name: str) -> bytes:
    return read_bounded(folder / name, MAX_PICTURE_BYTES)


def name_pictures(request: GenerationRequest) -> GenerationRequest:
    """Return a request with the names of its pictures' files in place of their contents."""

    def named(picture: Picture) -> Picture:
        return replace(picture, data=b"", field=kept_name(picture.data))

    return request.with_pictures(named)


def load_pictures(request: GenerationRequest, folder: Path) -> GenerationRequest:
    """Return a request of ``name_pictures`` with the contents; raises ``OSError``."""

    def loaded(picture: Picture) -> Picture:
        if picture.data:
            return picture
        return replace(picture, data=_read(folder, Path(picture.field).name), field="")

    return request.with_pictures(loaded)

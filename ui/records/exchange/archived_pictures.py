"""Pictures in an export: found by their ids, checked, and copied one at a time.

A copy is named by its content, so that a picture of many messages is kept once, and no name of an
export becomes a path. Blocks while the disk works; any thread.
"""

import base64
import binascii
import contextlib
import hashlib
import os
import re
import tempfile
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from engine.files.fields import DamagedFile
from ui.records.attachments import PICTURE_KINDS

MOST_PICTURE_BYTES = 10 << 20
# Of one import; what is too large counts as far as it was read.
MOST_PICTURES_BYTES = 200 << 20
_PIECE_CHARS = 1 << 18  # a multiple of 4, as base64 needs it
_LONGEST_SIGNATURE = 12
# Ids of real exports are longer; a short one would be the beginning of too many names.
_LEAST_ID_CHARS = 8
_DATA = re.compile(r"data:image/[\w.+-]+;base64,")


class ArchivedPictures:
    """The pictures of an export."""

    def __init__(
        self,
        names: Iterable[str] = (),
        pieces: Callable[[str], Iterator[bytes]] = lambda name: iter(()),
        folder: Path | None = None,
        *,
        is_dry: bool = True,
    ) -> None:
        self.is_wanted = True
        self.read: set[str] = set()
        self._folder = folder
        self._is_dry = is_dry
        self._pieces = pieces
        self._left = MOST_PICTURES_BYTES
        # What became of each file: a picture may be in many messages.
        self._kept: dict[str, str] = {}
        wanted = names if folder is not None else ()
        self._names = sorted((PurePosixPath(name).name, name) for name in wanted)

    def file_of(self, identity: str) -> str:
        """Return the name of the copy of a picture that is a file of the export."""
        name = self._name_of(PurePosixPath(identity).name)
        if name is None or not self.is_wanted:
            return ""
        if name not in self._kept:
            self._kept[name] = self._copy(self._pieces(name))
        if kept := self._kept[name]:
            self.read.add(name)
        return kept

    def file_from(self, address: str) -> str:
        """Return the name of the copy of a picture that is in a ``data:`` address, as above."""
        found = _DATA.match(address)
        if found is None or self._folder is None or not self.is_wanted:
            return ""
        return self._copy(_decoded(address, found.end()))

    def is_here(self, name: str) -> bool:
        """Return whether a copy of this name is in the folder already."""
        return self._folder is not None and (self._folder / name).is_file()

    def _name_of(self, identity: str) -> str | None:
        at = bisect_left(self._names, (identity, ""))
        for base, name in self._names[at : at + 1]:
            rest = base.removeprefix(identity)
            is_id = len(identity) >= _LEAST_ID_CHARS and rest[:1] in ("-", ".", "_")
            if identity and base.startswith(identity) and (not rest or is_id):
                return name
        return None

    def _copy(self, pieces: Iterator[bytes]) -> str:
        """Keep a picture; return its name, or nothing if it is none, too large or damaged."""
        assert self._folder is not None
        with contextlib.suppress(OSError, DamagedFile, binascii.Error, ValueError):
            if self._is_dry:
                return self._checked(pieces, lambda piece: None)
            self._folder.mkdir(mode=0o700, exist_ok=True)
            number, path = tempfile.mkstemp(prefix=".", dir=self._folder)
            try:
                with os.fdopen(number, "wb") as file:
                    name = self._checked(pieces, file.write)
                if name:
                    os.replace(path, self._folder / name)
                return name
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        return ""

    def _checked(self, pieces: Iterator[bytes], write: Callable[[bytes], object]) -> str:
        """Write a picture; return the name for it, or nothing if it cannot be kept."""
        digest, size, kind = hashlib.sha256(), 0, ""
        for piece in _from_signature(pieces):
            kind = kind or _kind(piece)
            size += len(piece)
            self._left -= len(piece)
            if not kind or size > MOST_PICTURE_BYTES or self._left < 0:
                return ""
            digest.update(piece)
            write(piece)
        return f"{digest.hexdigest()[:32]}.{kind}" if kind else ""


def _from_signature(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the pieces of a file, the first of them long enough to tell its kind."""
    first = b""
    for piece in pieces:
        first += piece
        if len(first) >= _LONGEST_SIGNATURE:
            break
    yield first
    yield from pieces


def _kind(beginning: bytes) -> str:
    return next((kind for kind, form in PICTURE_KINDS.items() if form.match(beginning)), "")


def _decoded(address: str, begin: int) -> Iterator[bytes]:
    for at in range(begin, len(address), _PIECE_CHARS):
        yield base64.b64decode(address[at : at + _PIECE_CHARS], validate=True)

"""The pictures of an export: found by their ids, checked, and copied. Blocks; any thread.

A copy is named by its content, so that a picture of many messages is kept once, and no name of an
export becomes a path.
"""

import base64
import contextlib
import hashlib
import re
from bisect import bisect_left
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from engine.files.json_fields import DamagedFile
from ui.records.attachments import picture_kind
from ui.records.exchange.export_files import ExportFiles

MAX_PICTURE_BYTES = 10 << 20
# Of one import; too large pictures count as far as they were read.
MAX_PICTURES_BYTES = 200 << 20
_DATA = re.compile(r"data:image/[\w.+-]+;base64,")


class ArchivedPictures:
    """The pictures of an export."""

    def __init__(
        self,
        files: ExportFiles | None = None,
        beside: Iterable[str] = (),
        folder: Path | None = None,
        *,
        is_dry: bool = True,
    ) -> None:
        self.is_chosen = True
        self.read: set[str] = set()
        self._folder = folder
        self._is_dry = is_dry
        self._files = files
        self._left = MAX_PICTURES_BYTES
        # What became of each file: a picture may be in many messages.
        self._kept: dict[str, str] = {}
        names = [*(files.names if files is not None else ()), *beside]
        self._names: list[tuple[str, str]] = sorted(
            (PurePosixPath(name).name, name) for name in names
        )

    def file_of(self, identity: str) -> str:
        """Return the name of the copy of a picture that is a file of the export; "" for none."""
        name = self._name_of(PurePosixPath(identity).name)
        if name is None or self._files is None or not self.is_chosen:
            return ""
        if name not in self._kept:
            self._kept[name] = self._copy(self._files.pieces(name))
        if kept := self._kept[name]:
            self.read.add(name)
        return kept

    def file_from(self, address: str) -> str:
        """Return the name of the copy of a picture in a ``data:`` address; "" for none."""
        match = _DATA.match(address)
        if match is None or not self.is_chosen:
            return ""
        with contextlib.suppress(ValueError):
            return self._copy([base64.b64decode(address[match.end() :], validate=True)])
        return ""

    def is_here(self, name: str) -> bool:
        """Return whether a copy of this name is in the folder already."""
        return self._folder is not None and (self._folder / name).is_file()

    def _name_of(self, identity: str) -> str | None:
        at = bisect_left(self._names, (identity, ""))
        for base, name in self._names[at : at + 1]:
            rest = base.removeprefix(identity)
            # A short id would be the beginning of too many names.
            is_id = len(identity) >= 8 and rest[:1] in ("-", ".", "_")
            if identity and base.startswith(identity) and (not rest or is_id):
                return name
        return None

    def _copy(self, pieces: Iterable[bytes]) -> str:
        """Copy a picture; return its name, or "" if it is no picture, too large or damaged."""
        if self._folder is None:
            return ""
        data = bytearray()
        with contextlib.suppress(OSError, DamagedFile):
            for piece in pieces:
                data += piece
                self._left -= len(piece)
                is_other = len(data) >= 12 and not _kind(data)
                if is_other or len(data) > MAX_PICTURE_BYTES or self._left < 0:
                    return ""
            kind = _kind(data)
            name = f"{hashlib.sha256(data).hexdigest()[:32]}.{kind}"
            if kind and not self._is_dry:
                self._write(self._folder, name, data)
            return name if kind else ""
        return ""

    @staticmethod
    def _write(folder: Path, name: str, data: bytes | bytearray) -> None:
        folder.mkdir(mode=0o700, exist_ok=True)
        unfinished = folder / f".{name}"
        try:
            unfinished.touch(mode=0o600)
            unfinished.write_bytes(data)
            unfinished.replace(folder / name)
        finally:
            unfinished.unlink(missing_ok=True)


def _kind(data: bytearray) -> str:
    return picture_kind(bytes(data[:12]))

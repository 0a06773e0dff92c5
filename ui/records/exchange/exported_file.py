"""A file that conversations are written to one by one. Blocks; any thread but the window's."""

import contextlib
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO

from engine.files.safe_files import WholeFile
from engine.recording.stored_trace import StoredTrace
from ui.records.conversations import Conversation
from ui.records.exchange.archive import ARCHIVE_BEGIN, archive_part, conversation_markdown
from ui.records.exchange.export_files import trace_member

ARCHIVE_SUFFIX = ".zip"
_CONVERSATIONS = "conversations.json"
PDF_SUFFIX = ".pdf"
TEXT_FORMATS = {
    "Markdown": ((".md", ".markdown", ".txt"), conversation_markdown),
    "PDF": ((PDF_SUFFIX,), conversation_markdown),
}
"""Formats without an import, by their names in dialogs: suffixes, and text of a conversation."""


class ExportedFile:
    """A file that conversations are written to one by one; blocks, so not on the main thread.

    It is a temporary file beside the path until it is closed. ``pdf_of`` returns a PDF file of
    Markdown.
    """

    def __init__(
        self,
        path: Path,
        end: str,
        pictures: Path | None = None,
        pdf_of: Callable[[str], bytes] | None = None,
    ) -> None:
        self.name = path.name
        suffix = path.suffix.lower()
        self.takes_traces = suffix == ARCHIVE_SUFFIX
        formats = TEXT_FORMATS.values()
        self._as_text = next((text_of for suffixes, text_of in formats if suffix in suffixes), None)
        self._pdf_of = pdf_of if suffix == PDF_SUFFIX else None
        self._texts: list[str] = []
        self._end = end
        self._file = WholeFile(path)
        self._archive: zipfile.ZipFile | None = None
        self._json: IO[bytes] | None = None
        self._count = 0
        self._pictures = pictures
        self._picture_files: set[str] = set()
        if self.takes_traces:
            self._archive = zipfile.ZipFile(self._file.file, "w", zipfile.ZIP_DEFLATED)
            # Without a date it would be a file of 1980 once it is unpacked.
            part = zipfile.ZipInfo(_CONVERSATIONS, time.localtime()[:6])
            part.compress_type = zipfile.ZIP_DEFLATED
            self._json = self._archive.open(part, "w", force_zip64=True)
        if self._as_text is None:
            self._write(ARCHIVE_BEGIN)

    def add(self, conversation: Conversation) -> None:
        """Write a conversation; all conversations come before the traces."""
        if self._as_text is None:
            self._write(archive_part(conversation, is_first=not self._count))
        elif self._pdf_of is not None:
            self._texts.append(self._as_text(conversation))
        else:
            self._write(self._as_text(conversation))
        self._count += 1
        self._picture_files |= {picture.kept_file for picture in conversation.pictures}

    def add_trace(self, kept: StoredTrace, content: bytes) -> None:
        """Write the trace of an answer."""
        assert self._archive is not None
        self._end_json()
        self._archive.writestr(trace_member(kept.run_id, kept.written_at), content)

    def close(self) -> None:
        """Add the pictures to an archive, and move the finished file to its path."""
        if self._pdf_of is not None:
            self._file.file.write(self._pdf_of("\n".join(self._texts)))
        if self._as_text is None:
            self._end_json()
        if self._archive is not None:
            self._add_pictures(self._archive)
            self._archive.close()
        self._file.commit()

    def _add_pictures(self, archive: zipfile.ZipFile) -> None:
        """Add the pictures that are on this computer; they are compressed already."""
        if self._pictures is None:
            return
        for name in sorted(self._picture_files):
            with contextlib.suppress(FileNotFoundError):
                archive.write(self._pictures / name, f"pictures/{name}", zipfile.ZIP_STORED)

    def forget(self) -> None:
        """Discard the new file; an earlier file stays."""
        for part in (self._json, self._archive):
            if part is not None:
                with contextlib.suppress(OSError, ValueError):
                    part.close()
        self._file.forget()

    def _write(self, text: str) -> None:
        (self._json or self._file.file).write(text.encode("utf-8"))

    def _end_json(self) -> None:
        if self._end:
            self._write(self._end)
            self._end = ""
            if self._json is not None:
                self._json.close()

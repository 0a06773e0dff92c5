"""Reads a file that a person attaches: text directly, documents in a process that may crash.

Blocks; call it on any thread but the window's. Each file has its own reader, which another thread
may close.
"""

import os
from collections.abc import Callable
from json import dumps, loads
from pathlib import Path
from typing import Any

from engine import counted
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause
from engine.processes.helper_process import (
    HelperClosed,
    HelperDied,
    HelperNotStarted,
    HelperProcess,
)
from ui.records.attachments import Attachment, AttachmentRefused, PageRange, text_of_pages
from ui.records.documents import kinds
from ui.records.documents.plain_text import NotText, decoded

MOST_TEXT_BYTES = 1_000_000
MOST_DOCUMENT_BYTES = 100_000_000
MOST_PAGES = 2_000
MOST_CHARS = 4_000_000
# The process computes for about half a second at most before each answer.
_MOST_ANSWERS = 200
_PAGES_AT_ONCE = 100
_PATIENCE_S = 120.0
_MOST_CPU_S = 20.0
# Named and not imported, because the program itself does not need the module.
_MODULE = "ui.records.documents.extracting"

_REFUSALS = {
    "encrypted": "has a password. Save a copy without a password and attach that",
    "damaged": "is damaged: its text cannot be read. Open it in the program that made it and save "
    "it again",
    "too large": "is too large when unpacked. Attach the part that matters",
    "memory": "takes too much memory to read. Attach the part that matters",
}
_NO_TEXT = (
    "has no text: its pages are pictures, perhaps a scan, and the model cannot see images. Attach "
    "a copy with recognized text (OCR)"
)
_TOO_SLOW = "takes too long to read. Attach the part that matters, or its text as .txt"
_NOT_STARTED = "could not be read: the process that reads documents does not start"
_ENDED = (
    "cannot be read: it takes too much memory, or is damaged. Attach the part that matters, or its "
    "text as .txt"
)


class ReadingEnded(Exception):
    """The reader was closed before it had read the file."""


class FileReader:
    """Reads one file.

    Args:
        path: The file.
        on_page: Called on the reading thread with the number of pages read and of all pages.
        most_cpu_s: The most seconds of processor time for a page.
    """

    def __init__(
        self,
        path: Path,
        on_page: Callable[[int, int], object] = lambda done, total: None,
        *,
        most_cpu_s: float = _MOST_CPU_S,
    ) -> None:
        self._most_cpu_s = most_cpu_s
        self._path = path
        self._on_page = on_page
        self._process = HelperProcess(_MODULE)
        self.name = shown_name(path)

    def read(self) -> Attachment:
        """Return the file.

        Raises:
            AttachmentRefused: It cannot be attached.
            ReadingEnded: The reader was closed.
        """
        try:
            head, size = self._looked_at()
            if why := kinds.refusal_of(head):
                raise self._refused(why)
            kind = kinds.kind_of(head)
            most = MOST_TEXT_BYTES if kind == "text" else MOST_DOCUMENT_BYTES
            if size > most:
                raise self._refused(
                    f"is too large: it has {size / 1e6:.1f} MB, and such a file may have "
                    f"up to {most / 1e6:.0f} MB. "
                    "Attach the part that matters"
                )
            return self._text() if kind == "text" else self._document(kind)
        except OSError as error:
            raise AttachmentRefused(f"{self.name} could not be read: {os_cause(error)}.") from error

    def close(self) -> None:
        """End the reading of a document, from any thread."""
        self._process.close()

    def _looked_at(self) -> tuple[bytes, int]:
        """Return the first bytes of the file and its size."""
        if self._path.is_dir():
            raise self._refused("is a folder. Attach the files in it")
        if not self._path.is_file():  # reading a pipe would never end
            raise AttachmentRefused(
                f"{self.name} is not a readable file. Attach text, PDF or Word files."
            )
        with open(self._path, "rb") as file:
            return file.read(kinds.HEAD_BYTES), os.fstat(file.fileno()).st_size

    def _text(self) -> Attachment:
        try:
            text, guessed = decoded(read_bounded(self._path, MOST_TEXT_BYTES))
        except NotText:
            raise self._refused(
                "is not a text file in a known encoding. Text in UTF-8 (.txt, .md, .csv, source "
                "code), PDF and Word files can be attached"
            ) from None
        if not text.strip():
            raise self._refused("is empty")
        remark = f"It does not say its encoding, and was read as {guessed}." if guessed else ""
        return Attachment(self.name, text, remark=remark)

    def _document(self, kind: kinds.Kind) -> Attachment:
        try:
            pages, total, remarks = self._pages(kind)
        finally:
            self._process.rest()
        if not any(page.strip() for page in pages):
            raise self._refused(_NO_TEXT if kind == "pdf" else "has no text")
        if kind == "zip":
            return Attachment(self.name, pages[0], remark=" ".join(remarks))
        if empty := sum(not page.strip() for page in pages):
            which = "1 page has no text: it may be a picture"
            many = f"{empty:,} pages have no text: they may be pictures"
            remarks.append(f"{which if empty == 1 else many}.")
        return Attachment(
            self.name,
            text_of_pages(pages, 1, len(pages)),
            PageRange(1, len(pages), total),
            all_pages=tuple(pages),
            remark=" ".join(remarks),
        )

    def _pages(self, kind: kinds.Kind) -> tuple[list[str], int, list[str]]:
        """Return the texts of the pages, the number of all pages, and remarks on those left out."""
        pages: list[str] = []
        total, chars, most = 0, 0, 1 if kind == "zip" else _PAGES_AT_ONCE
        for _ in range(_MOST_ANSWERS):
            try:
                answer = self._ask(kind, len(pages), most)
            except HelperDied as death:
                if most > 1:
                    most = 1  # so the pages before the one that ended the process can be read
                    continue
                is_slow = death.code is None or death.took_too_much_time
                if not pages:
                    raise self._refused(_TOO_SLOW if is_slow else _ENDED) from None
                why = "takes too long to read" if is_slow else "cannot be read"
                return pages, total, [_only(pages, total, f"the next one {why}")]
            if answer.get("refused"):
                why = answer["refused"]
                if not pages or why != "memory":
                    raise self._refused(_REFUSALS[why])
                return pages, total, [_only(pages, total, "the next one takes too much memory")]
            total = answer["total"]
            for page in answer["pages"]:
                chars += len(page)
                if chars > MOST_CHARS:
                    why = f"a file may have {counted(MOST_CHARS, 'character')}"
                    if not pages:
                        return [page[:MOST_CHARS]], total, [f"It was cut: {why}."]
                    return pages, total, [_only(pages, total, why)]
                pages.append(page)
                if len(pages) == MOST_PAGES < total:
                    return pages, total, [_only(pages, total, "that is the most a file may have")]
            self._on_page(len(pages), total)
            if len(pages) >= total:
                return pages, total, []
        return pages, total, [_only(pages, total, "the others take too long to read")]

    def _ask(self, kind: kinds.Kind, first: int, most: int) -> dict[str, Any]:
        question = {
            "path": os.path.abspath(self._path),
            "kind": kind,
            "first": first,
            "most": most,
            "cpu_s": self._most_cpu_s,
        }
        data = dumps(question).encode()
        try:
            self._process.start()
            answer: dict[str, Any] = loads(self._process.ask(len(data), (data,), _PATIENCE_S))
        except HelperClosed:
            raise ReadingEnded from None
        except HelperNotStarted as error:
            raise self._refused(_NOT_STARTED) from error
        if answer.get("refused") == "other":
            raise self._refused(kinds.refusal_of_zip(answer["names"]))
        return answer

    def _refused(self, why: str) -> AttachmentRefused:
        return AttachmentRefused(f"{self.name} {why}.")


def shown_name(path: Path) -> str:
    """Return the name of a file as one line of text."""
    name = os.fsencode(path.name).decode(errors="replace")
    return " ".join(name.split()) or "file"


def _only(pages: list[str], total: int, why: str) -> str:
    count = len(pages)
    which = "first" if count == 1 else f"first {count:,}"
    verb = "was" if count == 1 else "were"
    return f"Only the {which} of its {total:,} pages {verb} read: {why}."

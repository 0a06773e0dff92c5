"""Reads the text of an attached file, in a process that a hostile document may crash.

Blocks; any thread but the window's.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded
from engine.helper_process import HelperDied, HelperProcess
from engine.wording import counted
from ui.records.attachments import Attachment, PageRange, text_of_pages
from ui.records.file_kinds import Kind, kind_of, refusal_of_head, refusal_of_zip
from ui.records.text_decoding import decoded
from ui.words import FileRefused

MAX_TEXT_BYTES = 4_000_000
MAX_DOCUMENT_BYTES = 100_000_000
MAX_PAGES = 20_000
MAX_CHARS = 4_000_000
# Of a document of a folder, which no message has as a whole.
MAX_FOLDER_CHARS = 64_000_000
MAX_CPU_S = 20.0
# Named and not imported, because the program itself does not need the module.
_MODULE = "ui.records.document_process"

_REFUSALS = {
    "encrypted": "has a password. Save a copy without a password and attach that",
    "damaged": "is damaged: its text cannot be read. Open it in the program that made it and save "
    "it again",
    "too large": "is too large when unpacked. Attach the part that matters",
    "memory": "takes too much memory to read. Attach the part that matters",
}
_NO_TEXT = (
    "has no text: its pages are pictures, perhaps a scan. Attach a copy with recognized text "
    "(OCR), or pictures of the pages that matter"
)
_TOO_SLOW = "takes too long to read. Attach the part that matters, or its text as .txt"
_NOT_STARTED = "could not be read: the process that reads documents does not start"
_ENDED = (
    "cannot be read: it takes too much memory, or is damaged. Attach the part that matters, or its "
    "text as .txt"
)


class FileReader:
    """Reads one file; ``on_page`` is called on the reading thread: pages read, all pages.

    ``store_picture`` stores the content of a picture under its name.
    """

    def __init__(
        self,
        path: Path,
        on_page: Callable[[int, int], object] = lambda done, total: None,
        store_picture: Callable[[str, bytes], Attachment] | None = None,
        max_chars: int | None = None,
    ) -> None:
        self._path = path
        self._max_chars = max_chars or MAX_CHARS
        self._max_bytes = max_chars or MAX_TEXT_BYTES
        self.on_page = on_page
        self._store_picture = store_picture
        self._process = HelperProcess(_MODULE)
        self.name = shown_name(path)

    def read(self) -> Attachment:
        """Return the file; raises ``FileRefused``, ``HelperClosed`` once it was closed."""
        try:
            head, size = self._look_at_head()
            kind = kind_of(head)
            if kind != "picture" and (why := refusal_of_head(head)):
                raise self._refused(why)
            limit = self._max_bytes if kind == "text" else MAX_DOCUMENT_BYTES
            if size > limit:
                raise self._refused(
                    f"is too large: it has {size / 1e6:.1f} MB, and such a file may have "
                    f"up to {limit / 1e6:.0f} MB. "
                    "Attach the part that matters"
                )
            if kind == "picture":
                return self._picture()
            return self._text() if kind == "text" else self._document(kind)
        except OSError as error:
            raise FileRefused(f"“{self.name}” could not be read: {os_cause(error)}.") from error

    def close(self) -> None:
        """End the reading of a document, from any thread."""
        self._process.close()

    def _look_at_head(self) -> tuple[bytes, int]:
        """Return the first bytes of the file and its size."""
        if self._path.is_dir():
            raise self._refused("is a folder. Attach the files in it")
        if not self._path.is_file():  # reading a pipe would never end
            raise FileRefused(
                f"“{self.name}” is not a readable file. Attach text, PDF or Word files."
            )
        with open(self._path, "rb") as file:
            return file.read(2048), os.fstat(file.fileno()).st_size

    def _picture(self) -> Attachment:
        if self._store_picture is None:
            raise self._refused("is an image. Attach text, PDF or Word files")
        return self._store_picture(self.name, read_bounded(self._path, MAX_DOCUMENT_BYTES))

    def _text(self) -> Attachment:
        try:
            text, assumed = decoded(read_bounded(self._path, self._max_bytes))
        except ValueError:
            if self._path.suffix.lower() in (".pdf", ".docx"):
                raise self._refused(_REFUSALS["damaged"]) from None
            raise self._refused(
                "can’t be attached: only text in a known encoding, pictures, PDF and Word files can"
            ) from None
        if not text.strip():
            raise self._refused("is empty")
        remark = f"It does not say its encoding, and was read as {assumed}." if assumed else ""
        return Attachment(self.name, text, remark=remark)

    def _document(self, kind: Kind) -> Attachment:
        try:
            pages, total, remarks = self._pages(kind)
        finally:
            self._process.stop()
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

    def _pages(self, kind: Kind) -> tuple[list[str], int, list[str]]:
        """Return the texts of the pages, the number of all pages, and remarks on those left out."""
        pages: list[str] = []
        total, chars, at_once = 0, 0, 1 if kind == "zip" else 100
        while True:
            try:
                answer = self._ask(kind, len(pages), at_once)
            except HelperDied as death:
                if at_once > 1:
                    at_once = 1  # read the pages before the fatal one
                    continue
                is_slow = death.exceeded_time
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
                if chars > self._max_chars:
                    why = f"a file may have {counted(self._max_chars, 'character')}"
                    if not pages:
                        return [page[: self._max_chars]], total, [f"It was cut: {why}."]
                    return pages, total, [_only(pages, total, why)]
                pages.append(page)
                if len(pages) == MAX_PAGES < total:
                    return pages, total, [_only(pages, total, "that is the most a file may have")]
            self.on_page(len(pages), total)
            if len(pages) >= total:
                return pages, total, []

    def _ask(self, kind: Kind, first: int, max_pages: int) -> dict[str, Any]:
        question = {
            "path": os.path.abspath(self._path),
            "kind": kind,
            "first": first,
            "max": max_pages,
        }
        try:
            answer = self._process.ask(question, 120.0, MAX_CPU_S)
        except OSError as error:
            raise self._refused(_NOT_STARTED) from error
        if answer.get("refused") == "other":
            raise self._refused(refusal_of_zip(answer["names"]))
        return answer

    def _refused(self, why: str) -> FileRefused:
        return FileRefused(f"“{self.name}” {why}.")


def shown_name(path: Path) -> str:
    """Return the name of a file as one line of text."""
    name = os.fsencode(path.name).decode(errors="replace")
    return " ".join(name.split()) or "file"


def _only(pages: list[str], total: int, why: str) -> str:
    count = len(pages)
    which = "first" if count == 1 else f"first {count:,}"
    verb = "was" if count == 1 else "were"
    return f"Only the {which} of its {total:,} pages {verb} read: {why}."

"""Reads the text of a file that a person attaches, in a process that may die of it.

Blocks; any thread but the window's.
"""

import codecs
import os
import re
from collections.abc import Callable
from json import dumps, loads
from pathlib import Path
from typing import Any, Literal

from engine import counted
from engine.files.causes import os_cause
from engine.files.safe_files import read_bounded
from engine.helper_process import HelperDied, HelperNotStarted, HelperProcess
from ui.records.attachments import Attachment, PageRange, text_of_pages
from ui.words import FileRefused

Kind = Literal["text", "pdf", "zip"]

_CANNOT_SEE = "The model cannot see images: describe it in words, or attach its text"
_CANNOT_HEAR = "The model reads text only: attach a transcript"
_IMAGE = f"is an image. {_CANNOT_SEE}"
_SOUND = f"is a sound recording. {_CANNOT_HEAR}"
_FILM = f"is a video. {_CANNOT_HEAR}"
_ARCHIVE = "is an archive. Unpack it and attach the files that matter"
_PROGRAM = "is a program, not text"
_OLD_OFFICE = (
    "is in an old format of Office, or has a password. Save a copy without a password as .docx or "
    ".pdf"
)
_RICH_TEXT = "is in Rich Text Format. Save it as .docx or .txt"
_DATABASE = "is a database. Export what matters as .csv or .txt"

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (rb"\x89PNG\r\n\x1a\n", _IMAGE),
    (rb"\xff\xd8\xff", _IMAGE),
    (rb"GIF8[79]a", _IMAGE),
    (rb"RIFF....WEBP", _IMAGE),
    (rb"BM....\x00\x00\x00\x00", _IMAGE),
    (rb"II\*\x00|MM\x00\*", _IMAGE),
    (rb"\x00\x00\x01\x00", _IMAGE),
    (rb"....ftyp(?:heic|heix|hevc|mif1|msf1|avif|avis)", _IMAGE),
    (rb"8BPS", _IMAGE),
    (rb"....ftypM4A", _SOUND),
    (rb"ID3|\xff[\xfb\xf3\xf2]|fLaC|OggS|RIFF....WAVE", _SOUND),
    (rb"....ftyp|\x1aE\xdf\xa3|RIFF....AVI ", _FILM),
    (rb"\x1f\x8b|BZh|\xfd7zXZ\x00|7z\xbc\xaf|Rar!|\x28\xb5\x2f\xfd", _ARCHIVE),
    (rb"\x7fELF|MZ.\x00|\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe|\xca\xfe\xba\xbe", _PROGRAM),
    (rb"\xd0\xcf\x11\xe0", _OLD_OFFICE),
    (rb"\{\\rtf", _RICH_TEXT),
    (rb"SQLite format 3\x00", _DATABASE),
)
_REFUSED = tuple((re.compile(pattern, re.DOTALL), why) for pattern, why in _SIGNATURES)

# The names in a ZIP file tell which program made it.
_WITHIN_ZIP = (
    ("xl/", "is a spreadsheet. Export the sheets that matter as .csv"),
    ("ppt/", "is a presentation. Save it as .pdf"),
    ("content.xml", "is an OpenDocument file. Save it as .docx or .pdf"),
    ("META-INF/container.xml", "is an e-book. Save it as .pdf or .txt"),
)

# The byte order marks, longer ones first: that of UTF-32 begins like that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_NUL = re.compile("\0")
# Hardly any text has these characters: they show that the assumed encoding is wrong.
_CONTROL = re.compile("[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")

MAX_TEXT_BYTES = 1_000_000
MAX_DOCUMENT_BYTES = 100_000_000
MAX_PAGES = 2_000
MAX_CHARS = 4_000_000
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
    "has no text: its pages are pictures, perhaps a scan, and the model cannot see images. Attach "
    "a copy with recognized text (OCR)"
)
_TOO_SLOW = "takes too long to read. Attach the part that matters, or its text as .txt"
_NOT_STARTED = "could not be read: the process that reads documents does not start"
_ENDED = (
    "cannot be read: it takes too much memory, or is damaged. Attach the part that matters, or its "
    "text as .txt"
)


def kind_of(head: bytes) -> Kind:
    """Return how to read a file, judged by its first bytes."""
    # https://www.iso.org/standard/75839.html: readers accept the header in the first 1,024 bytes.
    if b"%PDF-" in head[:1024]:
        return "pdf"
    return "zip" if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else "text"


def refusal_of_zip(names: list[str]) -> str:
    """Return why a ZIP file that is not a Word document cannot be attached."""
    for start, why in _WITHIN_ZIP:
        if any(name.startswith(start) for name in names):
            return why
    return _ARCHIVE


def decoded(data: bytes) -> tuple[str, str]:
    """Return the text of a file, and the name of its encoding if it is an assumption.

    A byte order mark states the encoding. Without one it is UTF-8, or else Windows-1252, as
    browsers assume. Raises ``ValueError`` if it is neither.
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _checked(data, encoding), ""
    try:
        return _checked(data, "utf-8"), ""
    except ValueError:
        # Less than a third of Western text is beyond ASCII.
        if b"\0" in data or 3 * sum(byte >= 0x80 for byte in data) > len(data):
            raise
    return _checked(data, "cp1252", _CONTROL), "Windows-1252"


def _checked(data: bytes, encoding: str, never: re.Pattern[str] = _NUL) -> str:
    text = data.decode(encoding)
    if never.search(text):
        raise ValueError(encoding)
    return text.replace("\r\n", "\n").replace("\r", "\n")


class FileReader:
    """Reads one file; ``on_page`` is called on the reading thread: pages read, all pages."""

    def __init__(
        self,
        path: Path,
        on_page: Callable[[int, int], object] = lambda done, total: None,
    ) -> None:
        self._path = path
        self._on_page = on_page
        self._process = HelperProcess(_MODULE)
        self.name = shown_name(path)

    def read(self) -> Attachment:
        """Return the file; raises ``FileRefused``, ``HelperClosed`` once it was closed."""
        try:
            head, size = self._look_at_head()
            if why := next((why for form, why in _REFUSED if form.match(head)), ""):
                raise self._refused(why)
            kind = kind_of(head)
            limit = MAX_TEXT_BYTES if kind == "text" else MAX_DOCUMENT_BYTES
            if size > limit:
                raise self._refused(
                    f"is too large: it has {size / 1e6:.1f} MB, and such a file may have "
                    f"up to {limit / 1e6:.0f} MB. "
                    "Attach the part that matters"
                )
            return self._text() if kind == "text" else self._document(kind)
        except OSError as error:
            raise FileRefused(f"{self.name} could not be read: {os_cause(error)}.") from error

    def close(self) -> None:
        """End the reading of a document, from any thread."""
        self._process.close()

    def _look_at_head(self) -> tuple[bytes, int]:
        """Return the first bytes of the file and its size."""
        if self._path.is_dir():
            raise self._refused("is a folder. Attach the files in it")
        if not self._path.is_file():  # reading a pipe would never end
            raise FileRefused(
                f"{self.name} is not a readable file. Attach text, PDF or Word files."
            )
        with open(self._path, "rb") as file:
            return file.read(2048), os.fstat(file.fileno()).st_size

    def _text(self) -> Attachment:
        try:
            text, assumed = decoded(read_bounded(self._path, MAX_TEXT_BYTES))
        except ValueError:
            raise self._refused(
                "is not a text file in a known encoding. Text in UTF-8 (.txt, .md, .csv, source "
                "code), PDF and Word files can be attached"
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
                    at_once = 1  # read the pages before the one that ended the process
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
                if chars > MAX_CHARS:
                    why = f"a file may have {counted(MAX_CHARS, 'character')}"
                    if not pages:
                        return [page[:MAX_CHARS]], total, [f"It was cut: {why}."]
                    return pages, total, [_only(pages, total, why)]
                pages.append(page)
                if len(pages) == MAX_PAGES < total:
                    return pages, total, [_only(pages, total, "that is the most a file may have")]
            self._on_page(len(pages), total)
            if len(pages) >= total:
                return pages, total, []

    def _ask(self, kind: Kind, first: int, max_pages: int) -> dict[str, Any]:
        question = {
            "path": os.path.abspath(self._path),
            "kind": kind,
            "first": first,
            "max": max_pages,
            "cpu_s": MAX_CPU_S,
        }
        data = dumps(question).encode()
        try:
            answer: dict[str, Any] = loads(self._process.ask(data, 120.0))
        except HelperNotStarted as error:
            raise self._refused(_NOT_STARTED) from error
        if answer.get("refused") == "other":
            raise self._refused(refusal_of_zip(answer["names"]))
        return answer

    def _refused(self, why: str) -> FileRefused:
        return FileRefused(f"{self.name} {why}.")


def shown_name(path: Path) -> str:
    """Return the name of a file as one line of text."""
    name = os.fsencode(path.name).decode(errors="replace")
    return " ".join(name.split()) or "file"


def _only(pages: list[str], total: int, why: str) -> str:
    count = len(pages)
    which = "first" if count == 1 else f"first {count:,}"
    verb = "was" if count == 1 else "were"
    return f"Only the {which} of its {total:,} pages {verb} read: {why}."

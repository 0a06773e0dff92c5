"""Files that go with a message: writes them into its text, and finds them there again.

The model reads each file under its name, in a fence of its own:

    report.pdf (pages 3–4 of 20):
    ```
    [Page 3]
    …
    ```

Pure; knows no Qt and no disk.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from engine.files.json_fields import Fields
from engine.wording import counted

_LONGEST_FENCE = re.compile(r"`{3,}")
# A file as ``with_attachments`` writes it: its fence is longer than any fence in the file.
ATTACHED = re.compile(
    r"(?P<title>[^\n]*):\n(?P<fence>`{3,})\n(?P<text>.*?\n)(?P=fence)(?:\n\n|\Z)", re.DOTALL
)
# The kinds of pictures that are kept, by the suffix of their files: what these begin with.
PICTURE_KINDS = {
    "png": re.compile(rb"\x89PNG\r\n\x1a\n"),
    "jpg": re.compile(rb"\xff\xd8\xff"),
    "gif": re.compile(rb"GIF8[79]a"),
    "webp": re.compile(rb"RIFF....WEBP", re.DOTALL),
}
# Recordings that earlier versions imported, by the suffix of their files.
_SOUND_KINDS = ("wav", "mp3", "ogg", "flac", "m4a", "webm")
# The text of an attachment that is a file in the store's folder.
KEPT_NOTE = re.compile(
    r"\(a (?:picture|sound recording), kept as "
    rf"(?P<file>[0-9a-f]{{32}}\.(?P<kind>{'|'.join([*PICTURE_KINDS, *_SOUND_KINDS])}))\)"
)
_OPENING = re.compile(r"(?P<title>[^\n]*):\n(?P<fence>`{3,})\n")
_PAGES = re.compile(r"(?P<name>.*) \(pages? (?P<first>\d+)(?:–(?P<last>\d+))? of (?P<total>\d+)\)")


@dataclass(frozen=True, slots=True)
class PageRange:
    """Which pages of a file go with a message."""

    first: int
    last: int
    total: int

    def __str__(self) -> str:
        if self.first == self.last:
            return f"page {self.first} of {self.total}"
        return f"pages {self.first}–{self.last} of {self.total}"


Reading = Literal["", "passages", "all"]
"""How a document is read: by passages, whole, or as it fits (empty)."""


def reading_from(value: object) -> Reading:
    """Return how a document is read; the default for an unknown value."""
    return cast(Reading, value) if value in get_args(Reading) else ""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A file as it was when it was attached."""

    name: str
    text: str
    pages: PageRange | None = None
    all_pages: tuple[str, ...] = field(default=(), compare=False, repr=False)
    remark: str = field(default="", compare=False)
    sent_chars: int | None = None
    reading: Reading = ""

    @property
    def title(self) -> str:
        """Its name, with the page range if it has pages."""
        return self.name if self.pages is None else f"{self.name} ({self.pages})"

    @property
    def kept_file(self) -> str:
        """The name of its file in the folder of pictures; empty if it is read as text."""
        match = KEPT_NOTE.fullmatch(self.text.rstrip("\n"))
        return match["file"] if match else ""

    @property
    def is_sound(self) -> bool:
        return self.kept_file.rpartition(".")[2] in _SOUND_KINDS

    def with_pages(self, first: int, last: int) -> "Attachment":
        """Return the same file with another range of pages."""
        assert self.pages is not None
        first = max(1, min(first, len(self.all_pages)))
        last = max(first, min(last, len(self.all_pages)))
        return replace(
            self,
            text=text_of_pages(self.all_pages, first, last),
            sent_chars=None,
            pages=PageRange(first, last, self.pages.total),
        )


def picture_kind(beginning: bytes) -> str:
    """Return the suffix for a picture's file by its first bytes; empty if it is not kept."""
    return next((kind for kind, form in PICTURE_KINDS.items() if form.match(beginning)), "")


def kept_as(name: str, file: str) -> Attachment:
    """Return a picture as an attachment; its text is a note that names the kept file."""
    return Attachment(name, f"(a picture, kept as {file})")


def without_kept_files(text: str) -> str:
    """Return a message as a model reads it: a note without the name of a file that is no text."""

    def noted(match: re.Match[str]) -> str:
        if match["kind"] in _SOUND_KINDS:
            return "(a sound recording, which you cannot hear)"
        return "(a picture, which you cannot see)"

    return KEPT_NOTE.sub(noted, text)


def cut_extent(text: str, chars: int) -> str:
    """Return in words how much of a text goes to the model, if only its beginning does."""
    return f"the first {chars:,} of {counted(len(text), 'character')}"


def cut_text(text: str, chars: int | None) -> str:
    """Return the beginning of a text with a note at its end; all of it for None."""
    if chars is None or chars >= len(text):
        return text
    return f"{text[:chars]}\n[Cut: {cut_extent(text, chars)}.]"


def text_of_pages(pages: Sequence[str], first: int, last: int) -> str:
    """Return the text of some pages, each below its number."""
    return "\n\n".join(f"[Page {n}]\n{pages[n - 1]}".rstrip() for n in range(first, last + 1))


def with_attachments(text: str, attachments: Iterable[Attachment]) -> str:
    """Return a message with its files, each under its title and in a fence of its own."""
    parts = [f"{attachment.title}:\n{_fenced(attachment.text)}" for attachment in attachments]
    return "\n\n".join([*parts, text] if text.strip() else parts)


def attached_chars(text: str, attachments: Iterable[Attachment]) -> int:
    """Return the number of characters before the typed text in ``with_attachments``."""
    whole = with_attachments(text, attachments)
    return len(whole) - len(text) if text.strip() else len(whole)


def taken_apart(message: str, attached: int) -> tuple[tuple[Attachment, ...], str]:
    """Split a message into its files and the typed text."""
    files: list[Attachment] = []
    end = 0
    while end < attached:
        match = _OPENING.match(message, end)
        if match is None:
            return (), message
        begin, closing = match.end(), f"\n{match['fence']}"
        end = begin - 1
        while True:  # a search for characters is fast, also in a long document
            end = message.find(closing, end)
            after = end + len(closing)
            if end < 0:
                return (), message
            if after == len(message) or message.startswith("\n\n", after):
                break
            end += 1
        files.append(_found(match["title"], message[begin : end + 1]))
        end = min(after + 2, len(message))
    return (tuple(files), message[end:]) if end == attached else ((), message)


def attachment_values(file: Attachment) -> dict[str, Any]:
    """Return an attached but unsent file as JSON values, with the pages that can be chosen."""
    values: dict[str, Any] = {"name": file.name}
    if file.pages is None or not file.all_pages:
        values["text"] = file.text
    if file.pages is not None:
        values["pages"] = [file.pages.first, file.pages.last, file.pages.total]
        values["all_pages"] = list(file.all_pages)
    if file.sent_chars is not None:
        values["sent_chars"] = file.sent_chars
    if file.reading:
        values["reading"] = file.reading
    return {**values, "remark": file.remark} if file.remark else values


def attachment_from(fields: Fields) -> Attachment:
    """Return an attached but unsent file; raises ``DamagedFile`` if a value is invalid."""
    name, remark = fields.take("name", str), fields.maybe("remark", str) or ""
    reading = reading_from(fields.maybe("reading", str))
    sent_chars = fields.maybe("sent_chars", int)
    sent_chars = None if sent_chars is None else max(sent_chars, 0)
    if not fields.has("pages"):
        text = fields.take("text", str)
        return Attachment(name, text, remark=remark, sent_chars=sent_chars, reading=reading)
    numbers, known = fields.take("pages", tuple[int, ...]), fields.maybe("all_pages", list) or []
    if len(numbers) != 3 or not 1 <= numbers[0] <= numbers[1] <= numbers[2]:
        raise fields.wrong("pages", "must be the first page, the last one and their number")
    if not all(isinstance(page, str) for page in known) or len(known) > numbers[2]:
        raise fields.wrong("all_pages", "must be the text of each page")
    file = Attachment(name, fields.maybe("text", str) or "", PageRange(*numbers), (), remark)
    if known:
        file = replace(file, all_pages=tuple(known)).with_pages(numbers[0], numbers[1])
    return replace(file, sent_chars=sent_chars, reading=reading)


def _found(title: str, text: str) -> Attachment:
    named = _PAGES.fullmatch(title)
    if named is None:
        return Attachment(title, text)
    first = int(named["first"])
    pages = PageRange(first, int(named["last"] or first), int(named["total"]))
    return Attachment(named["name"], text, pages)


def _fenced(text: str) -> str:
    longest = max((len(fence) for fence in _LONGEST_FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"

"""Recognizes files by their first bytes, and why some cannot be attached."""

import re
from typing import Literal

Kind = Literal["text", "pdf", "zip", "picture"]
_SOUND = "is a sound recording. Attach a transcript"
_FILM = "is a video. Attach a transcript, or pictures from it"
_ARCHIVE = "is an archive. Unpack it and attach the files that matter"
_PROGRAM = "is a program, not text"
_OLD_OFFICE = (
    "is in an old format of Office, or has a password. Save a copy without a password as .docx or "
    ".pdf"
)
_RICH_TEXT = "is in Rich Text Format. Save it as .docx or .txt"
_DATABASE = "is a database. Export what matters as .csv or .txt"
_PICTURES = (
    rb"\x89PNG\r\n\x1a\n",
    rb"\xff\xd8\xff",
    rb"GIF8[79]a",
    rb"RIFF....WEBP",
    rb"BM....\x00\x00\x00\x00",
    rb"II\*\x00|MM\x00\*",
    rb"\x00\x00\x01\x00",
    rb"....ftyp(?:heic|heix|hevc|mif1|msf1|avif|avis)",
    rb"8BPS",
)
_PICTURE = re.compile(rb"|".join(_PICTURES), re.DOTALL)
_SIGNATURES: tuple[tuple[bytes, str], ...] = (
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


def kind_of(head: bytes) -> Kind:
    """Return how to read a file, judged by its first bytes."""
    if _PICTURE.match(head):
        return "picture"
    # https://www.iso.org/standard/75839.html: readers accept the header in the first 1,024 bytes.
    if b"%PDF-" in head[:1024]:
        return "pdf"
    return "zip" if head.startswith((b"PK\x03\x04", b"PK\x05\x06")) else "text"


def refusal_of_head(head: bytes) -> str:
    """Return why a file that begins like this cannot be attached; empty if it might."""
    return next((why for form, why in _REFUSED if form.match(head)), "")


def refusal_of_zip(names: list[str]) -> str:
    """Return why a ZIP file that is not a Word document cannot be attached."""
    for start, why in _WITHIN_ZIP:
        if any(name.startswith(start) for name in names):
            return why
    return _ARCHIVE

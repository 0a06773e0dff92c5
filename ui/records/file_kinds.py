"""Recognizes files by their first bytes, and why some cannot be attached."""

import re
from typing import Literal

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


def kind_of(head: bytes) -> Kind:
    """Return how to read a file, judged by its first bytes."""
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

"""Text files that go with a message: read, checked, and put into its text.

Knows no Qt. Main thread: a file is at most a megabyte, and looked at before it is read.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from engine.files.causes import os_cause

MOST_BYTES = 1_000_000
_LONGEST_FENCE = re.compile(r"`{3,}")
# A file as ``with_attachments`` writes it: its fence is longer than all fences within.
_ATTACHED = re.compile(
    r"(?P<name>[^\n]*):\n(?P<fence>`{3,})\n(?P<text>.*?\n)(?P=fence)(?:\n\n|\Z)", re.DOTALL
)


class AttachmentRefused(Exception):
    """A file cannot go with a message; the message says which, why, and what would."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """A text file as it was when it was attached.

    Attributes:
        name: Its name, without folders.
        text: Its whole text.
    """

    name: str
    text: str


def read_attachment(path: Path) -> Attachment:
    """Return a text file.

    Raises:
        AttachmentRefused: It is not text in UTF-8 or UTF-16, too large, empty, or unreadable.
    """
    try:
        if not path.is_file():
            raise AttachmentRefused(f"{path.name} is not a readable file. Attach text files.")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise AttachmentRefused(
                f"{path.name} has {size / 1e6:.1f} MB; a file may have up to "
                f"{MOST_BYTES / 1e6:.0f} MB. Attach the part that matters."
            )
        data = path.read_bytes()
    except OSError as error:
        raise AttachmentRefused(f"{path.name} could not be read: {os_cause(error)}.") from error
    text = _decoded(data)
    if text is None:
        raise AttachmentRefused(
            f"{path.name} is not a text file. Only text can be attached, for example .txt, .md, "
            ".csv or source code."
        )
    if not text.strip():
        raise AttachmentRefused(f"{path.name} is empty.")
    return Attachment(path.name, text)


def with_attachments(text: str, attachments: Iterable[Attachment]) -> str:
    """Return a message with its files, each under its name and in a fence of its own."""
    parts = [f"{one.name}:\n{_fenced(one.text)}" for one in attachments]
    return "\n\n".join([*parts, text] if text.strip() else parts)


def attached_chars(text: str, attachments: Iterable[Attachment]) -> int:
    """Return how many characters of ``with_attachments`` come before the text."""
    whole = with_attachments(text, attachments)
    return len(whole) - len(text) if text.strip() else len(whole)


def taken_apart(message: str, attached: int) -> tuple[tuple[Attachment, ...], str]:
    """Return the files of a message, and the text that was typed.

    Args:
        message: What ``with_attachments`` returned.
        attached: What ``attached_chars`` returned. Where the message does not begin with files of
            that length, it is all typed text.
    """
    files: list[Attachment] = []
    end = 0
    while end < attached:
        found = _ATTACHED.match(message, end)
        if found is None:
            return (), message
        files.append(Attachment(found["name"], found["text"]))
        end = found.end()
    return (tuple(files), message[end:]) if end == attached else ((), message)


def _decoded(data: bytes) -> str | None:
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text.replace("\r\n", "\n")


def _fenced(text: str) -> str:
    longest = max((len(found) for found in _LONGEST_FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    end = "" if text.endswith("\n") else "\n"
    return f"{fence}\n{text}{end}{fence}"

"""The first part of a body, kept for an observer of requests. On the server's loop."""

from collections.abc import Callable
from dataclasses import dataclass

KEPT_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Body:
    """The kept part of a body.

    Attributes:
        text: Its first part, decoded.
        size_bytes: The size of the whole body.
        is_whole: Whether ``text`` is all of it.
    """

    text: str = ""
    size_bytes: int = 0
    is_whole: bool = True


class KeptBytes:
    """The first bytes of a body that may be long."""

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._kept = bytearray()
        self.size_bytes = 0

    def add(self, data: bytes) -> None:
        """Add the next bytes of the body."""
        self.size_bytes += len(data)
        room = self._most_bytes - len(self._kept)
        if room > 0:
            self._kept += data[:room]

    def body(self, clean: Callable[[str], str]) -> Body:
        """Return the kept part, with secrets removed."""
        text = self._kept.decode("utf-8", "replace")
        is_whole = len(self._kept) == self.size_bytes
        return Body(clean(text if is_whole else text.rstrip("\ufffd")), self.size_bytes, is_whole)

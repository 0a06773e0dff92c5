"""The last lines of an MCP server's log."""

from collections import deque

MAX_LINES = 400
MAX_LINE_CHARS = 1_000


class ServerLog:
    """Keeps the newest lines, without control characters."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._partial = b""

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    def add(self, line: str) -> None:
        self._lines.append(printable(line, MAX_LINE_CHARS))

    def feed(self, data: bytes) -> None:
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines[-MAX_LINES:]:
            self.add(line.decode("utf-8", "replace").rstrip("\r"))
        if len(self._partial) > MAX_LINE_CHARS:
            self.flush()

    def flush(self) -> None:
        if self._partial:
            self.add(self._partial.decode("utf-8", "replace"))
        self._partial = b""


def printable(text: str, max_chars: int) -> str:
    """Return text on one line, shortened and without invisible characters."""
    short = text if len(text) <= max_chars else text[: max_chars - 1] + "…"
    return "".join(
        char if char.isprintable() else " " if char in "\t\n\r" else "\ufffd" for char in short
    )

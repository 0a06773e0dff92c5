"""The last lines of a tool server's log, within limits. Tool thread."""

from collections import deque

MOST_LINES = 400
MOST_LINE_CHARS = 1_000


class ServerLog:
    """Keeps the newest lines, without characters that control a terminal or reverse text."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._begun = b""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines, oldest first."""
        return tuple(self._lines)

    def add(self, line: str) -> None:
        """Add a line."""
        self._lines.append(printable(line[: MOST_LINE_CHARS + 1], MOST_LINE_CHARS))

    def add_bytes(self, data: bytes) -> None:
        """Add output as it arrives; an unfinished line waits for its end."""
        *whole, self._begun = (self._begun + data).split(b"\n")
        # Only the last lines are shown, so the rest of a flood is dropped.
        for line in whole[-MOST_LINES:]:
            self.add(line[: 4 * MOST_LINE_CHARS].decode("utf-8", "replace").rstrip("\r"))
        if len(self._begun) > 4 * MOST_LINE_CHARS:
            self.end_line()

    def end_line(self) -> None:
        """Add the unfinished line as it is."""
        if self._begun:
            self.add(self._begun[: 4 * MOST_LINE_CHARS].decode("utf-8", "replace"))
        self._begun = b""


def printable(text: str, most_chars: int) -> str:
    """Return one line of limited length, without invisible characters."""
    short = text if len(text) <= most_chars else text[: most_chars - 1] + "…"
    return "".join(
        one if one.isprintable() else " " if one in "\t\n\r" else "\ufffd" for one in short
    )

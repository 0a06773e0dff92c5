"""Where the recorded tokens of answers are taken from for an archive, and put from one.

Main thread.
"""

from concurrent.futures import Future
from typing import Protocol

from engine.recording.kept_trace import KeptTrace


class TraceArchive(Protocol):
    """The traces that are kept beyond the end of the program."""

    def measured(self) -> "Future[int]":
        """Return how many bytes are kept."""

    async def kept(self) -> list[KeptTrace]:
        """Return which traces are kept, the oldest first."""

    async def content(self, run_id: str) -> bytes | None:
        """Return a trace as it is kept; None where it has gone or cannot be read."""

    async def take_in(self, kept: KeptTrace, content: bytes, present: frozenset[str]) -> bool:
        """Keep a trace from elsewhere, if there is room for one of its age.

        Args:
            kept: Whose it is, and how old.
            content: The trace as ``content`` returned it.
            present: The conversations that are here: one of these keeps what it has.

        Returns:
            Whether that run's trace is kept now; raises ``DamagedFile`` where it is none, and
            ``OSError`` where the disk does not take it.
        """

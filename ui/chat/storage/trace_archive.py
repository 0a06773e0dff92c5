"""Where the recorded tokens of answers are taken from for an archive, and put from one.

Main thread.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Protocol

from engine.recording.kept_trace import KeptTrace
from ui.records.runs import Run


class TraceArchive(Protocol):
    """The traces that are kept beyond the end of the program."""

    def measured(self) -> "Future[int]":
        """Return how many bytes are kept."""

    async def kept(self) -> list[KeptTrace]:
        """Return which traces are kept, the oldest first."""

    async def content(self, run_id: str) -> bytes | None:
        """Return a trace as it is kept; None where it has gone or cannot be read."""

    async def take_in(self, kept: KeptTrace, content: bytes) -> bool:
        """Keep a trace from elsewhere, if there is room for one of its age.

        Args:
            kept: Whose it is, and how old.
            content: The trace as ``content`` returned it.

        Returns:
            Whether that run's trace is kept now; raises ``DamagedFile`` where it is none, and
            ``OSError`` where the disk does not take it.
        """

    def copy(self, copies: Iterable[Run], conversation_id: str) -> None:
        """Give runs that were copied a trace of their own, where the original has one.

        Args:
            copies: The copies; other runs among them are left alone.
            conversation_id: The conversation that they belong to.
        """

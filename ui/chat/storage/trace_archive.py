"""The source of recorded tokens for an archive, and their target when one is imported.

Main thread.
"""

from collections.abc import Iterable
from concurrent.futures import Future
from typing import Protocol

from engine.recording.kept_trace import KeptTrace
from ui.records.runs import Run


class TraceArchive(Protocol):
    """The traces that are kept on disk."""

    def measured(self) -> "Future[int]":
        """Return how many bytes are kept."""

    async def kept(self) -> list[KeptTrace]:
        """Return the kept traces, oldest first."""

    async def content(self, run_id: str) -> bytes | None:
        """Return the stored form of a trace; None if it is gone or cannot be read."""

    async def take_in(self, kept: KeptTrace, content: bytes) -> bool:
        """Keep a trace from an archive, if there is room for a trace of its age."""

    def copy(self, copies: Iterable[Run], conversation_id: str) -> None:
        """Give copied runs a trace of their own, if the original has one."""

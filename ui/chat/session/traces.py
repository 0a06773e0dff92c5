"""The traces of the newest runs: each token, and what the stop matcher did with it.

Main thread.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Protocol

from PySide6.QtCore import QObject, Signal

from engine import Generation
from engine.recording.run_trace import MAX_RUN_TOKENS, RunTrace, trace_for
from engine.recording.stored_trace import StoredTrace
from engine.values.events import TokenTrace
from engine.values.request import GenerationRequest, TraceLevel
from engine.wording import quoted, seconds
from ui.records.runs import Run

# Memory is limited by the number of runs, by tokens per run and by all tokens. A ``TraceStore``
# also stores the traces of the window's own answers on disk.

MAX_RUNS = 64
# A traced token takes about 0.5 KB: 64 long runs would take more than half a gigabyte.
MAX_TOKENS = 200_000


class TraceStore(Protocol):
    """Stores traces on disk. Its methods return at once; it works on its own thread."""

    def save(self, conversation_id: str, run_id: str, trace: RunTrace) -> object: ...

    async def load(self, run_id: str) -> RunTrace | None: ...

    def delete(self, run_ids: frozenset[str]) -> object:
        """Delete the traces of runs; ``restore`` can bring them back until the program ends."""

    def restore(self, run_ids: frozenset[str]) -> object:
        """Restore deleted traces, unless all traces were deleted since."""

    def copy(self, run_ids: Mapping[str, str], conversation_id: str) -> object:
        """Save copies for a conversation; ``run_ids`` are the originals' ids by the copies'."""

    def measured(self) -> "Future[int]":
        """Return how many bytes are stored, after all earlier calls are done."""

    def stored(self) -> "Future[list[StoredTrace]]":
        """Return the stored traces, oldest first."""

    def content(self, run_id: str) -> "Future[bytes | None]":
        """Return the stored form of a trace; None if it is gone or cannot be read."""

    def take_in(self, stored: StoredTrace, content: bytes) -> "Future[bool]":
        """Keep a trace of an archive; return whether there was room for one of its age.

        Raises ``DamagedFile`` if it is not a trace, and ``OSError`` if it cannot be written.
        """

    def forget_all(self) -> "Future[None]": ...


class Traces(QObject):
    """Keeps the traces of the newest runs, by the run's id."""

    forgotten = Signal()

    def __init__(self, store: TraceStore | None = None, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.store = store
        self.level = TraceLevel.STOPS
        self.top_logprobs = 5
        self._traces: OrderedDict[str, RunTrace] = OrderedDict()
        self._deleted: set[str] = set()
        self._times_forgotten = 0

    def __len__(self) -> int:
        return len(self._traces)

    def get(self, run_id: str) -> RunTrace | None:
        return self._traces.get(run_id)

    def traced(self, request: GenerationRequest) -> GenerationRequest:
        """Return a request with the present level of detail."""
        level, count = self.requested_level
        return replace(request, trace=level, top_logprobs=count)

    @property
    def requested_level(self) -> tuple[TraceLevel, int]:
        """The present level of detail, and how many alternatives of each token are recorded."""
        return self.level, self.top_logprobs if self.level is TraceLevel.FULL else 0

    def add(self, run_id: str, trace: RunTrace) -> None:
        """Add the trace of a run that ended elsewhere; the oldest traces are dropped."""
        self._traces[run_id] = trace
        self._prune()

    def begin(self, run_id: str, generation: Generation) -> RunTrace | None:
        """Add the trace of an accepted run; the oldest traces are dropped."""
        if generation.request.trace is TraceLevel.OFF:
            return None
        trace = trace_for(generation, deque(maxlen=MAX_RUN_TOKENS))
        self._traces[run_id] = trace
        self._prune()
        return trace

    def end(self, run_id: str, conversation_id: str) -> None:
        """Save the trace of a conversation’s ended run on disk, too."""
        trace = self._traces.get(run_id)
        if trace is not None and trace.stop is not None and self.store is not None:
            self.store.save(conversation_id, run_id, trace)

    async def find(self, run_id: str) -> RunTrace | None:
        """Return the trace of a run from memory or from disk; None if neither has it."""
        trace = self.get(run_id)
        if trace is None and self.store is not None:
            times_forgotten = self._times_forgotten
            trace = await self.store.load(run_id)
            if run_id in self._deleted or times_forgotten != self._times_forgotten:
                return None  # it was deleted while it was read
            if trace is not None and self.get(run_id) is None:
                self.add(run_id, trace)
        return trace

    def measured(self) -> "Future[int]":
        if self.store is not None:
            return self.store.measured()
        none: Future[int] = Future()
        none.set_result(0)
        return none

    async def stored(self) -> list[StoredTrace]:
        """Return the traces on disk, oldest first."""
        return [] if self.store is None else await asyncio.wrap_future(self.store.stored())

    async def content(self, run_id: str) -> bytes | None:
        """Return the stored form of a trace on disk; None if it is gone or cannot be read."""
        if self.store is None:
            return None
        return await asyncio.wrap_future(self.store.content(run_id))

    async def take_in(self, stored: StoredTrace, content: bytes) -> bool:
        """Save a trace of an archive on disk, as ``TraceStore.take_in`` does."""
        if self.store is None:
            return False
        return await asyncio.wrap_future(self.store.take_in(stored, content))

    def copy(self, copies: Iterable[Run], conversation_id: str) -> None:
        originals = {copy_.id: copy_.copied_from for copy_ in copies if copy_.copied_from}
        for run_id, original in originals.items():
            trace = self._traces.get(original)
            if trace is not None:
                self.add(run_id, trace)
        if originals and self.store is not None:
            self.store.copy(originals, conversation_id)

    def record(self, level: TraceLevel) -> None:
        self.level = level

    def delete(self, run_ids: frozenset[str]) -> None:
        """Delete the traces of deleted answers, also from disk; ``restore`` undoes that."""
        for run_id in run_ids:
            self._traces.pop(run_id, None)
        self._deleted |= run_ids
        if run_ids and self.store is not None:
            self.store.delete(run_ids)

    def restore(self, run_ids: frozenset[str]) -> None:
        """Restore the traces of restored answers from disk, unless all were deleted since."""
        self._deleted -= run_ids
        if run_ids and self.store is not None:
            self.store.restore(run_ids)

    def forget_all(self) -> None:
        """Delete every trace, also on disk; what a running answer still records is not shown."""
        self._times_forgotten += 1
        self._traces.clear()
        if self.store is not None:
            self.store.forget_all()
        self.forgotten.emit()

    def _prune(self) -> None:
        tokens = sum(len(trace.tokens) for trace in self._traces.values())
        while len(self._traces) > 1 and (len(self._traces) > MAX_RUNS or tokens > MAX_TOKENS):
            _, removed = self._traces.popitem(last=False)
            tokens -= len(removed.tokens)


class HeldText:
    """The text that the stop matcher holds back, with the arrival time of each part."""

    def __init__(self) -> None:
        self.text = ""
        self._parts: deque[tuple[int, float]] = deque()  # the number of characters, their arrival

    @property
    def since_s(self) -> float | None:
        """The arrival of the oldest held character; None while nothing is held."""
        return self._parts[0][1] if self._parts else None

    def take(self, token: TokenTrace, time_s: float) -> list[tuple[int, float]]:
        """Note the held text after a token."""
        self.text = token.held
        if not token.held and not self._parts:
            return []  # this is the usual case
        if token.piece:
            self._parts.append((len(token.piece), time_s))
        surplus = sum(count for count, _ in self._parts) - len(token.held)
        if surplus < 0:  # text that was held back for a tag is not in a piece yet
            self._parts.append((-surplus, time_s))
        released: list[tuple[int, float]] = []
        while surplus > 0:
            count, since_s = self._parts.popleft()
            if count > surplus:
                self._parts.appendleft((count - surplus, since_s))
                count = surplus
            surplus -= count
            released.append((count, since_s))
        return released


def held_times(tokens: Sequence[TokenTrace]) -> list[tuple[str, float]]:
    """Return the texts that the matcher held back, with the seconds for each, longest first."""
    times: list[tuple[str, float]] = []
    held = HeldText()
    for token in tokens:
        before = held.text
        released = held.take(token, token.time_s)
        waited_s = token.time_s - released[0][1] if released else 0.0
        if before and not token.held.startswith(before):
            times.append((before, waited_s))
    if held.text and held.since_s is not None:
        times.append((held.text, tokens[-1].time_s - held.since_s))
    times.sort(key=lambda pair: -pair[1])
    return times


def held_text(tokens: Sequence[TokenTrace]) -> str:
    """Return as text how long text was held back because it could have become a stop."""
    waits = held_times(tokens)
    if not waits:
        return "No text was held back."
    longest, took_s = waits[0]
    return f"The longest wait was {seconds(took_s)}, of {quoted(longest, 40)}."

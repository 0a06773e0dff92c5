"""A running answer as its reader sees it: iterate over its events, or cancel it.

The reader's event loop makes it, and the engine thread fills it. Events cross in batches with one
wake-up; a slow reader is woken once and finds its text deltas merged.
"""

import asyncio
import itertools
import threading
from array import array
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, replace

from engine.grammar.masks import CompiledGrammar
from engine.output.answer import DecodingSetting
from engine.output.vocabulary import Vocabulary
from engine.values.events import (
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallArguments,
    ToolCallCompleted,
)
from engine.values.request import GenerationRequest, ToolCall

_Delta = TextDelta | ThinkingDelta | ToolCallArguments


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer, as collected from the events of one generation."""

    text: str
    thinking: str
    tool_calls: tuple[ToolCall, ...]
    finished: Finished


class Generation:
    """The reader's handle of one answer.

    Attributes:
        setting: The data that a replay needs besides a trace, set when the request is accepted.
        vocabulary: None until the request is accepted.
        rendered: The token ids of the rendered messages of a traced request, once it is accepted.
        written_tokens: Tokens of the answer so far; the engine thread counts them.
        first_token_s: Seconds from submission to the first token; None until it is sampled.
        not_applied: Parts of the request without effect on this model, each named as the client
            spelled it; complete once the request is accepted.
    """

    def __init__(
        self,
        request: GenerationRequest,
        loop: asyncio.AbstractEventLoop,
        on_cancel: Callable[["Generation"], None],
    ) -> None:
        self.request = request
        self.prompt_tokens = 0
        self.written_tokens = 0
        self.first_token_s: float | None = None
        self.setting = DecodingSetting()
        self.vocabulary: Vocabulary | None = None
        self.rendered = array("i")
        self.finished: Finished | None = None
        self.grammar: CompiledGrammar | None = None
        self.not_applied = request.not_applied
        self.loop = loop
        self._on_cancel = on_cancel
        self._lock = threading.Lock()
        self._pending: list[Event] = []
        # The number of unread events that are merged already.
        self._merged = 0
        # Set by the first ``Finished``; later events are dropped.
        self._is_closed = False
        self._wake_is_due = False
        self._arrived = asyncio.Event()
        self._ended: asyncio.Future[Finished] = loop.create_future()
        self._listener: Callable[[list[Event]], None] | None = None
        self._hides_traces = False

    # -- reader's side ---------------------------------------------------------------------

    def cancel(self) -> None:
        """End this answer within one step; any thread.

        The events still end in one ``Finished``. Does nothing once it has ended.
        """
        if self.finished is None:
            self._on_cancel(self)

    def listen(self, listener: Callable[[list[Event]], None], *, hides_traces: bool) -> None:
        """Give each batch to a listener, which returns at once; call this before the first read.

        With ``hides_traces``, the reader itself gets no ``TokenTrace``.
        """
        self._listener, self._hides_traces = listener, hides_traces

    async def ended(self) -> Finished:
        """Wait until the end has been read, and return it. On the reader's loop."""
        return await asyncio.shield(self._ended)

    async def batches(self) -> AsyncIterator[list[Event]]:
        """Yield the events in batches, each with all that have arrived; ends after ``Finished``."""
        while self.finished is None:
            batch = self._drain()
            if not batch:
                await self._arrived.wait()
                continue
            last = batch[-1]
            self.finished = last if isinstance(last, Finished) else None
            if self._listener is not None:
                self._listener(batch)
                if self._hides_traces:
                    batch = merge_deltas(
                        [event for event in batch if type(event) is not TokenTrace]
                    )
            if self.finished is not None and not self._ended.done():
                self._ended.set_result(self.finished)
            if batch:
                yield batch

    async def events(self) -> AsyncIterator[Event]:
        """Yield events one by one; ends after ``Finished``."""
        async for batch in self.batches():
            for event in batch:
                yield event

    async def collect(self) -> Answer:
        """Read to the end and return the whole answer. Cancelling the caller cancels it."""
        text: list[str] = []
        thinking: list[str] = []
        calls: list[ToolCall] = []
        finished: Finished | None = None
        try:
            async for event in self.events():
                match event:
                    case TextDelta():
                        text.append(event.text)
                    case ThinkingDelta():
                        thinking.append(event.text)
                    case ToolCallCompleted():
                        calls.append(event.call)
                    case Finished():
                        finished = event
        except asyncio.CancelledError:
            self.cancel()
            raise
        assert finished is not None, "every generation ends in Finished"
        return Answer("".join(text), "".join(thinking), tuple(calls), finished)

    def _drain(self) -> list[Event]:
        with self._lock:
            batch, self._pending = self._pending, []
            self._merged = 0
            self._wake_is_due = False
        self._arrived.clear()
        return merge_deltas(batch)

    # -- engine's side ---------------------------------------------------------------------

    def push(self, events: Iterable[Event]) -> bool:
        """Append events; return whether the reader must be woken now.

        Engine thread or its watchdog. Events after the first ``Finished`` are dropped.
        """
        with self._lock:
            if self._is_closed:
                return False
            pending = self._pending
            pending.extend(events)
            self._is_closed = bool(pending) and type(pending[-1]) is Finished
            if self._wake_is_due:
                if len(pending) - self._merged > 64:
                    # A slow reader costs only the memory of the text. Merge only the new ones:
                    # looking at all traces again would make each push slower than the one before.
                    pending[self._merged :] = merge_deltas(pending[self._merged :])
                    self._merged = len(pending) - 1
                return False
            self._wake_is_due = True
            return True

    def wake(self) -> None:
        self._arrived.set()


def merge_deltas(events: list[Event]) -> list[Event]:
    """Return the events with neighbouring deltas of text, thinking or arguments joined into one."""
    if len(events) < 2:
        return events
    texts = [event.text for event in events if type(event) is TextDelta]
    if len(texts) == len(events):  # nearly always, and this is called often
        return [TextDelta("".join(texts))]
    out: list[Event] = []
    for _, group in itertools.groupby(events, type):
        first, *more = group
        if isinstance(first, _Delta):
            # Another call begins with an event of its own, so arguments in a row belong to one.
            texts = [event.text for event in (first, *more) if isinstance(event, _Delta)]
            out.append(replace(first, text="".join(texts)))
        else:
            out += [first, *more]
    return out

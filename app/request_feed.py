"""Brings what the server observed into the window's log: many requests, one wake-up.

Told on the server's loop, delivers on the window's loop; the one place where the API's records
become the window's.
"""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable

from api.observing import Body, RequestBegan, RequestEnded, TracedRun
from engine.request import TraceLevel
from ui.viewmodels.inspector.traces import RunTrace
from ui.viewmodels.requests import RequestBody, RequestEntry


class RequestFeed:
    """An observer of the server. Fits ``api.observing.RequestObserver``.

    Args:
        loop: The window's loop.
        deliver: Receives, on that loop, what has come together since the last time.
        wanted_trace: Returns how much of each token is wanted; asked on the server's loop.
        keep_trace: Receives, on the window's loop, a request's id and what its first answer's
            tokens were.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[list[RequestEntry]], None],
        wanted_trace: Callable[[], tuple[TraceLevel, int]] = lambda: (TraceLevel.OFF, 0),
        keep_trace: Callable[[str, RunTrace], None] = lambda _id, _trace: None,
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._wanted_trace = wanted_trace
        self._keep_trace = keep_trace
        self._lock = threading.Lock()
        self._waiting: list[RequestBegan | RequestEnded] = []

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return how much of each token is wanted."""
        return self._wanted_trace()

    def request_began(self, began: RequestBegan) -> None:
        """Take note of a request."""
        self._put(began)

    def request_ended(self, ended: RequestEnded) -> None:
        """Take note of its end."""
        self._put(ended)

    def _put(self, note: RequestBegan | RequestEnded) -> None:
        with self._lock:
            self._waiting.append(note)
            wake_is_due = len(self._waiting) == 1
        if wake_is_due:
            # The window's loop may have ended while the last answers were cut off.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            notes, self._waiting = self._waiting, []
        for note in notes:
            if isinstance(note, RequestEnded) and note.runs:
                self._keep_trace(note.began.request_id, trace_of(note.runs[0]))
        self._deliver([entry_of(note) for note in notes])


def trace_of(run: TracedRun) -> RunTrace:
    """Return what was recorded of a generation as the inspector has it."""
    generation = run.generation
    request = generation.request
    trace = RunTrace(generation.setting, request.stops, request.max_tokens)
    trace.vocabulary, trace.request = generation.vocabulary, request
    for event in run.events:
        trace.take(event)
    return trace


def entry_of(note: RequestBegan | RequestEnded) -> RequestEntry:
    """Return the window's record of what was observed."""
    began = note if isinstance(note, RequestBegan) else note.began
    agents = (value for name, value in began.headers if name.lower() == "user-agent")
    entry = RequestEntry(
        id=began.request_id,
        began_at=began.began_at,
        client=began.client,
        agent=next(agents, ""),
        method=began.method,
        path=began.path,
        dialect=began.dialect,
        headers=began.headers,
    )
    return entry if isinstance(note, RequestBegan) else _ended(entry, note)


def _ended(entry: RequestEntry, ended: RequestEnded) -> RequestEntry:
    return dataclasses.replace(
        entry,
        model=ended.model,
        is_stream=ended.is_stream,
        status=ended.status,
        took_s=ended.took_s,
        asked=_body(ended.asked),
        answered=_body(ended.answered),
        answer_headers=ended.answer_headers,
        ends=ended.ends,
    )


def _body(body: Body) -> RequestBody:
    return RequestBody(body.text, body.size_bytes, body.is_whole)

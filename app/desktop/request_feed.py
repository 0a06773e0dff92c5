"""Passes observed requests from the server to the window's log, in batches.

Called on the server's loop, where it converts the API's records to the window's; delivers them on
the window's loop.
"""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable

from api.transport.bodies.kept_bodies import Body
from api.transport.observing import EVERYTHING, Content, ObservedRun, RequestBegan, RequestEnded
from engine import Finished, TraceLevel
from engine.recording.run_trace import RunTrace
from ui.server.requests import RequestAnswer, RequestBody, RequestEntry

_Note = tuple[RequestEntry, dict[str, RunTrace]]


class RequestFeed:
    """An observer of the server. Fits ``api.transport.observing.RequestObserver``."""

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
        self._waiting: list[_Note] = []

    def wanted_trace(self) -> tuple[TraceLevel, int]:
        """Return how much detail of each token is wanted."""
        return self._wanted_trace()

    def wanted_content(self) -> Content:
        """Return that the whole content of a request is wanted."""
        return EVERYTHING

    def request_began(self, began: RequestBegan) -> None:
        """Record a request."""
        self._put((entry_of(began), {}))

    def request_ended(self, ended: RequestEnded) -> None:
        """Record the end of a request."""
        entry = entry_of(ended)
        runs = zip(entry.answers, _finished(ended), strict=True)
        traces = {answer.run_id: trace_of(run) for answer, (run, _) in runs}
        kept = {name: trace for name, trace in traces.items() if trace is not None}
        self._put((entry, kept))

    def _put(self, note: _Note) -> None:
        with self._lock:
            self._waiting.append(note)
            wake_is_due = len(self._waiting) == 1
        if wake_is_due:
            # The window's loop may have ended before the last answers.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._hand_over)

    def _hand_over(self) -> None:
        with self._lock:
            notes, self._waiting = self._waiting, []
        for _, traces in notes:
            for name, trace in traces.items():
                self._keep_trace(name, trace)
        self._deliver([entry for entry, _ in notes])


def trace_of(run: ObservedRun) -> RunTrace | None:
    """Return a generation's tokens for the inspector; None if none were recorded."""
    if not run.tokens:
        return None
    generation = run.generation
    request = generation.request
    trace = RunTrace(generation.setting, request.stops, request.max_tokens)
    trace.vocabulary, trace.request = generation.vocabulary, request
    # The run has ended, so nobody adds tokens any more: they need not be copied.
    trace.tokens = run.tokens
    for call in run.calls:
        trace.take(call)
    if run.finished is not None:
        trace.take(run.finished)
    return trace


def entry_of(note: RequestBegan | RequestEnded) -> RequestEntry:
    """Return the window's record of an observed request."""
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
        answers=tuple(
            _answer(run, finished, f"{entry.id}/{number}")
            for number, (run, finished) in enumerate(_finished(ended), 1)
        ),
    )


def _finished(ended: RequestEnded) -> list[tuple[ObservedRun, Finished]]:
    return [(run, run.finished) for run in ended.runs if run.finished]


def _answer(run: ObservedRun, finished: Finished, run_id: str) -> RequestAnswer:
    return RequestAnswer(
        request=run.generation.request,
        finished=finished,
        text="".join(run.texts),
        thinking="".join(run.thoughts),
        tool_calls=tuple(delta.call for delta in run.calls),
        run_id=run_id,
    )


def _body(body: Body) -> RequestBody:
    return RequestBody(body.text, body.size_bytes, body.is_whole)

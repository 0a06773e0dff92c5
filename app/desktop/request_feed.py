"""Passes observed requests from the server's loop to the window's log, in batches."""

import asyncio
import contextlib
import dataclasses
import threading

from api.service.record import (
    RecordedBody,
    RecordedRun,
    RequestObserver,
    RequestRecord,
)
from engine.recording.run_trace import RunTrace, trace_for
from engine.values.events import Finished
from engine.values.request import TraceLevel
from ui.chat.session.traces import Traces
from ui.server.requests import RequestAnswer, RequestBody, RequestEntry, RequestLog

_Note = tuple[RequestEntry, dict[str, RunTrace]]


class RequestFeed(RequestObserver):
    """An observer of the server."""

    def __init__(self, loop: asyncio.AbstractEventLoop, log: RequestLog) -> None:
        self.traces: Traces | None = None
        self._loop = loop
        self._log = log
        self._lock = threading.Lock()
        self._waiting: list[_Note] = []

    def requested_trace(self) -> tuple[TraceLevel, int]:
        return (TraceLevel.OFF, 0) if self.traces is None else self.traces.requested_level

    def request_began(self, record: RequestRecord) -> None:
        self._put((entry_of(record), {}))

    def request_advanced(self, record: RequestRecord) -> None:
        self._put((entry_of(record), {}))

    def request_ended(self, record: RequestRecord) -> None:
        entry = ended_entry_of(record)
        runs = zip(entry.answers, _finished(record), strict=True)
        traces = {
            answer.run_id: trace
            for answer, (run, _) in runs
            if (trace := trace_of(run)) is not None
        }
        self._put((entry, traces))

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
                if self.traces is not None:
                    self.traces.add(name, trace)
        self._log.take([entry for entry, _ in notes])


def trace_of(run: RecordedRun) -> RunTrace | None:
    """Return a generation's tokens for the inspector; None if none were recorded."""
    if not run.tokens:
        return None
    # The run has ended, so nobody adds tokens any more: they need not be copied.
    trace = trace_for(run.generation, run.tokens)
    for call in run.calls:
        trace.take(call)
    if run.finished is not None:
        trace.take(run.finished)
    return trace


def entry_of(record: RequestRecord) -> RequestEntry:
    """Return the window's record of a request that has not ended."""
    agents = (value for name, value in record.headers if name.lower() == "user-agent")
    return RequestEntry(
        id=record.request_id,
        began_at=record.began_at,
        client=record.client,
        agent=next(agents, ""),
        method=record.method,
        path=record.path,
        dialect=record.dialect,
        headers=record.headers,
        model=record.model,
        requested_model=record.requested_model,
        is_stream=record.wants_stream if record.runs else None,
        running=tuple(run.generation for run in record.runs),
        no_effect=record.no_effect,
    )


def ended_entry_of(record: RequestRecord) -> RequestEntry:
    """Return the window's record of a request that has ended."""
    return dataclasses.replace(
        entry_of(record),
        running=(),
        is_stream=record.is_stream,
        status=record.status,
        took_s=record.took_s,
        request_body=_body(record.request_body),
        response_body=_body(record.response_body),
        answer_headers=record.response_headers,
        answers=tuple(
            _answer(run, finished, f"{record.request_id}/{number}")
            for number, (run, finished) in enumerate(_finished(record), 1)
        ),
    )


def _finished(record: RequestRecord) -> list[tuple[RecordedRun, Finished]]:
    return [(run, run.finished) for run in record.runs if run.finished]


def _answer(run: RecordedRun, finished: Finished, run_id: str) -> RequestAnswer:
    return RequestAnswer(
        request=run.generation.request,
        finished=finished,
        text="".join(run.texts),
        thinking="".join(run.thoughts),
        tool_calls=tuple(delta.call for delta in run.calls),
        run_id=run_id,
    )


def _body(body: RecordedBody) -> RequestBody:
    return RequestBody(body.text, body.size_bytes, body.is_whole)

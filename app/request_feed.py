"""Brings what the server observed into the window's log: many requests, one wake-up.

Told on the server's loop, delivers on the window's loop; the one place where the API's records
become the window's.
"""

import asyncio
import contextlib
import dataclasses
import threading
from collections.abc import Callable

from api.observing import Body, RequestBegan, RequestEnded
from ui.viewmodels.requests import RequestBody, RequestEntry


class RequestFeed:
    """An observer of the server. Fits ``api.observing.RequestObserver``.

    Args:
        loop: The window's loop.
        deliver: Receives, on that loop, what has come together since the last time.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, deliver: Callable[[list[RequestEntry]], None]
    ) -> None:
        self._loop = loop
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: list[RequestBegan | RequestEnded] = []

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
        self._deliver([entry_of(note) for note in notes])


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

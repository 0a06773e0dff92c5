"""The canary: a stream that goes on while a server is attacked, read by a process of its own.

It asks again whenever its answer ends. How long it waits for the first text of an answer, behind
the prompts of others, and how long a text that has begun stands still, are two things.

In a process of its own, because an attacker that makes 30 MB of JSON keeps its own threads waiting.
Beside the stream it measures how long a thread that only sleeps was kept from running, which is
what the machine costs, whoever is to blame.
"""

import http.client
import json
import multiprocessing
import threading
import time
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

_BODY = {
    "model": "any",
    "stream": True,
    "max_completion_tokens": 400,
    "messages": [{"role": "user", "content": "Count from 1 to 100"}],
    "temperature": 0,
    "logit_bias": {"2": -100},
}
_NAP_S = 0.002


@dataclass(frozen=True)
class Measured:
    """The measurements since the last call."""

    gap_s: float
    first_s: float
    noise_s: float
    pieces: int
    faults: tuple[str, ...]


class Canary:
    """The process that reads the stream."""

    def __init__(self, host: str) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_sing, args=(host, theirs), daemon=True)
        self._process.start()
        theirs.close()
        self._ours.recv()  # the canary is alive

    def measured(self) -> Measured:
        self._ours.send("measure")
        found: Measured = self._ours.recv()
        return found

    def end(self) -> tuple[str, ...]:
        """End it; return the faults of the stream."""
        last = self.measured()
        self._ours.send("end")
        self._process.join(30)
        return last.faults


@dataclass
class _Stream:
    host: str
    gap_s: float = 0.0
    first_s: float = 0.0
    asked_s: float | None = None
    last_s: float | None = None
    pieces: int = 0
    noise_s: float = 0.0
    faults: list[str] = field(default_factory=list)
    has_begun: threading.Event = field(default_factory=threading.Event)

    def measured(self) -> Measured:
        now_s = time.monotonic()
        # The running wait counts, too.
        last_s, asked_s = self.last_s, self.asked_s
        gap_s = self.gap_s if last_s is None else max(self.gap_s, now_s - last_s)
        first_s = self.first_s if asked_s is None else max(self.first_s, now_s - asked_s)
        found = Measured(gap_s, first_s, self.noise_s, self.pieces, tuple(self.faults))
        self.gap_s = self.first_s = self.noise_s = 0.0
        self.pieces = 0
        self.last_s = None if last_s is None else now_s
        return found

    def doze(self) -> None:
        while True:
            before_s = time.monotonic()
            time.sleep(_NAP_S)
            self.noise_s = max(self.noise_s, time.monotonic() - before_s - _NAP_S)

    def sing(self) -> None:
        first: str | None = None
        while True:
            text = self._text()
            first = text if first is None else first
            if text != first or not text:
                self.faults.append(f"the canary said something else: {text[:80]!r}")

    def _text(self) -> str:
        connection = http.client.HTTPConnection(self.host, timeout=120)
        text = ""
        try:
            body, headers = json.dumps(_BODY), {"content-type": "application/json"}
            self.asked_s = time.monotonic()
            connection.request("POST", "/v1/chat/completions", body, headers)
            answer = connection.getresponse()
            while line := answer.readline():
                if line.startswith(b"data: {"):
                    now_s = time.monotonic()
                    if piece := "".join(_texts(json.loads(line[6:]))):
                        self._note(now_s)
                        text += piece
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.faults.append(f"the canary was broken off: {error!r}")
            time.sleep(0.2)
        finally:
            self.last_s = self.asked_s = None
            connection.close()
        return text

    def _note(self, now_s: float) -> None:
        if self.asked_s is not None:
            self.first_s = max(self.first_s, now_s - self.asked_s)
            self.asked_s = None
        if self.last_s is not None:
            self.gap_s = max(self.gap_s, now_s - self.last_s)
        self.last_s = now_s
        self.pieces += 1
        self.has_begun.set()


def _texts(event: dict[str, Any]) -> list[str]:
    return [choice["delta"].get("content") or "" for choice in event["choices"]]


def _sing(host: str, pipe: Connection) -> None:
    stream = _Stream(host)
    for act in (stream.sing, stream.doze):
        threading.Thread(target=act, daemon=True).start()
    stream.has_begun.wait(120)
    pipe.send("begun")
    while pipe.recv() == "measure":
        pipe.send(stream.measured())

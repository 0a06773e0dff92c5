"""Attackers beside honest clients: broken bodies, random schemas and heavy bodies.

They run in a process of their own, so that neither their work nor their memory counts as the
program's, and come from another address, so that what is bounded per client is theirs.
"""

import http.client
import itertools
import multiprocessing
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection

from tests.lab.endurance.attacking import attacks
from tests.lab.endurance.attacking.attacks import Sent

_ADDRESS = "127.0.0.2"
_TIMEOUT_S = 120.0
_SHOWN_FAULTS = 20


@dataclass
class Seen:
    """The answers that the attackers got."""

    statuses: Counter[int] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


class Attackers:
    """The process that attacks on demand."""

    def __init__(self, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._process = context.Process(target=_attack, args=(seed, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def begin(self, url: str, seconds: float) -> None:
        """Attack a server for some time; return at once."""
        self._ours.send((url.removeprefix("http://"), seconds))

    def seen(self) -> Seen:
        """Wait until the last attack is over; return all answers so far."""
        found: Seen = self._ours.recv()
        return found

    def end(self) -> None:
        self._ours.send(None)
        self._process.join(30)
        self._ours.close()


def _attack(seed: int, pipe: Connection) -> None:
    rng = random.Random(seed)
    seen = Seen()
    heavy = _heavy()
    while (told := pipe.recv()) is not None:
        host, seconds = told
        ends_at_s = time.monotonic() + seconds
        small = threading.Thread(target=_send_small, args=(host, ends_at_s, rng, seen))
        small.start()
        while time.monotonic() < ends_at_s:
            _send_at_once(host, next(heavy), seen)
        small.join()
        pipe.send(Seen(seen.statuses, seen.faults[:_SHOWN_FAULTS]))


def _heavy() -> Iterator[list[Sent]]:
    while True:
        for _, sent in attacks.heavy():
            yield sent


def _send_small(host: str, ends_at_s: float, rng: random.Random, seen: Seen) -> None:
    for make in itertools.cycle((attacks.broken, attacks.broken, attacks.constrained)):
        if time.monotonic() >= ends_at_s:
            return
        _send(host, make(rng), seen)


def _send_at_once(host: str, bodies: list[Sent], seen: Seen) -> None:
    threads = [threading.Thread(target=_send, args=(host, one, seen)) for one in bodies]
    for one in threads:
        one.start()
    for one in threads:
        one.join()


def _send(host: str, sent: Sent, seen: Seen) -> None:
    headers = {"content-type": "application/json"}
    if sent.encoding:
        headers["content-encoding"] = sent.encoding
    connection = http.client.HTTPConnection(host, timeout=_TIMEOUT_S, source_address=(_ADDRESS, 0))
    status = 0
    try:
        connection.request(sent.method, sent.path, sent.body, headers)
        answer = connection.getresponse()
        status = answer.status
        said = answer.read()
    except (OSError, http.client.HTTPException) as error:
        said = repr(error).encode()
    finally:
        connection.close()
    seen.statuses[status] += 1
    if status == 0 or status >= 500:
        seen.faults.append(f"attack: {status} {sent.path} {sent.body[:200]!r}: {said[:200]!r}")

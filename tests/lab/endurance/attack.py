"""Attacks a server of its own and measures the cost for the other clients.

    python -m tests.lab.endurance.attack [--bodies 30000] [--schemas 5000] [--heavy] [--seed 1]

``fullstop serve`` runs in a process of its own. One stream, the canary, goes on all the while. For
how long its text stood still, idle and under attack, is what an attack cost the others; how long it
waited for the first text of an answer is told beside it. Exit code 0 only if nothing answered 5xx,
the process lives and complained of nothing, the canary's text is right and memory has not grown by
more than 200 MB. Memory is that of the server and its helper processes at rest: before the attacks,
once each helper runs, and after them. Gaps depend on the machine: they are printed beside the time
for which the machine kept a thread that only sleeps from running, and judged by the reader.
"""

import argparse
import contextlib
import functools
import http.client
import itertools
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from tests.e2e.conftest import ServeProcess
from tests.lab.endurance.attacking import attacks
from tests.lab.endurance.attacking.attacks import Sent
from tests.lab.endurance.attacking.canary import Canary

_CLIENTS = 8
# A broken body may have lost its limit: its answer would last until the context is full.
_PATIENCE_S = 0.5
_HUNG_UP = 499
_MOST_READ_BYTES = 1 << 22
_PART_BYTES = 1 << 16
_MOST_AT_ONCE = 20
_LOOK_S = 0.02
_MOST_GROWTH_MB = 200
_CACHE_BYTES = 1 << 25
_IDLE_S = 3.0
# The engine returns freed memory every five seconds.
_REST_S = 7.0
_MOST_REST_S = 60.0


@dataclass(frozen=True)
class Cost:
    """The cost of an attack for the other clients.

    Attributes:
        gap_s: For how long the canary's text stood still, at most.
        first_s: How long the canary waited for the first text of an answer, at most; 0 if it asked
            for none meanwhile.
        noise_s: For how long the machine kept a thread that only sleeps from running.
        peak_mb: The most memory beyond what was taken before, helper processes included.
    """

    gap_s: float
    first_s: float
    noise_s: float
    peak_mb: float


class Attack:
    """A server under attack, and its observed behaviour.

    Attributes:
        statuses: How often each status was answered; 0 for a broken connection.
        faults: The faults, in words.
    """

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.faults: list[str] = []
        # Earlier prompts are kept on purpose, up to a limit, which is small here.
        self._server = ServeProcess("--port", "0", "--prompt-cache-bytes", str(_CACHE_BYTES))
        self.host = self._server.wait_until_ready().removeprefix("http://")
        self.canary = Canary(self.host)
        self._process = psutil.Process(self._server.process.pid)

    def send(self, sent: Sent) -> int:
        """Send a request and read the whole answer; return its status, 0 if there is none."""
        return self._sent(sent, 120.0)

    def send_and_hang_up(self, sent: Sent) -> int:
        """Send a request; hang up, with status 499, if the answer does not arrive at once."""
        return self._sent(sent, _PATIENCE_S)

    def _sent(self, sent: Sent, patience_s: float) -> int:
        headers = {"content-type": "application/json"}
        if sent.encoding:
            headers["content-encoding"] = sent.encoding
        connection = http.client.HTTPConnection(self.host, timeout=patience_s)
        status = 0
        try:
            connection.request(sent.method, sent.path, sent.body, headers)
            answer = connection.getresponse()
            status = answer.status
            said = _read(answer, time.monotonic() + patience_s)
        except TimeoutError as error:
            status = 0 if patience_s > _PATIENCE_S else _HUNG_UP
            said = repr(error).encode()
        except (OSError, http.client.HTTPException) as error:
            said = repr(error).encode()
        finally:
            connection.close()
        self.statuses[status] += 1
        if status == 0 or status >= 500:
            self.faults.append(
                f"{status} {sent.method} {sent.path} {sent.body[:300]!r}: {said[:200]!r}"
            )
        return status

    def spy(self) -> None:
        """Ask with several keys for the same text; note it if the counts tell what others asked."""
        for key in ("", "one key", "another key"):
            first, again = (
                self._cached_tokens(attacks.secret("My PIN is 4711", key)) for _ in "12"
            )
            if first and key:
                self.faults.append(f"{first} tokens that others had asked were counted for {key!r}")
            if not again:
                self.faults.append(f"what {key!r} asked itself was read twice")

    def _cached_tokens(self, sent: Sent) -> int:
        with contextlib.closing(http.client.HTTPConnection(self.host, timeout=120)) as connection:
            headers = {"content-type": "application/json", "x-api-key": sent.key}
            connection.request(sent.method, sent.path, sent.body, headers)
            usage = json.loads(connection.getresponse().read())["usage"]
        return int(usage["prompt_tokens_details"]["cached_tokens"])

    def costs_little(self, name: str, sent: Sequence[Sent]) -> None:
        """Send costly bodies; note it as a fault if they take much memory."""
        cost = self.measured(name, lambda: self.at_once(sent))
        if cost.peak_mb > _MOST_GROWTH_MB:
            self.faults.append(f"{name}: took {cost.peak_mb:.0f} MB")

    def at_once(self, bodies: Sequence[Sent], *, hangs_up: bool = False) -> None:
        """Send bodies from several clients side by side, all at once if they are few."""
        send = self.send_and_hang_up if hangs_up else self.send
        left = iter(bodies)
        lock = threading.Lock()

        def client() -> None:
            while True:
                with lock:
                    one = next(left, None)
                if one is None or self._server.process.poll() is not None:
                    return
                send(one)

        count = len(bodies) if len(bodies) <= _MOST_AT_ONCE else _CLIENTS
        threads = [threading.Thread(target=client) for _ in range(count)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def measured(self, name: str, act: Callable[[], object]) -> Cost:
        """Do something; print and return its cost for the other clients."""
        before_mb = self.memory_mb()
        self.canary.measured()
        is_over = threading.Event()
        peaks = [before_mb]
        watching = threading.Thread(target=self._watch, args=(is_over, peaks))
        watching.start()
        began_s = time.monotonic()
        try:
            act()
        finally:
            is_over.set()
            watching.join()
        took_s = time.monotonic() - began_s
        found = self.canary.measured()
        cost = Cost(found.gap_s, found.first_s, found.noise_s, max(peaks) - before_mb)
        print(
            f"{name:<46} {took_s:7.1f} s   longest gap {cost.gap_s * 1000:6.0f} ms (machine "
            f"{cost.noise_s * 1000:4.0f})   first text {cost.first_s * 1000:4.0f} ms   memory "
            f"{cost.peak_mb:+5.0f}, then {self.memory_mb() - before_mb:+5.0f} MB",
            flush=True,
        )
        return cost

    def _watch(self, is_over: threading.Event, peaks: list[float]) -> None:
        while not is_over.wait(_LOOK_S):
            peaks.append(self.memory_mb())

    def memory_mb(self) -> float:
        """Return the resident memory of the server and its helper processes; 0 if it is gone."""
        return sum(self.memory_by_process().values())

    def memory_by_process(self) -> dict[str, float]:
        """Return the resident memory in MB of the server and of each helper process, by name."""
        found: dict[str, float] = {}
        try:
            found["server"] = self._process.memory_info().rss / 1e6
            words = self._process.cmdline()
            for one in self._process.children():
                with contextlib.suppress(psutil.Error):
                    # A helper that has just been forked is still a copy of the server.
                    if (name := one.cmdline()) and name != words:
                        found[name[-1].rpartition(".")[2]] = one.memory_info().rss / 1e6
        except psutil.Error:
            return {}
        return found

    def at_rest_mb(self, rest_s: float, enough_mb: float = 0.0) -> float:
        """Print and return the least memory that the idle server takes.

        Args:
            rest_s: The longest wait for an idle server, in seconds; 0 takes the present memory.
            enough_mb: The wait ends as soon as the memory is no larger than this.
        """
        lowest = self.memory_by_process()
        ends_at_s = time.monotonic() + rest_s
        while time.monotonic() < ends_at_s and sum(lowest.values()) > enough_mb:
            time.sleep(_LOOK_S)
            lowest = min(lowest, self.memory_by_process(), key=lambda now: sum(now.values()))
        listed = ", ".join(f"{name} {size:.0f} MB" for name, size in sorted(lowest.items()))
        print(f"at rest: {listed}", flush=True)
        return sum(lowest.values())

    def end(self) -> list[str]:
        """End the canary and the server; return all faults."""
        faults = self.canary.end()
        has_died = self._server.process.poll()
        if has_died is not None:
            self.faults.append(f"the server died: exit code {has_died}")
        elif (code := self._server.end()) != 0:
            self.faults.append(f"the server ended with {code}")
        self.faults += [f"the server complained: {one.rstrip()}" for one in self._server.errors]
        return [*self.faults, *faults]


def _read(answer: http.client.HTTPResponse, until_s: float) -> bytes:
    """Return an answer, or the part that arrives in time: a stream can last for minutes."""
    said = b""
    while len(said) < _MOST_READ_BYTES and time.monotonic() < until_s:
        part = answer.read1(_PART_BYTES)
        if not part:
            break
        said += part
    return said


@dataclass(frozen=True)
class Size:
    """The size of the attack, and how exactly the memory is measured.

    Attributes:
        bodies: How many broken bodies are sent.
        schemas: How many random schemas are sent.
        warm_up: How many broken bodies are sent before the memory is measured.
        costly: How many kinds of small bodies that ask for much work are sent.
        is_heavy: Whether bodies of up to 31 MB are sent as well.
        is_exact: Whether the server rests before its memory is measured, and stands idle once to
            compare with. Otherwise its memory is only compared with the limit.
    """

    bodies: int
    schemas: int
    warm_up: int = 200
    costly: int = 100
    is_heavy: bool = False
    is_exact: bool = True


def attacked(size: Size, *, seed: int) -> list[str]:
    """Run the attacks; return the faults."""
    rng = random.Random(seed)
    attack = Attack()
    try:
        if size.is_exact:
            attack.measured("nothing", lambda: time.sleep(_IDLE_S))
        # The server keeps what the first requests load: libraries, arrays, threads.
        warm_up = [attacks.broken(rng) for _ in range(size.warm_up)]
        attack.measured(
            f"{size.warm_up} to warm up", lambda: attack.at_once(warm_up, hangs_up=True)
        )
        # Each helper process has started by now: its own memory does not count as growth.
        attack.at_once(attacks.helped())
        start_mb = attack.at_rest_mb(_REST_S if size.is_exact else 0.0)
        attack.measured(
            f"{size.bodies:,} broken bodies",
            lambda: attack.at_once(
                [attacks.broken(rng) for _ in range(size.bodies)], hangs_up=True
            ),
        )
        attack.measured(
            f"{size.schemas:,} random schemas",
            lambda: attack.at_once([attacks.constrained(rng) for _ in range(size.schemas)]),
        )
        attack.spy()
        for name, sent in itertools.islice(attacks.costly(), size.costly):
            attack.costs_little(name, sent)
        for name, sent in attacks.heavy() if size.is_heavy else ():
            attack.measured(name, functools.partial(attack.at_once, sent))
        if size.is_exact:
            end_mb = attack.at_rest_mb(_REST_S)
        else:
            end_mb = attack.at_rest_mb(_MOST_REST_S, start_mb + _MOST_GROWTH_MB)
        grown_mb = end_mb - start_mb
    finally:
        faults = attack.end()
    if grown_mb > _MOST_GROWTH_MB:
        faults.append(f"memory has grown by {grown_mb:.0f} MB")
    print(f"memory {grown_mb:+.0f} MB; answers by status: {dict(sorted(attack.statuses.items()))}")
    return faults


def main() -> int:
    """Run the attacks of the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=30_000)
    parser.add_argument("--schemas", type=int, default=5_000)
    parser.add_argument("--heavy", action="store_true", help="send bodies of up to 31 MB, too")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    size = Size(options.bodies, options.schemas, is_heavy=options.heavy)
    faults = attacked(size, seed=options.seed)
    for one in faults[:20]:
        print(f"FAULT {one}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

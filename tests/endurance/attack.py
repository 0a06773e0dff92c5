"""Attacks a server of its own and says what that cost everybody else.

    python -m tests.endurance.attack [--bodies 30000] [--schemas 5000] [--heavy] [--seed 1]

``fullstop serve`` runs in a process of its own. One stream, the canary, goes on all the while;
its longest gap, idle and under attack, is what an attack cost the others. Exit code 0 only if
nothing answered 5xx, the process lives, the canary's text is right and memory has not grown by
more than 200 MB. Gaps depend on the machine: they are printed and judged by the reader.
"""

import argparse
import http.client
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.conftest import ServeProcess
from tests.endurance import attacks

_CLIENTS = 4
_MOST_GROWTH_MB = 200
_CACHE_BYTES = 1 << 25
_IDLE_S = 3.0
_WARM_UP_BODIES = 200


@dataclass
class Canary:
    """A stream that counts for ever, and the longest time between two of its pieces.

    Attributes:
        gap_s: The longest gap since ``reset``.
        last_s: When the last piece came; None before a stream's first.
        streams: Streams that were read; one that reaches the end of the context begins anew.
        faults: What was wrong with them.
    """

    host: str
    gap_s: float = 0.0
    last_s: float | None = None
    streams: int = 0
    faults: list[str] = field(default_factory=list)

    def reset(self) -> float:
        """Return the longest gap, the one that is still open included, and measure anew."""
        now_s = time.monotonic()
        gap_s = self.gap_s if self.last_s is None else max(self.gap_s, now_s - self.last_s)
        self.gap_s, self.last_s = 0.0, now_s if self.last_s is not None else None
        return gap_s

    def sing(self, is_over: threading.Event) -> None:
        """Read streams until told to end."""
        body = {
            "model": "any",
            "stream": True,
            "max_completion_tokens": 400,
            "messages": [{"role": "user", "content": "Count from 1 to 100"}],
            "temperature": 0,
            "logit_bias": {"2": -100},
        }
        first: str | None = None
        while not is_over.is_set():
            text = self._stream(body, is_over)
            if is_over.is_set():
                return
            self.streams += 1
            first = text if first is None else first
            if text != first or not text:
                self.faults.append(f"the canary said something else: {text[:80]!r}")

    def _stream(self, body: dict[str, Any], is_over: threading.Event) -> str:
        connection = http.client.HTTPConnection(self.host, timeout=120)
        text = ""
        try:
            connection.request(
                "POST",
                "/v1/chat/completions",
                json.dumps(body),
                {"content-type": "application/json"},
            )
            answer = connection.getresponse()
            while not is_over.is_set() and (line := answer.readline()):
                if not line.startswith(b"data: {"):
                    continue
                now_s = time.monotonic()
                if self.last_s is not None:
                    self.gap_s = max(self.gap_s, now_s - self.last_s)
                self.last_s = now_s
                for choice in json.loads(line[6:])["choices"]:
                    text += choice["delta"].get("content") or ""
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.faults.append(f"the canary was broken off: {error!r}")
            time.sleep(0.2)
        finally:
            self.last_s = None
            connection.close()
        return text


class Attack:
    """A server under attack, and what was seen of it.

    Attributes:
        statuses: How often each status was answered; 0 for a broken connection.
        faults: What went wrong, in words.
    """

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.faults: list[str] = []
        # Earlier prompts are kept on purpose, up to a limit: here a small one.
        self._server = ServeProcess("--port", "0", "--prompt-cache-bytes", str(_CACHE_BYTES))
        self.host = self._server.wait_until_ready().removeprefix("http://")
        self.canary = Canary(self.host)
        self._is_over = threading.Event()
        self._singing = threading.Thread(target=self.canary.sing, args=(self._is_over,))
        self._singing.start()

    def post(self, path: str, body: bytes) -> int:
        """Send a body and read the whole answer; return its status, 0 if there is none."""
        connection = http.client.HTTPConnection(self.host, timeout=120)
        status = 0
        try:
            connection.request("POST", path, body, {"content-type": "application/json"})
            answer = connection.getresponse()
            status = answer.status
            said = answer.read()
        except (OSError, http.client.HTTPException) as error:
            said = repr(error).encode()
        finally:
            connection.close()
        self.statuses[status] += 1
        if status == 0 or status >= 500:
            self.faults.append(f"{status} {path} {body[:300]!r}: {said[:200]!r}")
        return status

    def at_once(self, bodies: list[tuple[str, bytes]]) -> None:
        """Send bodies from several clients side by side."""
        left = iter(bodies)
        lock = threading.Lock()

        def client() -> None:
            while True:
                with lock:
                    one = next(left, None)
                if one is None or self._server.process.poll() is not None:
                    return
                self.post(*one)

        clients = [threading.Thread(target=client) for _ in range(_CLIENTS)]
        for one in clients:
            one.start()
        for one in clients:
            one.join()

    def measured(self, name: str, act: Callable[[], object]) -> None:
        """Do something and print what it cost: the canary's longest gap, and memory."""
        before_mb = self.memory_mb()
        self.canary.reset()
        began_s = time.monotonic()
        act()
        took_s = time.monotonic() - began_s
        print(
            f"{name:<44} {took_s:7.1f} s   longest gap {self.canary.reset() * 1000:6.0f} ms   "
            f"memory {self.memory_mb() - before_mb:+5.0f} MB",
            flush=True,
        )

    def memory_mb(self) -> float:
        """Return the server's resident memory; 0 if it is gone."""
        try:
            status = Path(f"/proc/{self._server.process.pid}/status").read_text()
        except OSError:
            return 0.0
        [line] = [one for one in status.splitlines() if one.startswith("VmRSS")] or ["VmRSS 0"]
        return int(line.split()[1]) / 1000

    def end(self) -> list[str]:
        """End the canary and the server; return all that was wrong."""
        self._is_over.set()
        self._singing.join()
        has_died = self._server.process.poll()
        if has_died is not None:
            self.faults.append(f"the server died: exit code {has_died}")
        elif (code := self._server.end()) != 0:
            self.faults.append(f"the server ended with {code}")
        return [*self.faults, *self.canary.faults]


def attacked(bodies: int, schemas: int, *, is_heavy: bool, seed: int) -> list[str]:
    """Run the attacks; return what went wrong."""
    rng = random.Random(seed)
    attack = Attack()
    try:
        attack.measured("nothing", lambda: time.sleep(_IDLE_S))
        # What the first requests need is kept for the next ones: libraries, arrays, threads.
        warm_up = [attacks.broken(rng) for _ in range(_WARM_UP_BODIES)]
        attack.measured(f"{_WARM_UP_BODIES} to warm up", lambda: attack.at_once(warm_up))
        start_mb = attack.memory_mb()
        attack.measured(
            f"{bodies:,} broken bodies",
            lambda: attack.at_once([attacks.broken(rng) for _ in range(bodies)]),
        )
        attack.measured(
            f"{schemas:,} random schemas",
            lambda: attack.at_once([attacks.constrained(rng) for _ in range(schemas)]),
        )
        for name, path, body in attacks.heavy() if is_heavy else ():
            attack.measured(f"{name}, {path}", lambda path=path, body=body: attack.post(path, body))  # type: ignore[misc]
        grown_mb = attack.memory_mb() - start_mb
    finally:
        faults = attack.end()
    if grown_mb > _MOST_GROWTH_MB:
        faults.append(f"memory has grown by {grown_mb:.0f} MB")
    print(f"memory {grown_mb:+.0f} MB; answers by status: {dict(sorted(attack.statuses.items()))}")
    return faults


def main() -> int:
    """Run the attacks as the command line says."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bodies", type=int, default=30_000)
    parser.add_argument("--schemas", type=int, default=5_000)
    parser.add_argument("--heavy", action="store_true", help="send bodies of up to 31 MB, too")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    faults = attacked(options.bodies, options.schemas, is_heavy=options.heavy, seed=options.seed)
    for one in faults[:20]:
        print(f"FAULT {one}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

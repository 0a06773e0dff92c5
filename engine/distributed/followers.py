"""The other processes of one engine, as rank 0 sees them: it tells them what it does.

Knows no model. Orders go out from the engine thread; a thread for each follower listens to what it
says and notices when it is lost, which is for good.
"""

import contextlib
import json
import queue
import secrets
import socket
import threading
import time
from collections.abc import Callable, Sequence

from engine.distributed.arrivals import Arrivals
from engine.distributed.link import SILENCE_S, Link, LinkLost
from engine.distributed.messages import (
    End,
    Failed,
    Hello,
    Loaded,
    Message,
    encoded,
)
from engine.distributed.world import World
from engine.errors import EngineError

# They have met by MLX's own means a moment ago.
_ARRIVAL_S = 30.0
_GLANCE_S = 0.2


class RankLost(EngineError):
    """A process of the engine is gone or out of step, and with it the engine."""


class Followers:
    """Rank 0's connections to all others.

    Args:
        world: This process and its peers.
        versions: What all have to run.
        on_lost: Told once, with the reason, when one is lost (any thread).
        silence_s: One is lost when nothing was heard of it for so long.
    """

    def __init__(
        self,
        world: World,
        versions: str,
        on_lost: Callable[[str], None],
        silence_s: float = SILENCE_S,
    ) -> None:
        self._world = world
        self._versions = versions
        self._on_lost = on_lost
        self._silence_s = silence_s
        self._secret = secrets.token_hex(16)
        self._links: dict[int, Link] = {}
        self._loaded: queue.SimpleQueue[tuple[int, Loaded]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._why = ""
        home = world.hosts[0]
        # Cables between two machines may be addresses that a third one cannot reach, so others
        # may be tried. The secret, which went through MLX's connections, keeps strangers out.
        place = home if home.startswith("127.") else ""
        listener = socket.create_server((place, 0), backlog=64)
        self._port = listener.getsockname()[1]
        self._arrivals = Arrivals(listener, self._secret.encode())

    def invitation(self) -> bytes:
        """Return what followers have to know to find this process."""
        home = self._world.hosts[0]
        others = [] if home.startswith("127.") else _own_addresses()
        hosts = list(dict.fromkeys([home, *others]))[:16]
        told = {"hosts": hosts, "port": self._port, "secret": self._secret}
        return json.dumps(told).encode()

    def gather(self) -> None:
        """Wait for all of them; raises ``RankLost`` for those that do not come."""
        deadline_s = time.monotonic() + _ARRIVAL_S
        while len(self._links) < self._world.size - 1:
            try:
                connection = self._arrivals.next(deadline_s - time.monotonic())
            except TimeoutError:
                missing = set(range(1, self._world.size)) - set(self._links)
                names = ", ".join(self._world.name_of(rank) for rank in sorted(missing))
                raise self.lose(f"{names} did not connect within {_ARRIVAL_S:g} s") from None
            except ConnectionAbortedError:
                self.check()
                raise
            self._greet(connection)
        self._arrivals.close()
        for rank, link in self._links.items():
            link.show_life()
            threading.Thread(
                target=self._listen, args=(rank, link), name=f"fullstop-rank-{rank}", daemon=True
            ).start()

    def _greet(self, connection: socket.socket) -> None:
        link = Link(connection, self._silence_s)
        hello: Message | None
        try:
            hello = link.receive()
        except LinkLost:
            hello = None
        if not isinstance(hello, Hello) or hello.rank not in range(1, self._world.size):
            link.close()  # it ended at once, or is no follower
            return
        if hello.versions != self._versions:
            link.close()
            name = self._world.name_of(hello.rank)
            raise self.lose(
                f"{name} runs {hello.versions}, rank 0 runs {self._versions}; "
                "install the same versions on all machines"
            )
        self._links[hello.rank] = link

    # -- telling them ----------------------------------------------------------------------

    def announce(self, message: Message) -> None:
        """Tell all of them (engine thread); raises ``RankLost``."""
        self.announce_bytes(encoded(message))

    def announce_bytes(self, payload: bytes) -> None:
        """Tell all of them what is encoded already; raises ``RankLost``."""
        self.check()
        for rank, link in self._links.items():
            try:
                link.send_bytes(payload)
            except LinkLost as lost:
                raise self._lose_rank(rank, str(lost)) from lost

    def wait_until_loaded(self) -> list[tuple[int, Loaded]]:
        """Return what each of them says of its part of the model; raises ``RankLost``."""
        replies: list[tuple[int, Loaded]] = []
        while len(replies) < len(self._links):
            self.check()
            with contextlib.suppress(queue.Empty):
                replies.append(self._loaded.get(timeout=_GLANCE_S))
        return sorted(replies, key=lambda reply: reply[0])

    def end(self) -> None:
        """Let all of them go; what happens to them from now on is no loss. Any thread."""
        with self._lock:
            self._is_over.set()
        self._arrivals.close()
        for link in self._links.values():
            with contextlib.suppress(LinkLost):
                link.send(End())
            link.close()

    # -- losing one ------------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether one of them is lost, or all were let go."""
        return self._is_over.is_set()

    def check(self) -> None:
        """Raise ``RankLost`` if one of them is lost, or all were let go."""
        if self._is_over.is_set():
            raise RankLost(self._why or "the engine's other processes have been ended")

    def lose(self, why: str) -> RankLost:
        """Note that the engine cannot go on, and return the error that says so. Any thread."""
        with self._lock:
            is_first = not self._is_over.is_set()
            if is_first:
                self._why = why
                self._is_over.set()
        if is_first:
            self._on_lost(why)
        return RankLost(self._why or why)

    def blame(self, error: Exception) -> RankLost:
        """Return what to raise for a step that failed here; nobody is in step after that."""
        # A lost process shows as a failure of MLX, at the same moment or a little before.
        self._is_over.wait(1.0)
        return self.lose(
            f"a step failed on rank 0 ({type(error).__name__}: {error}), "
            "and the processes are no longer in step"
        )

    def _lose_rank(self, rank: int, why: str) -> RankLost:
        return self.lose(f"{self._world.name_of(rank)} is lost: {why}")

    def _listen(self, rank: int, link: Link) -> None:
        try:
            while True:
                match link.receive():
                    case Loaded() as reply:
                        self._loaded.put((rank, reply))
                    case Failed(why):
                        self.lose(f"{self._world.name_of(rank)} failed: {why}")
                        return
                    case _:
                        pass
        except LinkLost as lost:
            self._lose_rank(rank, str(lost))


def _own_addresses() -> Sequence[str]:
    """Return this machine's IPv4 addresses, those that only it can reach left out."""
    import psutil  # alone, nobody needs it

    return [
        place.address
        for places in psutil.net_if_addrs().values()
        for place in places
        if place.family == socket.AF_INET and not place.address.startswith("127.")
    ]

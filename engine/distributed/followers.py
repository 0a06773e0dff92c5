"""The other processes, as rank 0 sees them: who has arrived, and what each has confirmed."""

import contextlib
import hmac
import json
import queue
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence

from engine.distributed.link import (
    NOTICED_S,
    SILENCE_S,
    End,
    Failed,
    Hello,
    Link,
    LinkLost,
    Message,
    ShardLoaded,
    encoded,
)
from engine.distributed.world import World
from engine.errors import EngineError

# Nothing that a stranger sends is parsed, and a stranger delays nobody: all new connections are
# read side by side. Blocking; one thread, except for ``close``.

# Beyond this many unproven connections the oldest is dropped.
_MAX_PENDING = 64


class Arrivals:
    """The connections that arrive at a listener."""

    def __init__(self, listener: socket.socket, secret: bytes, patience_s: float = 5.0) -> None:
        self._listener = listener
        self._secret = secret
        self._patience_s = patience_s
        self._pending: dict[socket.socket, tuple[float, bytearray]] = {}
        self._is_closed = False
        self._selector = selectors.DefaultSelector()
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ)

    def next(self, within_s: float) -> socket.socket:
        """Wait for the next connection that proves that it belongs to this launch."""
        deadline_s = time.monotonic() + within_s
        while True:
            now_s = time.monotonic()
            self._drop_late(now_s)
            if now_s >= deadline_s:
                raise TimeoutError
            patience_ends_s = min((until for until, _ in self._pending.values()), default=now_s + 1)
            wait_s = max(0.0, min(deadline_s, patience_ends_s) - now_s)
            try:
                ready = self._selector.select(wait_s)
            except (OSError, ValueError):  # what a selector raises that was closed
                ready = []
            if self._is_closed:
                raise ConnectionAbortedError("the listener was closed")
            for key, _ in ready:
                connection = key.fileobj
                assert isinstance(connection, socket.socket)
                if connection is self._listener:
                    self._accept()
                elif connection in self._pending and self._proves(connection):
                    return connection

    def close(self) -> None:
        """Accept no more connections, and drop those that have proved nothing. Any thread."""
        if self._is_closed:
            return
        self._is_closed = True
        self._selector.close()
        for connection in (self._listener, *self._pending):
            with contextlib.suppress(OSError):
                connection.close()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # the client has left already
        connection.setblocking(False)
        if len(self._pending) >= _MAX_PENDING:
            self._drop(next(iter(self._pending)))
        self._pending[connection] = (time.monotonic() + self._patience_s, bytearray())
        self._selector.register(connection, selectors.EVENT_READ)

    def _proves(self, connection: socket.socket) -> bool:
        """Read more of the secret; drop the connection if it sends anything else."""
        _, said = self._pending[connection]
        try:
            part = connection.recv(len(self._secret) - len(said))
        except BlockingIOError:
            return False
        except OSError:
            part = b""
        said += part
        if part and len(said) < len(self._secret):
            return False
        if not hmac.compare_digest(bytes(said), self._secret):
            self._drop(connection)
            return False
        del self._pending[connection]
        self._selector.unregister(connection)
        connection.setblocking(True)
        return True

    def _drop_late(self, now_s: float) -> None:
        for connection, (until, _) in list(self._pending.items()):
            if until <= now_s:
                self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._pending[connection]
        self._selector.unregister(connection)
        with contextlib.suppress(OSError):
            connection.close()


# The engine thread sends orders; one thread for each follower receives its replies and notices
# when it is lost. A lost follower does not come back.

# Short, because MLX has connected the same processes a moment ago.
_ARRIVAL_S = 30.0
_GLANCE_S = 0.2


class RankLost(EngineError):
    """A process of the engine has ended or is out of step, so the engine cannot continue."""


class Followers:
    """Rank 0's connections to all others."""

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
        self._loaded: queue.SimpleQueue[tuple[int, ShardLoaded]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_over = threading.Event()
        self._why = ""
        home = world.hosts[0]
        # A direct cable between two machines has an address that a third machine cannot reach, so
        # followers may try other addresses. The secret, which MLX's connections carried, keeps
        # strangers out.
        place = home if home.startswith("127.") else ""
        listener = socket.create_server((place, 0), backlog=64)
        self._port = listener.getsockname()[1]
        self._arrivals = Arrivals(listener, self._secret.encode())

    def invitation(self) -> bytes:
        """Return what followers need to connect to this process, as JSON."""
        home = self._world.hosts[0]
        others = [] if home.startswith("127.") else _own_addresses()
        hosts = list(dict.fromkeys([home, *others]))[:16]
        told = {"hosts": hosts, "port": self._port, "secret": self._secret}
        return json.dumps(told).encode()

    def gather(self) -> None:
        """Wait until all followers have connected; raises ``RankLost`` if one does not."""
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
            link.send_keepalives()
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
            link.close()  # it ended at once, or is not a follower
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
        """Send a message to all followers (engine thread); raises ``RankLost``."""
        self.announce_bytes(encoded(message))

    def announce_bytes(self, payload: bytes) -> None:
        """Send an encoded message to all followers; raises ``RankLost``."""
        self.check()
        for rank, link in self._links.items():
            try:
                link.send_bytes(payload)
            except LinkLost as lost:
                raise self._lose_rank(rank, str(lost)) from lost

    def wait_until_loaded(self) -> list[tuple[int, ShardLoaded]]:
        """Return each follower's reply about its shard, by rank; raises ``RankLost``."""
        replies: list[tuple[int, ShardLoaded]] = []
        while len(replies) < len(self._links):
            self.check()
            with contextlib.suppress(queue.Empty):
                replies.append(self._loaded.get(timeout=_GLANCE_S))
        return sorted(replies, key=lambda reply: reply[0])

    def end(self) -> None:
        """Tell all followers to end; from now on none of them can be lost. Any thread."""
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
        """Whether a follower is lost, or all were told to end."""
        return self._is_over.is_set()

    def check(self) -> None:
        """Raise ``RankLost`` if a follower is lost, or all were told to end."""
        if self._is_over.is_set():
            raise RankLost(self._why or "the engine's other processes have been ended")

    def lose(self, why: str) -> RankLost:
        """Note that the engine cannot continue, and return the error that says so. Any thread."""
        with self._lock:
            is_first = not self._is_over.is_set()
            if is_first:
                self._why = why
                self._is_over.set()
        if is_first:
            self._on_lost(why)
        return RankLost(self._why or why)

    def blame(self, error: Exception) -> RankLost:
        """Return the error for a step that failed on rank 0: no process is in step after it."""
        # A lost process makes MLX fail here, perhaps a moment before its loss is noticed.
        self._is_over.wait(NOTICED_S)
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
                    case ShardLoaded() as reply:
                        self._loaded.put((rank, reply))
                    case Failed(why):
                        self.lose(f"{self._world.name_of(rank)} failed: {why}")
                        return
                    case _:
                        pass
        except LinkLost as lost:
            self._lose_rank(rank, str(lost))


def _own_addresses() -> Sequence[str]:
    """Return this machine's IPv4 addresses that other machines may reach."""
    import psutil  # only several processes need it

    return [
        place.address
        for places in psutil.net_if_addrs().values()
        for place in places
        if place.family == socket.AF_INET and not place.address.startswith("127.")
    ]

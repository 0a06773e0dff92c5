"""Rank 0's connections to the other ranks.

An order is the name of a method of ``FollowingBatch`` with its arguments, pickled. A lost rank does
not come back: every answer ends with its error until all processes are restarted, which MLX's
launcher enforces by ending the others. Engine thread, except for ``end``.
"""

import contextlib
import hmac
import json
import os
import secrets
import socket
from multiprocessing.connection import Connection, wait
from typing import Any

from engine.distributed.world import World
from engine.errors import EngineError

_CONNECT_S = 30.0
# For a rank's first message, and for the cause of a step that MLX failed a moment before.
_REPLY_S = 5.0


class Ranks:
    """Sends orders to all other ranks.

    Attributes:
        lost: Why a rank is lost; empty while none is.
    """

    def __init__(self, world: World, versions: str) -> None:
        self.lost = ""
        self._world = world
        self._versions = versions
        self._secret = secrets.token_hex(16)
        self._connections: dict[int, Connection] = {}
        # A cable between two machines has an address that a third machine cannot reach, so ranks
        # try all addresses. The secret, which MLX's connections carry, keeps others out.
        self._is_local = world.hosts[0].startswith("127.")
        self._listener = socket.create_server(("127.0.0.1" if self._is_local else "", 0))
        self._listener.settimeout(_CONNECT_S)

    def invitation(self) -> bytes:
        """Return the addresses, the port and the secret of this process, as JSON."""
        hosts = [self._world.hosts[0], *([] if self._is_local else _own_addresses())]
        port = self._listener.getsockname()[1]
        return json.dumps([list(dict.fromkeys(hosts))[:16], port, self._secret]).encode()

    def connect(self) -> None:
        """Wait until all ranks have connected; raises ``EngineError``."""
        while missing := set(range(1, self._world.size)) - set(self._connections):
            try:
                accepted, _ = self._listener.accept()
            except OSError as error:
                names = ", ".join(map(self._world.name_of, sorted(missing)))
                raise self._lose(f"{names} did not connect within {_CONNECT_S:g} s") from error
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            rank, versions = self._receive_hello(accepted)
            if rank not in missing:
                accepted.close()
            elif versions != self._versions:
                raise self._lose(
                    f"{self._world.name_of(rank)} runs {versions}, rank 0 runs {self._versions}; "
                    "install the same versions on all machines"
                )
            else:
                self._connections[rank] = Connection(accepted.detach())
        self._listener.close()

    def send(self, order: str, *arguments: Any) -> None:
        """Send an order to all ranks; raises ``EngineError``."""
        self.check()
        for rank, connection in self._connections.items():
            try:
                connection.send((order, arguments))
            except OSError as error:
                raise self._end_of(rank) from error

    def receive(self) -> list[tuple[int, Any]]:
        """Wait for each rank's reply; raises ``EngineError``."""
        replies: list[tuple[int, Any]] = []
        for rank, connection in sorted(self._connections.items()):
            try:
                replies.append((rank, connection.recv()))
            except (EOFError, OSError) as error:
                raise self._end_of(rank) from error
        return replies

    def check(self) -> None:
        """Raise ``EngineError`` if a rank is lost."""
        if self.lost:
            raise EngineError(self.lost)

    def fail_step(self, error: Exception) -> EngineError:
        """Return the error of a step that failed on rank 0: the ranks are out of step after it."""
        self.check()
        ready = wait(list(self._connections.values()), _REPLY_S)
        for rank, connection in self._connections.items():
            if connection in ready:
                try:
                    return self._lose(f"{self._world.name_of(rank)} failed: {connection.recv()}")
                except (EOFError, OSError):
                    return self._end_of(rank)
        return self._lose(f"a step failed on rank 0 ({type(error).__name__}: {error})")

    def fault(self) -> str:
        """Return why a rank is lost, also while the engine thread waits for it. Any thread."""
        for rank, connection in self._connections.items():
            if self.lost:
                break
            with socket.socket(fileno=os.dup(connection.fileno())) as peer:
                try:
                    has_ended = not peer.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
                except BlockingIOError:
                    continue
                except OSError:
                    has_ended = True
            if has_ended:
                self._end_of(rank)
        return self.lost

    def end(self) -> None:
        """End all ranks. Any thread; the engine must have been shut down."""
        self._listener.close()
        for connection in self._connections.values():
            with contextlib.suppress(OSError):
                connection.send(("end", ()))
            connection.close()

    def _end_of(self, rank: int) -> EngineError:
        return self._lose(f"{self._world.name_of(rank)} is lost: its process has ended")

    def _lose(self, why: str) -> EngineError:
        self.lost = f"{why}; restart Fullstop on all machines"
        return EngineError(self.lost)

    def _receive_hello(self, accepted: socket.socket) -> tuple[int, str]:
        """Return a process's rank and versions; nothing is unpickled before it sends the secret."""
        with contextlib.suppress(EOFError, OSError):
            accepted.settimeout(_REPLY_S)
            secret = accepted.recv(len(self._secret))  # so little arrives in one piece
            if hmac.compare_digest(secret, self._secret.encode()):
                accepted.settimeout(None)
                with Connection(os.dup(accepted.fileno())) as connection:
                    rank, versions = connection.recv()
                return rank, versions
        return 0, ""


def _own_addresses() -> list[str]:
    """Return this machine's IPv4 addresses that other machines may reach."""
    import psutil  # only several processes need it

    return [
        address.address
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family == socket.AF_INET and not address.address.startswith("127.")
    ]

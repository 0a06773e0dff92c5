"""Admits the connections that begin with the secret of this launch, and drops all others.

Nothing that a stranger sends is parsed, and a stranger delays nobody: all new connections are
read side by side. Blocking; one thread, except for ``close``.
"""

import contextlib
import hmac
import selectors
import socket
import time

# Beyond this many unproven connections the oldest is dropped.
_MOST_PENDING = 64


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
        if len(self._pending) >= _MOST_PENDING:
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
        for connection in [one for one, (until, _) in self._pending.items() if until <= now_s]:
            self._drop(connection)

    def _drop(self, connection: socket.socket) -> None:
        del self._pending[connection]
        self._selector.unregister(connection)
        with contextlib.suppress(OSError):
            connection.close()

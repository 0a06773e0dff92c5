"""The connection between two processes that share a model: messages, and how they are sent."""

import contextlib
import json
import select
import socket
import struct
import threading
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.files.causes import os_cause
from engine.values.request import PERSON

# Goes up with every change that an older process would not understand.
PROTOCOL = 8


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower's first message, once it has proved that it belongs to this launch."""

    rank: int
    versions: str


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Shows that the sender is still running; sent in both directions."""


@dataclass(frozen=True, slots=True)
class LoadShard:
    """Load this process's shard of a model."""

    folder: str
    fingerprint: str
    prefill_chunk: int
    max_sequences: int


@dataclass(frozen=True, slots=True)
class ShardLoaded:
    """The shard is loaded, or why not."""

    weights_bytes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """Add a sequence to the batch."""

    tokens: list[int]
    number: int
    cached: int
    kept: int
    turn_end: int = 0
    scored_from: int | None = None
    owner: str = PERSON.name


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Step the batch once."""

    chunk: int
    lane: int = 0
    together: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    """Take sequences out of the batch; ``written`` are the tokens that rank 0 sampled for each."""

    numbers: list[int]
    written: list[list[int]]


@dataclass(frozen=True, slots=True)
class Close:
    """Free the model."""


@dataclass(frozen=True, slots=True)
class End:
    """End this process; nothing is wrong."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A follower could not carry out an order."""

    why: str


Message = (
    Hello | Keepalive | LoadShard | ShardLoaded | Insert | StepBatch | Leave | Close | End | Failed
)

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Hello,
        Keepalive,
        LoadShard,
        ShardLoaded,
        Insert,
        StepBatch,
        Leave,
        Close,
        End,
        Failed,
    )
}


def encoded(message: Message) -> bytes:
    """Return a message's bytes."""
    return json.dumps([type(message).__name__, asdict(message)], separators=(",", ":")).encode()


def decoded(payload: bytes) -> Message:
    """Return the message in these bytes; raises ``ValueError`` if they are not a message."""
    try:
        name, fields = json.loads(payload)
        message: Message = _KINDS[name](**fields)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"not a message of Fullstop: {payload[:60]!r}") from error
    return message


# One thread calls ``receive``; any may call ``send``.

_LENGTH = struct.Struct(">I")
# A prompt of a million tokens is an eighth of this.
_LONGEST_BYTES = 1 << 26
# After this much silence the other end counts as lost: asleep, unplugged, or stuck.
SILENCE_S = 20.0
# So many short waits, not a long one: where this process itself was stopped for a while (by Ctrl-Z,
# or with its whole machine), a single one of them runs out before the next keepalive arrives.
_KEEPALIVES_PER_SILENCE = 6
# A step fails where a peer has ended; how long the link may take to say so, too.
NOTICED_S = 5.0


class LinkLost(ConnectionError):
    """The other end is lost; the message says how that was noticed."""


class Link:
    """Sends and receives messages over a connected socket, which it owns."""

    def __init__(self, connection: socket.socket, silence_s: float = SILENCE_S) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self._connection = connection
        self._silence_s = silence_s
        self._sending = threading.Lock()
        self._is_closed = threading.Event()

    def send(self, message: Message) -> None:
        """Send a message; raises ``LinkLost``."""
        self.send_bytes(encoded(message))

    def send_bytes(self, payload: bytes) -> None:
        """Send a message that is encoded already; raises ``LinkLost``."""
        try:
            with self._sending:
                self._send_all(_LENGTH.pack(len(payload)) + payload)
        except TimeoutError:
            raise LinkLost(f"it received nothing for {self._silence_s:g} s") from None
        except OSError as error:
            raise LinkLost(_in_words(error)) from error

    def receive(self) -> Message:
        """Wait for a message; raises ``LinkLost``."""
        try:
            [length] = _LENGTH.unpack(self._exactly(_LENGTH.size))
            if length > _LONGEST_BYTES:
                raise LinkLost("it sent something that is not a message of Fullstop")
            return decoded(self._exactly(length))
        except TimeoutError:
            raise LinkLost(f"it was silent for {self._silence_s:g} s") from None
        except ValueError as error:
            raise LinkLost("it sent something that is not a message of Fullstop") from error
        except LinkLost:
            raise
        except OSError as error:
            raise LinkLost(_in_words(error)) from error

    def send_keepalives(self) -> None:
        """Send keepalives from a separate thread until the link is closed."""
        threading.Thread(target=self._keep_alive, name="fullstop-keepalive", daemon=True).start()

    def close(self) -> None:
        """Close the connection; a thread that waits for it gets ``LinkLost``."""
        self._is_closed.set()
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        self._connection.close()

    def _exactly(self, count: int) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            self._wait_until_ready(select.POLLIN)
            try:
                part = self._connection.recv(count - len(parts))
            except BlockingIOError:
                continue  # there was nothing after all
            if not part:
                raise LinkLost("its process has ended")
            parts += part
        return bytes(parts)

    def _send_all(self, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            try:
                rest = rest[self._connection.send(rest) :]
            except BlockingIOError:
                self._wait_until_ready(select.POLLOUT)

    def _wait_until_ready(self, event: int) -> None:
        """Wait until something can be received or sent; raises ``TimeoutError``."""
        if self._connection.fileno() < 0:
            raise ConnectionAbortedError("the link is closed")
        poll = select.poll()
        poll.register(self._connection, event)
        for _ in range(_KEEPALIVES_PER_SILENCE):
            if poll.poll(1000 * self._silence_s / _KEEPALIVES_PER_SILENCE):
                return
        raise TimeoutError

    def _keep_alive(self) -> None:
        payload = encoded(Keepalive())
        with contextlib.suppress(LinkLost):  # the receiving thread notices it too
            while not self._is_closed.wait(self._silence_s / _KEEPALIVES_PER_SILENCE):
                self.send_bytes(payload)


def _in_words(error: OSError) -> str:
    if isinstance(error, ConnectionError):
        return "its process has ended"
    return os_cause(error)

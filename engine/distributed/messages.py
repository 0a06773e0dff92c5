"""The messages between the processes of one engine, and their bytes on the wire.

Pure values; knows no socket and no model. Any thread.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from engine.values.request import PERSON

# Goes up with every change that an older process would not understand.
PROTOCOL = 7


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
    rows: int


@dataclass(frozen=True, slots=True)
class ShardLoaded:
    """The shard is loaded, or why not."""

    weights_bytes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """Add a row to the batch."""

    tokens: list[int]
    row: int
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
    """Take rows out of the batch; ``written`` are the tokens that rank 0 sampled for each."""

    rows: list[int]
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

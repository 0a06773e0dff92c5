"""What the processes of one engine tell each other, and its bytes on the wire.

Pure values; knows no socket and no model. Any thread.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

# Raised with every change that an older process would not understand.
PROTOCOL = 3


@dataclass(frozen=True, slots=True)
class Hello:
    """A follower's first message, once it has proved that it belongs to this launch.

    Attributes:
        rank: Its rank.
        versions: The programs that have to be the same everywhere.
    """

    rank: int
    versions: str


@dataclass(frozen=True, slots=True)
class Pulse:
    """A sign of life, in both directions."""


@dataclass(frozen=True, slots=True)
class Load:
    """Load this process's part of a model.

    Attributes:
        folder: Where it is; a leading ``~`` is the home of whoever reads it.
        mark: What ``engine.distributed.copies.mark_of`` says of the copy on rank 0.
        prefill_chunk: Most tokens of a prompt read in one step.
        rows: Most rows at once.
    """

    folder: str
    mark: str
    prefill_chunk: int
    rows: int


@dataclass(frozen=True, slots=True)
class Loaded:
    """The part is loaded, or why not.

    Attributes:
        weights_bytes: The memory that its weights take.
        error: Why it could not be loaded; empty if it was.
    """

    weights_bytes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Insert:
    """Add a row to the batch.

    Attributes:
        tokens: Its prompt.
        row: The number it must get.
        cached: How many of its tokens must be found in the cache of prompts.
        kept: How many earlier prompts are kept at this moment.
    """

    tokens: list[int]
    row: int
    cached: int
    kept: int


@dataclass(frozen=True, slots=True)
class Step:
    """Step the batch once; ``chunk`` tokens of each prompt may be read, or none."""

    chunk: int


@dataclass(frozen=True, slots=True)
class Leave:
    """Take a row out of the batch; ``written`` are the tokens that rank 0 drew for it."""

    row: int
    written: list[int]


@dataclass(frozen=True, slots=True)
class Close:
    """Free the model."""


@dataclass(frozen=True, slots=True)
class End:
    """All is over; this is no fault."""


@dataclass(frozen=True, slots=True)
class Failed:
    """A follower could not do as it was told."""

    why: str


Message = Hello | Pulse | Load | Loaded | Insert | Step | Leave | Close | End | Failed

_KINDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (Hello, Pulse, Load, Loaded, Insert, Step, Leave, Close, End, Failed)
}


def encoded(message: Message) -> bytes:
    """Return a message's bytes."""
    return json.dumps([type(message).__name__, asdict(message)], separators=(",", ":")).encode()


def decoded(payload: bytes) -> Message:
    """Return the message of these bytes; raises ``ValueError`` where there is none."""
    try:
        name, fields = json.loads(payload)
        message: Message = _KINDS[name](**fields)
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"no message of ours: {payload[:60]!r}") from error
    return message

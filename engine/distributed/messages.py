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
    """A follower's first message, once it has proved that it belongs to this launch.

    Attributes:
        rank: Its rank.
        versions: The versions of the libraries, which must be the same everywhere.
    """

    rank: int
    versions: str


@dataclass(frozen=True, slots=True)
class Keepalive:
    """Shows that the sender is still running; sent in both directions."""


@dataclass(frozen=True, slots=True)
class LoadShard:
    """Load this process's shard of a model.

    Attributes:
        folder: Its folder; a leading ``~`` is the home of the user who reads it.
        fingerprint: The fingerprint of the copy on rank 0; see ``engine.distributed.copies``.
        prefill_chunk: Most tokens of a prompt read in one step.
        rows: Most rows at once.
    """

    folder: str
    fingerprint: str
    prefill_chunk: int
    rows: int


@dataclass(frozen=True, slots=True)
class ShardLoaded:
    """The shard is loaded, or why not.

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
        row: The number that it must get.
        cached: How many of its tokens must be found in the prompt cache.
        kept: How many entries the prompt cache holds before that.
        turn_end: The number of tokens up to the end of its last turn; 0 where not known.
        scored_from: The first token of the prompt that is scored; None where none is. All processes
            compute the scores, because all must make the same exchanges.
        owner: The name of the owner of the caches that it uses and leaves.
    """

    tokens: list[int]
    row: int
    cached: int
    kept: int
    turn_end: int = 0
    scored_from: int | None = None
    owner: str = PERSON.name


@dataclass(frozen=True, slots=True)
class StepBatch:
    """Step the batch once.

    Attributes:
        chunk: Most tokens of each prompt that are read; 0 decodes alone.
        lane: The lane whose prompts are read.
        together: Most prompts that are read together.
    """

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

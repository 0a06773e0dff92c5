"""What rank 0 sends to the other ranks, and their reply, as pickled over a connection."""

from dataclasses import dataclass

from engine.values.request import PERSON

# Goes up with every change that an older process would not understand.
PROTOCOL = 10


@dataclass(frozen=True, slots=True)
class LoadShard:
    """Load this rank's shard of a model; the only order with a reply."""

    folder: str
    fingerprint: str
    prefill_chunk: int
    max_sequences: int


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

    max_tokens: int


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


Order = LoadShard | Insert | StepBatch | Leave | Close | End


@dataclass(frozen=True, slots=True)
class Reply:
    """The shard is loaded, or why an order failed."""

    weights_bytes: int = 0
    error: str = ""

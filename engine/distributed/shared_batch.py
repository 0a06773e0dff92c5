"""A batch whose model is shared out among several processes."""

import time
from collections import abc
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import mlx.core as mx

from engine.distributed.orders import PROTOCOL, Close, Insert, Leave, StepBatch
from engine.distributed.ranks import Ranks
from engine.distributed.world import BadLaunch, Meeting, World
from engine.errors import EngineError, InvalidRequest, ModelLoadFailed
from engine.inference.backend import BatchLimits, Step
from engine.inference.batch import RunningBatch
from engine.inference.embedding import TextReader
from engine.inference.prompt_scoring import PromptScorer
from engine.inference.sequence import Sequence
from engine.values.request import CacheOwner
from engine.values.tokens import PromptScoring

_ROOM_BYTES = 2048
# Part of MLX 0.32's error for a process that does not listen yet.
_NOT_LISTENING = "Couldn't connect"
_TRIED_AGAIN_AFTER_S = 0.5
_HEADS = ("num_attention_heads", "num_key_value_heads")


def meet(world: World) -> Meeting:
    """Wait for the other processes and connect to them; no other Python thread runs meanwhile."""
    while True:
        try:
            group = mx.distributed.init(strict=True, backend=world.transport)
            break
        except (RuntimeError, ValueError) as error:
            if _NOT_LISTENING not in str(error):
                raise BadLaunch(f"MLX cannot reach the other processes: {error}") from error
            # MLX gives up after half a minute; a slow machine may need longer to start Python.
            time.sleep(_TRIED_AGAIN_AFTER_S)
    if (group.rank(), group.size()) != (world.rank, world.size):
        raise BadLaunch("MLX and the launcher do not agree on the number of processes")
    return Meeting(world, group)


def versions() -> str:
    """Return the versions that must be the same everywhere."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("mlx", "mlx-lm"))
    return f"{libraries}, protocol {PROTOCOL}"


def shared(group: Any, payload: bytes) -> bytes:
    """Return the bytes that rank 0 gave; all processes must call this together."""
    if len(payload) > _ROOM_BYTES:
        raise ValueError(f"{len(payload)} bytes are too many to share")
    own = payload if group.rank() == 0 else b""
    cells = mx.array(list(own.ljust(_ROOM_BYTES, b"\0")), dtype=mx.int32)
    try:
        told: Any = mx.distributed.all_sum(cells, group=group).tolist()
    except RuntimeError as error:
        raise BadLaunch(f"the processes lost each other at once: {error}") from error
    return bytes(told).rstrip(b"\0")


def shard(model: Any, config: Mapping[str, Any], group: Any) -> None:
    """Leave only this process's shard of a model whose weights have not been read yet.

    Shards by tensors where the model supports it, so that all processes work on each token;
    otherwise by layers.
    """
    size = group.size()
    uneven = _uneven(config, size)
    try:
        if hasattr(model, "shard") and uneven is None:
            model.shard(group)
            return
        if hasattr(getattr(model, "model", None), "pipeline"):
            model.model.pipeline(group)
            return
    except ValueError as error:
        raise ModelLoadFailed(f"it cannot be sharded across {size} processes: {error}") from error
    kind = config.get("model_type", "unknown")
    raise ModelLoadFailed(
        f"it cannot be sharded across {size} processes: "
        + (uneven or f"mlx-lm cannot shard models of architecture {kind}")
    )


def _uneven(config: Mapping[str, Any], size: int) -> str | None:
    """Return why a model's heads cannot be shared evenly; None where they can."""
    text = config.get("text_config")
    for part in (config, text if isinstance(text, Mapping) else {}):
        for name in _HEADS:
            count = part.get(name)
            if isinstance(count, int) and count % size:
                return f"its {count} heads ({name}) are not a multiple of {size}"
    return None


class InStep:
    """A sharded model that reads, at each step, the tokens that rank 0 sampled.

    Only rank 0 samples, with any sampling settings and constraints, so that machines whose
    arithmetic differs in the last bit cannot drift apart. That costs one short exchange a step,
    beside the two of each layer.
    """

    def __init__(self, model: Any, group: Any) -> None:
        self._model = model
        self._group = group
        self._share = 1 if group.rank() == 0 else 0

    def __getattr__(self, name: str) -> Any:
        """Return other attributes of the model, such as its layers."""
        return getattr(self._model, name)

    def __call__(self, inputs: mx.array, cache: Any = None) -> Any:
        """Return the logits of shape (rows, tokens, vocabulary) for ids of shape (rows, tokens)."""
        if inputs.shape[1] == 1:  # several tokens are a prompt, which all know
            # The tokens that other processes sampled count as zero. The exchange waits for them
            # nevertheless: its place among the exchanges must be the same everywhere.
            own = inputs.astype(mx.int32) * self._share
            inputs = mx.distributed.all_sum(own, group=self._group)
            # A process that holds later layers needs no tokens, but the others wait for its part
            # in the exchange.
            mx.async_eval(inputs)  # type: ignore[no-untyped-call]
        return self._model(inputs, cache=cache)


# Every process applies the same operations to its sequences and its prompt cache, in the same
# order. A batch belongs to the thread that runs its process's model.

# Rank 0 limits the prompt cache, and tells the others how many entries to keep.
_NO_LIMIT = 1 << 62


class OutOfStep(EngineError):
    """A follower's batch or cache differs from what rank 0 expects."""


class LeadingBatch(RunningBatch):
    """Rank 0's batch: it sends each operation to the others."""

    is_alone = False

    def __init__(self, model: Any, limits: BatchLimits, ranks: Ranks) -> None:
        # Draft tokens would have to be sent to the others before each pass, so there are none.
        super().__init__(model, replace(limits, guesses=False))
        self._ranks = ranks

    def insert(self, sequence: Sequence) -> int:
        """Add a sequence everywhere."""
        self._ranks.check()
        kept = self.cache_use.entries
        number = super().insert(sequence)
        scored_from = None if sequence.scorer is None else sequence.scorer.begins + 1
        self._ranks.send(
            Insert(
                sequence.tokens,
                number,
                sequence.cached,
                kept,
                sequence.turn_end,
                scored_from,
                sequence.owner.name,
            )
        )
        return number

    def _step(self, max_tokens: int) -> Step:
        """Step everywhere, with the amount of reading that rank 0 chose."""
        self._ranks.send(StepBatch(max_tokens))
        try:
            return super()._step(max_tokens)
        except Exception as error:
            raise self._ranks.fail_step(error) from error

    def text_reader(self, texts: abc.Sequence[abc.Sequence[int]], **wanted: Any) -> TextReader:
        """Refuse: the others are told of sequences alone."""
        raise InvalidRequest("model", "a model that several processes share makes no vectors")

    def leave(self, rows: Mapping[int, int]) -> None:
        """Take sequences out everywhere; caches are kept under the tokens that rank 0 sampled."""
        gone = self._taken_out(rows)
        written = [(sequence.held or [])[len(sequence) :] for sequence in gone]
        self._ranks.send(Leave([sequence.number for sequence in gone], written))
        self._let_go(gone)

    def reset(self) -> abc.Sequence[int]:
        """Drop all sequences of this process; the other processes are lost already."""
        self.sequences.clear()
        return super().reset()

    def close(self) -> None:
        """Free the model everywhere."""
        if not self._ranks.are_lost:
            self._ranks.send(Close())
        super().close()


class FollowingBatch(RunningBatch):
    """Another process's batch: it repeats what rank 0's batch did."""

    is_alone = False

    def __init__(self, model: Any, *, prefill_chunk: int, max_sequences: int) -> None:
        super().__init__(model, BatchLimits(prefill_chunk, _NO_LIMIT, max_sequences))

    def follow_insert(self, order: Insert) -> None:
        """Add the sequence that rank 0 has added; raises ``OutOfStep`` if it differs here."""
        self.prompts.index.shrink_to(order.kept)
        scorer = None
        if order.scored_from is not None:
            # Rank 0 chooses how much is read in a step, so the vocabulary does not matter here.
            scorer = PromptScorer(order.tokens, PromptScoring(order.scored_from), 1)
        owner = CacheOwner(order.owner)
        sequence = Sequence(order.tokens, turn_end=order.turn_end, owner=owner, scorer=scorer)
        number = self.insert(sequence)
        if (number, sequence.cached) != (order.number, order.cached):
            raise OutOfStep(
                f"sequence {number} with {sequence.cached} cached tokens, where rank 0 has "
                f"sequence {order.number} with {order.cached}"
            )

    def follow_step(self, order: StepBatch) -> None:
        """Decode and read as much as rank 0 did."""
        self._step(order.max_tokens)

    def follow_leave(self, order: Leave) -> None:
        """Take out the sequences that rank 0 has taken out."""
        gone = self._taken_out(order.numbers)
        for sequence, written in zip(gone, order.written, strict=True):
            if sequence.held and written:
                sequence.held = [*sequence.held[: -len(written)], *written]
        self._let_go(gone)

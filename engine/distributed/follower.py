"""A follower: a process that holds a shard of the model and repeats what rank 0 does.

Every process applies the same operations to its sequences and its prompt cache, in the same order.
"""

import contextlib
import json
import socket
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from engine.distributed.sharding import SynchronizedModel, broadcast, shard, versions
from engine.distributed.world import World, folder_digest
from engine.errors import EngineError, ModelLoadFailed
from engine.files.causes import os_cause
from engine.inference.backend import BatchLimits
from engine.inference.loader import importing_mlx_lm
from engine.inference.sequence import Sequence
from engine.library.length_groups import StepReads
from engine.library.model_files import model_name
from engine.library.model_folder import check_folder
from engine.values.request import CacheOwner
from engine.values.tokens import PromptScoring

with importing_mlx_lm():
    from engine.inference.batch import RunningBatch
    from engine.inference.mlx_loading import load_shard, logits_size
    from engine.inference.sampling import PromptScorer


class FollowingBatch(RunningBatch):
    """A follower's batch: it repeats the operations of rank 0's batch."""

    def __init__(self, model: Any, *, prefill_chunk: int, max_sequences: int) -> None:
        # Rank 0 limits the prompt cache: it sends how many entries to keep.
        limits = BatchLimits(prefill_chunk, 1 << 62, max_sequences, is_shared=True)
        super().__init__(model, limits)

    def follow_reads(self, reads: StepReads | None) -> None:
        self._batch.decoding.reads = reads

    def follow_insert(
        self,
        tokens: list[int],
        number: int,
        cached: int,
        entries: int,
        turn_end: int,
        scored_from: int | None,
        owner: str,
    ) -> None:
        """Add the sequence that rank 0 has added; raises ``EngineError`` if it differs here."""
        self.prompt_cache.shrink_to(entries)
        scorer = None
        if scored_from is not None:
            # Rank 0 chooses how much is read in a step, so the vocabulary does not matter here.
            scorer = PromptScorer(tokens, PromptScoring(scored_from), 1)
        sequence = Sequence(tokens, turn_end=turn_end, owner=CacheOwner(owner), scorer=scorer)
        self.insert(sequence)
        _compare(sequence, number, cached)

    def follow_end_of_wait(self, number: int, cached: int, entries: int) -> None:
        """Let a sequence read on that waited for another; raises ``EngineError`` likewise."""
        self.prompt_cache.shrink_to(entries)
        sequence = self.sequences[number]
        self._end_wait(sequence)
        _compare(sequence, number, cached)

    def follow_remove(
        self, numbers: list[int], sampled: list[list[int]], invalid: list[int]
    ) -> None:
        """Remove the sequences that rank 0 has removed; those it found invalid are not stored."""
        removed = self._extract(numbers)
        for sequence, tokens in zip(removed, sampled, strict=True):
            sequence.is_invalid = sequence.number in invalid
            if sequence.held and tokens:
                sequence.held = [*sequence.held[: -len(tokens)], *tokens]
        self._release(removed)


def _compare(sequence: Sequence, number: int, cached: int) -> None:
    if (sequence.number, sequence.cached) != (number, cached):
        raise EngineError(
            f"sequence {sequence.number} with {sequence.cached} cached tokens, where rank 0 has "
            f"sequence {number} with {cached}"
        )


def _carry_out(connection: Connection, world: World) -> None:
    batch: FollowingBatch | None = None
    while True:
        try:
            order, arguments = connection.recv()
        except (EOFError, OSError) as error:
            raise EngineError(f"{world.name_of(0)} is lost: its process has ended") from error
        if order == "end":
            return
        if order in ("load", "close"):
            if batch is not None:
                batch.close()
            batch = _load(connection, world.group, *arguments) if order == "load" else None
        elif batch is not None:
            getattr(batch, order)(*arguments)


def _load(
    connection: Connection,
    group: Any,
    path: str,
    fingerprint: str,
    prefill_chunk: int,
    max_sequences: int,
) -> FollowingBatch | None:
    """Load this process's shard; reply with its bytes, or with the cause of a failure."""
    folder = Path(path).expanduser()
    try:
        check_folder(folder)
        if folder_digest(folder) != fingerprint:
            raise ModelLoadFailed(
                f"{model_name(folder)} is not the model that rank 0 has; copy it again"
            )
        model, weights_bytes = load_shard(folder, lambda model, config: shard(model, config, group))
    except EngineError as error:
        connection.send(str(error))
        return None
    connection.send(weights_bytes)
    model = SynchronizedModel(model, group, logits_size(model))
    return FollowingBatch(model, prefill_chunk=prefill_chunk, max_sequences=max_sequences)


def follow(world: World) -> None:
    """Carry out the orders of rank 0 until it ends; raises ``EngineError``."""
    hosts, port, secret = json.loads(broadcast(world.group, b""))
    with _connected(world, hosts, port, secret) as connection:
        connection.send((world.rank, versions()))
        try:
            _carry_out(connection, world)
        except Exception as error:
            is_own = isinstance(error, EngineError)
            why = str(error) if is_own else f"{type(error).__name__}: {error}"
            with contextlib.suppress(OSError):
                connection.send(why)
            raise EngineError(why) from error


def _connected(world: World, hosts: list[str], port: int, secret: str) -> Connection:
    faults: list[str] = []
    for host in hosts:
        try:
            connection = socket.create_connection((host, port), timeout=5.0)
            connection.sendall(secret.encode())
        except OSError as error:
            faults.append(f"{host}: {os_cause(error)}")
            continue
        connection.setblocking(True)
        return Connection(connection.detach())
    raise EngineError(
        f"{world.name_of(world.rank)} cannot reach rank 0 on port {port} ({'; '.join(faults)}); "
        "firewalls must let it through"
    )

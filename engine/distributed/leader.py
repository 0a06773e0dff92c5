"""Rank 0: it loads a model together with the other processes, and sends them each operation."""

import logging
from collections import abc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.distributed.ranks import Ranks
from engine.distributed.sharding import SynchronizedModel, broadcast, shard, versions
from engine.distributed.world import World, folder_digest, portable
from engine.errors import DraftLoadFailed, ModelLoadFailed
from engine.inference.backend import BatchLimits, LoadProgress, OnLoadProgress, Step
from engine.inference.loader import importing_mlx_lm
from engine.inference.sequence import Sequence
from engine.library.model_files import model_name
from engine.library.model_folder import check_folder

with importing_mlx_lm():
    from engine.inference import mlx_loading
    from engine.inference.batch import RunningBatch
    from engine.inference.mlx_backend import MlxBackend

_log = logging.getLogger(__name__)


class LeadingBatch(RunningBatch):
    """Rank 0's batch: it sends each operation to the others.

    All must store and evict the same prompts. So each operation that changes the prompt cache needs
    an order here: a method of ``FollowingBatch``. Evicting the least recently used is part of
    ``follow_insert`` and ``follow_end_of_wait``, which send how many entries rank 0 keeps.
    """

    def __init__(self, model: Any, limits: BatchLimits, ranks: Ranks) -> None:
        # Draft tokens would have to be sent to the others before each pass, so there are none.
        super().__init__(model, replace(limits, drafts=False, is_shared=True))
        self._ranks = ranks
        # Shards differ in size, and all must have the same groups.
        ranks.send("follow_reads", limits.reads)

    def insert(self, sequence: Sequence) -> int:
        self._ranks.check()
        entries = len(self.prompt_cache)
        number = super().insert(sequence)
        self._ranks.send(
            "follow_insert",
            sequence.tokens,
            number,
            sequence.cached,
            entries,
            sequence.turn_end,
            None if sequence.scorer is None else sequence.scorer.begins + 1,
            sequence.owner.name,
        )
        return number

    def _end_wait(self, sequence: Sequence) -> None:
        entries = len(self.prompt_cache)
        super()._end_wait(sequence)
        self._ranks.send("follow_end_of_wait", sequence.number, sequence.cached, entries)

    def _step(self, max_tokens: int) -> Step:
        """Step everywhere, with the amount of reading that rank 0 chose."""
        self._ranks.send("_step", max_tokens)
        try:
            return super()._step(max_tokens)
        except Exception as error:
            raise self._ranks.fail_step(error) from error

    def remove(self, rows: Mapping[int, int]) -> None:
        """Remove sequences everywhere; caches are kept under the tokens that rank 0 sampled."""
        removed = self._extract(rows)
        sampled = [(sequence.held or [])[len(sequence) :] for sequence in removed]
        invalid = [sequence.number for sequence in removed if sequence.is_invalid]
        numbers = [sequence.number for sequence in removed]
        self._ranks.send("follow_remove", numbers, sampled, invalid)
        self._release(removed)

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        if not self._ranks.lost:
            self._ranks.send("forget_prompts", owner)
        return super().forget_prompts(owner)

    def reset(self) -> abc.Sequence[int]:
        """Drop all sequences of this process; the other processes are lost already."""
        self._beginnings.followers.clear()
        return super().reset()

    def fault(self) -> str:
        """Return why a rank is lost; empty while none is. Any thread."""
        return self._ranks.fault()

    def close(self) -> None:
        if not self._ranks.lost:
            self._ranks.send("close")
        super().close()


class Leader:
    """Loads models on all processes of a world. See ``engine.inference.loader.Loader``.

    Engine thread, except for ``end``.
    """

    def __init__(self, world: World) -> None:
        self._world, self._group = world, world.group
        self._ranks: Ranks | None = None

    def __call__(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress,
        draft: Path | None = None,
        user_template: str | None = None,
        base: Path | None = None,
    ) -> MlxBackend:
        shared = "cannot be used where several processes share one model; leave it out"
        if draft is not None:
            raise DraftLoadFailed(f"a draft model ({model_name(draft)}) {shared}")
        if base is not None:
            raise ModelLoadFailed(f"an adapter ({model_name(folder)}) {shared}")
        on_progress(LoadProgress("libraries"))
        ranks = self._ranks or self._connect()
        folder = folder.resolve()
        check_folder(folder)
        chunk, rows = limits.prefill_chunk, limits.rows
        ranks.send("load", portable(folder), folder_digest(folder), chunk, rows)
        try:
            backend = mlx_loading.load(
                folder,
                limits=limits,
                on_progress=on_progress,
                user_template=user_template,
                shard=lambda model, config: shard(model, config, self._group),
                batch_of=lambda model, limits: LeadingBatch(
                    SynchronizedModel(model, self._group, mlx_loading.logits_size(model)),
                    limits,
                    ranks,
                ),
            )
        except Exception:
            ranks.receive()
            ranks.send("close")
            raise
        for rank, reply in ranks.receive():
            name = self._world.name_of(rank)
            if isinstance(reply, str):
                backend.close()
                raise ModelLoadFailed(f"{name}: {reply}")
            _log.info("%s holds %d bytes of the weights", name, reply)
        _log.info("a model in several processes decodes token by token, without draft tokens")
        return backend

    def _connect(self) -> Ranks:
        self._ranks = ranks = Ranks(self._world, versions())
        broadcast(self._group, ranks.invitation())
        ranks.connect()
        return ranks

    def end(self) -> None:
        """End the other processes. Any thread; the engine must have been shut down."""
        if self._ranks is not None:
            self._ranks.end()

"""Rank 0's loader of models: the other processes load their shards at the same time.

A loader for ``engine.engine.Engine``. Engine thread, except for ``end``.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from engine.distributed.orders import Close, LoadShard
from engine.distributed.ranks import Ranks
from engine.distributed.world import Meeting, fingerprint_of, portable
from engine.errors import DraftLoadFailed, ModelLoadFailed
from engine.inference.backend import BatchLimits, LoadProgress, OnLoadProgress
from engine.inference.loader import importing_mlx_lm
from engine.library.models import check_folder, model_name

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

_log = logging.getLogger(__name__)


class Leader:
    """Loads models on all processes of a world. See ``engine.inference.loader.Loader``.

    Args:
        meeting: This process, rank 0, and its peers.
    """

    def __init__(self, meeting: Meeting) -> None:
        self._world = meeting.world
        self._group = meeting.group
        self._ranks: Ranks | None = None

    def __call__(
        self,
        folder: Path,
        *,
        limits: BatchLimits,
        on_progress: OnLoadProgress,
        draft: Path | None = None,
    ) -> "MlxBackend":
        """Load a model, or raise ``ModelLoadFailed``; ``RankLost`` if a process is lost."""
        if draft is not None:
            raise DraftLoadFailed(
                f"a draft model ({model_name(draft)}) cannot be used where several processes share "
                "one model; leave it out"
            )
        on_progress(LoadProgress("libraries"))
        with importing_mlx_lm():  # the engine thread alone waits for the import
            from engine.distributed.shared_batch import InStep, LeadingBatch, shard
            from engine.inference import mlx_loading

        ranks = self._ranks or self._connected()
        folder = folder.resolve()
        check_folder(folder)
        ranks.send(
            LoadShard(portable(folder), fingerprint_of(folder), limits.prefill_chunk, limits.rows)
        )
        try:
            backend = mlx_loading.load(
                folder,
                limits=limits,
                on_progress=on_progress,
                shard=lambda model, config: shard(model, config, self._group),
                batch_of=lambda model, limits: LeadingBatch(
                    InStep(model, self._group), limits, ranks
                ),
            )
        except Exception:
            ranks.receive()
            ranks.send(Close())
            raise
        for rank, reply in ranks.receive():
            name = self._world.name_of(rank)
            if reply.error:
                backend.close()
                raise ModelLoadFailed(f"{name}: {reply.error}")
            _log.info("%s holds %d bytes of the weights", name, reply.weights_bytes)
        _log.info("a model in several processes decodes token by token, without draft tokens")
        return backend

    def _connected(self) -> Ranks:
        """Return the connections to all other ranks."""
        from engine.distributed.shared_batch import shared, versions

        self._ranks = ranks = Ranks(self._world, versions())
        shared(self._group, ranks.invitation())
        ranks.connect()
        return ranks

    def end(self) -> None:
        """End the other processes. Any thread; the engine must have been shut down."""
        if self._ranks is not None:
            self._ranks.end()

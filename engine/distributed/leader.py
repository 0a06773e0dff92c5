"""Rank 0's loader of models: the other processes load their shards at the same time.

A loader for ``engine.scheduling.service.Engine``. Engine thread, except for ``end``.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.distributed.followers import Followers
from engine.distributed.link import Close, LoadShard
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
        on_lost: Called once with the reason when a follower is lost, on any thread.
    """

    def __init__(self, meeting: Meeting, on_lost: Callable[[str], None]) -> None:
        self._world = meeting.world
        self._group = meeting.group
        self._on_lost = on_lost
        self._followers: Followers | None = None

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

        followers = self._followers or self._gathered()
        folder = folder.resolve()
        check_folder(folder)
        followers.announce(
            LoadShard(portable(folder), fingerprint_of(folder), limits.prefill_chunk, limits.rows)
        )
        try:
            backend = mlx_loading.load(
                folder,
                limits=limits,
                on_progress=on_progress,
                shard=lambda model, config: shard(model, config, self._group),
                batch_of=lambda model, limits: LeadingBatch(
                    InStep(model, self._group), limits, followers
                ),
            )
        except Exception:
            followers.wait_until_loaded()
            followers.announce(Close())
            raise
        for rank, reply in followers.wait_until_loaded():
            name = self._world.name_of(rank)
            if reply.error:
                backend.close()
                raise ModelLoadFailed(f"{name}: {reply.error}")
            _log.info("%s holds %d bytes of the weights", name, reply.weights_bytes)
        _log.info("a model in several processes decodes token by token, without draft tokens")
        return backend

    def _gathered(self) -> Followers:
        """Return the followers once all of them have connected."""
        from engine.distributed.shared_batch import shared, versions

        followers = Followers(self._world, versions(), self._on_lost)
        self._followers = followers
        shared(self._group, followers.invitation())
        followers.gather()
        return followers

    def end(self) -> None:
        """Let the other processes end. Any thread; the engine must have been shut down."""
        if self._followers is not None:
            self._followers.end()

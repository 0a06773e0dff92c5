"""Rank 0's way to load a model: the others load their parts of it at the same time.

A loader for ``engine.scheduling.service.Engine``. It belongs to the engine thread, but for ``end``.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from engine.distributed.copies import mark_of, portable
from engine.distributed.followers import Followers
from engine.distributed.messages import Close, Load
from engine.distributed.world import Meeting
from engine.errors import ModelLoadFailed
from engine.inference.backend import Backend
from engine.library.loading import LoadProgress, OnLoadProgress
from engine.library.models import check_folder

_log = logging.getLogger(__name__)


class Leader:
    """Loads models on all processes of a world. See ``engine.inference.backend.Loader``.

    Args:
        meeting: This process, rank 0, and its peers.
        on_lost: Told once, with the reason, when the others cannot be counted on any more; on any
            thread.
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
        prefill_chunk: int,
        cache_bytes: int,
        rows: int,
        on_progress: OnLoadProgress,
    ) -> Backend:
        """Load a model, or raise ``ModelLoadFailed``; ``RankLost`` if a process is lost."""
        on_progress(LoadProgress("libraries"))
        from engine.distributed import batches
        from engine.distributed import sharding as dividing
        from engine.inference import (
            mlx_backend,  # as for one process, only this thread waits for it
        )

        followers = self._followers or self._gathered()
        folder = folder.resolve()
        check_folder(folder)
        followers.announce(Load(portable(folder), mark_of(folder), prefill_chunk, rows))
        try:
            backend = mlx_backend.load(
                folder,
                prefill_chunk=prefill_chunk,
                cache_bytes=cache_bytes,
                rows=rows,
                on_progress=on_progress,
                divide=lambda model, config: dividing.divide(model, config, self._group),
                batch_of=lambda model, **limits: batches.LeadingBatch(
                    dividing.InStep(model, self._group), followers, **limits
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
        return backend

    def _gathered(self) -> Followers:
        """Return the followers, all of them connected."""
        from engine.distributed import sharding as dividing

        followers = Followers(self._world, dividing.versions(), self._on_lost)
        self._followers = followers
        dividing.shared(self._group, followers.invitation())
        followers.gather()
        return followers

    def end(self) -> None:
        """Let the other processes end. Any thread; the engine must have been shut down."""
        if self._followers is not None:
            self._followers.end()

"""``fullstop serve`` as several processes started by ``mlx.launch``; one of them leads.

Rank 0 is the server, with an engine whose model is sharded; the others only follow. Must not
import Qt. Main thread.
"""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import NoReturn

from app.composition.engines import open_engine, quieten_libraries
from app.process import exits
from app.process.exits import CommandError
from engine import DiskCache, Engine, EngineError, Limits
from engine.distributed.world import Meeting, World, launched


def world_of_this_process() -> World | None:
    """Return the group of processes that this one belongs to; None if it runs alone."""
    try:
        return launched(os.environ)
    except EngineError as error:
        raise CommandError(str(error)) from error


def meet(world: World) -> Meeting:
    """Wait for the other processes; signals still end this one."""
    from engine.distributed import sharding  # imports MLX

    if world.rank == 0:
        others = ", ".join(world.name_of(rank) for rank in range(1, world.size))
        print(f"waiting for {others}", file=sys.stderr, flush=True)
    # While MLX waits, Python cannot handle signals.
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        return sharding.meet(world)
    except EngineError as error:
        raise CommandError(str(error)) from error
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.asynccontextmanager
async def open_engine_of(
    meeting: Meeting | None, limits: Limits, disk: DiskCache | None = None
) -> AsyncIterator[tuple[Engine, "asyncio.Future[str]"]]:
    """Yield an engine without a model, shared by all processes of a meeting if there is one.

    Also yields a future. If the other processes are lost, every request is ended and the future's
    result is the reason. It never completes for a process alone.
    """
    if meeting is None:
        async with open_engine(limits, disk=disk) as engine:
            yield engine, asyncio.get_running_loop().create_future()
        return
    lead = _Lead(meeting)
    try:
        async with open_engine(limits, lead.loader) as engine:
            lead.engine = engine
            try:
                yield engine, lead.lost
            finally:
                if engine.status.state == "loading":  # it may wait long for the others
                    await asyncio.to_thread(engine.give_up, "ended while it loaded", 0)
    finally:
        lead.loader.end()


class _Lead:
    """Rank 0's connection to the other processes. Made on the server's loop."""

    def __init__(self, meeting: Meeting) -> None:
        from engine.distributed.leading import Leader  # only several processes need it

        self._loop = asyncio.get_running_loop()
        self.engine: Engine | None = None
        self.lost: asyncio.Future[str] = self._loop.create_future()
        self.loader = Leader(meeting, self._on_lost)

    def _on_lost(self, why: str) -> None:
        # May run on the engine's thread, which may be waiting for the lost process.
        threading.Thread(target=self._give_up, args=(why,), name="fullstop-lost").start()

    def _give_up(self, why: str) -> None:
        if self.engine is not None:
            self.engine.give_up(why)
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._settle, why)

    def _settle(self, why: str) -> None:
        if not self.lost.done():
            self.lost.set_result(why)


def follow_rank_0(world: World) -> int:
    """Follow rank 0 until it ends; return the exit code."""
    from engine.distributed.following import follow  # only several processes need it

    quieten_libraries()
    meeting = meet(world)
    # Ctrl-C reaches all processes of a terminal; rank 0 handles it and ends this process.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        follow(meeting, lambda why: leave(f"rank {world.rank} ends: {why}"))
    except EngineError as error:
        raise CommandError(f"rank {world.rank}: {error}") from error
    return exits.OK


def leave(why: str | None) -> NoReturn:
    """End the process, whatever its threads wait for; print why, unless it was asked to end."""
    if why is not None:
        print(f"fullstop: {why}", file=sys.stderr)
    sys.stderr.flush()
    sys.stdout.flush()
    os._exit(exits.OK if why is None else exits.FAILURE)

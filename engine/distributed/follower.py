"""A follower: a process that holds a shard of the model and obeys rank 0.

The thread that calls ``follow`` carries out the orders; another thread reads them as they arrive,
so that it notices a lost rank 0 also in the middle of a step.
"""

import contextlib
import json
import queue
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from engine.distributed.link import (
    NOTICED_S,
    Close,
    End,
    Failed,
    Hello,
    Insert,
    Keepalive,
    Leave,
    Link,
    LinkLost,
    LoadShard,
    Message,
    ShardLoaded,
    StepBatch,
)
from engine.distributed.world import BadLaunch, Meeting, World, fingerprint_of
from engine.errors import EngineError, ModelLoadFailed
from engine.files.causes import os_cause
from engine.inference.loader import importing_mlx_lm
from engine.library.models import check_folder, model_name

_CONNECT_S = 5.0


class FollowerFailed(EngineError):
    """An order could not be carried out by this process; the message says why."""


def follow(meeting: Meeting, on_lost: Callable[[str], object]) -> None:
    """Serve rank 0 until it ends; returns when it has said so.

    Args:
        meeting: This process, not rank 0, and its peers.
        on_lost: Called on another thread when rank 0 is lost. It has to end the process, because
            this thread may wait for rank 0 forever.

    Raises:
        BadLaunch: Rank 0 cannot be reached.
        FollowerFailed: An order could not be carried out; rank 0 has been told.
    """
    from engine.distributed.shared_batch import shared, versions

    world, group = meeting.world, meeting.group
    invitation = json.loads(shared(group, b""))
    connection = _connected(world, invitation["hosts"], invitation["port"])
    connection.sendall(invitation["secret"].encode())
    link = Link(connection)
    link.send(Hello(world.rank, versions()))
    link.send_keepalives()
    orders = _Orders(link, lambda why: on_lost(f"{world.name_of(0)} is lost: {why}"))
    try:
        _obey(orders, link, group)
    except Exception as error:
        if orders.has_ended.wait(NOTICED_S):
            return  # no step can succeed without rank 0
        why = str(error) if isinstance(error, EngineError) else f"{type(error).__name__}: {error}"
        with contextlib.suppress(LinkLost):
            link.send(Failed(why))
        raise FollowerFailed(why) from error
    finally:
        orders.close()


class _Orders:
    """The orders of rank 0, read as they arrive."""

    def __init__(self, link: Link, on_lost: Callable[[str], object]) -> None:
        self.has_ended = threading.Event()
        self._is_closed = threading.Event()
        self._link = link
        self._on_lost = on_lost
        self._queue: queue.SimpleQueue[Message] = queue.SimpleQueue()
        threading.Thread(target=self._read, name="fullstop-orders", daemon=True).start()

    def next(self) -> Message:
        """Wait for the next order."""
        return self._queue.get()

    def close(self) -> None:
        """Read no more, and close the link without reporting a loss."""
        self._is_closed.set()
        self._link.close()

    def _read(self) -> None:
        try:
            while True:
                message = self._link.receive()
                if isinstance(message, Keepalive):
                    continue
                if isinstance(message, End):
                    self.has_ended.set()
                self._queue.put(message)
                if isinstance(message, End):
                    return
        except LinkLost as lost:
            if not self._is_closed.is_set():
                self._on_lost(str(lost))


def _obey(orders: _Orders, link: Link, group: Any) -> None:
    from engine.distributed.shared_batch import FollowingBatch

    batch: FollowingBatch | None = None
    while True:
        order = orders.next()
        if isinstance(order, StepBatch) and batch is not None:
            batch.follow_step(order)
        elif isinstance(order, Insert) and batch is not None:
            batch.follow_insert(order)
        elif isinstance(order, Leave) and batch is not None:
            batch.follow_leave(order)
        elif isinstance(order, (LoadShard, Close, End)):
            if batch is not None:
                batch.close()
                batch = None
            if isinstance(order, LoadShard):
                batch = _load(order, link, group)
            elif isinstance(order, End):
                return


def _load(order: LoadShard, link: Link, group: Any) -> Any:
    """Load this process's shard and report the outcome; None if it could not be loaded."""
    with importing_mlx_lm():
        from engine.distributed.shared_batch import FollowingBatch, InStep, shard
        from engine.inference.mlx_loading import load_shard

    folder = Path(order.folder).expanduser()
    try:
        check_folder(folder)
        if fingerprint_of(folder) != order.fingerprint:
            raise ModelLoadFailed(
                f"{model_name(folder)} is not the model that rank 0 has; copy it again"
            )
        model, weights_bytes = load_shard(folder, lambda model, config: shard(model, config, group))
    except EngineError as error:
        link.send(ShardLoaded(error=str(error)))
        return None
    link.send(ShardLoaded(weights_bytes))
    sharded = InStep(model, group)
    return FollowingBatch(
        sharded, prefill_chunk=order.prefill_chunk, max_sequences=order.max_sequences
    )


def _connected(world: World, hosts: list[str], port: int) -> socket.socket:
    faults: list[str] = []
    for host in hosts:
        try:
            return socket.create_connection((host, port), timeout=_CONNECT_S)
        except OSError as error:
            faults.append(f"{host}: {os_cause(error)}")
    raise BadLaunch(
        f"{world.name_of(world.rank)} cannot reach rank 0 on port {port} ({'; '.join(faults)}); "
        "firewalls must let it through"
    )

"""A follower: a process that holds a shard of the model and repeats what rank 0 does."""

import contextlib
import json
import socket
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.distributed.orders import Close, End, Insert, Leave, LoadShard, Order, Reply, StepBatch
from engine.distributed.world import BadLaunch, Meeting, World, fingerprint_of
from engine.errors import EngineError, ModelLoadFailed
from engine.files.causes import os_cause
from engine.inference.loader import importing_mlx_lm
from engine.library.models import check_folder, model_name

if TYPE_CHECKING:
    from engine.distributed.shared_batch import FollowingBatch

_CONNECT_S = 5.0


class FollowerFailed(EngineError):
    """Rank 0 is lost, or this process could not carry out an order; the message says which."""


def follow(meeting: Meeting) -> None:
    """Carry out the orders of rank 0 until it ends.

    Args:
        meeting: This process, not rank 0, and its peers.

    Raises:
        BadLaunch: Rank 0 cannot be reached.
        FollowerFailed: Rank 0 is lost, or an order failed; rank 0 has received the reason.
    """
    from engine.distributed.shared_batch import shared, versions

    world, group = meeting.world, meeting.group
    hosts, port, secret = json.loads(shared(group, b""))
    with _connected(world, hosts, port) as connection:
        connection.send_bytes(secret.encode())
        connection.send((world.rank, versions()))
        orders = _orders(connection, world.name_of(0))
        try:
            _obey(orders, connection, group)
        except FollowerFailed:
            raise
        except Exception as error:
            is_own = isinstance(error, EngineError)
            why = str(error) if is_own else f"{type(error).__name__}: {error}"
            with contextlib.suppress(OSError):
                connection.send(Reply(error=why))
            raise FollowerFailed(why) from error


def _orders(connection: Connection, rank_0: str) -> Iterator[Order]:
    """Yield the orders until rank 0 ends; raises ``FollowerFailed`` if it is lost."""
    while True:
        try:
            order = connection.recv()
        except (EOFError, OSError) as error:
            raise FollowerFailed(f"{rank_0} is lost: its process has ended") from error
        if isinstance(order, End):
            return
        yield order


def _obey(orders: Iterator[Order], connection: Connection, group: Any) -> None:
    batch: FollowingBatch | None = None
    for order in orders:
        if isinstance(order, (LoadShard, Close)):
            if batch is not None:
                batch.close()
            batch = _load(order, connection, group) if isinstance(order, LoadShard) else None
        elif batch is None:
            continue  # its shard could not be loaded, and rank 0 has received why
        elif isinstance(order, StepBatch):
            batch.follow_step(order)
        elif isinstance(order, Insert):
            batch.follow_insert(order)
        elif isinstance(order, Leave):
            batch.follow_leave(order)


def _load(order: LoadShard, connection: Connection, group: Any) -> "FollowingBatch | None":
    """Load this process's shard and send the outcome; None if it could not be loaded."""
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
        connection.send(Reply(error=str(error)))
        return None
    connection.send(Reply(weights_bytes))
    return FollowingBatch(
        InStep(model, group), prefill_chunk=order.prefill_chunk, max_sequences=order.max_sequences
    )


def _connected(world: World, hosts: list[str], port: int) -> Connection:
    faults: list[str] = []
    for host in hosts:
        try:
            connection = socket.create_connection((host, port), timeout=_CONNECT_S)
        except OSError as error:
            faults.append(f"{host}: {os_cause(error)}")
            continue
        connection.setblocking(True)
        return Connection(connection.detach())
    raise BadLaunch(
        f"{world.name_of(world.rank)} cannot reach rank 0 on port {port} ({'; '.join(faults)}); "
        "firewalls must let it through"
    )

"""Which processes make one engine together, as MLX's launcher has told each of them.

Reads variables of the environment and the launcher's file; must not import MLX. Any thread.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import EngineError


class BadLaunch(EngineError):
    """What the launcher left in the environment makes no sense; the message says what."""


@dataclass(frozen=True, slots=True)
class World:
    """Where this process stands among its peers.

    Attributes:
        rank: Its number; 0 speaks HTTP and decides.
        hosts: The addresses of all, by rank, as the launcher knows them; empty where unknown.
        transport: MLX's name for the way in which arrays travel.
    """

    rank: int
    hosts: tuple[str, ...]
    transport: str

    @property
    def size(self) -> int:
        """How many processes there are."""
        return len(self.hosts)

    def name_of(self, rank: int) -> str:
        """Return what to call a process in messages."""
        host = self.hosts[rank]
        return f"rank {rank} ({host})" if host else f"rank {rank}"


@dataclass(frozen=True, slots=True)
class Meeting:
    """The processes of a world, once they have found each other.

    Attributes:
        world: Who they are.
        group: MLX's handle of their connections.
    """

    world: World
    group: Any


def launched(environment: Mapping[str, str]) -> World | None:
    """Return the world that ``mlx.launch`` has set up; None where this process is alone.

    Raises:
        BadLaunch: The variables contradict each other or cannot be read.
    """
    rank_text = environment.get("MLX_RANK")
    if rank_text is None:
        return None
    hosts, transport = _hosts(environment)
    if len(hosts) < 2:
        return None
    try:
        rank = int(rank_text)
    except ValueError:
        raise BadLaunch(f"MLX_RANK is {rank_text!r}, which is no number") from None
    if not 0 <= rank < len(hosts):
        raise BadLaunch(f"MLX_RANK is {rank}, but the launcher names {len(hosts)} processes")
    return World(rank, hosts, transport)


def _hosts(environment: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    if file := environment.get("MLX_HOSTFILE"):
        nodes = _read(file)
        try:
            return tuple(node[0].rpartition(":")[0] for node in nodes), "ring"
        except (AttributeError, IndexError, KeyError, TypeError):
            raise BadLaunch(f"{file} (MLX_HOSTFILE) does not list addresses by rank") from None
    if file := environment.get("MLX_IBV_DEVICES"):
        first = environment.get("MLX_JACCL_COORDINATOR", "").rpartition(":")[0]
        return (first, *[""] * (len(_read(file)) - 1)), "jaccl"
    if size := environment.get("MLX_WORLD_SIZE"):
        if not size.isdecimal():
            raise BadLaunch(f"MLX_WORLD_SIZE is {size!r}, which is no number")
        return (environment.get("NCCL_HOST_IP", ""), *[""] * (int(size) - 1)), "nccl"
    return (), ""


def _read(file: str) -> list[list[str]]:
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
        nodes = json.loads(text) if text else []  # the launcher's way to say: alone
    except (OSError, ValueError) as error:
        raise BadLaunch(f"the launcher's file {file} cannot be read: {error}") from error
    if not isinstance(nodes, list):
        raise BadLaunch(f"the launcher's file {file} holds no list")
    return nodes

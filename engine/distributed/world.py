"""The processes that share one model, as MLX's launcher describes them. Imports no MLX."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import EngineError


class BadLaunch(EngineError):
    """The processes cannot be started together; the message is the cause."""


class World(NamedTuple):
    """The processes of one engine, as one of them knows them.

    Attributes:
        rank: Its number; rank 0 serves HTTP and decides each step.
        hosts: The addresses of all processes by rank; empty strings where unknown.
        transport: MLX's name of the backend that carries arrays.
        group: MLX's own; None until they have met.
    """

    rank: int
    hosts: tuple[str, ...]
    transport: str
    group: Any = None

    @property
    def size(self) -> int:
        """How many processes there are."""
        return len(self.hosts)

    def name_of(self, rank: int) -> str:
        """Return the name of a process for messages."""
        host = self.hosts[rank]
        return f"rank {rank} ({host})" if host else f"rank {rank}"


def launched(environment: Mapping[str, str]) -> World | None:
    """Return the world that ``mlx.launch`` has set up; None if this process is alone.

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
        raise BadLaunch(f"MLX_RANK is {rank_text!r}, which is not a number") from None
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
    return (), ""


def _read(file: str) -> list[list[str]]:
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
        # The launcher writes an empty file for one process.
        nodes = json.loads(text) if text else []
    except (OSError, ValueError) as error:
        raise BadLaunch(f"the launcher's file {file} cannot be read: {error}") from error
    if not isinstance(nodes, list):
        raise BadLaunch(f"the launcher's file {file} does not hold a list")
    return nodes


def portable(folder: Path) -> str:
    """Return a folder's path, with ``~`` for the home, which differs between users."""
    try:
        return f"~/{folder.relative_to(Path.home()).as_posix()}"
    except ValueError:
        return str(folder)


def folder_digest(folder: Path) -> str:
    """Return a model's fingerprint: a digest of its configuration and weight files."""
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(f"{file.name} {file.stat().st_size}\n".encode())
    return digest.hexdigest()

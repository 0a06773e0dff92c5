"""The processes that share one model, as MLX's launcher describes them. Imports no MLX."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from engine.errors import EngineError

_PART_BYTES = 1 << 20


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
        return len(self.hosts)

    def name_of(self, rank: int) -> str:
        host = self.hosts[rank]
        return f"rank {rank} ({host})" if host else f"rank {rank}"


def launched(environment: Mapping[str, str]) -> World | None:
    """Return the world that ``mlx.launch`` has set up; None if this process is alone.

    Raises:
        EngineError: The launcher's variables or its file cannot be read, or contradict each other.
    """
    ring, devices = environment.get("MLX_HOSTFILE"), environment.get("MLX_IBV_DEVICES")
    file = ring or devices
    if file is None or "MLX_RANK" not in environment:
        return None
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
        nodes = json.loads(text) if text else []  # the launcher's file for one process is empty
        hosts = [node[0].rpartition(":")[0] if ring else "" for node in nodes]
        if len(hosts) < 2:
            return None
        rank = int(environment["MLX_RANK"])
    except (OSError, ValueError, AttributeError, LookupError, TypeError) as error:
        raise EngineError(f"MLX_RANK, or the launcher's file {file}, is wrong: {error}") from error
    if not 0 <= rank < len(hosts):
        raise EngineError(f"MLX_RANK is {rank}, but the launcher names {len(hosts)} processes")
    if ring:
        return World(rank, tuple(hosts), "ring")
    hosts[0] = environment.get("MLX_JACCL_COORDINATOR", "").rpartition(":")[0]
    return World(rank, tuple(hosts), "jaccl")


def portable(folder: Path) -> str:
    """Return a folder's path, with ``~`` for the home, which differs between users."""
    try:
        return f"~/{folder.relative_to(Path.home()).as_posix()}"
    except ValueError:
        return str(folder)


def folder_digest(folder: Path) -> str:
    """Return a model's fingerprint: a digest of its configuration and of parts of its weights.

    Fine-tunes of one model have equal configurations and weights of equal sizes.
    """
    digest = hashlib.sha256((folder / "config.json").read_bytes())
    for file in sorted(folder.glob("*.safetensors")):
        size = file.stat().st_size
        digest.update(f"{file.name} {size}\n".encode())
        with file.open("rb") as weights:
            for start in (0, size // 2, max(size - _PART_BYTES, 0)):
                weights.seek(start)
                digest.update(weights.read(_PART_BYTES))
    return digest.hexdigest()

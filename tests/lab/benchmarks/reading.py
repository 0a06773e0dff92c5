"""What the benchmarks of servers share: one answer as its reader saw it, ports, and cores.

Knows no server. Any thread.
"""

import os
import socket
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One answer as its reader saw it, in seconds since it was asked for."""

    first_s: float
    last_s: float
    tokens: int


def cores() -> list[int]:
    """Return the cores that this process may use; none where the system does not say."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


def pin(chosen: Iterable[int]) -> None:
    """Keep this process on some cores, where the system can; none means all of them."""
    wanted = set(chosen)
    if wanted and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, wanted)


def free_port() -> int:
    """Return a port of this computer that nobody listens on."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port

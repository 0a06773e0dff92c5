"""The process groups of tool servers: ended with their server, and with the program at the latest.

Each server leads a group of its own, and so all that it starts is in it. Any thread.
"""

import asyncio
import atexit
import contextlib
import os
import signal
from collections.abc import Callable

_GRACE_S = 2.0
_groups: set[int] = set()


def note_group(leader: int) -> None:
    """Remember a group, so that it ends with the program whatever happens."""
    if not _groups:
        atexit.register(kill_all)
    _groups.add(leader)


async def end_group(leader: int, has_left: Callable[[], bool]) -> None:
    """End a group: ask it to end, and kill it if it does not.

    Args:
        leader: The id of its first process, which is that of the group.
        has_left: Whether the first process is gone and was waited for.
    """
    try:
        if _signal(leader, signal.SIGTERM):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_GRACE_S):
                    # No event tells when the last process of a group is gone.
                    while not has_left() or _signal(leader, 0):  # noqa: ASYNC110
                        await asyncio.sleep(0.02)
    finally:
        _signal(leader, signal.SIGKILL)
        _groups.discard(leader)


def kill_all() -> None:
    """End every group at once."""
    for leader in list(_groups):
        _signal(leader, signal.SIGKILL)
    _groups.clear()


def _signal(leader: int, number: int) -> bool:
    """Send a signal to a group; returns whether there is one."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True

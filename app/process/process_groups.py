"""The process groups of programs that are started here, which are killed when this one exits."""

import atexit
import contextlib
import os
import signal

_running: set[int] = set()  # the process ids of the group leaders


def add_group(leader: int) -> None:
    """Kill a group when the program exits; ``os._exit`` has to call ``kill_process_groups``."""
    if not _running:
        atexit.unregister(kill_process_groups)
        atexit.register(kill_process_groups)
    _running.add(leader)


def remove_group(leader: int) -> None:
    """Forget a group that has ended."""
    _running.discard(leader)


def kill_process_groups() -> None:
    """Kill the groups that are still running."""
    for leader in _running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    _running.clear()

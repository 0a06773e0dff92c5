"""The process groups of stdio servers, which are killed when the program exits."""

import atexit
import contextlib
import os
import signal

running: set[int] = set()
"""The process ids of the group leaders."""


@atexit.register
def kill_process_groups() -> None:
    """Kill the groups that are still running."""
    for leader in running:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    running.clear()

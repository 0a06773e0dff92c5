"""Settings of the operating system that make MLX faster beside other threads.

Where the system refuses one, the engine is slower and works as before.
"""

import contextlib
import ctypes
import os
import sys
from functools import cache

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's <malloc.h>


@cache
def share_one_arena() -> None:
    """Let threads that start from now on allocate from the process's first arena.

    The engine's thread makes the arrays of each step and MLX's own thread frees them; between two
    arenas that costs one stream of a small model three hundredths of its speed.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return  # another C library, which has no such setting


def work_in_long_turns() -> None:
    """Ask Linux not to interrupt this thread whenever one of MLX's has something to do.

    MLX's threads, which inherit it, are woken for each of some hundred operations a token. Where
    they share a core with this thread each wake-up would be two changes of turn, a third of the
    time in all. Windows and servers, whose threads are left as they are, come first nonetheless.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # forbidden: slower, and nothing else
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

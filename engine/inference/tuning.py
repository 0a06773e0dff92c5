"""What the system, its C library and the interpreter are told about threads and memory.

Where the system refuses one, the engine is slower and works as before.
"""

import contextlib
import ctypes
import os
import sys
from functools import cache

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's <malloc.h>
_TURN_S = 0.001


@cache
def share_one_arena() -> None:
    """Let threads that start from now on allocate from the process's first arena.

    The engine thread allocates the arrays of each step, and MLX's own thread frees them. With two
    arenas, one stream of a small model loses 3 % of its speed.
    """
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return  # another C library without this setting


def take_short_turns() -> None:
    """Let a thread that waits for the interpreter have it after a millisecond, not after five.

    A step asks for the interpreter several times. While a long conversation is put through its
    template, which is Python from beginning to end, each time would cost a stream five
    milliseconds.
    """
    if sys.getswitchinterval() > _TURN_S:
        sys.setswitchinterval(_TURN_S)


def work_in_long_turns() -> None:
    """Ask Linux not to interrupt this thread whenever one of MLX's threads has work.

    MLX's threads, which inherit the setting, are woken some hundred times a token. On a core that
    they share with this thread, each wake-up would cost two context switches, a third of the time
    in all. The threads of windows and servers keep their setting, and so take precedence.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not permitted: slower, but it works
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))

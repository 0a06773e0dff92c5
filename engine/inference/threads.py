"""Settings of the system, its C library and the interpreter for threads and memory."""

import contextlib
import ctypes
import os
import sys
from functools import cache

# Where the system refuses a setting, the engine works, only slower.

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
    """Let threads wait at most one millisecond for the interpreter's lock, instead of five.

    A step takes the lock several times. While another thread renders the template of a long
    conversation, which is pure Python, each time would cost a stream five milliseconds.
    """
    if sys.getswitchinterval() > _TURN_S:
        sys.setswitchinterval(_TURN_S)


def work_in_long_turns() -> None:
    """Ask Linux not to interrupt this thread whenever one of MLX's threads has work.

    MLX's threads, which inherit the setting, wake up about a hundred times per token. On a core
    that they share with this thread, each wake-up would cost two context switches, a third of the
    time in all. The threads of windows and servers keep their own setting and so take precedence.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):  # not permitted: slower, but it works
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


# Frees what MLX keeps for a thread that ends. Imports no MLX; any thread.


def leave_thread() -> None:
    """Free what MLX keeps for the calling thread, which must not use MLX afterwards.

    A stream that outlives its thread can abort the process at exit. Does nothing where MLX was
    never imported.
    """
    if (mx := sys.modules.get("mlx.core")) is not None:
        mx.synchronize()
        mx.clear_streams()

"""One allocation arena for all threads, on Linux, where each thread would get one of its own.

The engine's thread makes the arrays of each step and MLX's own thread frees them; between two
arenas that costs one stream of a small model three hundredths of its speed. Called before the
engine's thread starts; does nothing elsewhere.
"""

import ctypes
import sys
from functools import cache

_ARENA_MAX = -8  # M_ARENA_MAX of glibc's <malloc.h>


@cache
def share_one_arena() -> None:
    """Let threads that start from now on allocate from the process's first arena."""
    if sys.platform != "linux":
        return
    try:
        ctypes.CDLL(None).mallopt(_ARENA_MAX, 1)
    except (OSError, AttributeError):
        return  # another C library, which has no such setting

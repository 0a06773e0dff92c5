"""Holds back Python's cyclic garbage collector. Any thread."""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the collector from looking for garbage meanwhile.

    An import makes hundreds of thousands of objects, and hardly one of them is garbage.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

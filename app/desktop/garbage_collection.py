"""Keeps Python's cyclic garbage collector on the main thread while there is a window.

The collector runs on whichever thread happens to allocate. Widgets that are garbage would then be
destroyed on the engine's or the server's thread, which Qt answers with a crash. Main thread.

A full collection halts the window and its answers for a tenth of a second and more. It leaves out
what start-up and the first model have loaded, and comes seldom.
"""

import asyncio
import contextlib
import gc
from collections.abc import Iterator

_INTERVAL_S = 0.5
_OLDEST = 2
# So many collections of the middle generation come before a full one: of steady work, some minutes.
_MIDDLE_PASSES = 100


@contextlib.contextmanager
def collected_on(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Collect garbage on the loop's thread, and nowhere else, while the context is open."""
    was_enabled = gc.isenabled()
    gc.disable()
    waiting: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal waiting
        collect_if_due()
        waiting = loop.call_later(_INTERVAL_S, look)

    look()
    try:
        yield
    finally:
        if waiting is not None:
            waiting.cancel()
        gc.unfreeze()
        gc.collect()
        if was_enabled:
            gc.enable()


def leave_out_what_is_loaded() -> None:
    """Have no collection look again at what there is now; only the first call counts.

    It takes no time. What is garbage by now stays until ``collected_on`` ends.
    """
    if not gc.get_freeze_count():
        gc.freeze()


def collect_if_due() -> int | None:
    """Collect the oldest generation whose threshold is passed; return which, None if none is."""
    counts, thresholds = gc.get_count(), list(gc.get_threshold())
    thresholds[_OLDEST] = max(_MIDDLE_PASSES, thresholds[_OLDEST])
    for generation in reversed(range(len(counts))):
        # A threshold of 0 means never, for the youngest, and always, for the others.
        if counts[generation] > thresholds[generation] and (generation or thresholds[0]):
            gc.collect(generation)
            return generation
    return None

"""Keeps Python's cyclic garbage collector on the main thread while there is a window.

The collector runs on whichever thread happens to allocate. Widgets that are garbage would then be
destroyed on the engine's or the server's thread, which Qt answers with a crash. Main thread.

The first full collection comes when the window and a model have been loaded. What it leaves stays
until the end and is never looked at again: to look at all of it would halt window and answers
for a tenth of a second.
"""

import asyncio
import contextlib
import gc
from collections.abc import Iterator

_INTERVAL_S = 0.5
_OLDEST = 2


@contextlib.contextmanager
def collected_on(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Collect garbage on the loop's thread, and nowhere else, while the context is open."""
    was_enabled = gc.isenabled()
    gc.disable()
    waiting: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal waiting
        if collect_if_due() == _OLDEST and not gc.get_freeze_count():
            gc.freeze()
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


def collect_if_due() -> int | None:
    """Collect the oldest generation whose threshold is passed; return which, None if none is."""
    counts, thresholds = gc.get_count(), gc.get_threshold()
    for generation in reversed(range(len(counts))):
        # A threshold of 0 means never, for the youngest, and always, for the others.
        if counts[generation] > thresholds[generation] and (generation or thresholds[0]):
            gc.collect(generation)
            return generation
    return None

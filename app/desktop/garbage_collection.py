"""Runs Python's cyclic garbage collector only on the main thread while there is a window.

The collector runs on any thread that allocates, and could destroy widgets on the engine's or
the server's thread, where Qt crashes. A full collection stalls the window for a tenth of a second,
so it is rare, and excludes the objects of start-up and of the first model.
"""

import asyncio
import contextlib
import gc
from collections.abc import Iterator

_INTERVAL_S = 0.5


@contextlib.contextmanager
def gc_on_main_thread(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Collect garbage only on the loop's thread while the context is open."""
    was_enabled, was_frozen = gc.isenabled(), bool(gc.get_freeze_count())
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
        if not was_frozen:
            gc.unfreeze()
        gc.collect()
        if was_enabled:
            gc.enable()


def freeze_gc() -> None:
    """Exclude all present objects from later collections, the first time; instant."""
    if not gc.get_freeze_count():
        gc.freeze()


def collect_if_due() -> int | None:
    """Collect the oldest generation whose threshold is passed; return its number or None."""
    counts, thresholds = gc.get_count(), list(gc.get_threshold())
    # Collections of the middle generation before a full one: some minutes of steady work.
    thresholds[-1] = max(100, thresholds[-1])
    for generation in reversed(range(len(counts))):
        # A threshold of 0 means never for the youngest generation, and always for the others.
        if counts[generation] > thresholds[generation] and (generation or thresholds[0]):
            gc.collect(generation)
            return generation
    return None

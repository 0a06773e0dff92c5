"""Keeps Python's cyclic garbage collector from stalling a server. Main thread.

A collection blocks every thread while it visits all container objects. Libraries and a model create
hundreds of thousands of them, which stay; one long conversation creates as many again.
"""

import gc

# Net new objects before young ones are collected. Most garbage of requests is cyclic: freeing
# 50,000 such objects takes 100 ms and more, 2,000 take 5 ms.
_YOUNG = 2_000
_YOUNG_PASSES = 12
# Old objects are collected after some 100 million new ones. With Python's thresholds they would be
# visited again and again during one large request.
_MIDDLE_PASSES = 4_000


def spare_what_is_loaded() -> None:
    """Exclude all present objects from collections, and collect later ones less often."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _YOUNG_PASSES, _MIDDLE_PASSES)

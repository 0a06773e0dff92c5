"""Keeps Python's cyclic garbage collector from stalling a server. Main thread.

A collection keeps every thread waiting while it looks at all objects that refer to others.
Libraries and a model make hundreds of thousands of them, which stay; one long conversation makes
as many again.
"""

import gc

# Net new objects before the young ones are looked at, which then takes some 10 ms. Python's own
# 700 has the old ones looked at again and again while one request makes many.
_YOUNG = 50_000
_YOUNG_PASSES = 20
_MIDDLE_PASSES = 100


def spare_what_is_loaded() -> None:
    """Never look again at what has been loaded by now, and more rarely at what comes."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _YOUNG_PASSES, _MIDDLE_PASSES)

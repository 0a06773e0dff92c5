"""Keeps Python's cyclic garbage collector from stalling a server. Main thread.

A collection keeps every thread waiting while it looks at all objects that refer to others.
Libraries and a model make hundreds of thousands of them, which stay; one long conversation makes
as many again.
"""

import gc

# Net new objects before the young ones are looked at. Most of what requests leave is garbage in
# circles, and to take apart 50,000 such objects takes 100 ms and more; 2,000 take 5 ms.
_YOUNG = 2_000
_YOUNG_PASSES = 12
# The old ones are looked at after some 100 million objects. Python's own thresholds have them
# looked at again and again while one request makes many.
_MIDDLE_PASSES = 4_000


def spare_what_is_loaded() -> None:
    """Never look again at what has been loaded by now, and more rarely at what comes."""
    gc.freeze()
    gc.set_threshold(_YOUNG, _YOUNG_PASSES, _MIDDLE_PASSES)

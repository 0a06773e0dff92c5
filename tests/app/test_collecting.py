"""A server's collector skips permanent objects. In a process of its own: it cannot be undone."""

import subprocess
import sys

_PROGRAM = """
import gc
from app.process import spare_what_is_loaded
kept = [[n] for n in range(1000)]
spare_what_is_loaded()
assert gc.get_freeze_count() > 1000
passes = []
gc.callbacks.append(lambda phase, info: passes.append(info["generation"]))
made = [[n] for n in range(200_000)]
assert passes and 2 not in passes, passes
class Loop: pass
import weakref
one = Loop(); one.self = one; gone = weakref.ref(one); del one
gc.collect(0)
assert gone() is None
most = []
gc.callbacks.append(lambda phase, info: most.append(info.get("collected", 0)))
del made
for _ in range(100_000):
    one = Loop(); one.self = one
assert 0 < max(most) < 10_000, max(most)
"""


def test_new_objects_are_examined_once_or_twice_and_garbage_is_freed_in_small_steps() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr

"""The collector's pause leaves alone what others decide; freed memory is used again."""

import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from engine.processes import collector_paused


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    threshold, was_enabled = gc.get_threshold(), gc.isenabled()
    yield
    gc.set_threshold(*threshold)
    (gc.enable if was_enabled else gc.disable)()


def test_nothing_is_collected_during_the_pause_and_as_much_as_before_after_it() -> None:
    gc.set_threshold(700, 10, 10)
    with collector_paused():
        assert gc.get_threshold()[0] == 0
        with collector_paused():
            pass
        assert gc.get_threshold()[0] == 0, "the inner pause ended the outer one"
    assert gc.get_threshold() == (700, 10, 10)


def test_a_collector_that_a_window_turns_off_during_the_pause_stays_off() -> None:
    gc.enable()
    with collector_paused():
        gc.disable()
    assert not gc.isenabled()


def test_a_threshold_that_a_server_sets_during_the_pause_stays() -> None:
    with collector_paused():
        gc.set_threshold(50_000, 20, 100)
    assert gc.get_threshold() == (50_000, 20, 100)


_BLOCKS = """
import resource
from engine.processes import reuse_freed_memory, return_freed_memory

def faults(touched):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    bytearray(b"x") * touched
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

SIZE = 16 << 20
reuse_freed_memory()
first, again = faults(SIZE), faults(SIZE)
return_freed_memory()
print(first, again, faults(SIZE))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's allocator")
def test_a_large_block_is_made_of_memory_that_was_freed_until_that_is_given_back() -> None:
    told = subprocess.run(
        [sys.executable, "-c", _BLOCKS], capture_output=True, text=True, check=True
    )
    first, again, returned = map(int, told.stdout.split())
    assert first > 1000
    assert again < first / 10
    assert returned > first / 2

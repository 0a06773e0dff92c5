import asyncio
import gc
import threading
from collections.abc import Iterator

import pytest

from app.desktop.garbage_collection import collect_if_due, freeze_gc, gc_on_main_thread

pytestmark = pytest.mark.long


class Ring:
    """An object that only the cyclic collector can free; it notes on which thread."""

    def __init__(self, freed_on: list[threading.Thread]) -> None:
        self.itself = self
        self.freed_on = freed_on

    def __del__(self) -> None:
        self.freed_on.append(threading.current_thread())


@pytest.fixture
def nothing_left_out() -> Iterator[None]:
    """As in a program at its start; each full collection then looks at all of a test run."""
    gc.unfreeze()
    yield
    gc.freeze()


async def test_work_on_another_thread_never_collects_garbage() -> None:
    freed_on: list[threading.Thread] = []

    def work() -> None:
        for _ in range(50):
            kept = [[] for _ in range(1000)]
            del kept

    with gc_on_main_thread(asyncio.get_running_loop()):
        for _ in range(20):
            Ring(freed_on)
        await asyncio.to_thread(work)
        assert freed_on == []
    assert set(freed_on) == {threading.main_thread()}


def test_garbage_is_collected_while_the_loop_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.desktop.garbage_collection._INTERVAL_S", 0.01)
    freed_on: list[threading.Thread] = []

    async def run() -> None:
        with gc_on_main_thread(asyncio.get_running_loop()):
            for _ in range(2000):
                Ring(freed_on)
            for _ in range(200):
                await asyncio.sleep(0.01)
                if freed_on:
                    return
            pytest.fail("nothing was collected")

    asyncio.run(run())


@pytest.mark.usefixtures("nothing_left_out")
async def test_objects_from_the_start_are_not_examined_until_the_end() -> None:
    freed_on: list[threading.Thread] = []

    with gc_on_main_thread(asyncio.get_running_loop()):
        kept = [[] for _ in range(1000)]
        Ring(freed_on)
        freeze_gc()
        frozen = gc.get_freeze_count()
        assert frozen > len(kept)
        Ring(freed_on)
        gc.collect()
        assert len(freed_on) == 1  # objects that were made later
        freeze_gc()
        assert gc.get_freeze_count() <= frozen
    assert len(freed_on) == 2
    assert gc.get_freeze_count() == 0


def test_full_collections_are_rare() -> None:
    gc.disable()
    gc.collect()
    kept: list[list[int]] = []
    looked: list[int | None] = []
    for _ in range(400):
        kept += [[] for _ in range(gc.get_threshold()[0] + 100)]
        looked.append(collect_if_due())
    assert {0, 1} <= set(looked)
    assert 2 not in looked


def test_the_collector_gets_its_old_settings_back() -> None:
    async def run() -> bool:
        with gc_on_main_thread(asyncio.get_running_loop()):
            return gc.isenabled()

    gc.enable()
    assert asyncio.run(run()) is False
    assert gc.isenabled()
    gc.disable()
    asyncio.run(run())
    assert not gc.isenabled()


async def test_objects_that_were_excluded_before_the_window_opened_stay_excluded() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    with gc_on_main_thread(asyncio.get_running_loop()):
        freeze_gc()
    assert 0 < gc.get_freeze_count() <= frozen


def test_the_collector_takes_the_oldest_generation_that_is_due() -> None:
    gc.disable()
    gc.collect()
    assert collect_if_due() is None
    kept = [[] for _ in range(gc.get_threshold()[0] + 100)]
    assert collect_if_due() == 0
    assert len(kept) > 0

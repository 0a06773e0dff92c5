import asyncio
import threading

import pytest

from app.desktop.garbage_collection import gc_on_main_thread

pytestmark = pytest.mark.long


class Ring:
    def __init__(self, freed_on: list[threading.Thread]) -> None:
        self.itself = self
        self.freed_on = freed_on

    def __del__(self) -> None:
        self.freed_on.append(threading.current_thread())


async def test_gc_never_runs_on_other_threads() -> None:
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


def test_gc_runs_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
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

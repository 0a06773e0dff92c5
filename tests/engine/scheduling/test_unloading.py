"""Models that are unloaded, at once or while idle, and read again for the next request."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from engine.errors import ModelLoadFailed, NoModel
from tests.engine.scheduling.stages import Failing, SlowLoading, stage_of, until
from tests.support.asking import ask, loaded_engine, request


async def test_idle_model_is_unloaded_and_reloaded_on_demand(tmp_path: Path) -> None:
    loader = SlowLoading(stage_of(tmp_path))
    async with loaded_engine(tmp_path, loader=loader) as engine:
        engine.unload_after(0.05)
        await until(lambda: engine.status.is_unloaded)
        # It is still the loaded model for everybody who asks.
        assert engine.model is not None
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 2
        await until(lambda: engine.status.is_unloaded)
        assert len(await engine.tokenize("yes")) > 0
        assert loader.loaded == 3


async def test_a_busy_model_is_not_unloaded(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    is_late, goes_on = threading.Event(), threading.Event()

    def fault(number: int) -> None:
        time.sleep(0.01)
        if number == 50:
            is_late.set()
            goes_on.wait(60)

    loader = SlowLoading(stage)
    async with loaded_engine(tmp_path, loader=loader) as engine:
        stage.model.fault = fault
        answer = await engine.generate(request("long", max_tokens=60))
        engine.unload_after(0.1)
        await until(is_late.is_set)  # after half a second
        engine.unload_after(None)
        goes_on.set()
        assert (await answer.collect()).finished.usage.output_tokens == 60
        assert loader.loaded == 1
        await asyncio.sleep(0.2)
        assert not engine.status.is_unloaded


async def test_unload_waits_for_running_answer_and_next_request_reloads(tmp_path: Path) -> None:
    loader = SlowLoading(stage_of(tmp_path, step_s=0.005))
    async with loaded_engine(tmp_path, loader=loader) as engine:
        generation = await engine.generate(request("long", max_tokens=20))
        engine.unload_when_idle()
        assert (await generation.collect()).finished.usage.output_tokens == 20
        await until(lambda: engine.status.is_unloaded)
        assert (loader.loaded, engine.model is not None) == (1, True)
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 2
        # It was asked for once, and has been done.
        await asyncio.sleep(0.2)
        assert not engine.status.is_unloaded


async def test_failed_reload_is_retried_by_next_request(tmp_path: Path) -> None:
    loader = Failing(stage_of(tmp_path))
    async with loaded_engine(tmp_path, loader=loader) as engine:
        engine.unload_after(0.01)
        await until(lambda: engine.status.is_unloaded)
        loader.failures = [MemoryError("no room"), ModelLoadFailed("still no room")]
        with pytest.raises(NoModel, match="reloading scripted failed: still no room"):
            await engine.generate(request("short"))
        # It is still the loaded model for everybody who asks.
        assert engine.status.is_unloaded
        assert engine.model is not None
        with pytest.raises(NoModel, match="MemoryError: no room"):
            await engine.count_tokens(request("short"))
        assert (await ask(engine, "short")).text == "yes"
        assert loader.loaded == 4

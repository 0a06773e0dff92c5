"""Models that are unloaded, at once or while idle, and read again for the next request."""

import asyncio
import threading
import time
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import EngineError, ModelLoadFailed, NoModel
from tests.engine.scheduling.stages import Failing, SlowLoading, Waking, stage_of, until
from tests.support.asking import ask, loaded_engine, request


async def test_an_idle_model_is_unloaded_and_loaded_again_for_the_next_request(
    tmp_path: Path,
) -> None:
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


async def test_closing_does_not_wait_for_a_model_that_is_being_read_again(tmp_path: Path) -> None:
    loader = Waking(stage_of(tmp_path))
    engine = Engine(loader=loader)
    await engine.load(tmp_path)
    engine.unload_after(0.01)
    await until(lambda: engine.status.is_unloaded)
    asked = asyncio.create_task(engine.generate(request("short")))
    await until(lambda: engine.status.state == "loading")
    async with asyncio.timeout(30):
        await engine.aclose()
    assert not loader.may_wake.is_set()
    with pytest.raises(EngineError):
        await asked


async def test_a_question_given_up_while_the_model_is_read_again_is_never_answered(
    tmp_path: Path,
) -> None:
    loader = Waking(stage_of(tmp_path))
    async with loaded_engine(tmp_path, loader=loader) as engine:
        engine.unload_after(0.2)
        await until(lambda: engine.status.is_unloaded)
        asked = asyncio.create_task(engine.generate(request("long")))
        await until(lambda: engine.status.state == "loading")
        # It stays the loaded model for everybody who looks meanwhile.
        assert engine.model is not None
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        loader.may_wake.set()
        assert (await ask(engine, "short")).text == "yes"
        await until(lambda: engine.status.running + engine.status.waiting == 0)


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


async def test_unloading_waits_for_the_answer_that_runs_and_the_next_request_loads_the_model_again(
    tmp_path: Path,
) -> None:
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


async def test_a_request_before_the_idle_unload_keeps_the_model(tmp_path: Path) -> None:
    stage, is_asked = stage_of(tmp_path), threading.Event()
    stage.slow_until(is_asked)
    loader = SlowLoading(stage)
    engine = Engine(loader=loader)
    engine.unload_when_idle()
    await engine.load(tmp_path)
    first = await engine.generate(request("long", max_tokens=200))
    engine.unload_when_idle()
    second = await engine.generate(request("long", max_tokens=40))
    is_asked.set()
    assert (await first.collect()).finished.usage.output_tokens == 200
    assert (await second.collect()).finished.usage.output_tokens == 40
    assert (await ask(engine, "short")).text == "yes"
    assert loader.loaded == 1
    await engine.aclose()


async def test_removing_a_model_that_was_unloaded_while_idle_leaves_no_model(
    tmp_path: Path,
) -> None:
    async with loaded_engine(tmp_path, loader=stage_of(tmp_path).load) as engine:
        engine.unload_after(0.01)
        await until(lambda: engine.status.is_unloaded)
        await engine.unload()
        assert engine.model is None
        with pytest.raises(NoModel):
            await engine.generate(request("short"))


async def test_a_model_that_could_not_be_read_again_once_is_tried_at_the_next_request(
    tmp_path: Path,
) -> None:
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

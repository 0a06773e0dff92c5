"""While one model is loaded, the others answer; faults end only what they must."""

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import ModelLoadFailed, NoModel
from engine.inference.backend import LoadProgress, OnLoadProgress
from engine.inference.mlx_backend import MlxBackend
from engine.scheduling.model_slot import ModelSlot
from engine.scheduling.models import Models
from engine.stopping.record import StopKind
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, request, run
from tests.support.several.staged_models import StagedModels


class Held:
    """Loads staged models; one of them in parts, for as long as the test holds it."""

    def __init__(self, models: StagedModels, slow: str) -> None:
        self.models = models
        self.may_end = threading.Event()
        self.parts = 0
        self.failure: Exception | None = None
        self._slow = slow

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> MlxBackend:
        deadline_s = time.monotonic() + 120
        while folder.name == self._slow and not self.may_end.is_set():
            assert time.monotonic() < deadline_s
            on_progress(LoadProgress("weights", 1, 100))
            self.parts += 1
            time.sleep(0.001)
        if folder.name == self._slow and self.failure is not None:
            raise self.failure
        return self.models(folder, on_progress=on_progress, **options)


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Held]:
    words = {"short": ["yes"], "long": [f"w{n} " for n in range(200)]}
    models = StagedModels(tmp_path, {"here": words, "slow": {"short": ["no"]}})
    held = Held(models, "slow")
    yield held
    held.may_end.set()


@pytest.fixture
def engine(held: Held) -> Iterator[Engine]:
    engine = Engine(loader=held)
    engine.offer(held.models.offered)
    run(engine.load(held.models.offered[0].folder))
    yield engine
    engine.close()


def state(engine: Engine, name: str) -> str:
    status = engine.resolve_model(name)
    assert status is not None
    return status.state


async def test_a_model_answers_while_another_is_loaded(engine: Engine, held: Held) -> None:
    before = await engine.generate(request("long", model="here"))
    slow = asyncio.ensure_future(ask(engine, "short", model="slow"))
    await until(lambda: held.parts > 0)
    # One that ran already, and one that comes now; both end before the load does.
    assert (await before.collect()).text == "".join(f"w{n} " for n in range(200))
    assert (await ask(engine, "short")).text == "yes"
    assert (state(engine, "slow"), slow.done()) == ("loading", False)
    held.may_end.set()
    assert (await slow).text == "no"
    assert held.models.loads == ["here", "slow"]


async def test_idle_time_begins_after_the_load(engine: Engine, held: Held) -> None:
    engine.unload_after(0.5, "slow")
    loading = asyncio.ensure_future(engine.tokenize("", "slow"))
    await until(lambda: held.parts > 0)
    await asyncio.sleep(0.6)
    held.may_end.set()
    await loading
    await asyncio.sleep(0.1)
    assert state(engine, "slow") == "ready"
    await until(lambda: state(engine, "slow") == "unloaded")


async def test_a_request_that_waits_for_its_model_can_be_cancelled(
    engine: Engine, held: Held
) -> None:
    waiting = asyncio.ensure_future(engine.generate(request("short", model="slow")))
    await until(lambda: held.parts > 0)
    await until(lambda: (engine.resolve_model("slow") or engine.models[0]).waiting == 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await until(lambda: (engine.resolve_model("slow") or engine.models[0]).waiting == 0)
    held.may_end.set()
    assert (await ask(engine, "short", model="slow")).text == "no"


async def test_failed_load_fails_only_its_waiting_requests(engine: Engine, held: Held) -> None:
    held.failure = ModelLoadFailed("the disk is gone")
    running = await engine.generate(request("long"))
    waiting = [asyncio.ensure_future(ask(engine, "short", model="slow")) for _ in range(3)]
    await until(lambda: held.parts > 0)
    held.may_end.set()
    for one in waiting:
        with pytest.raises(NoModel, match="the disk is gone"):
            await one
    assert state(engine, "slow") == "failed"
    assert (await running.collect()).finished.stop.kind is StopKind.EOS
    held.failure = None
    assert (await ask(engine, "short", model="slow")).text == "no"
    assert (engine.model is not None, engine.status.state) == (True, "ready")


async def test_model_is_default_when_its_load_returns(
    engine: Engine, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    held.may_end.set()
    set_default = Models._set_default

    def set_late(models: Models, model: ModelSlot) -> None:
        time.sleep(0.05)  # the caller's thread runs before the engine's
        set_default(models, model)

    monkeypatch.setattr(Models, "_set_default", set_late)
    for name in ("slow", "here"):  # one that is read from its folder, then one that is in memory
        folder = next(one.folder for one in held.models.offered if one.id == name)
        await engine.load(folder)
        assert engine.status.id == name


async def test_model_chosen_while_a_request_loads_it_becomes_default(
    engine: Engine, held: Held
) -> None:
    waiting = asyncio.create_task(ask(engine, "short", model="slow"))
    await until(lambda: held.parts > 0)
    chosen = asyncio.create_task(engine.load(held.models.offered[1].folder))
    await asyncio.sleep(0.05)
    held.may_end.set()
    await chosen
    assert engine.status.id == "slow"
    assert (await waiting).text == "no"

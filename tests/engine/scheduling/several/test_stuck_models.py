"""A model that hangs: its thread is abandoned, and the next request starts another."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.errors import EngineStuck, ModelLoadFailed
from engine.generation import Answer
from engine.inference.backend import OnLoadProgress
from engine.inference.mlx_backend import MlxBackend
from engine.scheduling.model_list import ModelStatus
from engine.stopping.record import StopKind
from engine.values.limits import Limits
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, request
from tests.support.several.staged_models import StagedModels

pytestmark = pytest.mark.long

STUCK_AFTER_S = 1.0
WORDS = [f"w{n} " for n in range(200)]
WHY = "has not completed a step for 1 seconds"


class Blockade:
    """Holds one model in a step, or in its load, until the test lets it go on."""

    def __init__(self, models: StagedModels) -> None:
        self.models = models
        self.opened = threading.Event()
        self.is_held = threading.Event()
        self.holds_load_of: str | None = None

    def hold(self) -> None:
        self.is_held.set()
        assert self.opened.wait(120)

    def hold_step(self, name: str, call: int = 1) -> None:
        """Hold a model in its next steps, from the one with this number on."""
        model = self.models.stages[name].model
        first = len(model.calls) + call
        model.fault = lambda number: self.hold() if number >= first else None

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> MlxBackend:
        if folder.name == self.holds_load_of:
            self.hold()
        return self.models(folder, on_progress=on_progress, **options)


@pytest.fixture
def blockade(tmp_path: Path) -> Iterator[Blockade]:
    scripts = {"short": ["yes"], "long": WORDS}
    blockade = Blockade(StagedModels(tmp_path, {"here": scripts, "there": scripts}))
    yield blockade
    blockade.opened.set()


async def opened(blockade: Blockade, **limits: Any) -> Engine:
    """Return an engine with two models, both in memory; ``here`` is the default."""
    engine = Engine(Limits(stuck_after_s=STUCK_AFTER_S, **limits), loader=blockade)
    engine.offer(blockade.models.offered)
    await engine.load(blockade.models.offered[0].folder)
    assert (await ask(engine, "short", model="there")).text == "yes"
    return engine


def status(engine: Engine, name: str) -> ModelStatus:
    found = engine.resolve_model(name)
    assert found is not None
    return found


async def failed(engine: Engine, blockade: Blockade) -> Answer:
    """Return the answer of ``there`` in which the model got stuck."""
    blockade.hold_step("there", call=3)
    answer = await ask(engine, "long", model="there")
    assert answer.finished.stop.kind is StopKind.ERROR
    assert "".join(WORDS).startswith(answer.text)
    return answer


def engine_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "fullstop-engine"]


async def test_stuck_model_fails_and_other_models_answer(blockade: Blockade) -> None:
    engine = await opened(blockade)
    engine.unload_after(900.0, "here")
    answer = await failed(engine, blockade)
    assert WHY in (answer.finished.error or "")
    there = status(engine, "there")
    assert (there.state, there.is_stuck) == ("failed", True)
    assert WHY in there.message
    with pytest.raises(EngineStuck, match="Restart this model"):
        await engine.generate(request("short", model="there"))
    assert (await ask(engine, "short", model="here")).text == "yes"
    assert (await ask(engine, "short")).text == "yes"
    assert status(engine, "here").is_default
    assert status(engine, "here").unloads_at is not None  # its idle time outlives the thread
    await engine.aclose()


async def test_hang_ends_all_answers_and_waiting_requests(blockade: Blockade) -> None:
    engine = await opened(blockade, max_rows=1)
    blockade.hold_step("there", call=3)
    names = ("here", "here", "there")
    running = [await engine.generate(request("long", model=name)) for name in names]
    answers = [await generation.collect() for generation in running]
    assert {answer.finished.stop.kind for answer in answers} == {StopKind.ERROR}
    assert "another model hung" in (answers[0].finished.error or "")
    assert WHY in (answers[2].finished.error or "")
    assert (await ask(engine, "long", model="here")).text == "".join(WORDS)
    await engine.aclose()


async def test_recovered_model_answers_again(blockade: Blockade) -> None:
    earlier = set(engine_threads())
    engine = await opened(blockade)
    answer = await failed(engine, blockade)
    blockade.opened.set()
    await until(lambda: earlier.issuperset(engine_threads()))
    assert not engine.is_stuck
    # Nothing more came of it, and its status was not overwritten by the thread that ended.
    assert status(engine, "there").state == "failed"
    assert (await ask(engine, "long", model="there")).text == "".join(WORDS)
    assert len(answer.text) < 20
    await engine.aclose()


async def test_restarted_model_answers_while_old_thread_hangs(blockade: Blockade) -> None:
    engine = await opened(blockade)
    await failed(engine, blockade)
    blockade.models.stages["there"].model.fault = lambda _: None
    await engine.restart("there")
    assert (status(engine, "there").state, status(engine, "there").is_stuck) == ("ready", False)
    assert (await ask(engine, "long", model="there")).text == "".join(WORDS)
    assert status(engine, "here").is_default
    assert engine.is_stuck
    await engine.aclose()


async def test_hung_load_is_abandoned_with_cause(blockade: Blockade) -> None:
    engine = await opened(blockade)
    await engine.unload("there")
    blockade.holds_load_of = "there"
    load = asyncio.ensure_future(engine.load(blockade.models.offered[1].folder))
    with pytest.raises(ModelLoadFailed, match="has not been loaded any further for 1 seconds"):
        await load
    assert status(engine, "there").is_stuck
    assert (await ask(engine, "short", model="here")).text == "yes"
    blockade.holds_load_of = None
    await engine.restart("there")
    assert (await ask(engine, "short", model="there")).text == "yes"
    await engine.aclose()

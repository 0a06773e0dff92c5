"""A stuck model is given up with its own answers; the other models go on. Slow is not stuck."""

import asyncio
import hashlib
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import mlx.core as mx
import pytest

from engine.errors import EngineClosed, EngineStuck, ModelLoadFailed
from engine.inference.backend import OnLoadProgress
from engine.inference.mlx_backend import MlxBackend
from engine.scheduling.generation import Answer
from engine.scheduling.model_list import ModelStatus
from engine.scheduling.pulse import Evidence, Patience, Work
from engine.scheduling.pulse import gather as evidence
from engine.scheduling.service import Engine
from engine.stopping.record import StopKind
from engine.values.request import Limits, Sampling
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, request, run
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
    found = engine.model_status(name)
    assert found is not None
    return found


async def failed(engine: Engine, blockade: Blockade) -> Answer:
    """Return the answer of ``there`` in which the model got stuck."""
    blockade.hold_step("there", call=3)
    answer = await ask(engine, "long", model="there")
    assert answer.finished.stop.kind is StopKind.ERROR
    assert answer.text == "".join(WORDS[: answer.finished.usage.output_tokens])
    return answer


def engine_threads() -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == "fullstop-engine"]


async def test_a_stuck_model_fails_with_its_cause_and_the_other_one_answers(
    blockade: Blockade,
) -> None:
    engine = await opened(blockade)
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
    await engine.aclose()


def test_answers_of_the_other_model_go_on_where_they_were(blockade: Blockade) -> None:
    async def play() -> None:
        engine = await opened(blockade, max_rows=2)
        expected = await ask(engine, "long", model="here")
        stage = blockade.models.stages["here"]
        reached = threading.Event()

        def slow(number: int) -> None:  # so that its answers are not over before the other is stuck
            if not blockade.is_held.wait(0.02):
                reached.set()

        stage.model.fault = slow
        # Two that run, one of them with a seed, and one that waits for a place.
        seeded = Sampling(temperature=0.01, seed=7)
        asked = [request("long"), request("long", sampling=seeded), request("long")]
        running = [asyncio.ensure_future(ask_here(engine, one)) for one in asked]
        await until(lambda: reached.is_set() and status(engine, "here").running == 2)
        blockade.hold_step("there")
        assert (await ask(engine, "short", model="there")).finished.stop.kind is StopKind.ERROR
        for answer in await asyncio.gather(*running):
            assert answer.text == expected.text
            assert answer.finished.stop.kind is StopKind.EOS
            assert answer.finished.usage.output_tokens == expected.finished.usage.output_tokens
        await engine.aclose()

    async def ask_here(engine: Engine, one: Any) -> Answer:
        return await (await engine.generate(one)).collect()

    run(play(), 120)


async def test_a_request_whose_model_was_waiting_to_be_loaded_is_answered_all_the_same(
    blockade: Blockade,
) -> None:
    engine = await opened(blockade)
    await engine.unload("here")
    blockade.hold_step("there", call=3)
    stuck = asyncio.ensure_future(ask(engine, "long", model="there"))
    await asyncio.to_thread(blockade.is_held.wait, 60)
    waiting = [asyncio.ensure_future(ask(engine, "short", model="here")) for _ in range(3)]
    assert (await stuck).finished.stop.kind is StopKind.ERROR
    assert [(await one).text for one in waiting] == ["yes"] * 3
    await engine.aclose()


async def test_a_model_that_comes_back_answers_again_and_its_thread_is_gone(
    blockade: Blockade,
) -> None:
    before = len(engine_threads())
    engine = await opened(blockade)
    answer = await failed(engine, blockade)
    await until(lambda: len(engine_threads()) == before + 2)
    blockade.opened.set()
    await until(lambda: len(engine_threads()) == before + 1)
    assert not engine.is_stuck
    # Nothing more came of it, and its status was not overwritten by the thread that ended.
    assert status(engine, "there").state == "failed"
    assert (await ask(engine, "long", model="there")).text == "".join(WORDS)
    assert len(answer.text) < 20
    await engine.aclose()


async def test_a_restarted_model_answers_although_its_old_thread_still_hangs(
    blockade: Blockade,
) -> None:
    engine = await opened(blockade)
    await failed(engine, blockade)
    blockade.models.stages["there"].model.fault = lambda _: None
    await engine.restart("there")
    assert (status(engine, "there").state, status(engine, "there").is_stuck) == ("ready", False)
    assert (await ask(engine, "long", model="there")).text == "".join(WORDS)
    assert status(engine, "here").is_default
    assert engine.is_stuck
    await engine.aclose()


async def test_an_unloaded_model_is_loaded_again_although_its_old_thread_still_hangs(
    blockade: Blockade,
) -> None:
    engine = await opened(blockade)
    await failed(engine, blockade)
    blockade.models.stages["there"].model.fault = lambda _: None
    engine.unload_when_idle("there")
    assert (await ask(engine, "long", model="there")).text == "".join(WORDS)
    await engine.aclose()


async def test_a_load_that_is_stuck_is_given_up_and_said(blockade: Blockade) -> None:
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


async def test_an_engine_that_is_closed_does_not_wait_for_a_stuck_step(blockade: Blockade) -> None:
    engine = Engine(loader=blockade)
    engine.offer(blockade.models.offered)
    await engine.load(blockade.models.offered[0].folder)
    blockade.hold_step("here", call=3)
    running = asyncio.ensure_future(ask(engine, "long"))
    await asyncio.to_thread(blockade.is_held.wait, 60)
    await engine.aclose()
    assert (await running).finished.stop.kind is StopKind.CANCELLED
    assert engine.is_stuck
    blockade.opened.set()
    await until(lambda: not engine.is_stuck)


async def test_who_waits_for_a_load_that_hangs_learns_that_the_engine_ends(
    blockade: Blockade,
) -> None:
    engine = Engine(loader=blockade)
    engine.offer(blockade.models.offered)
    blockade.holds_load_of = "here"
    load = asyncio.ensure_future(engine.load(blockade.models.offered[0].folder))
    await asyncio.to_thread(blockade.is_held.wait, 60)
    await engine.aclose()
    with pytest.raises(EngineClosed, match="shut down"):
        await asyncio.wait_for(load, 60)
    blockade.opened.set()
    await until(lambda: not engine.is_stuck)


async def test_who_waits_for_a_question_that_hangs_learns_that_the_engine_ends(
    blockade: Blockade, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(loader=blockade)
    engine.offer(blockade.models.offered)
    await engine.load(blockade.models.offered[0].folder)
    monkeypatch.setattr(MlxBackend, "tokenize", lambda *_: blockade.hold())
    question = asyncio.ensure_future(engine.tokenize("some text"))
    await asyncio.to_thread(blockade.is_held.wait, 60)
    await engine.aclose()
    with pytest.raises(EngineClosed, match="shut down"):
        await asyncio.wait_for(question, 60)
    blockade.opened.set()
    await until(lambda: not engine.is_stuck)


async def test_too_many_stuck_threads_end_the_engine_instead_of_growing(blockade: Blockade) -> None:
    before = len(engine_threads())
    engine = await opened(blockade)
    for _ in range(4):
        blockade.hold_step("there")
        answer = await ask(engine, "short", model="there")
        assert answer.finished.stop.kind is StopKind.ERROR
        await engine.restart("there")
    blockade.hold_step("there")
    last = await ask(engine, "short", model="there")
    assert "restart Fullstop" in (last.finished.error or "")
    await until(lambda: len(engine_threads()) == before + 5)
    blockade.opened.set()
    await until(lambda: len(engine_threads()) == before)


# -- slow is not stuck ----------------------------------------------------------------------------


async def test_a_pass_that_computes_is_not_stuck_however_long_it_takes(blockade: Blockade) -> None:
    """One call of MLX over many seconds of operations, each far shorter than the limit."""

    engine = await opened(blockade)
    model = blockade.models.stages["there"].model
    took: list[int] = []

    def compute(number: int) -> None:
        if not took:
            took.append(number)
            # Values keep their size: tiny ones, not normalised, would take a hundred times longer.
            product, unit = mx.random.normal((900, 900)), mx.eye(900)
            begin_s = time.monotonic()
            mx.eval(product @ unit)
            one_s = time.monotonic() - begin_s
            for _ in range(1 + int(2 * STUCK_AFTER_S / one_s)):
                product = product @ unit
            mx.eval(product)

    model.fault = compute
    answer = await ask(engine, "short", model="there")
    assert took
    assert (answer.text, answer.finished.stop.kind) == ("yes", StopKind.EOS)
    await engine.aclose()


def looks(patience: Patience, work: Work | None, *looks_s: float) -> list[bool]:
    return [patience.is_over(work, since_s) for since_s in looks_s]


class Figures:
    def __init__(self) -> None:
        self.now = Evidence((0,))

    def __call__(self, is_load: bool) -> Evidence:
        return self.now


def test_work_without_any_sign_of_progress_is_stuck_after_its_time() -> None:
    patience = Patience(10.0, Figures())
    assert looks(patience, Work(1, None, False), *[0.5] * 30)[-1]
    assert not any(looks(Patience(10.0, Figures()), Work(1, None, False), *[0.5] * 18))


def test_new_work_and_each_sign_of_progress_begin_the_time_anew() -> None:
    figures = Figures()
    patience = Patience(2.0, figures)
    for number in range(20):
        assert not any(looks(patience, Work(number + 1, None, False), *[0.5] * 4))
    for step in range(20):
        figures.now = Evidence((step,))
        assert not any(looks(patience, Work(50, None, False), *[0.5] * 3))
    assert looks(patience, Work(50, None, False), *[0.5] * 5)[-1]


def test_a_debugger_may_hold_a_thread_as_long_as_it_likes_if_nothing_counts_as_stuck() -> None:
    patience = Patience(math.inf, Figures())
    assert not any(looks(patience, Work(1, None, False), *[1.0] * 10_000))


def test_a_computer_that_slept_has_not_been_stuck_for_that_time() -> None:
    patience = Patience(120.0, Figures())
    assert not any(looks(patience, Work(1, None, False), *[0.5] * 20, 86_400.0, *[0.5] * 20))


def test_a_thread_that_computes_is_given_its_own_time_and_one_that_waits_the_clocks() -> None:
    figures = Figures()
    patience = Patience(10.0, figures)
    work = Work(1, None, False)
    looks(patience, work, *[0.5] * 4)
    for tick in range(100):  # a starved machine: a tenth of a processor, 5 s in all
        figures.now = Evidence((0,), own_s=tick * 0.05)
        assert not patience.is_over(work, 0.5)
    for tick in range(400):  # one operation that MLX computes all the while
        figures.now = Evidence((0,), own_s=5.0, computing_s=tick * 0.25)
        assert not patience.is_over(work, 0.5)
    assert looks(patience, work, *[0.5] * 20)[-1]


def test_a_thread_that_gets_no_processor_for_long_is_not_stuck() -> None:
    figures = Figures()
    patience = Patience(10.0, figures)
    work = Work(1, None, False)
    figures.now = Evidence((0,), is_runnable=True)
    assert not any(looks(patience, work, *[0.5] * 500))
    figures.now = Evidence((0,))
    assert looks(patience, work, *[0.5] * 20)[-1]


def test_a_thread_that_computes_is_seen_to_be_runnable_and_one_that_waits_is_not() -> None:
    is_over = threading.Event()

    def compute() -> None:
        block = bytes(1 << 20)
        while not is_over.is_set():
            hashlib.sha256(block)  # as MLX does, it computes without Python's lock

    for work, is_runnable in ((compute, True), (is_over.wait, False)):
        thread = threading.Thread(target=work)
        thread.start()
        seen = [evidence(thread.native_id, is_load=False).is_runnable for _ in range(10)]
        is_over.set()
        thread.join()
        is_over.clear()
        # What MLX has started in this process may run now and then, beside the thread that waits.
        assert any(seen) if is_runnable else not all(seen)

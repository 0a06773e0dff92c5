"""Answers that are cancelled while they wait, are read, decoded or held back."""

import asyncio
import threading
from pathlib import Path

import pytest

from engine.errors import NoModel
from engine.stopping.record import StopKind
from engine.values.events import Finished, TextDelta
from engine.values.limits import Limits
from tests.engine.scheduling.stages import stage_of, until
from tests.support.asking import ask, loaded_engine, request
from tests.support.scripted import Stage


async def test_a_cancel_while_decoding_ends_within_a_step(tmp_path: Path) -> None:
    stage, goes_on = stage_of(tmp_path), threading.Event()
    stage.hold_at(20, goes_on)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        generation = await engine.generate(request("long"))
        await until(lambda: len(stage.model.calls) == 20)
        generation.cancel()
        goes_on.set()
        events = [event async for event in generation.events()]
        assert any(isinstance(event, TextDelta) for event in events)
        finished = events[-1]
        assert isinstance(finished, Finished)
        assert finished.stop.kind is StopKind.CANCELLED
        assert len(stage.model.calls) <= 22


async def test_a_cancelled_answer_is_no_longer_decoded_beside_others(tmp_path: Path) -> None:
    stage, is_cancelled = stage_of(tmp_path), threading.Event()
    stage.slow_until(is_cancelled)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        cancelled = await engine.generate(request("long"))
        other = await engine.generate(request("long", max_tokens=100))
        await until(lambda: bool(stage.model.calls) and stage.model.calls[-1][0] == 2)
        cancelled.cancel()
        await cancelled.collect()
        is_cancelled.set()
        assert (await other.collect()).finished.stop.kind is StopKind.MAX_TOKENS
        assert stage.model.calls[-1][0] == 1


async def test_cancel_during_long_prefill(tmp_path: Path) -> None:
    stage, goes_on = stage_of(tmp_path, context=100_000), threading.Event()
    stage.hold_at(5, goes_on)

    async with loaded_engine(tmp_path, Limits(prefill_chunk=16), loader=stage.load) as engine:
        generation = await engine.generate(request("x" * 2000))
        await until(lambda: len(stage.model.calls) == 5)
        generation.cancel()
        goes_on.set()
        answer = await generation.collect()
        assert answer.finished.stop.kind is StopKind.CANCELLED
        assert answer.finished.usage.output_tokens == 0
        assert len(stage.model.calls) <= 7
        assert (await ask(engine, "short")).text == "yes"


async def test_load_waits_for_running_answers_or_cancels_them(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.02)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        generation = await engine.generate(request("long", max_tokens=10))
        _, answer = await asyncio.gather(engine.load(tmp_path), generation.collect())
        assert answer.finished.stop.kind is StopKind.MAX_TOKENS
        generation = await engine.generate(request("long"))
        await engine.load(tmp_path, cancels_running=True)
        assert (await generation.collect()).finished.stop.kind is StopKind.CANCELLED
        assert (await ask(engine, "short")).text == "yes"
        await engine.unload()
        assert engine.model is None
        with pytest.raises(NoModel):
            await engine.generate(request("short"))


async def test_a_cancel_releases_text_that_was_held_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["a", "EN", *["é"] * 500]}, step_s=0.02)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        generation = await engine.generate(request("go", "EN" + "é" * 600))
        await until(lambda: generation.written_tokens >= 3)
        generation.cancel()
        answer = await generation.collect()
        assert answer.text.startswith("aENé")
        assert answer.finished.stop.held == answer.text[1:]

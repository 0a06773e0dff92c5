"""A long prompt and a full inbox leave running answers their pace; judged by steps, not by time."""

import asyncio
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from engine.generation import Generation
from engine.values.events import PromptProgress, TextDelta
from engine.values.limits import Limits
from tests.support.asking import loaded_engine, request
from tests.support.scripted import ScriptedModel, Stage

LONG = [f"w{n} " for n in range(3000)]


def stage_of(folder: Path, **options: Any) -> Stage:
    return Stage(folder, {"long": LONG, "short": ["yes"]}, context=60_000, **options)


def costs(model: ScriptedModel, token_s: float) -> None:
    """Let a forward pass last as long as it has tokens."""

    def wait(_: int) -> None:
        rows, width = model.calls[-1]
        time.sleep(rows * width * token_s)

    model.fault = wait


class Asked(dict[str, Sequence[int]]):
    """A stage's answers; notes what the model had read when the short question was answered."""

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage.scripts)
        self.read = 0
        self._stage = stage

    def get(self, asked: str, default: Any = None) -> Any:
        if asked == "short" and not self.read:
            self.read = sum(width for _, width in self._stage.model.calls)
        return super().get(asked, default)


async def first_text(generation: Generation) -> None:
    async for event in generation.events():
        if isinstance(event, TextDelta):
            return


async def test_a_stream_continues_while_6_000_tokens_are_read(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)
    costs(stage.model, 0.00005)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        stream = await engine.generate(request("long", max_tokens=100_000))
        reading = asyncio.ensure_future(stream.collect())
        long = await engine.generate(request("x" * 6_000, max_tokens=1))
        async for event in long.events():
            if isinstance(event, PromptProgress) and event.processed > 0:
                break
        begin = len(stage.model.calls)
        await long.collect()
        calls = stage.model.calls[begin:]
        stream.cancel()
        await reading
        read = [width for _, width in calls if width > 1]
        assert sum(read) > 4_000
        # Without a budget of time there is one decoding step to each chunk.
        assert len(calls) - len(read) > 1.5 * len(read)


@pytest.mark.parametrize("long_ones", [1, 6], ids=["that is being read", "in all places"])
async def test_a_short_request_overtakes_long_prompts(tmp_path: Path, long_ones: int) -> None:
    stage, is_asked = stage_of(tmp_path), threading.Event()
    stage.slow_until(is_asked)
    stage.scripts = asked = Asked(stage)

    async with loaded_engine(tmp_path, Limits(prefill_chunk=16), loader=stage.load) as engine:
        stream = await engine.generate(request("long"))
        asked_long = request("x" * 20_000, max_tokens=1)
        long = [await engine.generate(asked_long) for _ in range(long_ones)]
        short = await engine.generate(request("short"))
        is_asked.set()
        await first_text(short)
        assert 0 < asked.read < 1000
        for generation in (stream, *long):
            generation.cancel()
            await generation.collect()

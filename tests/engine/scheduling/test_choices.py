"""The choices of one request start together: the engine accepts all of them, or none."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import QueueFull
from engine.values.limits import Limits
from engine.values.request import CacheOwner
from tests.engine.scheduling.stages import rendering, stage_of, text_of
from tests.support.asking import loaded_engine, request


@pytest.mark.parametrize("prediction", [None, "yes"])
async def test_the_prompt_of_several_choices_is_rendered_once(
    tmp_path: Path, prediction: str | None
) -> None:
    rendered: list[str] = []
    load = rendering(stage_of(tmp_path), lambda asked: rendered.append(text_of(asked)))

    async with loaded_engine(tmp_path, loader=load) as engine:
        asked = request("short", prediction=prediction)
        choices = [replace(asked, max_tokens=5 + n) for n in range(8)]
        for generation in await engine.generate_together(choices):
            assert (await generation.collect()).text == "yes"
    assert rendered == ["short"]


async def test_choices_are_decoded_in_the_same_steps(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        generations = await engine.generate_together([request("long", max_tokens=50)] * 4)
        await asyncio.gather(*(one.collect() for one in generations))
    # All four are read and decoded together: no step has fewer rows.
    assert {rows for rows, _ in stage.model.calls} == {4}


async def test_all_choices_are_refused_if_there_is_no_room_for_them(tmp_path: Path) -> None:
    stage = stage_of(tmp_path)

    async with loaded_engine(
        tmp_path, Limits(max_rows=2, max_waiting=2), loader=stage.load
    ) as engine:
        asked = request("long")
        running = await engine.generate_together([asked, asked])
        with pytest.raises(QueueFull, match="3 more together exceed the limit"):
            await engine.generate_together([asked] * 3)
        waiting = await engine.generate_together([asked] * 2)
        for generation in (*running, *waiting):
            generation.cancel()
            await generation.collect()


async def test_choices_of_a_short_prompt_read_it_once(engine: Engine) -> None:
    asked = request("one two three four five six seven eight nine ten eleven", max_tokens=3)
    choices = [replace(asked, cache_owner=CacheOwner("alone"))] * 4
    generations = await engine.generate_together(choices)
    usages = [(await one.collect()).finished.usage for one in generations]
    assert 16 < usages[0].prompt_tokens < 256
    assert [one.cached_tokens for one in usages] == [0] + [usages[0].prompt_tokens - 1] * 3

"""Prompts are rendered and tokenised beside the engine thread; judged by threads and counts."""

import asyncio
import threading
from pathlib import Path

import pytest

from engine.errors import PromptTooLong
from engine.generation import Generation
from engine.values.limits import Limits
from engine.values.request import OutputConstraint
from tests.engine.scheduling.stages import HeldRendering, rendering, stage_of, text_of
from tests.support.asking import ask, loaded_engine, request
from tests.support.scripted import Stage


async def test_prompts_are_rendered_off_the_engine_thread(tmp_path: Path) -> None:
    threads: set[str] = set()
    load = rendering(
        stage_of(tmp_path), lambda _: threads.add(threading.current_thread().name.split("_")[0])
    )

    async with loaded_engine(tmp_path, loader=load) as engine:
        await ask(engine, "short")
        await engine.count_tokens(request("x" * 50_000))
        await engine.prompt_pieces(request("short"))
        with pytest.raises(PromptTooLong):
            await engine.generate(request("x" * 50_000))
    assert threads == {"fullstop-prompts", "fullstop-counting"}


async def test_rendering_a_prompt_delays_no_other_request(tmp_path: Path) -> None:
    held = HeldRendering(
        stage_of(tmp_path, context=100_000), lambda asked: len(text_of(asked)) > 40_000
    )

    async with loaded_engine(tmp_path, loader=held.load) as engine:
        slow = asyncio.ensure_future(engine.generate(request("x" * 50_000, max_tokens=1)))
        counting = [asyncio.ensure_future(engine.count_tokens(request("y" * 50_000)))]
        await asyncio.sleep(0)
        for _ in range(3):
            assert (await ask(engine, "short")).text == "yes"
        assert not slow.done()
        assert engine.status.waiting == 1
        held.goes_on.set()
        answer = await (await slow).collect()
        assert answer.finished.usage.prompt_tokens > 50_000
        await asyncio.gather(*counting)


async def test_grammars_being_compiled_delay_no_plain_request(tmp_path: Path) -> None:
    held = HeldRendering(stage_of(tmp_path), lambda asked: text_of(asked) == "{}")
    constrained = request("{}", constraint=OutputConstraint({"const": {}}))

    async with loaded_engine(tmp_path, loader=held.load) as engine:
        slow = [asyncio.ensure_future(engine.generate(constrained)) for _ in range(8)]
        await asyncio.to_thread(held.begun.wait, 60)
        try:
            async with asyncio.timeout(5):
                assert (await ask(engine, "short")).text == "yes"
        finally:
            held.goes_on.set()
            for generation in await asyncio.gather(*slow):
                await generation.collect()


@pytest.mark.parametrize("choices", [1, 3])
async def test_cancel_while_prompt_is_rendered_drops_all_choices(
    tmp_path: Path, choices: int
) -> None:
    stage = stage_of(tmp_path)
    held = HeldRendering(stage)

    async with loaded_engine(tmp_path, loader=held.load) as engine:
        task = asyncio.ensure_future(engine.generate_together([request("long")] * choices))
        await asyncio.to_thread(held.begun.wait, 60)
        await asyncio.wait_for(engine.tokenize("a"), 60)  # the thread has published the status
        assert engine.status.waiting == choices
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while engine.status.waiting:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        held.goes_on.set()
        assert (await ask(engine, "short")).text == "yes"
        # Nothing of the cancelled answer was generated.
        assert all(rows == 1 for rows, _ in stage.model.calls)
        assert len(stage.model.calls) < 20


async def test_requests_are_answered_in_order_of_arrival(tmp_path: Path) -> None:
    order: list[str] = []
    stage = Stage(tmp_path, {f"q{n}": ["yes"] for n in range(20)})

    async with loaded_engine(tmp_path, Limits(max_rows=1), loader=stage.load) as engine:

        async def read(number: int, generation: Generation) -> None:
            assert (await generation.collect()).text == "yes"
            order.append(f"q{number}")

        asked = [await engine.generate(request(f"q{number}")) for number in range(20)]
        await asyncio.gather(*(read(*one) for one in enumerate(asked)))
    assert order == [f"q{n}" for n in range(20)]

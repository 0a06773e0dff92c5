"""Caches on disk as the whole engine uses them: across restarts, unloading and other models."""

import asyncio
import contextlib
import shutil
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.generation import Answer
from engine.inference.cache.disk import DiskCache
from engine.stopping.rules import StopRules
from engine.values.events import Usage
from engine.values.limits import Limits
from engine.values.request import CacheOwner, GenerationRequest, Message, Sampling

LONG = "the quick brown fox jumps over the lazy dog and says hello. " * 4
FIRST = GenerationRequest(
    (Message("user", f"{LONG}Count from 1 to 5"),),
    sampling=Sampling(temperature=0),
    max_tokens=12,
    cache_owner=CacheOwner("me", "a conversation"),
)


@contextlib.asynccontextmanager
async def running(folder: Path, model: Path, limits: Limits | None = None) -> AsyncIterator[Engine]:
    """Yield the engine of a process that starts now."""
    disk = DiskCache(folder, 1 << 30)
    engine = Engine(limits, disk=disk)
    try:
        await engine.load(model)
        yield engine
    finally:
        await engine.aclose()
        disk.close()


async def asked(engine: Engine, request: GenerationRequest) -> tuple[str, Usage]:
    answer: Answer = await (await engine.generate(request)).collect()
    return answer.text, answer.finished.usage


def other_model(folder: Path, like: Path) -> Path:
    shutil.copytree(like, folder)
    config = folder / "config.json"
    config.write_text(config.read_text() + "\n")
    return folder


def following(answer: str) -> GenerationRequest:
    turns = (*FIRST.messages, Message("assistant", answer), Message("user", "Count from 1 to 7"))
    return replace(FIRST, messages=turns)


async def written(engine: Engine) -> None:
    assert engine.disk is not None
    await asyncio.wrap_future(engine.disk.measured())


async def test_after_a_restart_the_next_turn_reads_only_what_is_new(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        text, first = await asked(engine, FIRST)
    async with running(tmp_path, demo_model_path) as engine:
        again, usage = await asked(engine, following(text))
    assert first.cached_tokens == 0
    assert usage.disk_tokens == usage.cached_tokens > first.prompt_tokens
    async with running(tmp_path / "empty", demo_model_path) as engine:
        anew, read = await asked(engine, following(text))
    assert (read.cached_tokens, read.disk_tokens) == (0, 0)
    assert again == anew


async def test_after_unloading_while_idle_the_next_turn_comes_from_disk(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        text, _ = await asked(engine, FIRST)
        engine.unload_after(0.01)
        async with asyncio.timeout(60):
            while not engine.status.is_unloaded:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        engine.unload_after(None)
        _, usage = await asked(engine, following(text))
    assert usage.disk_tokens > 0


async def test_after_another_model_the_next_turn_comes_from_disk(
    tmp_path: Path, demo_model_path: Path
) -> None:
    other = other_model(tmp_path / "other", demo_model_path)
    async with running(tmp_path / "kept", demo_model_path) as engine:
        text, _ = await asked(engine, FIRST)
        await engine.load(other)
        _, foreign = await asked(engine, FIRST)
        await engine.load(demo_model_path)
        _, usage = await asked(engine, following(text))
    assert foreign.cached_tokens == 0
    assert usage.disk_tokens > 0


async def test_memory_is_used_before_disk(tmp_path: Path, demo_model_path: Path) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        text, _ = await asked(engine, FIRST)
        await written(engine)
        _, usage = await asked(engine, following(text))
    assert usage.cached_tokens > 0
    assert usage.disk_tokens == 0


async def test_disk_serves_where_memory_has_no_room(tmp_path: Path, demo_model_path: Path) -> None:
    async with running(tmp_path, demo_model_path, Limits(prompt_cache_bytes=0)) as engine:
        text, _ = await asked(engine, FIRST)
        await written(engine)
        first, usage = await asked(engine, following(text))
        second, again = await asked(engine, following(text))
    assert usage.disk_tokens == usage.cached_tokens > 0
    assert again.disk_tokens > 0
    assert first == second


async def test_requests_that_are_kept_with_nothing_neither_write_nor_read_caches_on_disk(
    tmp_path: Path, demo_model_path: Path
) -> None:
    nobodys = replace(FIRST, cache_owner=CacheOwner("me"))
    async with running(tmp_path, demo_model_path) as engine:
        await asked(engine, nobodys)
        await written(engine)
        assert engine.disk is not None
        assert engine.disk.folder.size_bytes == 0
        await asked(engine, FIRST)
    async with running(tmp_path, demo_model_path) as engine:
        _, usage = await asked(engine, nobodys)
    assert usage.cached_tokens == 0


async def test_choices_of_one_request_read_the_disk_once(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        text, _ = await asked(engine, FIRST)
    async with running(tmp_path, demo_model_path) as engine:
        generations = await engine.generate_together([following(text)] * 3)
        answers = await asyncio.gather(*(one.collect() for one in generations))
    assert len({one.text for one in answers}) == 1
    assert all(one.finished.usage.cached_tokens for one in answers)
    assert sum(one.finished.usage.disk_tokens > 0 for one in answers) == 1


async def test_an_answer_that_is_cancelled_while_the_disk_is_read_ends(
    tmp_path: Path, demo_model_path: Path
) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        text, _ = await asked(engine, FIRST)
    async with running(tmp_path, demo_model_path) as engine:
        assert engine.disk is not None
        gate = asyncio.Event()
        loop = asyncio.get_running_loop()
        engine.disk.read(lambda: asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(60))
        asking = asyncio.create_task(engine.generate(following(text)))
        await asyncio.sleep(0.2)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        gate.set()
        _, usage = await asked(engine, following(text))
    assert usage.disk_tokens > 0


async def test_few_caches_are_held_for_answers_that_wait(
    tmp_path: Path, demo_model_path: Path
) -> None:
    turns = [
        replace(
            FIRST,
            messages=(Message("user", f"{n} {LONG}"),),
            cache_owner=CacheOwner("me", str(n)),
            max_tokens=2,
        )
        for n in range(6)
    ]
    async with running(tmp_path, demo_model_path) as engine:
        texts = [(await asked(engine, one))[0] for one in turns]
    limits = Limits(max_rows=1, prompt_cache_bytes=0)
    async with running(tmp_path, demo_model_path, limits) as engine:
        endless = GenerationRequest(FIRST.messages, stops=StopRules(ignore_eos=True))
        ahead = await engine.generate(endless)
        waiting = [await engine.generate(one) for one in turns]
        ahead.cancel()
        answers = [await one.collect() for one in waiting]
    assert [one.text for one in answers] == texts
    from_disk = [one.finished.usage.disk_tokens > 0 for one in answers]
    assert from_disk == [True] * 4 + [False] * 2

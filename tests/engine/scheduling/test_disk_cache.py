"""Caches on disk as the whole engine uses them: across restarts, unloading and other models."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import PromptTooLong
from engine.generation import Answer
from engine.inference.cache import index
from engine.inference.cache.disk import DiskCache
from engine.inference.cache.prompt_cache import PromptCache
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
BLOCK = 16


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let short prompts have full blocks, which files hold."""
    monkeypatch.setattr(index, "BLOCK_TOKENS", BLOCK)


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
    assert usage.disk_tokens == usage.cached_tokens > first.prompt_tokens - BLOCK
    async with running(tmp_path / "empty", demo_model_path) as engine:
        anew, read = await asked(engine, following(text))
    assert (read.cached_tokens, read.disk_tokens) == (0, 0)
    assert again == anew


async def test_disk_cache_after_idle_unload(tmp_path: Path, demo_model_path: Path) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        text, _ = await asked(engine, FIRST)
        engine.unload_after(0.01)
        async with asyncio.timeout(60):
            while not engine.status.is_unloaded:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        engine.unload_after(None)
        await written(engine)
        _, usage = await asked(engine, following(text))
    assert usage.disk_tokens > 0


async def test_disk_cache_ignores_requests_without_conversation(
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


def conversation(number: int) -> GenerationRequest:
    turns = (Message("user", f"{number} {LONG}Count from 1 to 5"),)
    return replace(FIRST, messages=turns, cache_owner=CacheOwner("me", f"conversation {number}"))


async def test_all_waiting_prompts_are_read_from_disk_at_their_turn(
    tmp_path: Path, demo_model_path: Path
) -> None:
    numbers = range(10)
    async with running(tmp_path, demo_model_path) as engine:
        for number in numbers:
            await asked(engine, conversation(number))
    async with running(tmp_path, demo_model_path, Limits(max_rows=1)) as engine:
        endless = replace(FIRST, stops=StopRules(ignore_eos=True), max_tokens=None)
        first = await engine.generate(endless)
        generations = [await engine.generate(conversation(one)) for one in numbers]
        first.cancel()
        answers = await asyncio.gather(*(one.collect() for one in generations))
    assert all(answer.finished.usage.disk_tokens > 0 for answer in answers)


async def test_refused_prompt_is_not_read_from_disk(
    tmp_path: Path, demo_model_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, demo_model_path) as engine:
        await asked(engine, FIRST)
    async with running(tmp_path, demo_model_path) as engine:
        read: list[object] = []
        monkeypatch.setattr(PromptCache, "read", lambda _, prompts: read.append(prompts))
        with pytest.raises(PromptTooLong):
            await engine.generate(replace(FIRST, messages=(Message("user", LONG * 400),)))
    assert read == []

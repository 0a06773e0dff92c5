"""Conversations with a model of states and attention, as the whole engine holds them."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from api.service.metrics import Metrics
from engine.engine import Engine
from engine.inference.cache.disk import DiskCache
from engine.inference.cache.prompt_cache import STRIDE
from engine.stopping.rules import StopRules
from engine.values.events import CacheMiss, Usage
from engine.values.limits import Limits
from engine.values.request import CacheOwner, GenerationRequest, Message, Sampling
from tests.support.asking import loaded_engine
from tests.support.models.hybrid_model import write_trained_hybrid

WORDS = "the quick brown fox jumps over the lazy dog and says hello. "
OWNER = CacheOwner("me", "a conversation")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trained_hybrid(tmp_path_factory.mktemp("models") / "hybrid")


def conversation(turns: int, edited: int | None = None) -> tuple[Message, ...]:
    """Return a long conversation; the question of one turn may be another one."""
    messages = []
    for turn in range(turns):
        question = "Something else" if turn == edited else f"{turn} {WORDS * 4}"
        messages += [Message("user", question), Message("assistant", f"{turn} {WORDS * 3}")]
    return (*messages, Message("user", "Go on"))


async def ask(engine: Engine, messages: tuple[Message, ...]) -> tuple[str, Usage]:
    request = GenerationRequest(
        messages,
        sampling=Sampling(temperature=0),
        stops=StopRules(ignore_eos=True),
        max_tokens=6,
        thinking=False,
        cache_owner=OWNER,
    )
    answer = await (await engine.generate(request)).collect()
    return answer.text, replace(answer.finished.usage, output_tokens=0)


def asked(
    model: Path,
    *prompts: tuple[Message, ...],
    disk: Path | None = None,
    limits: Limits | None = None,
) -> list[tuple[str, Usage]]:
    async def run() -> list[tuple[str, Usage]]:
        kept = None if disk is None else DiskCache(disk, 1 << 30)
        engine = Engine(limits, disk=kept)
        try:
            await engine.load(model)
            return [await ask(engine, prompt) for prompt in prompts]
        finally:
            await engine.aclose()
            if kept is not None:
                kept.close()

    return asyncio.run(run())


def shared(model: Path, messages: tuple[Message, ...], turn: int) -> int:
    """Return how many tokens of a conversation are before the question of a turn."""
    [(_, usage)] = asked(model, (*messages[: 2 * turn], Message("user", "")))
    return usage.prompt_tokens


def test_hybrid_cache_resumes_at_snapshot_before_edit(hybrid: Path, tmp_path: Path) -> None:
    first, edit = conversation(12), conversation(12, edited=9)
    [_, (again, reused)] = asked(hybrid, first, edit)
    [(anew, read)] = asked(hybrid, edit)
    before = shared(hybrid, first, 9)
    assert before > 2 * STRIDE
    assert before - STRIDE <= reused.cached_tokens <= before
    assert again == anew
    assert (read.cached_tokens, read.cache_miss) == (0, CacheMiss.NOTHING_STORED)

    asked(hybrid, first, disk=tmp_path)
    [(later, stored)] = asked(hybrid, edit, disk=tmp_path)
    assert stored.cached_tokens == stored.disk_tokens == reused.cached_tokens
    assert later == anew


def test_regenerated_answer_reads_only_turn_header(hybrid: Path) -> None:
    [(first, _), (again, usage)] = asked(hybrid, conversation(4), conversation(4))
    assert usage.prompt_tokens - usage.cached_tokens < 16
    assert usage.cache_miss is None
    assert again == first


async def test_the_memory_of_snapshots_is_bounded_counted_and_shown(hybrid: Path) -> None:
    most = 3_500_000
    async with loaded_engine(hybrid, Limits(prompt_cache_bytes=most)) as engine:
        for turns in range(1, 9):
            await ask(engine, conversation(turns))
        # The last cache is stored after the answer has ended.
        async with asyncio.timeout(60):
            while not engine.status.cache_use:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0.01)
        status = engine.status
        share = status.cache_use[OWNER.name]
        assert 0 < share.snapshot_bytes <= share.size_bytes <= most
        assert list(status.cache_use.values()) == [share]
        assert status.info is not None
        assert status.memory_bytes == status.info.weights_bytes + share.size_bytes
        gauges = Metrics().exposition([status], most).decode()
        name = f'fullstop_prompt_cache_snapshot_bytes{{model="{status.id}"}}'
        assert f"{name} {float(share.snapshot_bytes)}" in gauges

"""Conversations with a model of states and attention, as the whole engine holds them."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from engine.inference.cache.folder import DiskCache
from engine.inference.cache.prompt_cache import STRIDE
from engine.scheduling.limits import Limits
from engine.scheduling.service import Engine
from engine.stopping.rules import StopRules
from engine.values.chat import Message
from engine.values.events import CacheMiss, Usage
from engine.values.request import CacheOwner, GenerationRequest, Sampling
from tests.support.models.hybrid_model import write_hybrid_model

WORDS = "the quick brown fox jumps over the lazy dog and says hello. "
OWNER = CacheOwner("me", "a conversation")


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hybrid_model(tmp_path_factory.mktemp("models") / "hybrid")


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


def test_an_edit_in_the_middle_reads_at_most_the_distance_to_the_snapshot_before_it(
    hybrid: Path, tmp_path: Path
) -> None:
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


def test_a_regenerated_answer_reads_only_the_header_of_its_turn(hybrid: Path) -> None:
    [(first, _), (again, usage)] = asked(hybrid, conversation(4), conversation(4))
    assert usage.prompt_tokens - usage.cached_tokens < 16
    assert usage.cache_miss is None
    assert again == first


def test_without_memory_for_caches_the_record_says_why_nothing_was_reused(hybrid: Path) -> None:
    limits = Limits(prompt_cache_bytes=0)
    [_, (_, usage)] = asked(hybrid, conversation(2), conversation(3), limits=limits)
    assert (usage.cached_tokens, usage.cache_miss) == (0, CacheMiss.EVICTED)


def test_another_conversation_says_that_it_begins_otherwise(hybrid: Path) -> None:
    other = (Message("system", "Be brief."), *conversation(1))
    [_, (_, usage)] = asked(hybrid, conversation(2), other)
    assert (usage.cached_tokens, usage.cache_miss) == (0, CacheMiss.OTHER_BEGINNING)

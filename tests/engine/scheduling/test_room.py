"""Requests whose context cannot fit into memory are refused, and those that fit later wait."""

import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InvalidRequest, MemoryShort
from engine.inference.backend import Prompt
from engine.inference.cache.index import MemoryUsage
from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize, Memory
from engine.library.model_info import ModelInfo
from engine.recording.replay import replay
from engine.recording.run_trace import trace_for
from engine.scheduling import memory_plan, running_answer
from engine.scheduling.memory_plan import MemoryPlan
from engine.stopping.record import StopKind
from engine.values.embedding import EmbeddingRequest
from engine.values.events import TextDelta
from engine.values.limits import Limits
from engine.values.request import TraceLevel
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, loaded_engine, request
from tests.support.scripted import Stage

LONG = [f"w{n} " for n in range(900)]
# The scripted model's cache takes 8 bytes a token.
TOKEN = 8


def stage_of(folder: Path, **options: Any) -> Stage:
    return Stage(folder, {"long": LONG, "short": ["yes"]}, **options)


def model_of(folder: Path, cache: CacheSize, context: int) -> ModelInfo:
    return ModelInfo("m", folder, "scripted", context, 10, (), False, False, 0, 0, cache)


def refused(
    model: ModelInfo, size_bytes: int, *choices: tuple[int, int | None]
) -> InvalidRequest | None:
    """Return why choices with these numbers of prompt tokens and ``max_tokens`` are refused."""
    plan = MemoryPlan(size_bytes, size_bytes, size_bytes)
    try:
        requests = [replace(request("x"), max_tokens=limit) for _, limit in choices]
        shared = [replace(one, messages=requests[0].messages) for one in requests]
        prompts = [Prompt([0] * length) for length, _ in choices if length]
        plan.check(model, shared, prompts)
    except InvalidRequest as refusal:
        return refusal
    return None


@pytest.mark.parametrize(
    ("choices", "message"),
    [
        ([(1000, 9000)], None),
        ([(1000, 1000)] * 4, None),
        (
            [(1000, 1600)] * 4,
            "n: not enough memory: 4 × 2,600 tokens need 11.8 GB, 10.7 GB available. Reduce it to "
            "3, or limit answers to 1,560 tokens.",
        ),
        ([(1000, 1560)] * 4, None),
        ([(1000, 1600)] * 3, None),
        (
            [(1000, 50_000)],
            "max_tokens: not enough memory: 51,000 tokens need 53.7 GB, 10.7 GB available. Reduce "
            "it to 9,240.",
        ),
        ([(1000, 9240)], None),
        (
            [(20_000, 10)],
            "messages: not enough memory: 20,010 tokens need 21.2 GB, 10.7 GB available. Shorten "
            "the prompt.",
        ),
    ],
)
def test_memory_error_names_field_figures_and_remedy(
    tmp_path: Path, choices: list[tuple[int, int | None]], message: str | None
) -> None:
    found = refused(model_of(tmp_path, CacheSize(1 << 20), 100_000), 10_240 << 20, *choices)
    assert message == (None if found is None else str(found))


def test_prompts_of_different_lengths_need_the_sum_of_their_memory(tmp_path: Path) -> None:
    cache = CacheSize(1 << 20)
    model = replace(model_of(tmp_path, cache, 100_000), reads=StepReads(100 << 20, cache))
    uneven = [(8000, 10), (1000, 10), (1000, 10)]
    assert refused(model, 10_400 << 20, *uneven) is None
    found = refused(model, 10_000 << 20, *uneven)
    assert found is not None
    assert "3 × up to 8,010 tokens need 10.8 GB, 10.5 GB available" in str(found)


@pytest.mark.parametrize(
    ("cache", "context", "size_bytes", "choices"),
    [
        (CacheSize(1 << 20), 4096, 5000 << 20, [(1000, 1_000_000)]),  # beyond the context
        (CacheSize(100, windows=((1024, 900),)), 1 << 20, 20_000_000, [(1000, 100_000)]),
        (CacheSize(), 1 << 20, 1, [(1 << 20, None)] * 100),  # the size is not known
    ],
)
def test_memory_check_accepts_what_the_cache_holds(
    tmp_path: Path, cache: CacheSize, context: int, size_bytes: int, choices: Any
) -> None:
    assert refused(model_of(tmp_path, cache, context), size_bytes, *choices) is None


async def test_request_waits_for_memory_of_running_answers(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, step_s=0.001)

    async with loaded_engine(
        tmp_path, Limits(context_bytes=1024 * TOKEN), loader=stage.load
    ) as engine:
        first = await engine.generate(request("long", max_tokens=400))
        large = await engine.generate(request("short", max_tokens=600))
        await until(lambda: (engine.status.running, engine.status.waiting) == (1, 1))
        await large.collect()
        assert (await first.collect()).finished.stop.kind is StopKind.MAX_TOKENS
        assert max(rows for rows, _ in stage.model.calls) == 1


async def test_an_answer_without_a_limit_ends_when_memory_is_full(tmp_path: Path) -> None:
    stage = stage_of(tmp_path, context=100_000)

    async with loaded_engine(
        tmp_path, Limits(context_bytes=512 * TOKEN), loader=stage.load
    ) as engine:
        answer = await ask(engine, "long")
        usage = answer.finished.usage
        assert answer.finished.stop.kind is StopKind.MEMORY_FULL
        assert usage.prompt_tokens + usage.output_tokens == 512
        choices = await engine.generate_together([request("long")] * 2)
        for one in choices:
            usage = (await one.collect()).finished.usage
            assert usage.prompt_tokens + usage.output_tokens == 256


async def test_longest_unbounded_answer_ends_when_memory_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_answer, "_USUAL_ANSWER", 512)
    stage, is_asked = stage_of(tmp_path, context=100_000), threading.Event()
    # The second follows before the first has become much longer.
    stage.slow_until(is_asked)

    async with loaded_engine(
        tmp_path, Limits(context_bytes=1536 * TOKEN), loader=stage.load
    ) as engine:
        asked = replace(request("long"), trace=TraceLevel.STOPS)
        long = await engine.generate(asked)
        trace = trace_for(long)
        later = None
        async for event in long.events():
            trace.take(event)
            if later is None and isinstance(event, TextDelta):
                later = await engine.generate(request("long"))
                is_asked.set()
        first = long.finished
        assert later is not None
        second = (await later.collect()).finished
        assert first is not None
        assert first.stop.kind is StopKind.MEMORY_FULL
        assert 600 < first.usage.output_tokens < 830
        replayed = replay(trace)
        assert replayed.output_tokens == first.usage.output_tokens
        assert replayed.stop is not None
        assert replayed.stop.kind is StopKind.MEMORY_FULL
        assert first.context_length == 100_000
        # The one that is left has the memory to itself.
        assert second.stop.kind is StopKind.EOS
        assert second.usage.output_tokens == len(LONG) + 1


async def test_memory_short_now_is_temporary_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage, machine = stage_of(tmp_path, context=100_000), [Memory(1 << 30, 0)]
    monkeypatch.setattr(memory_plan, "memory", lambda: machine[0])

    async with loaded_engine(tmp_path, loader=stage.load) as engine:
        prompt = request("x" * 5000, max_tokens=2)
        with pytest.raises(MemoryShort, match=r"32\.8 kB is free now") as caught:
            await engine.generate(prompt)
        assert caught.value.retry_after_s > 0
        with pytest.raises(MemoryShort):
            await engine.embed(EmbeddingRequest(("x" * 5000,)))
        with pytest.raises(MemoryShort):  # read together, each text takes the memory of the longest
            await engine.embed(EmbeddingRequest(("x" * 100,) * 32))
        machine[0] = Memory(1 << 30, 1 << 30)
        await (await engine.generate(prompt)).collect()
        machine[0] = Memory(0, 1 << 30)
        with pytest.raises(InvalidRequest, match="Shorten the prompt"):
            await engine.generate(prompt)


async def test_cached_prompts_are_evicted_for_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_of(tmp_path, context=100_000)
    mib = 1 << 20
    # Half of what is free, less 256 MB to compute with, is taken by cached prompts.
    monkeypatch.setattr(memory_plan, "memory", lambda: Memory(2048 * mib, 400 * mib))
    evicted: list[int] = []
    backends: list[Any] = []

    def load(folder: Path, **options: Any) -> Any:
        backend = stage.load(folder, **options)
        backend.info = replace(backend.info, cache=CacheSize(8192))
        backends.append(backend)
        return backend

    async with loaded_engine(tmp_path, loader=load) as engine:
        large = request("short", max_tokens=20_000)
        with pytest.raises(MemoryShort):
            await engine.generate(large)
        use = {"": MemoryUsage(1, 200 * mib)}
        fixed = property(lambda _: use, lambda *_: None)
        monkeypatch.setattr(type(backends[0].batch), "cache_use", fixed, raising=False)
        monkeypatch.setattr(backends[0].batch, "evict_prompts", evicted.append)
        assert (await (await engine.generate(large)).collect()).text == "yes"
        [left] = evicted
        assert 0 < left < 200 * mib

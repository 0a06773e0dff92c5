"""A long answer beside short ones: their answers, its end, and their memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine.engine import Engine
from engine.inference import mlx_loading
from engine.inference.mlx_backend import MlxBackend
from engine.library.length_groups import StepReads
from engine.library.memory_need import CacheSize
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.limits import Limits
from engine.values.request import OutputConstraint, Sampling, TraceLevel
from tests.engine.scheduling.stages import until
from tests.support.asking import ask, loaded_engine, request
from tests.support.scripted import Stage

COUNT = "Count from 1 to 10, one number per line"
SCHEMA = OutputConstraint({"type": "object", "properties": {"n": {"type": "integer"}}})
# 3,000 tokens of the demo model.
LONG = "lorem ipsum dolor sit amet " * 200
SHORT: tuple[dict[str, Any], ...] = (
    {"text": COUNT, "max_tokens": 40},
    {"text": "Give a number", "constraint": SCHEMA, "max_tokens": 40},
    {"text": "Hello there", "sampling": Sampling(temperature=1.2, seed=11), "max_tokens": 40},
    {"text": COUNT, "trace": TraceLevel.FULL, "top_logprobs": 3, "max_tokens": 20},
)


@asynccontextmanager
async def watched(demo_model_path: Path) -> AsyncIterator[tuple[Engine, MlxBackend]]:
    backends: list[MlxBackend] = []

    def load(folder: Path, **options: Any) -> MlxBackend:
        backends.append(mlx_loading.load(folder, **options))
        return backends[-1]

    async with loaded_engine(demo_model_path, loader=load) as engine:
        yield engine, backends[0]


def sizes(backend: MlxBackend) -> list[int]:
    return sorted(len(group) for group in backend.batch._batch.decoding.groups)


async def test_short_answers_beside_a_long_one_are_those_alone(
    demo_model_path: Path,
) -> None:
    async with watched(demo_model_path) as (engine, backend):
        alone = [await ask(engine, **one) for one in SHORT]
        long = await engine.generate(
            request(LONG, rules=StopRules(ignore_eos=True), max_tokens=4000)
        )
        await until(lambda: sizes(backend) == [1])
        beside = asyncio.gather(*(ask(engine, **one) for one in SHORT))
        await until(lambda: sizes(backend) == [1, len(SHORT)])
        for one, answer in zip(alone, await beside, strict=True):
            assert answer.text == one.text
            assert answer.finished.stop == one.finished.stop
        long.cancel()


async def test_cancelled_long_answer_leaves_short_ones_running(
    demo_model_path: Path,
) -> None:
    async with watched(demo_model_path) as (engine, backend):
        endless = StopRules(ignore_eos=True)
        long = await engine.generate(request(LONG, rules=endless, max_tokens=4000))
        await until(lambda: sizes(backend) == [1])
        short = [
            await engine.generate(request(f"{COUNT} {n}", rules=endless, max_tokens=200))
            for n in range(3)
        ]
        await until(lambda: sizes(backend) == [1, 3])
        long.cancel()
        answers = [await one.collect() for one in short]
        assert [one.finished.stop.kind for one in answers] == [StopKind.MAX_TOKENS] * 3
        again = await ask(engine, LONG, max_tokens=1)
        assert again.finished.usage.cached_tokens >= again.finished.usage.prompt_tokens - 1


async def test_short_answers_run_beside_a_long_one_in_the_sum_of_their_memory(
    tmp_path: Path,
) -> None:
    token = 8
    words = [f"w{n} " for n in range(900)]
    stage = Stage(tmp_path, {"long": words, "short": words[:100]}, step_s=0.001)

    def load(folder: Path, **options: Any) -> MlxBackend:
        reads = StepReads(64 * token, CacheSize(token))
        options["limits"] = replace(options["limits"], reads=reads)
        backend = stage.load(folder, **options)
        backend.info = replace(backend.info, reads=reads)
        return backend

    # Four caches as long as the long one's would take 4,096 tokens.
    limits = Limits(context_bytes=(1024 + 3 * 256 + 64) * token)
    async with loaded_engine(tmp_path, limits, loader=load) as engine:
        asked = [request("long", max_tokens=900), *[request("short", max_tokens=150)] * 3]
        generations = [await engine.generate(one) for one in asked]
        await until(lambda: engine.status.running == 4)
        fifth = await engine.generate(request("short", max_tokens=150))
        await until(lambda: engine.status.waiting == 1)
        for one in (*generations, fifth):
            await one.collect()

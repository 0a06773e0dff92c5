"""Many requests to more models than there is memory for: none is lost, none answered wrongly."""

import asyncio
import gc
import random
import threading
from pathlib import Path

import mlx.core as mx
import pytest

from engine.engine import Engine
from engine.library.memory_need import need
from engine.stopping.record import StopKind
from engine.values.limits import Limits
from tests.engine.scheduling.stages import until
from tests.support.asking import offered_engine, request
from tests.support.several.staged_models import StagedModels

pytestmark = pytest.mark.long

_MODELS = [f"model-{number}" for number in range(5)]
_ASKED = ["short", "long", "middle"]


def answer_of(model: str, asked: str) -> str:
    words = {"short": 1, "middle": 12, "long": 60}[asked]
    return "".join(f"{model}.{asked}.{word} " for word in range(words))


@pytest.fixture
def models(tmp_path: Path) -> StagedModels:
    scripts = {model: {asked: [answer_of(model, asked)] for asked in _ASKED} for model in _MODELS}
    return StagedModels(tmp_path, scripts, pieces=[])


async def _asked(engine: Engine, random_: random.Random) -> None:
    model, asked = random_.choice(_MODELS), random_.choice(_ASKED)
    wait_s, is_cancelled = random_.uniform(0, 0.2), random_.random() < 0.2
    await asyncio.sleep(wait_s)
    generation = await engine.generate(request(asked, model=model))
    if is_cancelled:
        generation.cancel()
    answer = await generation.collect()
    if is_cancelled and answer.finished.stop.kind is StopKind.CANCELLED:
        assert answer_of(model, asked).startswith(answer.text)
    else:
        assert (answer.text, answer.finished.stop.kind) == (answer_of(model, asked), StopKind.EOS)


@pytest.mark.parametrize(("seed", "count"), [(1, 12), pytest.param(2, 50, marks=pytest.mark.slow)])
async def test_random_requests_to_five_models_in_memory_for_two(
    models: StagedModels, seed: int, count: int
) -> None:
    most = need(models.offered[0].folder).total
    async with offered_engine(
        models.offered, Limits(memory_bytes=most * 2 + most // 2), models
    ) as engine:
        random_ = random.Random(seed)
        figures = []
        for _ in range(2):
            await asyncio.gather(*(_asked(engine, random_) for _ in range(count)))
            await until(lambda: all(one.running + one.waiting == 0 for one in engine.models))
            assert sum(one.is_loaded for one in engine.models) == 2
            for model in _MODELS:
                engine.unload_when_idle(model)
            await until(lambda: not any(one.is_loaded for one in engine.models))
            gc.collect()
            threads = [one for one in threading.enumerate() if "-prompts_" not in one.name]
            figures.append((mx.get_active_memory(), len(threads)))
        # What the first round left is all that ever stays.
        assert figures[1][0] <= figures[0][0]
        assert figures[1][1] <= figures[0][1]
        assert len(set(models.loads)) == 5
        assert len(models.loads) >= 10

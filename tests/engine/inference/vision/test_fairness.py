"""Running answers beside pictures: a tower delays them once for each picture."""

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_vlm")

from engine import Generation
from engine.engine import Engine
from engine.inference.continuous_batch import ContinuousBatch
from engine.inference.vision.tower import Tower
from engine.stopping.rules import StopRules
from engine.values.events import TextDelta
from engine.values.request import GenerationRequest, Message, Sampling
from tests.support.models.seeing import picture, question, write_seeing_model

COLORS = ("red", "blue", "green", "white", "black", "yellow")


async def test_running_answer_gets_a_token_between_any_two_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_seeing_model(tmp_path)
    engine = Engine()
    await engine.load(tmp_path)
    steps: list[str] = []

    def note(kind: type, name: str, sign: str) -> None:
        method = getattr(kind, name)

        def noted(*given: Any) -> Any:
            steps.append(sign)
            return method(*given)

        monkeypatch.setattr(kind, name, noted)

    note(Tower, "features", "picture")
    note(ContinuousBatch, "decode", "token")

    async def begin(message: Message, tokens: int) -> Generation:
        request = GenerationRequest(
            messages=(message,),
            max_tokens=tokens,
            sampling=Sampling(temperature=0),
            stops=StopRules(ignore_eos=True),
        )
        return await engine.generate(request)

    running = await begin(question("Hello"), 1_500)
    async for event in running.events():
        if isinstance(event, TextDelta):
            break
    shown = [picture(color) for color in COLORS]
    pairs = zip(shown[::2], shown[1::2], strict=True)
    others = [await begin(question("Both?", *pair), 2) for pair in pairs]
    await asyncio.gather(*(other.collect() for other in others))
    assert running.finished is None
    assert steps.count("picture") == len(COLORS)
    assert ("picture", "picture") not in pairwise(steps)
    running.cancel()
    await engine.aclose()

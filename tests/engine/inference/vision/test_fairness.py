"""Running answers beside pictures: a tower runs block by block between their tokens."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mlx_vlm")

from engine import Generation
from engine.engine import Engine
from engine.inference.continuous_batch import ContinuousBatch
from engine.inference.vision.tower import Features
from engine.stopping.rules import StopRules
from engine.values.events import TextDelta
from engine.values.request import GenerationRequest, Message, Sampling
from tests.support.models.seeing import picture, question, write_seeing_model

COLORS = ("red", "blue", "green", "white", "black", "yellow")


async def test_running_answer_gets_a_token_between_any_two_blocks_of_a_tower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_seeing_model(tmp_path)
    engine = Engine()
    await engine.load(tmp_path)
    steps: list[str] = []

    decode, compute = ContinuousBatch.decode, Features.compute

    def note_decode(self: ContinuousBatch) -> list[Any]:
        steps.append("token")
        return decode(self)

    def compute_block(self: Features, _: float) -> bool:
        steps.append("block")
        return compute(self, 0)

    monkeypatch.setattr(ContinuousBatch, "decode", note_decode)
    monkeypatch.setattr(Features, "compute", compute_block)

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
    pairs = list(zip(shown[::2], shown[1::2], strict=True))
    others = [await begin(question("Both?", *pair), 2) for pair in pairs]
    beside = [(await other.collect()).text for other in others]
    assert running.finished is None
    blocks = 3 + 2  # of the tower and of what it adds behind two layers; then its features
    assert steps.count("block") == len(COLORS) * (blocks + 1)
    assert ("block", "block") not in pairwise(steps)
    running.cancel()
    await engine.unload()
    await engine.load(tmp_path)
    monkeypatch.setattr(Features, "compute", compute)
    alone = [await (await begin(question("Both?", *pair), 2)).collect() for pair in pairs]
    assert beside == [one.text for one in alone]
    await engine.aclose()

"""When the readers of answers are woken."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from engine.scheduling import scheduler
from engine.values.events import Finished, PromptProgress, TextDelta
from engine.values.limits import Limits
from tests.support.asking import loaded_engine, request
from tests.support.scripted import Stage


async def test_progress_of_prompt_wakes_nobody_and_first_text_and_end_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No interval between wake-ups ever ends.
    monkeypatch.setattr(scheduler, "time", SimpleNamespace(perf_counter=lambda: 0.0))
    prompt = "x" * 400
    stage = Stage(tmp_path, {prompt: ["a", "b", "c"]})
    async with loaded_engine(tmp_path, Limits(prefill_chunk=8), loader=stage.load) as engine:
        generation = await engine.generate(request(prompt))
        batches = [batch async for batch in generation.batches()]
    progress = [one for batch in batches for one in batch if isinstance(one, PromptProgress)]
    assert len(progress) > 10
    alone = [batch for batch in batches if all(isinstance(one, PromptProgress) for one in batch)]
    assert len(alone) <= 1  # it has joined the batch
    texts = [batch for batch in batches if any(isinstance(one, TextDelta) for one in batch)]
    assert texts[0][-1] == TextDelta("a")
    assert isinstance(batches[-1][-1], Finished)

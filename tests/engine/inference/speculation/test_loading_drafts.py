"""A draft model is loaded beside a model, counted, and refused in words where it does not fit."""

import asyncio
from pathlib import Path

import pytest
from mlx_lm.models.cache import ConcatenateKVCache

from engine.engine import Engine
from engine.errors import DraftLoadFailed, ModelLoadFailed
from engine.generation import Answer
from engine.inference.backend import BatchLimits
from engine.inference.mlx_loading import load
from engine.inference.speculation import draft_model
from engine.library.memory_need import need
from tests.engine.inference.speculation.asking_drafts import answered, asked
from tests.support.several.draft_models import add_token, swap_tokens, write_draft

LIMITS = BatchLimits(512, 1 << 24, 4)


def test_a_draft_model_counts_in_estimates_and_in_the_memory_of_answers(
    loop_engine: tuple[asyncio.Runner, Engine], demo_model_path: Path, poor: Path
) -> None:
    runner, engine = loop_engine
    info = runner.run(engine.load(demo_model_path, draft=poor))
    assert info.draft is not None
    assert info.weights_bytes == info.held_bytes + info.draft.weights_bytes
    # Four layers, the head, and one.
    assert info.answer_cache.token_bytes == info.cache.token_bytes * 6 // 5
    alone, both = need(demo_model_path), need(demo_model_path, poor)
    assert both.weights == alone.weights + info.draft.weights_bytes
    assert both.cache * 5 == alone.cache * 6


@pytest.mark.parametrize("change", ["swapped", "added"])
def test_a_draft_model_with_another_vocabulary_is_refused_with_a_clear_message(
    tmp_path: Path, demo_model_path: Path, change: str
) -> None:
    foreign = write_draft(tmp_path / "foreign", demo_model_path, layers=1)
    if change == "swapped":
        swap_tokens(foreign, 300, 301)
    else:
        add_token(foreign, "<extra>")
    with pytest.raises(DraftLoadFailed) as raised:
        load(demo_model_path, limits=LIMITS, draft=foreign)
    words = str(raised.value)
    assert words.startswith("foreign cannot be the draft model of demo-model: their vocabularies")
    assert "same family" in words
    if change == "swapped":
        assert "token 300 is" in words
    else:
        assert "foreign has 769 tokens, demo-model has 768" in words


def test_a_damaged_draft_model_is_reported_as_the_draft_model(
    loop_engine: tuple[asyncio.Runner, Engine], tmp_path: Path, demo_model_path: Path
) -> None:
    runner, engine = loop_engine
    broken = write_draft(tmp_path / "broken", demo_model_path, layers=1)
    weights = broken / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    with pytest.raises(DraftLoadFailed, match=r"draft model cannot be loaded: .*is damaged"):
        runner.run(engine.load(demo_model_path, draft=broken))


def test_a_draft_model_whose_cache_cannot_be_set_back_is_refused(
    monkeypatch: pytest.MonkeyPatch, demo_model_path: Path, poor: Path
) -> None:
    monkeypatch.setattr(draft_model, "make_prompt_cache", lambda _: [ConcatenateKVCache()])
    with pytest.raises(DraftLoadFailed, match="cannot be set back"):
        load(demo_model_path, limits=LIMITS, draft=poor)


def test_a_model_that_was_unloaded_comes_back_with_its_draft_model(
    loop_engine: tuple[asyncio.Runner, Engine], demo_model_path: Path, poor: Path
) -> None:
    runner, engine = loop_engine

    async def unloaded_and_asked() -> Answer:
        await engine.load(demo_model_path, draft=poor)
        engine.unload_when_idle()
        while not engine.status.is_unloaded:  # noqa: ASYNC110 - the engine has no event for it
            await asyncio.sleep(0.01)
        return (await answered(engine, asked("Hi", max_tokens=3)))[0]

    assert runner.run(unloaded_and_asked()).finished.usage.output_tokens
    assert engine.model is not None
    assert engine.model.draft is not None


def test_a_model_shared_by_processes_refuses_a_draft_model(tmp_path: Path) -> None:
    from engine.distributed.leader import Leader
    from engine.distributed.world import World

    leader = Leader(World(0, ("", ""), "ring"))
    with pytest.raises(ModelLoadFailed, match=r"draft model .*several processes"):
        leader(tmp_path, limits=LIMITS, on_progress=lambda _: None, draft=tmp_path / "small")

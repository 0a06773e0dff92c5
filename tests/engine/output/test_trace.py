"""What a trace says of each token, checked against the model's own numbers."""

import math
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.stopping.rules import StopRules
from engine.values.events import Event, TokenTrace
from engine.values.request import TraceLevel
from tests.support.asking import events_of, loaded_engine, run
from tests.support.scripted import Stage

COUNT = "Count from 1 to 10, one number per line"


def traces(events: list[Event]) -> list[TokenTrace]:
    return [event for event in events if isinstance(event, TokenTrace)]


async def played(stage: Stage, level: TraceLevel, rules: StopRules) -> list[Event]:
    async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
        return await events_of(engine, "go", rules=rules, trace=level)


def test_a_trace_shows_released_and_held_text(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["ABC", "E", "N", "x", "EN", "D!"]})
    events = run(played(stage, TraceLevel.STOPS, StopRules.of("END", "x")))
    rows = [(t.piece, t.released, t.held, t.progress) for t in traces(events)]
    assert rows == [("ABC", 3, "", (0, 0)), ("E", 0, "E", (1, 0)), ("N", 0, "EN", (2, 0)),
                    ("x", 2, "", (0, 0))]  # fmt: skip
    assert [t.index for t in traces(events)] == [0, 1, 2, 3]
    assert all(t.stats is None for t in traces(events))


def test_full_traces_agree_with_the_models_log_probabilities(
    engine: Engine, demo_model_path: Path
) -> None:
    import mlx.core as mx
    from mlx_lm import load

    found = traces(
        run(events_of(engine, COUNT, "4", trace=TraceLevel.FULL, top_logprobs=3, thinking=False))
    )
    model, tokenizer = load(str(demo_model_path))[:2]
    prompt = tokenizer.apply_chat_template(
        [{"role": "user", "content": COUNT}], add_generation_prompt=True, enable_thinking=False
    )
    ids = [*prompt, *(t.token_id for t in found)]
    logits = model(mx.array(ids)[None])[0, len(prompt) - 1 : -1]
    expected = logits - mx.logsumexp(logits, axis=-1, keepdims=True)
    for row, trace in zip(expected.tolist(), found, strict=True):
        stats = trace.stats
        assert stats is not None
        assert stats.logprob == pytest.approx(row[trace.token_id], abs=2e-3)
        assert stats.rank == 0
        assert len(stats.top) == 3
        assert [logprob for _, logprob in stats.top] == pytest.approx(
            sorted(row, reverse=True)[:3], abs=5e-3
        )
        assert stats.eos_probability == pytest.approx(
            math.exp(row[tokenizer.eos_token_id]), abs=1e-3
        )

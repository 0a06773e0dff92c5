"""An engine with one recorded answer: all that the server needs, and nothing that runs."""

import threading

import pytest

from app.recorded_engine import RecordedEngine
from engine import (
    Event,
    Finished,
    GenerationRequest,
    NoModel,
    PromptProgress,
    StopInfo,
    StopKind,
    TextDelta,
    Timing,
    Usage,
)
from tests.support.asking import run

END = Finished(StopInfo(StopKind.EOS), Usage(prompt_tokens=7, cached_tokens=2), Timing())
SAID: list[Event] = [TextDelta("a"), TextDelta("b"), END]


async def test_each_choice_gives_the_recorded_events_one_by_one() -> None:
    answers = await RecordedEngine("m", SAID).generate_together([GenerationRequest()] * 2)
    first, second = [[batch async for batch in answer.batches()] for answer in answers]
    assert first == second == [[PromptProgress(7, 7, 2)], *([event] for event in SAID)]


def test_a_recorded_engine_has_no_thread_and_refuses_what_needs_a_model() -> None:
    before = set(threading.enumerate())
    engine = RecordedEngine("m", SAID)
    engine.unload_when_idle()
    assert engine.model is not None
    assert (engine.model.id, engine.status.state) == ("m", "ready")
    with pytest.raises(NoModel, match="recorded answer"):
        run(engine.count_tokens(GenerationRequest()))
    with pytest.raises(NoModel, match="recorded answer"):
        run(engine.tokenize("text"))
    assert set(threading.enumerate()) == before

"""A draft model guesses for the model that answers: the answers stay the same."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.engine import Engine
from engine.generation import Answer
from engine.inference.cache.prompt_cache import PromptCache
from engine.inference.speculation.draft_model import DraftModel, ModelDrafts
from engine.stopping.record import StopKind
from engine.stopping.rules import StopRules
from engine.values.request import (
    Sampling,
)
from tests.engine.inference.speculation.asking_drafts import answered, asked

pytestmark = pytest.mark.long

PROMPTS = ("Count from 1 to 30, one number per line", "Say: the quick brown fox", "What is 2+2?")


@pytest.mark.usefixtures("_eager")
def test_answers_are_those_without_a_draft_model(
    loop_engine: tuple[asyncio.Runner, Engine], demo_model_path: Path, perfect: Path, poor: Path
) -> None:
    runner, engine = loop_engine
    requests = [asked(text) for text in PROMPTS]
    requests.append(asked(PROMPTS[0], sampling=Sampling(temperature=1, seed=7)))

    def answers(draft: Path | None) -> list[Answer]:
        runner.run(engine.load(demo_model_path, draft=draft))
        return [runner.run(answered(engine, one))[0] for one in requests]

    plain = answers(None)
    for draft in (perfect, poor):
        drafted = answers(draft)
        assert [one.text for one in drafted] == [one.text for one in plain]
        assert [one.finished.stop for one in drafted] == [one.finished.stop for one in plain]
        counts = [one.finished.speculation for one in drafted]
        assert counts[0].passes  # one that is nearly always wrong rests soon
        if draft == perfect:
            assert all(one.accepted == one.guessed for one in counts[: len(PROMPTS)])
            assert all(one.passes < one.accepted for one in counts[: len(PROMPTS)])


@pytest.mark.usefixtures("_eager")
def test_rows_that_end_early_leave_nothing_behind(
    loop_engine: tuple[asyncio.Runner, Engine], demo_model_path: Path, perfect: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    runner, engine = loop_engine
    made: list[ModelDrafts] = []
    guesses = DraftModel.drafts

    def noted(self: DraftModel, owner: str, prompt: Any) -> Any:
        made.append(guesses(self, owner, prompt))
        return made[-1]

    monkeypatch.setattr(DraftModel, "drafts", noted)
    runner.run(engine.load(demo_model_path, draft=perfect))

    async def ended_in_many_ways() -> list[Answer]:
        cancelled = await engine.generate(asked(PROMPTS[0], max_tokens=2000))
        collecting = asyncio.create_task(cancelled.collect())
        others = await answered(
            engine,
            asked(PROMPTS[0], stops=StopRules.of("\n7")),
            asked(PROMPTS[1], max_tokens=1),
        )
        cancelled.cancel()
        return [*others, await collecting, *await answered(engine, asked(PROMPTS[0]))]

    answers = runner.run(ended_in_many_ways())
    kinds = [one.finished.stop.kind for one in answers]
    assert kinds[:2] == [StopKind.STOP_STRING, StopKind.MAX_TOKENS]
    assert [one.likelihood() for one in made] == [0.0] * 4
    assert made[0]._draft._answers == 0
    assert answers[-1].text.startswith("1\n2\n3\n")

    def full(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(PromptCache, "keep", full)
    runner.run(answered(engine, asked(PROMPTS[2])))
    assert made[0]._draft._answers == 0


@pytest.mark.usefixtures("_eager")
def test_a_draft_model_that_fails_is_left_out_and_the_answer_goes_on(
    loop_engine: tuple[asyncio.Runner, Engine], demo_model_path: Path, perfect: Path,
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    runner, engine = loop_engine
    runner.run(engine.load(demo_model_path, draft=perfect))
    after, calls = DraftModel.read, []

    def failing(self: DraftModel, tokens: Any, cache: Any) -> Any:
        calls.append(tokens)
        if len(calls) > 20:
            raise RuntimeError("out of memory")
        return after(self, tokens, cache)

    monkeypatch.setattr(DraftModel, "read", failing)
    [answer] = runner.run(answered(engine, asked(PROMPTS[0])))
    assert answer.text.startswith("1\n2\n3\n4\n")
    assert answer.finished.stop.kind is not StopKind.ERROR
    assert "the draft model failed" in caplog.text


@pytest.mark.usefixtures("_alone")
def test_a_draft_model_that_is_always_wrong_is_paused(
    loop_engine: tuple[asyncio.Runner, Engine], demo_model_path: Path, poor: Path
) -> None:
    runner, engine = loop_engine
    runner.run(engine.load(demo_model_path, draft=poor))
    [answer] = runner.run(answered(engine, asked("Say: hello", max_tokens=200,
        stops=StopRules(ignore_eos=True))))  # fmt: skip
    counts = answer.finished.speculation
    assert counts.guessed < 100

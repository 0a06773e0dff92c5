"""Answers that repeat themselves end at the foreseen token; reasoning that does is closed."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from engine.generation import Answer
from engine.stopping.record import StopKind
from engine.stopping.repetition import DEFAULT_DETECTION, Repetition, RepetitionDetection
from engine.stopping.rules import StopRules
from engine.values.events import BudgetEnd, Finished, TokenTrace
from engine.values.limits import Limits
from engine.values.request import (
    Sampling,
    TraceLevel,
)
from tests.engine.grammar.forms import TAGS, held
from tests.engine.inference.test_thinking_budget import SPACED, played
from tests.support.asking import loaded_engine, request, scripted_answer
from tests.support.models.guessing import GuessingStage, timeless
from tests.support.scripted import Stage

PERIODS = range(1, 61)
BEGINNING = ["Once ", "there ", "was "]
WORDS = [f"w{number} " for number in PERIODS]
FIGURES = RepetitionDetection(5, min_count=3)
RULES = StopRules(repetition=FIGURES)
LOOP = ["hm ", "so ", "then "]
BEFORE = ["well ", "now "]
AFTER = [f"a{number} " for number in range(20)]


@pytest.mark.parametrize(
    ("plain", "periods"), [(True, PERIODS[::4]), (False, PERIODS)], ids=["plain", "drafted"]
)
async def test_answers_of_each_period_end_at_the_foreseen_token(
    tmp_path: Path, plain: bool, periods: range
) -> None:
    scripts = {
        str(period): [*BEGINNING, *[WORDS[n % period] for n in range(400)]] for period in periods
    }
    stage = Stage(tmp_path, scripts)
    rules = StopRules(repetition=DEFAULT_DETECTION)
    asked = [request(str(period), rules=rules, max_tokens=500) for period in periods]
    limits = Limits(plain_decoding=plain)
    async with loaded_engine(Path("scripted"), limits, loader=stage.load) as engine:
        handles = [await engine.generate(one) for one in asked]
        answers = await asyncio.gather(*(one.collect() for one in handles))
    for period, answer in zip(periods, answers, strict=True):
        copies = max(4, -(-256 // period))
        end = answer.finished
        assert end.stop.kind is StopKind.REPETITION, period
        assert end.usage.output_tokens == len(BEGINNING) + copies * period, period
        assert end.details.repetition == Repetition(period, copies, len(BEGINNING)), period
        assert answer.text == "".join([*BEGINNING, *WORDS[:period] * copies])


def thinker(folder: Path, **options: Any) -> Stage:
    script = ["<think>", *BEFORE, *LOOP * 10, "</think>", *AFTER]
    return Stage(folder, {"go": script}, plain=TAGS, **options)


def test_reasoning_that_repeats_itself_is_closed_and_the_model_answers(tmp_path: Path) -> None:
    answer = scripted_answer(thinker(tmp_path), "go", rules=RULES, max_tokens=60)
    end = answer.finished
    copies = 3
    closed_at = 1 + len(BEFORE) + copies * len(LOOP)
    assert answer.thinking == "".join([*BEFORE, *LOOP * copies])
    assert end.details.budget_end == BudgetEnd(closed_at, 1, None, Repetition(3, copies, 3))
    # The script goes on at its place, now in the answer, whose own cycle ends it.
    assert answer.text.startswith("".join(LOOP[1:]))
    assert (end.stop.kind, end.stop.channel.value) == (StopKind.REPETITION, "text")


def test_reasoning_without_a_cycle_leaves_no_trace(tmp_path: Path) -> None:
    script = ["<think>", *AFTER[:9], "</think>", *AFTER]
    found = []
    for rules in (StopRules(), RULES):
        stage = Stage(tmp_path / str(len(found)), {"go": script}, plain=TAGS, template=SPACED)
        answer = scripted_answer(stage, "go", rules=rules)
        found.append((answer.text, answer.thinking, answer.finished.stop, answer.finished.usage))
        assert answer.finished.details.budget_end is None
    assert found[0] == found[1]


def test_a_budget_that_is_spent_first_ends_the_reasoning(tmp_path: Path) -> None:
    answer = scripted_answer(thinker(tmp_path), "go", rules=RULES, thinking_budget=6, max_tokens=12)
    assert answer.finished.details.budget_end == BudgetEnd(7, 1, 6)
    later = scripted_answer(thinker(tmp_path), "go", rules=RULES, thinking_budget=20, max_tokens=16)
    assert later.finished.details.budget_end == BudgetEnd(12, 1, 20, Repetition(3, 3, 3))


@pytest.mark.parametrize("sampling", [Sampling(temperature=0), Sampling(temperature=0.7, seed=3)])
@pytest.mark.parametrize("wrong", [(3, 4), (11, 12), range(60)])
def test_guesses_change_no_token_of_reasoning_that_a_cycle_ends(
    tmp_path: Path, wrong: Any, sampling: Sampling
) -> None:
    script = ["<think>", *BEFORE, *LOOP * 10, "</think>", *AFTER]
    stage = GuessingStage(tmp_path, {"go": script}, wrong=wrong, plain=TAGS, template=SPACED)
    asked = request("go", rules=RULES, max_tokens=40, trace=TraceLevel.FULL, sampling=sampling)
    found = []
    for guesses in (False, True):
        stage.guesses = guesses
        events = played(stage, request("warm up", max_tokens=8), asked, plain=not guesses)
        [last] = [one for one in events if isinstance(one, Finished)]
        found.append(
            (
                [one for one in timeless(events) if isinstance(one, TokenTrace)],
                last.stop,
                last.details.budget_end,
                last.details.repetition,
            )
        )
    assert found[0][2] == BudgetEnd(12, 4, None, Repetition(3, 3, 3))
    assert found[0] == found[1]


def loop_of(stage: Stage, **asked: Any) -> Answer:
    return scripted_answer(stage, "go", rules=RULES, **asked)


def test_predicted_answers_and_calls_are_not_watched(tmp_path: Path) -> None:
    stage = Stage(tmp_path / "loop", {"go": [*BEFORE, *LOOP * 10, *AFTER]})
    assert loop_of(stage).finished.stop.kind is StopKind.REPETITION
    predicted = loop_of(stage, prediction="".join(LOOP))
    assert predicted.finished.stop.kind is StopKind.EOS
    assert predicted.finished.details.repetition is None


def test_constrained_answers_are_not_watched(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"go": ["[", *["1,"] * 80, "1", "]"]})
    free = loop_of(stage)
    assert free.finished.stop.kind is StopKind.REPETITION
    held_to_form = loop_of(stage, constraint=held({"type": "array"}), max_tokens=100)
    assert held_to_form.text.startswith("[1,1,1,1,1,")
    assert held_to_form.finished.stop.kind is not StopKind.REPETITION
    assert held_to_form.finished.details.repetition is None

"""Answers that the demo model's trained head drafts end where those without drafts end."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.generation import Answer
from engine.stopping.rules import StopRules
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Sampling
from engine.values.tokens import TokenOrigin
from tests.engine.inference.speculation.asking_drafts import answered, asked
from tests.support.asking import loaded_engine
from tests.support.random_cases import cases

_QUESTIONS = ("Count from 1 to 30.", "Hello! Who are you?", "List the planets.", "What is a stop?")
_HEAD_ALONE = frozenset({TokenOrigin.HEAD})


def _facts(answer: Answer) -> tuple[Any, ...]:
    return answer.text, answer.finished.stop, answer.finished.usage.output_tokens


def _stops_inside(answers: list[Answer], count: int) -> list[tuple[int, str]]:
    """Return places in answers, as the number of the answer and a text of it."""
    draws = random.Random(6)
    places = []
    while len(places) < count:
        number = draws.randrange(len(answers))
        text = answers[number].text
        begin = draws.randrange(len(text) // 4, len(text) - 1)
        if stop := text[begin : begin + draws.randint(1, 6)].strip():
            places.append((number, stop))
    return places


@pytest.mark.usefixtures("_eager")
async def test_stops_limits_and_seeds_end_answers_where_they_would_without_a_head(
    demo_model_path: Path,
) -> None:
    def requests(**more: Any) -> list[GenerationRequest]:
        return [asked(text, max_tokens=60, **more) for text in _QUESTIONS]

    async with loaded_engine(demo_model_path, Limits(plain_decoding=True)) as engine:
        whole = await answered(engine, *requests())
        wanted = [
            asked(_QUESTIONS[number], max_tokens=60, stops=StopRules.of(stop))
            for number, stop in _stops_inside(whole, cases(6))
        ]
        wanted += [asked(_QUESTIONS[0], max_tokens=limit) for limit in (2, 7, 8, 9)]
        wanted += requests(sampling=Sampling(temperature=0.8, seed=5))
        expected = [(await answered(engine, request))[0] for request in wanted]
    accepted = 0
    async with loaded_engine(demo_model_path) as engine:
        drafted = [replace(request, drafts=_HEAD_ALONE) for request in wanted]
        alone = [(await answered(engine, request))[0] for request in drafted]
        together = []
        for begin in range(0, len(drafted), 4):
            together += await answered(engine, *drafted[begin : begin + 4])
    for answers in (alone, together):
        assert [_facts(answer) for answer in answers] == [_facts(answer) for answer in expected]
        accepted += sum(answer.finished.speculation.head_accepted for answer in answers)
    assert accepted > len(wanted)

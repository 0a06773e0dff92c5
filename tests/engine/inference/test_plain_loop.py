"""Answers beside mlx-lm's plain loop, token by token."""

import asyncio
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.inference.backend import LoadCancelled, unobserved
from engine.inference.loader import compare_with_plain_loop
from engine.values.events import TokenTrace
from engine.values.request import TraceLevel
from engine.values.tokens import Comparison, TokenOrigin
from tests.support.asking import ask, events_of, request
from tests.support.models.guessing import verify_all_drafts

Answer = tuple[list[int], list[int]]
QUESTION = "Repeat exactly: one two three four five one two three four five one two"


async def answered(engine: Engine) -> Answer:
    pieces = await engine.prompt_pieces(request("Count from 1 to 12"))
    events = await events_of(engine, "Count from 1 to 12", trace=TraceLevel.STOPS)
    return (
        [token for token, _ in pieces],
        [event.token_id for event in events if isinstance(event, TokenTrace)],
    )


async def compared(folder: Path, answers: list[Answer]) -> tuple[list[Comparison], list[int]]:
    told: list[int] = []
    found = await asyncio.to_thread(
        compare_with_plain_loop, folder, answers, unobserved, told.append
    )
    return found, told


async def test_a_greedy_answer_is_that_of_the_plain_loop(
    engine: Engine, demo_model_path: Path
) -> None:
    answer = await answered(engine)
    found, told = await compared(demo_model_path, [answer, answer])
    assert found == [Comparison(len(answer[1]), 0, ())] * 2
    assert told[-1] == 2 * len(answer[1])


async def test_another_token_is_named_with_the_distance_and_the_rest_follows_it(
    engine: Engine, demo_model_path: Path
) -> None:
    prompt, tokens = await answered(engine)
    changed = [*tokens[:5], tokens[4], *tokens[6:]]
    [found], _ = await compared(demo_model_path, [(prompt, changed)])
    first = found.differences[0]
    assert (first.index, first.token_id, first.expected_id) == (5, tokens[4], tokens[5])
    assert first.distance > 0.1
    assert not first.is_near_tie
    assert found.tokens == len(tokens)


async def test_it_can_be_cancelled_between_two_tokens(
    engine: Engine, demo_model_path: Path
) -> None:
    answer = await answered(engine)
    told: list[int] = []

    def stop(token: int) -> None:
        told.append(token)
        if token == 3:
            raise LoadCancelled

    with pytest.raises(LoadCancelled):
        await asyncio.to_thread(
            compare_with_plain_loop, demo_model_path, [answer], unobserved, stop
        )
    assert told[-1] == 3


@pytest.mark.parametrize("drafts", [frozenset[TokenOrigin](), frozenset({TokenOrigin.DRAFT})])
async def test_only_the_named_sources_draft_and_the_answer_is_the_same(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, drafts: frozenset[TokenOrigin]
) -> None:
    verify_all_drafts(monkeypatch, 8)
    lookups = frozenset({TokenOrigin.LOOKUP})
    usual, without, lookup = [
        await ask(engine, QUESTION, drafts=allowed, max_tokens=60)
        for allowed in (None, drafts, lookups)
    ]
    assert usual.text == without.text == lookup.text
    assert usual.finished.speculation.guessed > 0
    assert without.finished.speculation.guessed == 0
    assert lookup.finished.speculation.guessed > 0

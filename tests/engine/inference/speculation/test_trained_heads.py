"""Models whose draft heads are trained: the demo model, and a hybrid, whose states are set back.

Everything is compared with mlx-lm's plain loop, so that right drafts and wrong ones are both there.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from engine.engine import Engine
from engine.inference.backend import unobserved
from engine.inference.loader import compare_with_plain_loop
from engine.values.events import Finished, TokenTrace
from engine.values.request import GenerationRequest, Message, Sampling, TraceLevel
from engine.values.tokens import TokenOrigin
from tests.support.asking import loaded_engine
from tests.support.models.guessing import verify_all_drafts
from tests.support.models.hybrid_model import write_trained_hybrid

QUESTIONS = (
    "Count from 2 to 14.",
    "Count from 31 to 42, with spaces.",
    "Count from 61 to 70, one per line.",
    "Repeat exactly: one morning the harbour was empty",
)
HEAD, NOTHING = frozenset({TokenOrigin.HEAD}), frozenset[TokenOrigin]()
# Which share of the drafts must be right where the models count: one answer alone, four at once.
# A head has not read the part of a prompt that comes from the cache, which the four share.
MIN_SHARE_ALONE = {"demo-model": 0.75, "hybrid": 0.9}

pytestmark = pytest.mark.long


class Given(NamedTuple):
    """An answer with the tokens of its prompt."""

    prompt: list[int]
    tokens: list[int]
    text: str
    finished: Finished


@pytest.fixture(scope="module")
def hybrid_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_trained_hybrid(tmp_path_factory.mktemp("models") / "hybrid")


@pytest.fixture(params=["demo-model", "hybrid"])
def folder(request: pytest.FixtureRequest, demo_model_path: Path, hybrid_path: Path) -> Path:
    return demo_model_path if request.param == "demo-model" else hybrid_path


@pytest.fixture(autouse=True)
def _eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have three drafts verified in each pass, whatever it costs here."""
    verify_all_drafts(monkeypatch, 4)


async def given(engine: Engine, *turns: str, drafts: frozenset[TokenOrigin] = HEAD) -> Given:
    """Return a greedy answer to turns that begin with the person's."""
    request = GenerationRequest(
        tuple(Message("assistant" if n % 2 else "user", text) for n, text in enumerate(turns)),
        sampling=Sampling(temperature=0),
        max_tokens=48,
        thinking=False,
        drafts=drafts,
    )
    prompt = [token for token, _ in await engine.prompt_pieces(request)]
    generation = await engine.generate(replace(request, trace=TraceLevel.STOPS))
    events = [event async for event in generation.events()]
    tokens = [event.token_id for event in events if isinstance(event, TokenTrace)]
    assert isinstance(events[-1], Finished)
    text = "".join(event.piece for event in events if isinstance(event, TokenTrace))
    return Given(prompt, tokens, text, events[-1])


async def are_as_the_plain_loop(folder: Path, answers: Sequence[Given]) -> bool:
    pairs = [(answer.prompt, answer.tokens) for answer in answers]
    compared = await asyncio.to_thread(
        compare_with_plain_loop, folder, pairs, unobserved, lambda _: None
    )
    return all(one.is_near_tie for found in compared for one in found.differences)


def share_right(answers: Sequence[Given]) -> float:
    done = [answer.finished.speculation for answer in answers]
    assert sum(each.guessed for each in done) > 0
    return sum(each.accepted for each in done) / sum(each.guessed for each in done)


async def test_an_answer_is_the_same_with_drafts_of_the_head_and_most_are_right(
    folder: Path,
) -> None:
    async with loaded_engine(folder) as engine:
        drafted = [await given(engine, question) for question in QUESTIONS]
        plain = [await given(engine, question, drafts=NOTHING) for question in QUESTIONS]
    assert [answer.tokens for answer in drafted] == [answer.tokens for answer in plain]
    assert share_right(drafted[:3]) >= MIN_SHARE_ALONE[folder.name]
    assert all(answer.finished.speculation.guessed == 0 for answer in plain)
    assert await are_as_the_plain_loop(folder, drafted)


async def test_a_second_turn_goes_on_from_the_first_and_an_edit_from_before_it(
    folder: Path,
) -> None:
    async with loaded_engine(folder) as engine:
        first = await given(engine, QUESTIONS[0])
        turns = (QUESTIONS[0], first.text, QUESTIONS[1])
        second = await given(engine, *turns)
        edited = await given(engine, "Count from 3 to 9.", first.text, QUESTIONS[1])
    assert second.finished.usage.cached_tokens > 0
    assert second.finished.speculation.guessed > 0
    assert edited.finished.speculation.guessed > 0
    assert await are_as_the_plain_loop(folder, [first, second, edited])

"""Answers of the engine: the same in a batch, from a cache and with a seed."""

import asyncio

import pytest

from engine.engine import Engine
from engine.values.events import Finished, PromptProgress, ThinkingDelta
from engine.values.request import GenerationRequest, Message, Sampling
from tests.support.asking import ask, events_of, run

COUNT = "Count from 1 to 10, one number per line"


def test_events_begin_with_progress_and_end_with_one_finished(engine: Engine) -> None:
    events = run(events_of(engine, COUNT, "6"))
    assert isinstance(events[0], PromptProgress)
    assert [type(event) for event in events].count(Finished) == 1
    assert isinstance(events[-1], Finished)


async def test_the_second_turn_reads_only_what_is_new(engine: Engine) -> None:
    first = await ask(engine, COUNT, "6")
    turns = (
        Message("user", COUNT),
        Message("assistant", first.text),
        Message("user", "Count from 1 to 3"),
    )
    generation = await engine.generate(
        GenerationRequest(messages=turns, sampling=Sampling(temperature=0))
    )
    usage = (await generation.collect()).finished.usage
    kept = first.finished.usage.prompt_tokens + first.finished.usage.output_tokens - 2
    assert usage.cached_tokens >= kept
    assert usage.cached_tokens < usage.prompt_tokens


async def test_the_model_thinks_only_when_asked_to(engine: Engine) -> None:
    without = await events_of(engine, COUNT, thinking=False)
    assert not any(isinstance(event, ThinkingDelta) for event in without)
    answer = await ask(engine, COUNT, thinking=True)
    assert answer.thinking.strip()


@pytest.mark.parametrize("temperature", [0.0, 1.2])
async def test_a_seed_gives_the_same_answer_alone_and_in_a_batch(
    engine: Engine, temperature: float
) -> None:
    drawn = Sampling(temperature=temperature, seed=11)
    alone = (await ask(engine, "Hello there", max_tokens=16, sampling=drawn)).text
    others = [ask(engine, f"Repeat exactly: a {n}", max_tokens=16) for n in range(5)]
    answers = await asyncio.gather(
        ask(engine, "Hello there", max_tokens=16, sampling=drawn), *others
    )
    assert answers[0].text == alone


async def test_the_whole_prompt_can_be_seen_token_by_token(engine: Engine) -> None:
    request = GenerationRequest((Message("system", "Be brief."), Message("user", "Hi")))

    (pieces, count) = await engine.prompt_pieces(request), await engine.count_tokens(request)
    assert len(pieces) == count
    text = "".join(piece for _, piece in pieces)
    assert text.startswith(
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>"
    )

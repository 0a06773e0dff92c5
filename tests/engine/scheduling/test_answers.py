"""Answers of the engine: the same in a batch, from a cache and with a seed."""

import asyncio

import pytest

from engine.engine import Engine
from engine.values.request import GenerationRequest, Message, Sampling
from tests.support.asking import ask

COUNT = "Count from 1 to 10, one number per line"


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

"""Random cases through the whole engine: real batches of a scripted model, streamed, cancelled."""

import asyncio
import random
from dataclasses import replace
from itertools import product

import pytest

from engine.engine import Engine
from engine.generation import Generation
from engine.stopping.record import StopKind
from engine.values.request import GenerationRequest, Message, TraceLevel
from tests.engine.contract.comparing import differences
from tests.engine.contract.product import Run, request_of
from tests.engine.contract.writing.case import Case
from tests.engine.contract.writing.cases import random_case
from tests.engine.contract.writing.ends import ends_reasoning
from tests.engine.contract.writing.families import FAMILIES
from tests.engine.contract.writing.vocabularies import (
    CONTEXT,
    GO,
    KINDS,
    Model,
    loader_of,
    model,
)
from tests.support.asking import run as run_async

ANSWERS = 8


def unlike_others(case: Case, number: int) -> GenerationRequest:
    """Return a case's request with a prompt of its own, by which the model knows its script."""
    mark = "n" + "a" * (number + 1)
    asked = request_of(case)
    if case.is_raw:
        return replace(asked, prompt=mark + GO + case.prompt)
    messages = tuple(
        Message(message.role, message.content + mark) if message.role == "user" else message
        for message in asked.messages
    )
    return replace(asked, messages=messages)


async def answer(engine: Engine, request: GenerationRequest, case: Case, made: Run) -> None:
    """Stream an answer; cancel it after a number of its tokens."""
    if case.cancel_after is not None:
        request = replace(request, trace=TraceLevel.STOPS)
    generation: Generation = await engine.generate(request)
    if case.cancel_after == 0:
        generation.cancel()
    seen = 0
    async for event in generation.events():
        made.events.append(event)
        seen += type(event).__name__ == "TokenTrace"
        if seen == case.cancel_after:
            generation.cancel()


async def play(made: Model, cases: list[Case]) -> list[Run]:
    """Run the cases together and return what came of each."""
    requests = [unlike_others(case, number) for number, case in enumerate(cases)]
    scripts: dict[tuple[int, ...], list[int]] = {}
    for case, request in zip(cases, requests, strict=True):
        tokens = made.backend.render(request).tokens
        start = len(tokens) - tokens[::-1].index(made.ids[GO])
        # What follows the mark in the prompt counts as written by the model.
        scripts[tuple(tokens[:start])] = [*tokens[start:], *case.script]

    def script_of(prompt: list[int]) -> list[int]:
        # A batch pads the shorter prompts at their beginning.
        found = [script for key, script in scripts.items() if prompt[-len(key) :] == [*key]]
        assert len(found) == 1, "every prompt has its script"
        return found[0]

    engine = Engine(loader=loader_of(made, script_of))
    runs = [Run() for _ in cases]
    try:
        await engine.load(made.backend.info.path)
        await asyncio.gather(
            *(
                answer(engine, request, case, out)
                for request, case, out in zip(requests, cases, runs, strict=True)
            )
        )
    finally:
        await engine.aclose()
    return runs


def as_it_went(case: Case, made: Run) -> Case:
    """Return the case with the cancel where it took effect, if it did."""
    end = made.finished
    was_cancelled = end.stop.kind is StopKind.CANCELLED
    return replace(case, cancel_after=end.usage.output_tokens if was_cancelled else None)


def without_forced_tokens(case: Case) -> Case:
    """Return a case whose reasoning no cycle ends: that would force tokens beside its script."""
    if not ends_reasoning(case):
        return case
    return replace(case, rules=replace(case.rules, repetition=None))


@pytest.mark.parametrize(("kind", "family"), list(product(KINDS, FAMILIES)))
def test_answers_of_one_batch_are_what_the_contract_says(kind: str, family: str) -> None:
    made = model(kind, family)
    rng = random.Random(f"engine {kind} {family}")
    drawn = (random_case(rng, [(kind, family)]) for _ in range(ANSWERS))
    cases = [without_forced_tokens(replace(case, room=CONTEXT)) for case in drawn]
    for case, found in zip(cases, run_async(play(made, cases)), strict=True):
        went = as_it_went(case, found)
        wrong = differences(went, found)
        assert not wrong, "\n".join([*wrong, repr(went)])

"""Functions that ask an engine for an answer in a test."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from engine.engine import Engine
from engine.generation import Answer
from engine.scheduling.model_list import OfferedModel
from engine.stopping.rules import STOP_OPTIONS, StopOption, StopOptions, StopRules
from engine.values.events import Event
from engine.values.limits import Limits
from engine.values.request import GenerationRequest, Message, Sampling
from tests.support.scripted import Stage

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T], timeout_s: float = 60) -> T:
    """Run a coroutine on a fresh loop; a hang fails the test."""

    async def limited() -> T:
        return await asyncio.wait_for(work, timeout_s)

    return asyncio.run(limited())


@asynccontextmanager
async def loaded_engine(
    folder: Path, limits: Limits | None = None, *loader: Any, **options: Any
) -> AsyncIterator[Engine]:
    """Yield an engine that has loaded a model, and end it; the rest is as for ``Engine``."""
    async with Engine(limits, *loader, **options) as engine:
        await engine.load(folder)
        yield engine


@asynccontextmanager
async def offered_engine(
    models: Sequence[OfferedModel], limits: Limits | None = None, *loader: Any, **options: Any
) -> AsyncIterator[Engine]:
    """Yield an engine whose requests choose among some models, and end it."""
    async with Engine(limits, *loader, **options) as engine:
        engine.offer(models)
        yield engine


def request(text: str, *stops: str, **values: Any) -> GenerationRequest:
    rules = values.pop("rules", None) or StopRules.of(*stops)
    values.setdefault("sampling", Sampling(temperature=0.0))
    return GenerationRequest(messages=(Message("user", text),), stops=rules, **values)


async def ask(engine: Engine, text: str, *stops: str, **values: Any) -> Answer:
    generation = await engine.generate(request(text, *stops, **values))
    return await generation.collect()


async def events_of(engine: Engine, text: str, *stops: str, **values: Any) -> list[Event]:
    generation = await engine.generate(request(text, *stops, **values))
    return [event async for event in generation.events()]


def scripted_answer(stage: Stage, text: str, *stops: str, **values: Any) -> Answer:
    """Play one script on an engine of its own and return the answer."""

    async def play() -> Answer:
        async with loaded_engine(Path("scripted"), loader=stage.load) as engine:
            return await ask(engine, text, *stops, **values)

    return run(play())


def other_stop_options() -> StopOptions:
    """Return stop options that all differ from their defaults, also those added later."""
    return StopOptions(**{option.name: _other(option) for option in STOP_OPTIONS})


def _other(option: StopOption) -> Any:
    match option.default:
        case Enum():
            return [*type(option.default)][-1]
        case bool():
            return not option.default
        case _:
            return option.default + 3

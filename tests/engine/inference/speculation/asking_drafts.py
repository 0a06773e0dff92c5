"""Questions to an engine with a draft model."""

import asyncio
from typing import Any

from engine.engine import Engine
from engine.generation import Answer
from engine.values.request import GenerationRequest, Message, Sampling


def asked(text: str, **options: Any) -> GenerationRequest:
    options.setdefault("sampling", Sampling(temperature=0))
    options.setdefault("max_tokens", 40)
    return GenerationRequest((Message("user", text),), thinking=False, **options)


async def answered(engine: Engine, *requests: GenerationRequest) -> list[Answer]:
    generations = [await engine.generate(one) for one in requests]
    return list(await asyncio.gather(*(one.collect() for one in generations)))

"""Runs what one request asks the engine for: all or none, and never longer than the client waits.

Knows no vendor and no HTTP. Runs on the server's loop.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from api.transport.context import Service, asker, engine_name, model_name
from api.transport.errors import failure_of
from api.transport.observing import note_embedded, note_embedding, note_generation, traced
from api.transport.served_engine import ServedAnswer
from engine import (
    CacheOwner,
    EmbeddingRequest,
    Embeddings,
    Event,
    Finished,
    GenerationRequest,
    PromptProgress,
    merge_deltas,
)


@asynccontextmanager
async def running(
    service: Service, requests: Sequence[GenerationRequest]
) -> AsyncIterator[Sequence[ServedAnswer]]:
    """Start generations together; cancel those still running when the block is left.

    Raises:
        EngineError: The engine refused them.
    """
    name = asker()
    owner = CacheOwner(name, kept_with=name if service.config.keeps_prompts else None)
    wanted = [replace(traced(one), cache_owner=owner) for one in requests]
    generations = await service.engine.generate_together(wanted)
    model = model_name(service, requests[0].model or "")
    for generation, request in zip(generations, requests, strict=True):
        service.started(generation)
        note_generation(generation, model, request)
    try:
        yield generations
    finally:
        for generation in generations:
            service.ended(generation)


async def embedded(
    service: Service, wanted: EmbeddingRequest, asked_model: str, encoding: str = ""
) -> tuple[Embeddings, str]:
    """Return the vectors of texts, and the model that made them; ends when the client leaves.

    Args:
        service: The service that the server answers from.
        wanted: The texts.
        asked_model: The model that the client named; empty if it named none.
        encoding: How the client wants vectors to be written; empty where it has no choice.

    Raises:
        EngineError: The engine refused them.
    """
    request = replace(wanted, model=engine_name(service, asked_model))
    note_embedding(request, asked_model, encoding)
    found = await service.engine.embed(request)
    model = model_name(service, asked_model)
    note_embedded(model, sum(found.tokens))
    return found, model


async def collected(generation: ServedAnswer) -> tuple[list[Event], Finished]:
    """Read a generation to its end; return its deltas, adjacent ones merged, and the end.

    If its request asks for traces, each token's trace follows the deltas of that token.

    Raises:
        ApiError: It did not end normally.
    """
    events: list[Event] = []
    async for batch in generation.batches():
        events.extend(batch)
    finished = events.pop()
    if not isinstance(finished, Finished):
        raise AssertionError("every generation ends in Finished")
    failure = failure_of(finished)
    if failure is not None:
        raise failure
    deltas: list[Event] = [event for event in events if not isinstance(event, PromptProgress)]
    return merge_deltas(deltas), finished


async def batches_of(
    generations: Sequence[ServedAnswer],
) -> AsyncGenerator[tuple[int, list[Event]], None]:
    """Yield the batches of several generations as they arrive, each with its generation's index."""
    if len(generations) == 1:
        async for batch in generations[0].batches():
            yield 0, batch
        return
    # At most one batch of each waits here; further events are merged in the generation.
    queue: asyncio.Queue[tuple[int, list[Event]]] = asyncio.Queue(maxsize=1)

    async def pump(index: int, generation: ServedAnswer) -> None:
        async for batch in generation.batches():
            await queue.put((index, batch))

    pumps = [asyncio.create_task(pump(index, one)) for index, one in enumerate(generations)]
    try:
        unfinished = len(generations)
        while unfinished:
            index, batch = await queue.get()
            unfinished -= isinstance(batch[-1], Finished)
            yield index, batch
    finally:
        for task in pumps:
            task.cancel()
        await asyncio.wait(pumps)

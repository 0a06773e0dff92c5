"""Runs the generations of one request: all or none, and never longer than the client waits."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from api.service.errors import failure_of
from api.service.models import architecture_of, model_name
from api.service.record import RequestRecord
from api.service.service import Service
from engine import Generation, merge_deltas
from engine.library.purpose import check_reranker
from engine.values.embedding import EmbeddingRequest, Embeddings
from engine.values.events import Event, Finished, PromptProgress
from engine.values.ranking import Ranking, RankingRequest
from engine.values.request import CacheOwner, GenerationRequest


@asynccontextmanager
async def run_generations(
    service: Service, record: RequestRecord, requests: Sequence[GenerationRequest]
) -> AsyncIterator[Sequence[Generation]]:
    """Start generations together; cancel those still running when the block is left.

    The block is left once all of them have ended, which takes at most a step; so the records, the
    metrics and the observers know how each one ended.
    """
    client = record.client_id
    owner = CacheOwner(client, kept_with=client if service.config.keeps_prompts else None)
    generations = await service.engine.generate_together(
        [replace(record.add_trace(request), cache_owner=owner) for request in requests]
    )
    model = requests[0].model or ""
    service.running.update(generations)
    try:
        model = model_name(service, model)
        for generation, request in zip(generations, requests, strict=True):
            hides_traces = generation.request.trace is not request.trace
            record.add_run(generation, model, hides_traces=hides_traces)
        yield generations
    finally:
        service.running.difference_update(generations)
        for generation in generations:
            generation.cancel()
        prompts: set[object] = set()
        for generation in generations:
            async for _ in generation.batches():
                pass
            key = generation.request.prompt_key
            finished = await generation.ended()
            service.metrics.answer_ended(finished, model, counts_prompt=key not in prompts)
            prompts.add(key)


async def embed_texts(
    service: Service, record: RequestRecord, request: EmbeddingRequest, model: str
) -> Embeddings:
    """Return the vectors of texts; ends when the client disconnects."""
    record.requested_model = model
    request = replace(request, model=service.engine_name(model))
    embeddings = await service.engine.embed(request)
    record.model = model_name(service, model)
    record.embedded_tokens = sum(embeddings.tokens)
    return embeddings


async def rank_pairs(
    service: Service, record: RequestRecord, request: RankingRequest, model: str
) -> Ranking:
    """Return the scores of pairs; ends when the client disconnects."""
    record.requested_model = model
    status = service.resolve_model(model)
    if status is not None and (architecture := architecture_of(status)):
        # Before a model is loaded that ranks nothing.
        check_reranker(status.id, status.model_folder, architecture)
    ranking = await service.engine.rank(replace(request, model=service.engine_name(model)))
    record.model = model_name(service, model)
    record.embedded_tokens = sum(ranking.tokens)
    return ranking


async def collect_events(generation: Generation) -> tuple[list[Event], Finished]:
    """Read a generation to its end; return its deltas, adjacent ones merged, and the end.

    If its request asks for traces, each token's trace follows the deltas of that token. Raises an
    ``ApiError`` if it did not end normally.
    """
    events: list[Event] = []
    async for batch in generation.batches():
        events.extend(batch)
    finished = events.pop()
    assert isinstance(finished, Finished), "every generation ends in Finished"
    if (failure := failure_of(finished)) is not None:
        raise failure
    return merge_deltas([one for one in events if not isinstance(one, PromptProgress)]), finished


async def batches_of(
    generations: Sequence[Generation],
) -> AsyncGenerator[tuple[int, list[Event]], None]:
    """Yield the batches of several generations as they arrive, each with its generation's index."""
    if len(generations) == 1:
        async for batch in generations[0].batches():
            yield 0, batch
        return
    # At most one batch of each waits here; further events are merged in the generation.
    queue: asyncio.Queue[tuple[int, list[Event]]] = asyncio.Queue(maxsize=1)

    async def pump(index: int, generation: Generation) -> None:
        async for batch in generation.batches():
            await queue.put((index, batch))

    pumps = [
        asyncio.create_task(pump(index, generation)) for index, generation in enumerate(generations)
    ]
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

"""What a server answers from: its engine, its models, and the generations that clients wait for.

Knows no vendor and no HTTP. Runs on the server's loop.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind, failure_of, required
from api.transport.metrics import Metrics
from api.transport.observation import (
    ServedAnswer,
    note,
    note_generation,
    traced,
)
from api.transport.response_store import KeptResponses
from engine import (
    CacheOwner,
    EmbeddingRequest,
    Embeddings,
    EngineError,
    Event,
    Finished,
    GenerationRequest,
    Limits,
    ModelInfo,
    ModelStatus,
    NoModel,
    PromptProgress,
    merge_deltas,
    untagged,
)
from engine.library.local_models import chat_template


class ServedEngine(Protocol):
    """The part of an engine that a server uses. ``engine.Engine`` says what each part means."""

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if there is one."""

    @property
    def status(self) -> ModelStatus:
        """What the engine is doing now."""
        ...

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """What every model is doing."""
        ...

    @property
    def limits(self) -> Limits:
        """The engine's limits."""
        ...

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        ...

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return the status of a model, None for no model; raises ``UnknownModel``."""
        ...

    async def generate_together(
        self, requests: Sequence[GenerationRequest]
    ) -> Sequence[ServedAnswer]:
        """Start the choices of one request; raises ``EngineError`` if it is refused."""
        ...

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request; raises like ``generate_together``."""
        ...

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a text; loads a model that is not in memory."""
        ...

    async def prompt_pieces(self, request: GenerationRequest) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a request's prompt; raises like ``generate_together``."""
        ...

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Return the text of ids; loads a model that is not in memory."""
        ...

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Return the vectors of texts; raises like ``generate_together``."""
        ...

    async def forget_prompts(self, owner: CacheOwner) -> tuple[int, int]:
        """Drop an owner's earlier prompts in memory; return their number and their bytes."""
        ...

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free a model's memory once nothing runs."""

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free a model's memory after this long without a request; None for never."""


_SHOWN_CHARACTERS = 200


class Service:
    """The parts that a server works with.

    Attributes:
        engine: The one engine.
        config: The settings; ``ApiServer.apply`` replaces them.
        running: The generations that clients are waiting for.
        metrics: The counters of this server.
        kept_responses: Answers that later requests can continue.
    """

    def __init__(self, engine: ServedEngine, config: ServerConfig) -> None:
        self.engine = engine
        self.config = config
        # With the name of each one's model, and whether it counts its prompt.
        self.running: dict[ServedAnswer, tuple[str, bool]] = {}
        self.metrics = Metrics()
        self.kept_responses = KeptResponses(
            config.kept_responses_bytes,
            config.kept_responses_s,
            folder=config.kept_responses_folder,
        )
        self._trying: asyncio.Task[None] | None = None
        self._draining: set[asyncio.Task[None]] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        return self.engine.is_choosing and self.config.are_models_chosen()

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """The models that answer requests."""
        models = self.engine.models
        if self.engine.is_choosing and not self.is_choosing:
            return tuple(model for model in models if model.is_default)
        return models

    def started(self, generation: ServedAnswer, model: str, *, counts_prompt: bool) -> None:
        """Note that a client waits for a generation.

        Args:
            generation: The generation.
            model: The name of its model, for the metrics.
            counts_prompt: Whether it is the first of the answers to the same prompt.
        """
        self.running[generation] = model, counts_prompt
        self._is_idle.clear()

    def ended(self, generation: ServedAnswer) -> None:
        """Note that nobody waits for a generation any longer; cancel it if it is still running."""
        model, counts_prompt = self.running.pop(generation)
        if not self.running:
            self._is_idle.set()
        generation.cancel()
        if generation.finished is not None:
            self.metrics.answer_ended(generation.finished, model, counts_prompt=counts_prompt)
            return
        # It ends within a step; its tokens and its stop reason are counted like those of any other.
        task = asyncio.get_running_loop().create_task(self._drain(generation, model, counts_prompt))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _drain(self, generation: ServedAnswer, model: str, counts_prompt: bool) -> None:
        async for _ in generation.batches():
            pass
        finished = await generation.ended()
        self.metrics.answer_ended(finished, model, counts_prompt=counts_prompt)

    def try_again(self) -> None:
        """Restart an engine that failed, if it can restart; its status tells whether it did."""
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try())

    async def _try(self) -> None:
        with suppress(EngineError):  # it is still stuck, or its model cannot be loaded
            await self.engine.tokenize("")

    async def idle(self, timeout_s: float) -> None:
        """Wait until no client waits for a generation, or until the time limit."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), timeout_s)


# All clients without a key are one, without a name.
_client_id: ContextVar[str] = ContextVar("client_id", default="")


def set_client(key: str | None) -> None:
    """Set the client of this task and of the tasks that it starts: the holder of a key."""
    digest = None if key is None else sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    _client_id.set("" if digest is None else f"key {digest[:32]}")


def client_id() -> str:
    """Return the client's id; prompts and answers of one are not used for, or shown to, others."""
    return _client_id.get()


def new_id(prefix: str) -> str:
    """Return a fresh identifier such as ``msg_01ab…``."""
    return f"{prefix}{uuid4().hex}"


async def loaded_model(service: Service, asked: str = "") -> ModelInfo:
    """Return the model that a request is for; one that is not in memory is loaded.

    Args:
        service: The service that the server answers from.
        asked: The model name in the request, if there is one.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
        NoModel: The model cannot be loaded, or there is no model.
    """
    name = engine_name(service, asked)
    model = _known(service, name)
    if model is None:
        # This waits for a load in progress, and raises if no model is loading.
        await service.engine.tokenize("", name)
        model = _known(service, name)
    if model is None:
        raise NoModel("no model is loaded")
    return model


def _known(service: Service, name: str | None) -> ModelInfo | None:
    """Return a model's description; None if it was never loaded."""
    if not service.is_choosing:
        return service.engine.model
    status = service.engine.model_status(name)
    return None if status is None else status.info


def engine_name(service: Service, asked: str) -> str | None:
    """Return the name by which the engine finds a model; None for the default one."""
    return (asked or None) if service.is_choosing else None


def is_named(asked: str, model_id: str) -> bool:
    """Whether a name means the only model, with or without Ollama's tag."""
    return asked == model_id or untagged(asked).lower() == untagged(model_id).lower()


def shown_name(asked: str) -> str:
    """Return the requested model's name as an error shows it."""
    return asked if len(asked) <= _SHOWN_CHARACTERS else f"{asked[:_SHOWN_CHARACTERS]}…"


def check_model(service: Service, asked: str) -> None:
    """Refuse an unknown model name; if one model answers all requests, only in strict mode.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
        ApiError: The named model is not the loaded one, or none is named.
    """
    if service.is_choosing:
        service.engine.model_status(asked or None)
        return
    loaded = service.engine.model
    if service.config.strict and not asked:
        raise required(("model",))
    if service.config.strict and loaded is not None and not is_named(asked, loaded.id):
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"{shown_name(asked)} is not loaded; {loaded.id} is",
            field=("model",),
            code="model_not_found",
        )


def model_name(service: Service, asked: str) -> str:
    """Return the model name that an answer reports: that of the model that answers."""
    if service.is_choosing:
        status = service.engine.model_status(asked or None)
        return asked if status is None else status.id
    loaded = service.engine.model
    return loaded.id if loaded is not None else asked


def addressed(
    service: Service, requests: Sequence[GenerationRequest], asked: str
) -> list[GenerationRequest]:
    """Return requests for the named model, with the server's limits where they set none.

    Args:
        service: The service that the server answers from.
        requests: The generations that the request asks for.
        asked: The model name in the request, if there is one.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
    """
    name, config = engine_name(service, asked), service.config
    return [
        replace(
            request,
            model=name,
            stops=replace(request.stops, ignore_template_eos=True)
            if config.ignore_template_eos
            else request.stops,
            thinking_budget=_budget(request, config.thinking_budget),
            max_tokens=_max_tokens(request, config.task_max_tokens),
        )
        for request in requests
    ]


# How Open WebUI begins the questions for titles, tags, suggestions and searches, which nobody waits
# for: a model that does not end its answer would run until the context is full.
_TASK_BEGINNING = "### Task:"


def _max_tokens(request: GenerationRequest, task_limit: int) -> int | None:
    """Return the limit of a request; the server's for a background task that sets none."""
    if request.max_tokens is not None or not request.messages:
        return request.max_tokens
    last = request.messages[-1]
    is_task = last.role == "user" and last.content.lstrip().startswith(_TASK_BEGINNING)
    return task_limit or None if is_task else None


def _budget(request: GenerationRequest, usual: int | None) -> int | None:
    """Return the reasoning budget of a request; the server's if the request sets none."""
    says_nothing = request.thinking_budget is None and request.effort is None
    return usual if says_nothing and request.prompt is None else request.thinking_budget


# The models that a server lists, independent of any vendor.


@dataclass(frozen=True, slots=True)
class ListedModel:
    """A model that requests may name, whether it is in memory or not.

    Attributes:
        id: Its name.
        folder: Its folder; empty if it is not known yet.
        is_loaded: Whether it is in memory.
        context_length: Most tokens of prompt and answer together.
        size_bytes: Size of its weight files.
        memory_bytes: How much memory its weights take; 0 if it is not loaded. Caches are left out:
            they would tell how much others ask.
        architecture: Its architecture's name; empty if unknown.
        draft: The draft model loaded with it, if there is one.
        since: When it was loaded, or else when its files were written, in Unix seconds.
        unloads_at: When it will be unloaded if no further request arrives, in Unix seconds; None
            for never.
    """

    id: str
    folder: Path
    is_loaded: bool
    context_length: int
    size_bytes: int
    memory_bytes: int
    architecture: str
    draft: str | None
    since: int
    unloads_at: float | None


def listed_models(service: Service) -> list[ListedModel]:
    """Return the models that requests may name; the only one if it answers all requests."""
    if not service.is_choosing:
        return [_listed(status) for status in service.engine.models if status.is_default]
    return [_listed(model_status) for model_status in service.engine.models]


def listed_model(service: Service, name: str) -> ListedModel | None:
    """Return the model with a name; None if it is not listed.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
    """
    if not service.is_choosing:
        return next((model for model in listed_models(service) if is_named(name, model.id)), None)
    status = service.engine.model_status(name or None)
    return None if status is None else _listed(status)


def _listed(status: ModelStatus) -> ListedModel:
    info, offered = status.info, status.offered
    on_disk = None if offered is None else offered.found
    drafted = None if info is None or info.draft is None else info.draft.id
    if drafted is None and offered is not None and offered.draft is not None:
        drafted = offered.draft.name
    since = int(_came_at(status) if info is None else info.loaded_at)
    if info is not None:
        architecture, context, size = info.architecture, info.context_length, info.size_bytes
    elif on_disk is not None:
        architecture, context, size = (
            on_disk.architecture,
            on_disk.context_length,
            on_disk.size_bytes,
        )
    else:
        architecture, context, size = "", 0, 0
    return ListedModel(
        status.id,
        status.folder,
        status.is_loaded,
        context,
        size,
        info.weights_bytes if info is not None and status.is_loaded else 0,
        architecture,
        drafted,
        since,
        status.unloads_at,
    )


def _came_at(status: ModelStatus) -> float:
    try:
        return os.stat(status.folder / "config.json").st_mtime
    except OSError:
        return 0.0


# What a chat template holds whose model can reason.
_THINKING_SIGNS = ("<think>", "enable_thinking", "<|channel|>analysis")


@dataclass(frozen=True, slots=True)
class Abilities:
    """What a model can do.

    Attributes:
        can_think: Whether it can reason before it answers.
        can_call_tools: Whether it can call tools.
        vocabulary_size: The size of its vocabulary; None before it was loaded.
    """

    can_think: bool
    can_call_tools: bool
    vocabulary_size: int | None = None


async def takes_tools(service: Service, name: str | None) -> bool:
    """Whether a model's chat template tells it of tools; True where that is not known yet.

    Args:
        service: The service that the server answers from.
        name: The engine's name of the model; None for the default one.
    """
    info = service.engine.model
    if service.is_choosing:
        status = service.engine.model_status(name)
        info = None if status is None else status.info
        if status is not None and info is None:
            return "tools" in await asyncio.to_thread(chat_template, status.folder)
    return info is None or info.takes_tools


async def abilities_of(service: Service, name: str) -> Abilities:
    """Return what a model can do; for one that was never loaded, judged by its chat template.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
        NoModel: There is no model.
    """
    status = service.engine.model_status(name) if service.is_choosing else None
    if status is None or status.info is not None:
        info = await loaded_model(service, name)
        return Abilities(info.can_think, info.can_call_tools, info.vocabulary_size)
    template = await asyncio.to_thread(chat_template, status.folder)
    return Abilities(
        can_think=any(sign in template for sign in _THINKING_SIGNS),
        can_call_tools="tools" in template,
    )


# Runs what one request asks the engine for: all or none, and never longer than the client waits.


@asynccontextmanager
async def running(
    service: Service, requests: Sequence[GenerationRequest]
) -> AsyncIterator[Sequence[ServedAnswer]]:
    """Start generations together; cancel those still running when the block is left.

    Raises:
        EngineError: The engine refused them.
    """
    name = client_id()
    owner = CacheOwner(name, kept_with=name if service.config.keeps_prompts else None)
    wanted = [replace(traced(choice), cache_owner=owner) for choice in requests]
    generations = await service.engine.generate_together(wanted)
    model = model_name(service, requests[0].model or "")
    prompts: set[object] = set()
    for generation, request in zip(generations, requests, strict=True):
        service.started(generation, model, counts_prompt=request.prompt_key not in prompts)
        prompts.add(request.prompt_key)
        note_generation(generation, model, request)
    try:
        yield generations
    finally:
        for generation in generations:
            service.ended(generation)


async def embedded(
    service: Service, wanted: EmbeddingRequest, asked_model: str
) -> tuple[Embeddings, str]:
    """Return the vectors of texts, and the model that made them; ends when the client leaves.

    Args:
        service: The service that the server answers from.
        wanted: The texts.
        asked_model: The model that the client named; empty if it named none.

    Raises:
        EngineError: The engine refused them.
    """
    request = replace(wanted, model=engine_name(service, asked_model))
    note(asked_model=asked_model)
    embeddings = await service.engine.embed(request)
    model = model_name(service, asked_model)
    note(model=model, embedded_tokens=sum(embeddings.tokens))
    return embeddings, model


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

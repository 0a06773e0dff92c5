"""What handlers find in their application and request. Runs on the server's loop."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from hashlib import sha256
from uuid import uuid4

from aiohttp import web

from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind, required
from api.transport.kept_responses import KeptResponses
from api.transport.metrics.counting import Metrics
from api.transport.response_folder import ResponseFolder
from api.transport.served_engine import ServedAnswer, ServedEngine
from engine import EngineError, GenerationRequest, ModelInfo, NoModel

_SHOWN_CHARACTERS = 200


class Service:
    """The parts that a server works with.

    Attributes:
        engine: The one engine.
        config: The settings.
        running: The generations that clients are waiting for.
        metrics: The counters of this server.
        kept_responses: Answers that later requests can continue.
    """

    def __init__(self, engine: ServedEngine, config: ServerConfig) -> None:
        self.engine = engine
        self.config = config
        self.running: set[ServedAnswer] = set()
        self.metrics = Metrics()
        folder = config.kept_responses_folder
        self.kept_responses = KeptResponses(
            config.kept_responses_bytes,
            config.kept_responses_s,
            folder=None if folder is None else ResponseFolder(folder),
        )
        self._trying: asyncio.Task[None] | None = None
        self._draining: set[asyncio.Task[None]] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def started(self, generation: ServedAnswer) -> None:
        """Note that a client waits for a generation."""
        self.running.add(generation)
        self._is_idle.clear()

    def ended(self, generation: ServedAnswer) -> None:
        """Note that nobody waits for a generation any longer; cancel it if it is still running."""
        self.running.discard(generation)
        if not self.running:
            self._is_idle.set()
        generation.cancel()
        if generation.finished is not None:
            self.metrics.answer_ended(generation.finished)
            return
        # It ends within a step; its tokens and its stop reason are counted like those of any other.
        task = asyncio.get_running_loop().create_task(self._drain(generation))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _drain(self, generation: ServedAnswer) -> None:
        async for _ in generation.batches():
            pass
        self.metrics.answer_ended(await generation.ended())

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
_asker: ContextVar[str] = ContextVar("asker", default="")


def note_asker(key: str | None) -> None:
    """Note who asks for what this task, and the tasks that it starts, do: the holder of a key."""
    digest = None if key is None else sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
    _asker.set("" if digest is None else f"key {digest[:32]}")


def asker() -> str:
    """Return who asks; what one has asked is not shown to others, nor used for them."""
    return _asker.get()


SERVICE = web.AppKey("service", Service)
# Anthropic's name and OpenAI's.
REQUEST_ID_HEADERS = ("request-id", "x-request-id")
REQUEST_ID = web.RequestKey("request_id", str)
# The types of the tools that a request was read without, and the header that names them.
LEFT_OUT = web.RequestKey("left_out", tuple)
IMAGES_HEADER = "x-fullstop-images"
LEFT_OUT_HEADER = "x-fullstop-tools-left-out"
# Set once the end of a stream has been written: a client that disconnects then has the whole
# answer.
DELIVERED = web.RequestKey("delivered", bool)


def service_of(request: web.Request) -> Service:
    """Return the service of the request's server."""
    return request.app[SERVICE]


def request_id_of(request: web.Request) -> str:
    """Return the id under which this request is answered and logged."""
    return request[REQUEST_ID]


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
    if not service.engine.is_choosing:
        return service.engine.model
    status = service.engine.model_status(name)
    return None if status is None else status.info


def engine_name(service: Service, asked: str) -> str | None:
    """Return the name by which the engine finds a model; None for the default one."""
    return (asked or None) if service.engine.is_choosing else None


def shown_name(asked: str) -> str:
    """Return the requested model's name as an error shows it."""
    return asked if len(asked) <= _SHOWN_CHARACTERS else f"{asked[:_SHOWN_CHARACTERS]}…"


def check_model(service: Service, asked: str) -> None:
    """Refuse an unknown model name; if one model answers all requests, only in strict mode.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
        ApiError: The named model is not the loaded one, or none is named.
    """
    if service.engine.is_choosing:
        service.engine.model_status(asked or None)
        return
    loaded = service.engine.model
    if service.config.strict and not asked:
        raise required(("model",))
    if service.config.strict and loaded is not None and asked != loaded.id:
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"{shown_name(asked)} is not loaded; {loaded.id} is",
            field=("model",),
            code="model_not_found",
        )


def model_name(service: Service, asked: str) -> str:
    """Return the model name that an answer reports: that of the model that answers."""
    if service.engine.is_choosing:
        status = service.engine.model_status(asked or None)
        return asked if status is None else status.id
    loaded = service.engine.model
    return loaded.id if loaded is not None else asked


def addressed(
    service: Service, requests: Sequence[GenerationRequest], asked: str
) -> list[GenerationRequest]:
    """Return requests for the named model; add the server's reasoning budget if they set none.

    Args:
        service: The service that the server answers from.
        requests: The generations that the request asks for.
        asked: The model name in the request, if there is one.

    Raises:
        UnknownModel: Several models are offered, and none of them has that name.
    """
    name, budget = engine_name(service, asked), service.config.thinking_budget
    return [replace(one, model=name, thinking_budget=_budget(one, budget)) for one in requests]


def _budget(request: GenerationRequest, usual: int | None) -> int | None:
    """Return the reasoning budget of a request; the server's if the request sets none."""
    says_nothing = request.thinking_budget is None and request.effort is None
    return usual if says_nothing and request.prompt is None else request.thinking_budget

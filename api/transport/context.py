"""What handlers find in their application and request. Runs on the server's loop."""

import asyncio
from contextlib import suppress
from uuid import uuid4

from aiohttp import web

from api.transport.config import ServerConfig
from api.transport.errors import ApiError, ErrorKind
from api.transport.metrics.counting import Metrics
from api.transport.served_engine import ServedAnswer, ServedEngine
from engine import EngineError, ModelInfo, NoModel

_SHOWN_CHARACTERS = 200


class Service:
    """What a server works with.

    Attributes:
        engine: The one engine.
        config: The settings.
        running: The generations that clients are waiting for.
        metrics: The numbers of this server.
    """

    def __init__(self, engine: ServedEngine, config: ServerConfig) -> None:
        self.engine = engine
        self.config = config
        self.running: set[ServedAnswer] = set()
        self.metrics = Metrics()
        self._trying: asyncio.Task[None] | None = None
        self._draining: set[asyncio.Task[None]] = set()
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    def started(self, generation: ServedAnswer) -> None:
        """Note that a client waits for a generation."""
        self.running.add(generation)
        self._is_idle.clear()

    def ended(self, generation: ServedAnswer) -> None:
        """Note that nobody waits for it any longer; if it still goes on, it is cancelled."""
        self.running.discard(generation)
        if not self.running:
            self._is_idle.set()
        generation.cancel()
        if generation.finished is not None:
            self.metrics.answer_ended(generation.finished)
            return
        # It ends within a step; its tokens and its reason are counted like any other's.
        task = asyncio.get_running_loop().create_task(self._drain(generation))
        self._draining.add(task)
        task.add_done_callback(self._draining.discard)

    async def _drain(self, generation: ServedAnswer) -> None:
        async for _ in generation.batches():
            pass
        self.metrics.answer_ended(await generation.ended())

    def try_again(self) -> None:
        """Have an engine that failed start anew if it can; its status tells whether it did."""
        if self._trying is None or self._trying.done():
            self._trying = asyncio.get_running_loop().create_task(self._try())

    async def _try(self) -> None:
        with suppress(EngineError):  # it is still stuck, or its model cannot be read
            await self.engine.tokenize("")

    async def idle(self, timeout_s: float) -> None:
        """Wait until no client waits for a generation, or until the time is up."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), timeout_s)


SERVICE = web.AppKey("service", Service)
# Anthropic's name and OpenAI's.
REQUEST_ID_HEADERS = ("request-id", "x-request-id")
REQUEST_ID = web.RequestKey("request_id", str)
# Set once the end of a stream has been written: whoever hangs up then has it all.
DELIVERED = web.RequestKey("delivered", bool)


def service_of(request: web.Request) -> Service:
    """Return what the request's server works with."""
    return request.app[SERVICE]


def request_id_of(request: web.Request) -> str:
    """Return the id under which this request is answered and logged."""
    return request[REQUEST_ID]


def new_id(prefix: str) -> str:
    """Return a fresh identifier such as ``msg_01ab…``."""
    return f"{prefix}{uuid4().hex}"


async def loaded_model(service: Service) -> ModelInfo:
    """Return the model that answers; one that is being loaded is waited for.

    Raises:
        NoModel: None is loaded.
    """
    if service.engine.model is None:
        # Answered once a load that is under way has ended, and refused where there is none.
        await service.engine.tokenize("")
    model = service.engine.model
    if model is None:
        raise NoModel("no model is loaded")
    return model


def shown_name(asked: str) -> str:
    """Return the name of a model that was asked for as it stands in an error."""
    return asked if len(asked) <= _SHOWN_CHARACTERS else f"{asked[:_SHOWN_CHARACTERS]}…"


def check_model(service: Service, asked: str) -> None:
    """Refuse another model's name where the settings are strict.

    Raises:
        ApiError: The named model is not the loaded one.
    """
    loaded = service.engine.model
    if service.config.strict and loaded is not None and asked != loaded.id:
        raise ApiError(
            ErrorKind.NOT_FOUND,
            f"{shown_name(asked)} is not loaded; {loaded.id} is",
            field=("model",),
            code="model_not_found",
        )


def model_name(service: Service, asked: str) -> str:
    """Return the name under which an answer is sent: the loaded model's."""
    loaded = service.engine.model
    return loaded.id if loaded is not None else asked

"""The engine that a server answers from, and the generations that its clients wait for.

Knows no vendor and no HTTP. Runs on the server's loop.
"""

import asyncio
from contextlib import suppress
from hashlib import sha256
from uuid import uuid4

from api.transport.config import ServerConfig
from api.transport.metrics import Metrics
from api.transport.response_store import ResponseStore
from engine import Engine, EngineError, Generation, ModelStatus


class Service:
    """The parts that a server works with.

    Attributes:
        engine: The one engine.
        config: The settings; ``ApiServer.apply`` replaces them.
        running: The generations that clients are waiting for, each with the name of its model and
            whether it counts its prompt.
        metrics: The counters of this server.
        responses: Stored answers, which later requests can continue.
    """

    def __init__(self, engine: Engine, config: ServerConfig) -> None:
        self.engine = engine
        self.config = config
        self.running: dict[Generation, tuple[str, bool]] = {}
        self.metrics = Metrics()
        self.responses = ResponseStore(
            config.kept_responses_bytes,
            config.kept_responses_s,
            folder=config.kept_responses_folder,
        )
        self._restart: asyncio.Task[None] | None = None
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

    def add_running(self, generation: Generation, model: str, *, counts_prompt: bool) -> None:
        """Add a generation that a client waits for.

        Args:
            generation: The generation.
            model: The name of its model, for the metrics.
            counts_prompt: Whether it is the first of the answers to the same prompt.
        """
        self.running[generation] = model, counts_prompt
        self._is_idle.clear()

    def remove_running(self, generation: Generation) -> None:
        """Remove a generation that nobody waits for; cancel it if it is still running."""
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

    async def _drain(self, generation: Generation, model: str, counts_prompt: bool) -> None:
        async for _ in generation.batches():
            pass
        finished = await generation.ended()
        self.metrics.answer_ended(finished, model, counts_prompt=counts_prompt)

    def restart_engine(self) -> None:
        """Begin to restart an engine that failed; its status shows the outcome."""
        if self._restart is None or self._restart.done():
            self._restart = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        with suppress(EngineError):  # it is still stuck, or its model cannot be loaded
            await self.engine.tokenize("")

    async def wait_until_idle(self, timeout_s: float) -> None:
        """Wait until no client waits for a generation, or until the time limit."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), timeout_s)


def client_id_of(key: str | None) -> str:
    """Return the client's name in caches and stored answers: all without a key share one."""
    if key is None:
        return ""
    return f"key {sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"


def new_id(prefix: str) -> str:
    """Return a fresh identifier such as ``msg_01ab…``."""
    return f"{prefix}{uuid4().hex}"

"""The engine that a server answers from, and the generations that its clients wait for.

Knows no vendor and no HTTP. Runs on the server's loop.
"""

import asyncio
import time
from hashlib import sha256
from uuid import uuid4

from api.service.config import ServerConfig
from api.service.metrics import Metrics
from api.service.response_store import ResponseStore
from engine import Engine, Generation, ModelStatus
from engine.errors import EngineError


class Service:
    """The parts that a server works with; ``ApiServer.apply`` replaces its ``config``.

    ``running`` are the generations that clients are waiting for.
    """

    def __init__(self, engine: Engine, config: ServerConfig) -> None:
        self.engine = engine
        self.config = config
        self.running: set[Generation] = set()
        self.metrics = Metrics()
        self.responses = ResponseStore(
            config.kept_responses_bytes,
            config.kept_responses_s,
            folder=config.kept_responses_folder,
        )
        self._restart: asyncio.Task[None] | None = None

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        return self.engine.is_choosing and self.config.are_models_chosen()

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """The models that requests may name; the only one if it answers all requests."""
        is_choosing = self.is_choosing
        return tuple(model for model in self.engine.models if model.is_default or is_choosing)

    def engine_name(self, name: str) -> str | None:
        """Return the name by which the engine finds a request's model; None for the default one."""
        return (name or None) if self.is_choosing else None

    def resolve_model(self, name: str = "") -> ModelStatus | None:
        """Return the model that a request's name means; None if there is none.

        Raises:
            UnknownModel: Requests choose among several models, and none has that name.
        """
        return self.engine.resolve_model(self.engine_name(name))

    def restart_engine(self) -> None:
        if self._restart is None or self._restart.done():
            self._restart = asyncio.get_running_loop().create_task(self._load())

    async def _load(self) -> None:
        began_s = time.monotonic()
        try:
            await self.engine.tokenize("")
        except EngineError:  # it is still stuck, or its model cannot be loaded
            # Polls of a model that always fails must not keep the computer loading it.
            await asyncio.sleep(9 * (time.monotonic() - began_s))


def client_id_of(key: str | None) -> str:
    """Return the client's name in caches and stored answers: all without a key share one."""
    if key is None:
        return ""
    return f"key {sha256(key.encode('utf-8', 'surrogateescape')).hexdigest()[:32]}"


def new_id(prefix: str) -> str:
    """Return a fresh identifier such as ``msg_01ab…``."""
    return f"{prefix}{uuid4().hex}"

"""Loads the model of a conversation when a message needs it. Main thread."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from engine import GenerationRequest, ModelInfo, Tool
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.requests import Adapt, fitted


class ModelsOnDemand(Protocol):
    """The part of the window's models that a chat needs."""

    def info_of(self, folder: Path | None) -> ModelInfo | None:
        """Return the model of a folder, if it is loaded; without a folder, the default one."""

    def ready(
        self, wanted: Callable[[], Path | None]
    ) -> AbstractAsyncContextManager[ModelInfo | None]:
        """Load the model of a folder if necessary, and keep it loaded inside the ``with`` block."""


class ModelOfConversation:
    """The model that answers a conversation at this moment."""

    def __init__(self, conversation: Conversation, models: ModelsOnDemand) -> None:
        self._conversation = conversation
        self._models = models

    @property
    def info(self) -> ModelInfo | None:
        """The model; None while it is not loaded."""
        return self._models.info_of(self._folder())

    @asynccontextmanager
    async def held(self) -> AsyncIterator[ModelInfo | None]:
        """Load the model if necessary, and keep it loaded inside the ``with`` block."""
        async with self._models.ready(self._folder) as model:
            yield model

    def _folder(self) -> Path | None:
        choice = self._conversation.model
        return None if choice is None else choice.folder


class RequestForModel:
    """A request that is completed once its model is loaded."""

    def __init__(
        self,
        request: GenerationRequest,
        settings: ConversationSettings,
        without: str | int | None,
        hold: Callable[[], AbstractAsyncContextManager[ModelInfo | None]],
        offered: Callable[[], Awaitable[tuple[Tool, ...]]] | None,
        fit: Callable[[GenerationRequest, ModelInfo, Adapt], Awaitable[GenerationRequest]],
    ) -> None:
        self._request = request
        self._settings = settings
        self._without = without
        self._hold = hold
        self._offered = offered
        self._fit = fit

    @asynccontextmanager
    async def held(self) -> AsyncIterator[tuple[GenerationRequest, ModelInfo | None]]:
        """Keep the model loaded; yield the request adapted to the model, and the model."""
        tools = () if self._offered is None else await self._offered()
        request = replace(self._request, tools=tools) if tools else self._request
        async with self._hold() as model:

            def adapt(request: GenerationRequest) -> GenerationRequest:
                return fitted(request, self._settings, model, self._without)

            if model is not None:
                request = await self._fit(request, model, adapt)
            yield adapt(request), model

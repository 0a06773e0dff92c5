"""The window's engine holds several models: those of the library, each loaded when it is needed.

Other programs that use the window's server are answered by the default model, the one that was
loaded last, whatever name they give. Main thread; ``DefaultModel`` runs on the server's loop.
"""

from collections.abc import Sequence
from dataclasses import replace

from app.composition.offers import offered_models
from engine import Engine, EngineStatus, Generation, GenerationRequest, ModelInfo, ModelStatus
from ui.models.model_library import ModelLibrary


def offer_found(engine: Engine, library: ModelLibrary) -> None:
    """Let requests name the models that the library found."""
    if library.is_looking or not library.has_looked:
        return
    offers = offered_models(one.found for one in library.models)
    engine.offer(
        [
            replace(one, folder=one.folder.resolve(), draft=library.draft_of(one.folder))
            for one in offers
        ]
    )


class DefaultModel:
    """Serves the default model of an engine to requests of any name.

    Args:
        engine: What answers.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if there is one."""
        return self._engine.model

    @property
    def status(self) -> EngineStatus:
        """What the default model is doing."""
        return self._engine.status

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """What the default model is doing; the others are the window's business."""
        return tuple(one for one in self._engine.models if one.is_default)

    @property
    def is_choosing(self) -> bool:
        """One model answers all requests."""
        return False

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return what the default model is doing, whatever name is asked for."""
        return self._engine.model_status()

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Start the choices of one request with the default model."""
        return await self._engine.generate_together([replace(one, model=None) for one in requests])

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request."""
        return await self._engine.count_tokens(replace(request, model=None))

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a text."""
        return await self._engine.tokenize(text)

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free the default model's memory once nothing runs."""
        self._engine.unload_when_idle()

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free the default model's memory whenever nothing was asked for so long."""
        self._engine.unload_after(idle_s)

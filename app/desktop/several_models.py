"""Offers the models of the library to other programs; each is loaded when it is needed.

Requests of other programs choose a model by the field ``model``, unless the preferences let the
default model (the one loaded last) answer all of them. Main thread; ``SharedModels`` runs on the
server's loop.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from app.composition.offers import offered_models
from engine import (
    CacheOwner,
    EmbeddingRequest,
    Embeddings,
    Engine,
    EngineStatus,
    Generation,
    GenerationRequest,
    ModelInfo,
    ModelStatus,
    OfferedModel,
)
from engine.library.models import model_name
from ui.models.model_library import ModelLibrary


def keep_offered(engine: Engine, library: ModelLibrary) -> None:
    """Offer the models of the library, and again when they or the loaded model change.

    A model that was still loading when the library was read is offered once it is loaded, also if
    it is in none of the library's folders.
    """
    library.changed.connect(lambda: offer_found(engine, library))

    def offer_loaded() -> None:
        if any(one.is_loaded and one.offered is None for one in engine.models):
            offer_found(engine, library)

    library.model.changed.connect(offer_loaded)


def offer_found(engine: Engine, library: ModelLibrary) -> None:
    """Let requests name the models that the library found, and those that are still in memory.

    A model whose folder is gone goes on answering under its name until it is unloaded.
    """
    if library.is_looking or not library.has_looked:
        return
    offers = [
        _resolved(one, library.draft_of(one.folder))
        for one in offered_models(one.found for one in library.models)
    ]
    there = {one.folder for one in offers}
    left = [
        one.offered or OfferedModel(one.id, one.folder)
        for one in engine.models
        if one.is_loaded and one.folder not in there
    ]
    names = {one.id for one in left}
    engine.offer([*left, *(one for one in offers if one.id not in names)])


def _resolved(model: OfferedModel, draft: Path | None) -> OfferedModel:
    """Return a model at the folder that a link leads to; it also has the name of that folder.

    A loaded model has that name, and the window's own requests use it.
    """
    folder = model.folder.resolve()
    own = model_name(folder)
    aliases = model.aliases if own == model.id else (*model.aliases, own)
    return replace(model, folder=folder, draft=draft, aliases=aliases)


class SharedModels:
    """The window's engine as other programs see it."""

    def __init__(self, engine: Engine, are_chosen: Callable[[], bool]) -> None:
        self._engine = engine
        self._are_chosen = are_chosen

    @property
    def model(self) -> ModelInfo | None:
        """The default model, if it is loaded."""
        return self._engine.model

    @property
    def status(self) -> EngineStatus:
        """The status of the default model."""
        return self._engine.status

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """The status of each model that requests can name."""
        models = self._engine.models
        return models if self.is_choosing else tuple(one for one in models if one.is_default)

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        engine = self._engine
        return self._are_chosen() and engine.is_choosing and len(engine.models) > 1

    def _known(self, name: str | None) -> str | None:
        return name if self.is_choosing else None

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return the status of a model; raises ``UnknownModel``."""
        return self._engine.model_status(self._known(name))

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Start the choices of one request."""
        return await self._engine.generate_together(
            [replace(one, model=self._known(one.model)) for one in requests]
        )

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request."""
        return await self._engine.count_tokens(replace(request, model=self._known(request.model)))

    async def tokenize(self, text: str, name: str | None = None) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a text."""
        return await self._engine.tokenize(text, self._known(name))

    async def prompt_pieces(self, request: GenerationRequest) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a request's prompt."""
        return await self._engine.prompt_pieces(replace(request, model=None))

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Return the text of ids."""
        return await self._engine.detokenize(ids)

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Return the vectors of texts."""
        return await self._engine.embed(replace(request, model=None))

    async def forget_prompts(self, owner: CacheOwner) -> tuple[int, int]:
        """Clear the prompt cache in memory, including the window's own prompts."""
        return await self._engine.forget_prompts(owner)

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free a model's memory once nothing runs."""
        self._engine.unload_when_idle(self._known(name))

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free a model's memory after this long without a request."""
        self._engine.unload_after(idle_s, self._known(name))

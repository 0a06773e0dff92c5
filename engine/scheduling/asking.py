"""Starts the choices of one request: prepares what it can, then submits to the engine thread.

Stops become automata and schemas become forms here, so that a long list or a large schema does
not slow the engine thread. Any event loop. Never imports MLX itself.
"""

import asyncio
import time
from collections.abc import Sequence

from engine.errors import EngineError
from engine.grammar.forms import Forms
from engine.grammar.masks import Form, FormMissing, is_constrained
from engine.scheduling.generation import Generation
from engine.scheduling.offering import OfferedModel
from engine.scheduling.queue.preparing import prompts_size
from engine.scheduling.thread.commands import Cancel, Submit
from engine.scheduling.thread.restarting import RestartingThread
from engine.stopping.matcher import prepared
from engine.values.request import GenerationRequest

# How often a constrained request is prepared again because the model changed meanwhile.
_MOST_MODELS = 5


class Asking:
    """Submits requests to the engine thread."""

    def __init__(self, thread: RestartingThread, forms: Forms) -> None:
        self._thread = thread
        self._forms = forms

    async def start(
        self, requests: Sequence[GenerationRequest], model: OfferedModel | None
    ) -> list[Generation]:
        """Start the choices of one request; the engine takes all of them, or none."""
        for _ in range(_MOST_MODELS):
            forms = [await self._form_of(request, model) for request in requests]
            try:
                return await self._submitted(requests, forms, model)
            except FormMissing as missing:  # of this model, which may just have been loaded
                self._forms.learn(missing.maker, None if model is None else model.id)
        raise EngineError("the model keeps changing; try again")

    async def _form_of(self, request: GenerationRequest, model: OfferedModel | None) -> Form | None:
        """Return the form of an answer; None where it is free, or cannot be prepared yet."""
        if not is_constrained(request):
            return None
        maker = self._forms.maker(None if model is None else model.id)
        if maker is None:
            return None
        # Choices of one request have the same form.
        draft = maker.drafted(request)
        if draft is None:
            draft = await asyncio.to_thread(maker.draft, request)
        return await self._forms.prepared(maker, draft)

    async def _submitted(
        self,
        requests: Sequence[GenerationRequest],
        forms: Sequence[Form | None],
        model: OfferedModel | None,
    ) -> list[Generation]:
        loop = asyncio.get_running_loop()
        generations = [Generation(request, loop, self._cancel) for request in requests]
        # Prepared here, so that a long list of stops does not slow the engine thread.
        automata = {id(request.stops): prepared(request.stops) for request in requests}
        for generation, form in zip(generations, forms, strict=True):
            generation.form = form
            generation.automata = automata[id(generation.request.stops)]
        size = prompts_size(requests)
        self._thread.send(Submit(tuple(generations), time.perf_counter(), size, model))
        try:
            await asyncio.gather(*(one.accepted() for one in generations))
        except asyncio.CancelledError:
            for generation in generations:
                generation.cancel()
            raise
        return generations

    def _cancel(self, generation: Generation) -> None:
        self._thread.tell(Cancel(generation))

"""Renders prompts and compiles grammars on threads beside the engine's. No MLX."""

import asyncio
import logging
import threading
import weakref
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.errors import EngineClosed, QueueFull
from engine.grammar.masks import Form
from engine.inference.backend import Prompt
from engine.values.request import GenerationRequest

if TYPE_CHECKING:
    from engine.grammar.form_compiler import FormCompiler
    from engine.inference.mlx_backend import MlxBackend

MAX_WAITING_FORMS = 64
# A grammar that is slow to compile holds up few others.
_COMPILED_AT_ONCE = 4
_CLOSED = "the engine has been shut down"
_log = logging.getLogger(__name__)


def render_all(backend: "MlxBackend", requests: Sequence[GenerationRequest]) -> tuple[Prompt, ...]:
    """Render the choices of a request; consecutive ones with the same prompt share it."""
    prompts = [backend.render(requests[0])]
    for before, request in pairwise(requests):
        prompts.append(
            prompts[-1] if _has_same_prompt(before, request) else backend.render(request)
        )
    return tuple(prompts)


def prompts_size(requests: Sequence[GenerationRequest]) -> int:
    """Return about how many characters or ids rendering these requests takes."""
    return _size(requests[0]) + sum(
        _size(request)
        for before, request in pairwise(requests)
        if not _has_same_prompt(before, request)
    )


def _size(request: GenerationRequest) -> int:
    prediction = len(request.prediction or "")
    if request.prompt is not None:
        return prediction + len(request.prompt)
    sizes = (len(message.content) + len(message.thinking or "") + 8 for message in request.messages)
    return prediction + sum(sizes)


def choices_field(requests: Sequence[GenerationRequest]) -> str:
    """Return the field that requests several answers: ``n``, or a list of prompts."""
    is_shared = any(_has_same_prompt(before, request) for before, request in pairwise(requests))
    return "n" if is_shared else "prompt"


def _has_same_prompt(request: GenerationRequest, other: GenerationRequest) -> bool:
    """Whether two requests share one prompt, as the choices of one request do."""
    return (
        request.messages is other.messages
        and request.prompt is other.prompt
        and request.tools is other.tools
        and request.thinking == other.thinking
        and request.tool_choice == other.tool_choice
        and request.prediction is other.prediction
        and request.opens_answer == other.opens_answer
        and request.continues_last == other.continues_last
        and request.begun == other.begun
        and request.effort == other.effort
        and request.template_options == other.template_options
    )


class Forms:
    """The forms of one engine's answers, a few of which are compiled at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(_COMPILED_AT_ONCE, "fullstop-grammars")
        self._waiting = 0
        self._is_closed = False
        # By the names of the models. Weak references, so that a model's memory can be freed.
        self._compilers: dict[str | None, weakref.ref[FormCompiler]] = {}

    def compiler(self, model: str | None = None) -> "FormCompiler | None":
        known = self._compilers.get(model)
        return None if known is None else known()

    def add_compiler(self, compiler: "FormCompiler", model: str | None = None) -> None:
        """Register the compiler of a model's forms. Any thread."""
        self._compilers[model] = weakref.ref(compiler)

    async def compile(self, compiler: "FormCompiler", request: GenerationRequest) -> Form:
        """Return the form of an answer: ``InvalidRequest``, ``QueueFull`` or ``EngineClosed``."""
        with self._lock:
            if self._is_closed:
                raise EngineClosed(_CLOSED)
            if self._waiting >= MAX_WAITING_FORMS:
                raise QueueFull(self._waiting)
            self._waiting += 1
            future = self._pool.submit(compiler.prepare, request)
        future.add_done_callback(self._on_done)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise EngineClosed(_CLOSED) from None  # ``close`` cancelled it

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _on_done(self, _: "Future[Form]") -> None:
        with self._lock:
            self._waiting -= 1

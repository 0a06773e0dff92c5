"""The façade of the engine: the only thing that windows and servers talk to.

Every coroutine may be awaited on any event loop and answers there. It owns the engine thread,
and starts a fresh one, with the same model, if it died. It never imports MLX itself.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.constraining.constraints import Form, FormMissing
from engine.constraining.forms import Forms
from engine.constraining.grammars import is_constrained
from engine.errors import EngineClosed, EngineError, EngineStuck
from engine.inference.backend import Loader
from engine.inference.loader import check_model, leave_thread, load_model
from engine.library.models import ModelInfo
from engine.scheduling.commands import (
    Cancel,
    Command,
    CountTokens,
    EngineStatus,
    Load,
    RenderPrompt,
    Reply,
    Shutdown,
    Submit,
    Tokenize,
    Unload,
    UnloadAfter,
    UnloadWhenIdle,
)
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.preparing import prompts_size
from engine.scheduling.worker import EngineThread
from engine.stopping.matcher import prepared
from engine.values.request import GenerationRequest

# How often a constrained request follows a model that changes while it is prepared.
_MOST_MODELS = 5


class Engine:
    """Generates answers with at most one model at a time.

    Args:
        limits: How much it takes on at once.
        loader: Makes a backend of a model folder; the default is mlx-lm.
        check: Raises ``ModelLoadFailed`` for a folder that the loader cannot load, as far as that
            can be seen without loading it. On any thread; None checks nothing.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        loader: Loader = load_model,
        check: Callable[[Path], object] | None = None,
    ) -> None:
        self._limits = limits or Limits()
        self._check = check or (check_model if loader is load_model else None)
        self._loader = loader
        self.forms = Forms()
        self._lock = threading.Lock()
        self._thread: EngineThread | None = None
        self._is_closed = False
        self._status = EngineStatus()
        self._folder: Path | None = None
        self._loading: Load | None = None
        self._unloads_after_s: float | None = None

    @property
    def status(self) -> EngineStatus:
        """What the engine is doing now. Any thread."""
        return self._status

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if there is one. Any thread."""
        return self._status.model

    async def load(self, folder: Path, *, cancels_running: bool = False) -> ModelInfo:
        """Load a model in place of the present one.

        A folder that is seen to be wrong costs nothing: the present model goes on. Where loading
        fails later, the present model is read again when it is next needed. Cancelling the caller
        breaks the loading off.

        Args:
            folder: A model folder as mlx-lm reads it.
            cancels_running: End running answers now; otherwise they are waited for.

        Raises:
            ModelLoadFailed: It cannot be loaded; the message says why.
            LoadCancelled: ``cancel_load`` was called meanwhile.
            EngineClosed: The engine has been shut down.
        """
        reply = Reply.here()
        command = self._loading = Load(folder, reply, cancels_running)
        if self.model is not None and self._check is not None:
            # Before anything is cancelled or freed for it, and not on the engine thread, whose
            # answers would wait meanwhile.
            await asyncio.to_thread(self._check, folder)
        self._send(command)
        try:
            info: ModelInfo = await reply.future
        except asyncio.CancelledError:
            command.gives_up.set()
            raise
        return info

    def cancel_load(self) -> None:
        """Break off the loading that was asked for last, if it is not done yet. Any thread.

        While it waits for running answers, the present model stays as it is; later, it is read
        again when it is next needed.
        """
        if self._loading is not None:
            self._loading.gives_up.set()

    def unload_after(self, idle_s: float | None) -> None:
        """Free the model's memory whenever nothing was asked for so long; None never does.

        The model stays the loaded one for everybody who asks: the next request waits until it
        has been read again.
        """
        self._unloads_after_s = idle_s
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.send(UnloadAfter(idle_s))

    def unload_when_idle(self) -> None:
        """Free the model's memory once nothing runs, unless a request comes before. Any thread.

        As after ``unload_after``, the model stays the loaded one, and the next request wakes it.
        """
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.send(UnloadWhenIdle())

    async def unload(self, *, cancels_running: bool = False) -> None:
        """Free the model; running answers are waited for unless they are to be cancelled."""
        reply = Reply.here()
        self._send(Unload(reply, cancels_running))
        await reply.future

    async def generate(self, request: GenerationRequest) -> Generation:
        """Start an answer; returns once the request has been taken.

        Raises:
            InvalidRequest: The request can never succeed; the message names the field.
            NoModel: No model is loaded.
            QueueFull: Too many requests are waiting.
            EngineClosed: The engine has been shut down.
        """
        [generation] = await self.generate_together([request])
        return generation

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Start several answers, the choices of one request; all of them are taken, or none.

        Neighbours whose prompts are the same objects share the rendering of the prompt.

        Args:
            requests: At least one.

        Raises:
            EngineError: As ``generate``.
        """
        for _ in range(_MOST_MODELS):
            forms = [await self._form_of(request) for request in requests]
            try:
                return await self._submitted(requests, forms)
            except FormMissing as missing:  # of this model, which may just have been loaded
                self.forms.learn(missing.maker)
        raise EngineError("the model keeps changing; try again")

    async def _form_of(self, request: GenerationRequest) -> Form | None:
        """Return what an answer is to be held to, as far as it can be prepared by now."""
        maker = self.forms.maker
        if maker is None or not is_constrained(request):
            return None
        return await self.forms.prepared(maker, maker.draft(request))

    async def _submitted(
        self, requests: Sequence[GenerationRequest], forms: Sequence[Form | None]
    ) -> list[Generation]:
        loop = asyncio.get_running_loop()
        generations = [Generation(request, loop, self._cancel) for request in requests]
        # Here, so that no list of stops costs the engine thread, and so every stream, anything.
        automata = {id(request.stops): prepared(request.stops) for request in requests}
        for generation, form in zip(generations, forms, strict=True):
            generation.form = form
            generation.automata = automata[id(generation.request.stops)]
        self._send(Submit(tuple(generations), time.perf_counter(), prompts_size(requests)))
        try:
            await asyncio.gather(*(one.accepted() for one in generations))
        except asyncio.CancelledError:
            for generation in generations:
                generation.cancel()
            raise
        return generations

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request; raises as ``generate`` does."""
        reply = Reply.here()
        self._send(CountTokens(request, reply))
        count: int = await reply.future
        return count

    async def prompt_pieces(self, request: GenerationRequest) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs of a request's whole prompt; raises as ``generate`` does."""
        reply = Reply.here()
        self._send(RenderPrompt(request, reply))
        pieces: tuple[tuple[int, str], ...] = await reply.future
        return pieces

    async def tokenize(self, text: str) -> tuple[tuple[int, str], ...]:
        """Return the (id, text) pairs into which the model's tokenizer cuts plain text."""
        reply = Reply.here()
        self._send(Tokenize(text, reply))
        pieces: tuple[tuple[int, str], ...] = await reply.future
        return pieces

    def close(self) -> None:
        """Cancel what runs and end the thread; returns when it has ended. Any thread."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self.forms.close()
        if thread is not None:
            thread.send(Shutdown())
            thread.join()

    def give_up(self, cause: str, patience_s: float = 2.0) -> None:
        """End every answer with an error and take no more requests, whatever the thread waits for.

        Any thread but the engine's; blocks for up to ``patience_s``, in which answers may still
        end by themselves. The thread may stay behind: the process is meant to end.
        """
        with self._lock:
            self._is_closed = True
            thread = self._thread
        self.forms.close()
        if thread is not None:
            thread.give_up(cause, patience_s)

    async def aclose(self) -> None:
        """As ``close``, without blocking the loop."""
        await asyncio.to_thread(self.close)

    def _cancel(self, generation: Generation) -> None:
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.send(Cancel(generation))

    def _send(self, command: Command) -> None:
        with self._lock:
            if self._is_closed:
                raise EngineClosed("the engine has been shut down")
            if self._thread is not None:
                if self._thread.send(command):
                    return
                if self._thread.is_stuck:
                    # A second one would read the model into memory beside the first.
                    raise EngineStuck(f"{self._status.message}; if it stays so, start anew")
            is_restart = self._thread is not None
            self._thread = EngineThread(
                self._limits, self._loader, self._set_status, leave=leave_thread
            )
            self._thread.send(UnloadAfter(self._unloads_after_s))
            if is_restart and self._folder is not None and not isinstance(command, Load):
                self._thread.send(Load(self._folder, None, cancels_running=False))
            self._thread.send(command)

    def _set_status(self, status: EngineStatus) -> None:
        # The engine thread's, or whoever's who gives it up.
        with self._lock:
            self._status = status
            if status.model is not None:
                self._folder = status.model.path
            elif status.state == "none":
                self._folder = None

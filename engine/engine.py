"""The engine as its users see it: one object for any thread and any event loop."""

import asyncio
import atexit
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar

from engine.conversation.template_check import TemplateReport
from engine.errors import DraftLoadFailed, EngineClosed, ModelLoadFailed, NoModel
from engine.generation import Generation
from engine.inference.cache.disk import DiskCache
from engine.inference.loader import Loader, check_model, load_model
from engine.library.adapters import check_adapter, is_adapter
from engine.library.model_files import model_name
from engine.library.model_folder import check_folder, is_assistant
from engine.library.model_info import ModelInfo
from engine.scheduling.admission import render_prompt
from engine.scheduling.call_queue import settle
from engine.scheduling.engine_thread import SHUT_DOWN, EngineThread
from engine.scheduling.jobs import Job, Source, Transition
from engine.scheduling.model_list import ModelList, ModelStatus, OfferedModel
from engine.scheduling.models import Models
from engine.values.embedding import EmbeddingRequest, Embeddings
from engine.values.limits import Limits
from engine.values.ranking import Ranking, RankingRequest
from engine.values.request import CacheOwner, GenerationRequest
from engine.values.unanswered_prompt import UnansweredPrompt

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

T = TypeVar("T")
TokenTexts = tuple[tuple[int, str], ...]
"""The ids and texts of some tokens, in order."""


class Engine:
    """Generates answers with one model, or with several that are loaded when they are needed.

    Until ``offer`` is called, one model answers every request. ``async with Engine() as engine``
    closes it at the end of the block; otherwise the end of the program closes it. A method that
    takes a model's name raises ``UnknownModel`` if none, or several, of the offered ones have it.
    Methods that need the weights load the model if it is not in memory, and raise as ``generate``.

    Args:
        loader: Loads a model folder; the default uses mlx-lm.
        check: Raises ``ModelLoadFailed`` for a folder that the loader cannot load, as far as this
            is visible without loading it. Called on any thread; None checks nothing.
        disk: Keeps the caches of requests on disk whose ``cache_owner`` allows it; None if they are
            not kept. Its maker closes it, after the engine.
    """

    def __init__(
        self,
        limits: Limits | None = None,
        loader: Loader = load_model,
        check: Callable[[Path], object] | None = None,
        disk: DiskCache | None = None,
    ) -> None:
        self._check = check or (check_model if loader is load_model else None)
        self.disk = disk
        self.limits = limits or Limits()
        self._loader = loader
        self._models = ModelList()
        self._last_load: Transition | None = None
        # MLX's streams belong to threads, and a hang in a library cannot be interrupted. So a
        # thread that hangs is abandoned, and the next request starts another.
        self._lock = threading.Lock()
        self._thread: EngineThread | None = None
        self._threads: list[EngineThread] = []
        self._is_closed = False

    @property
    def status(self) -> ModelStatus:
        return self._models.status

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if there is one; of several the default one."""
        return self.status.info

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """The status of every model: offered ones, then others in memory."""
        return self._models.statuses

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        return self._models.is_choosing

    def offer(self, models: Sequence[OfferedModel] | None) -> None:
        """Let requests name these models; each is loaded when it is needed and memory is free.

        With None, the default model answers every request, whatever model the request names. Models
        in memory stay there.
        """
        self._models.offer(models)

    def resolve_model(self, name: str | None = None) -> ModelStatus | None:
        """Return the model that a name means, with its status; None if there is no such model.

        Without a name it is the default one. If requests do not choose, that answers all of them.
        """
        return self._models.resolve(name)

    async def load(
        self,
        folder: Path,
        *,
        cancels_running: bool = False,
        draft: Path | None = None,
        user_template: str | None = None,
        keeps_default: bool = False,
        base: Path | None = None,
    ) -> ModelInfo:
        """Load a model in place of the present one, or as the default one of several.

        If several models are offered, the others stay in memory as far as there is memory.

        The present model stays if a check finds the folder unusable. If loading fails later, the
        present model is loaded again when it is next needed. Cancelling the caller cancels the
        load.

        Args:
            folder: A model folder in mlx-lm's format.
            cancels_running: Whether to end running answers now; if not, the load waits for them.
            draft: A smaller model with the same vocabulary, loaded beside it, that drafts tokens
                for it.
            user_template: A chat template in place of the model's own. If nothing else differs from
                the model in memory, its weights and caches stay there.
            keeps_default: Whether the default one of several models stays the default.
            base: The folder of the base if ``folder`` is that of an adapter; without it, the base
                that was offered with the adapter.

        Raises:
            ModelLoadFailed: It cannot be loaded; the message is the cause.
            DraftLoadFailed: The draft model cannot be loaded, or has another vocabulary.
            LoadCancelled: ``cancel_load`` was called meanwhile.
            EngineClosed: The engine has been shut down.
        """
        if base is None and (known := self._models.known(folder)) is not None:
            base = known.base
        if base is None and is_adapter(folder):
            raise ModelLoadFailed(f"{model_name(folder)} is an adapter; choose its base")
        transition = Transition(
            Source(folder, draft, base, user_template),
            cancels_running=cancels_running,
            keeps_default=keeps_default and self.is_choosing,
        )
        self._last_load = transition
        if self.model is not None and self._check is not None:
            # Checked before anything is cancelled or freed, and not on the engine thread, where
            # running answers would wait.
            await asyncio.to_thread(self._check, base or folder)
            if base is not None:
                await asyncio.to_thread(check_adapter, folder)
            if draft is not None:
                await asyncio.to_thread(self._check_draft, draft)
        model = self._models.add_offer(folder, draft, user_template, base)
        info: ModelInfo = await self._post(model, transition)
        return info

    def _check_draft(self, folder: Path) -> None:
        try:
            if is_assistant(folder):
                check_folder(folder)
            elif self._check is not None:
                self._check(folder)
        except ModelLoadFailed as error:
            raise DraftLoadFailed(f"the draft model cannot be loaded: {error}") from error

    async def restart(self, name: str | None = None) -> ModelInfo:
        """Load a model again that was stuck, or whose load failed; the default model stays.

        Raises:
            NoModel: There is no such model.
            ModelLoadFailed: It cannot be loaded; the message is the cause.
        """
        status = self.resolve_model(name)
        if status is None:
            raise NoModel("no model is loaded")
        draft = status.offered.draft if status.offered is not None else None
        if status.info is not None and status.info.draft is not None:
            draft = status.info.draft.path
        return await self.load(
            status.folder,
            draft=draft,
            user_template=status.user_template,
            keeps_default=True,
            base=None if status.info is None else status.info.base,
        )

    def cancel_load(self) -> None:
        """Cancel the last load, if it is not done yet.

        If it still waits for running answers, the present model stays as it is; otherwise the
        present model is loaded again when it is next needed.
        """
        if self._last_load is not None:
            self._last_load.cancel_requested = True
            self._call_soon(Models.drop_cancelled)

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free a model's memory whenever nobody used it for ``idle_s``; None never does.

        The model still counts as the loaded one: the next request waits until it is loaded again.
        Without a name, the time is that of all models that have none of their own.
        """
        model = self._models.find(name)
        self._call_soon(lambda models: models.set_max_idle(model, idle_s))

    def pin(self, name: str | None = None, *, is_pinned: bool = True) -> None:
        """Keep a model in memory when another one needs room, or not any more."""
        model = self._models.find(name)
        self._call_soon(lambda models: models.find(model).set_pinned(is_pinned))

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free a model's memory once nothing runs; see ``unload_after``."""
        model = self._models.find(name)
        self._call_soon(lambda models: models.find(model).unload_when_idle())

    async def unload(self, name: str | None = None, *, cancels_running: bool = False) -> None:
        """Remove a model; waits for running answers unless ``cancels_running`` is set.

        One of several models is loaded again when a request names it.
        """
        transition = Transition(None, cancels_running=cancels_running)
        await self._post(self._models.find(name), transition)

    async def generate(self, request: GenerationRequest) -> Generation:
        """Start an answer; returns once the engine has accepted the request.

        Raises:
            InvalidRequest: The request can never succeed; the message names the field.
            UnknownModel: Several models are offered, and none of them has the name.
            NoModel: No model is loaded, or it cannot be loaded.
            QueueFull: Too many requests are waiting.
            EngineClosed: The engine has been shut down.
        """
        [generation] = await self.generate_together([request])
        return generation

    async def generate_together(self, requests: Sequence[GenerationRequest]) -> list[Generation]:
        """Start the choices of one request; the engine takes all of them, or none.

        All are for the same model; those with the same ``prompt_key`` are rendered once, with the
        options of the first.
        """
        model = self._models.find(requests[0].model)
        loop, submitted_at = asyncio.get_running_loop(), time.perf_counter()
        generations = [Generation(request, loop, self._cancel) for request in requests]
        job = Job(
            lambda scheduler, future: scheduler.submit(generations, submitted_at, future),
            choices=len(generations),
        )
        try:
            await self._post(model, job)
        except asyncio.CancelledError:
            for generation in generations:
                generation.cancel()
            raise
        return generations

    def _cancel(self, generation: Generation) -> None:
        if self._thread is not None:
            self._thread.queue.cancel(generation)

    async def count_tokens(self, request: GenerationRequest) -> int:
        return await self._ask(lambda model: len(model.render(request).tokens), request.model)

    async def prompt_pieces(self, request: GenerationRequest) -> TokenTexts:
        """Return the (id, text) pairs of a request's whole prompt."""
        return await self._ask(
            lambda model: _pieces(model, model.render(request).tokens), request.model
        )

    async def render_prompt(self, request: GenerationRequest) -> UnansweredPrompt:
        """Return a request's prompt, and what of the request is in no part of it.

        Raises:
            InvalidRequest: An answer would be refused as well.
        """
        return await self._ask(lambda model: render_prompt(model, request), request.model)

    async def check_template(self, name: str | None = None) -> TemplateReport | None:
        """Return what a model's chat template takes; None for a model without one."""
        return await self._ask(lambda model: model.check_template(), name)

    async def tokenize(self, text: str, name: str | None = None) -> TokenTexts:
        """Return the (id, text) pairs of the tokens of a plain text."""
        return await self._ask(lambda model: _pieces(model, model.tokenize(text)), name)

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Return the text of token ids, including that of special tokens."""
        return await self._ask(lambda model: model.detokenize(ids), name)

    async def _ask(self, question: "Callable[[MlxBackend], T]", name: str | None) -> T:
        job = Job(lambda scheduler, future: scheduler.ask(question, future))
        answer: T = await self._post(self._models.find(name), job)
        return answer

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Return the vectors of some texts, read between the steps of running answers.

        Cancelling the caller ends the reading within a fraction of a second.
        """
        embeddings: Embeddings = await self._read_texts(request)
        return embeddings

    async def rank(self, request: RankingRequest) -> Ranking:
        """Return how well documents answer their queries; cancelled as ``embed``.

        Raises:
            InvalidRequest: The model is no reranker, or a pair does not fit.
        """
        ranking: Ranking = await self._read_texts(request)
        return ranking

    async def _read_texts(self, request: EmbeddingRequest | RankingRequest) -> Any:
        request.check()
        job = Job(lambda scheduler, future: scheduler.read_texts(request, future))
        return await self._post(self._models.find(request.model), job)

    async def forget_prompts(self, owner: CacheOwner) -> tuple[int, int]:
        """Drop an owner's earlier prompts in memory; return how many they were, and their bytes.

        Running answers continue.
        """
        future: Future[Any] = Future()
        evicted: tuple[int, int] = await self._run(
            future, lambda models: settle(future, models.forget_prompts(owner.name))
        )
        return evicted

    def forget(self, owner: CacheOwner) -> None:
        """Delete an owner's caches on disk that are kept with the same thing; returns at once.

        Running answers leave none of these there either. Caches in memory stay until newer ones
        replace them, or the model is unloaded.
        """
        if self.disk is not None:
            self.disk.forget(owner)

    async def _post(self, model: OfferedModel | None, job: Job | Transition) -> Any:
        return await self._run(job.future, lambda models: models.do(model, job))

    async def _run(self, future: "Future[Any]", call: Callable[[Models], object]) -> Any:
        """Run a call that settles a future on the engine thread; return the future's result."""
        with self._lock:
            if self._is_closed:
                raise EngineClosed(SHUT_DOWN)
            if self._thread is None or not self._thread.queue.post(future, call):
                self._start().queue.post(future, call)
        return await asyncio.wrap_future(future)

    def _call_soon(self, call: Callable[[Models], object]) -> None:
        with self._lock:
            if self._is_closed:
                return
            thread = self._thread
            if thread is None or not thread.queue.is_open:
                thread = self._start()
            thread.queue.calls.put(call)

    def _start(self) -> EngineThread:
        # A thread with MLX's streams that lives when the interpreter ends aborts the process.
        atexit.register(self.close)
        previous = self._thread
        self._thread = EngineThread(self.limits, self._loader, self.disk, self._models, previous)
        self._threads = [*(one for one in self._threads if one.is_alive), self._thread]
        return self._thread

    @property
    def is_stuck(self) -> bool:
        """Whether an abandoned thread still hangs, so that the process should not wait for it."""
        with self._lock:
            return any(thread.is_abandoned and thread.is_alive for thread in self._threads)

    def close(self) -> None:
        """Cancel all running answers and end the engine thread; returns when it has ended.

        A thread that does not end within seconds is abandoned (``is_stuck``).
        """
        atexit.unregister(self.close)
        with self._lock:
            self._is_closed = True
            thread = self._thread
        if thread is not None:
            thread.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await asyncio.to_thread(self.close)


def _pieces(model: "MlxBackend", tokens: Sequence[int]) -> TokenTexts:
    text_of = model.vocabulary.text_of
    return tuple((token, text_of(token)) for token in tokens)

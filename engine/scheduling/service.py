"""The façade of the engine: the only object that windows and servers talk to.

Any thread may call its methods, and any event loop may await its coroutines. Never imports MLX
itself.
"""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from engine.errors import DraftLoadFailed, ModelLoadFailed, NoModel
from engine.grammar.forms import Forms
from engine.inference.cache.folder import DiskCache
from engine.inference.loader import Loader, check_model, keeping_on_disk, load_model
from engine.library.models import ModelInfo
from engine.scheduling.asking import Asking
from engine.scheduling.choosing import ModelChoice
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.model_status import ModelStatus
from engine.scheduling.offering import OfferedModel
from engine.scheduling.thread.commands import (
    Command,
    CountTokens,
    Detokenize,
    Embed,
    EngineStatus,
    ForgetPrompts,
    Load,
    RenderPrompt,
    Reply,
    Tokenize,
    TokenTexts,
    Unload,
    UnloadAfter,
    UnloadWhenIdle,
)
from engine.scheduling.thread.restarting import RestartingThread
from engine.values.request import CacheOwner, EmbeddingRequest, Embeddings, GenerationRequest


class Engine:
    """Generates answers with one model, or with several that are loaded when they are needed.

    Until ``offer`` is called, one model answers every request.

    Args:
        limits: The limits of the engine.
        loader: Loads a model folder; the default uses mlx-lm.
        check: Raises ``ModelLoadFailed`` for a folder that the loader cannot load, as far as this
            is visible without loading it. Called on any thread; None checks nothing.
        disk: Keeps the caches of requests on disk whose ``cache_owner`` wants it; None if they are
            not kept. Its maker closes it, after the engine.

    Attributes:
        disk: As given.
        forms: Makes the forms of constrained answers.
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
        self._thread = RestartingThread(limits or Limits(), keeping_on_disk(loader, disk))
        self._choice = ModelChoice(self._thread.board)
        self._loading: Load | None = None
        self.forms = Forms()
        self._asking = Asking(self._thread, self.forms)

    @property
    def status(self) -> EngineStatus:
        """What the engine is doing now."""
        return self._thread.board.status

    @property
    def model(self) -> ModelInfo | None:
        """The loaded model, if there is one; of several the one that is used by default."""
        return self.status.model

    @property
    def models(self) -> tuple[ModelStatus, ...]:
        """The status of every model: those that are offered, then others in memory."""
        return self._choice.statuses

    @property
    def is_choosing(self) -> bool:
        """Whether requests choose among several models; if not, one model answers all of them."""
        return not self._choice.is_one

    def offer(self, models: Sequence[OfferedModel] | None) -> None:
        """Let requests name these models; each is loaded when it is needed and memory is free.

        With None, the default model answers every request, whatever model the request names. Models
        in memory stay there.
        """
        self._choice.offer(models)

    def model_status(self, name: str | None = None) -> ModelStatus | None:
        """Return the status of a model by its name; None if there is no default model.

        Raises:
            UnknownModel: Several models are offered, and none of them has that name.
        """
        return self._choice.status_of(name)

    async def load(
        self,
        folder: Path,
        *,
        cancels_running: bool = False,
        draft: Path | None = None,
        keeps_default: bool = False,
    ) -> ModelInfo:
        """Load a model in place of the present one, or as the default one of several.

        If several models are offered, the others stay in memory as far as there is room.

        The present model stays if a check finds the folder unusable. If loading fails later, the
        present model is loaded again when it is next needed. Cancelling the caller cancels the
        load.

        Args:
            folder: A model folder in mlx-lm's format.
            cancels_running: Whether to end running answers now; if not, the load waits for them.
            draft: A smaller model with the same vocabulary, loaded beside it, that guesses tokens
                for it.
            keeps_default: Whether the default one of several models stays the one that it is.

        Raises:
            ModelLoadFailed: It cannot be loaded; the message says why.
            DraftLoadFailed: The draft model cannot be loaded, or has another vocabulary.
            LoadCancelled: ``cancel_load`` was called meanwhile.
            EngineClosed: The engine has been shut down.
        """
        reply = Reply.here()
        model = self._choice.loading(folder, draft)
        keeps_default = keeps_default and model is not None
        command = Load(
            folder, reply, cancels_running, draft, model=model, keeps_default=keeps_default
        )
        self._loading = command
        if self.model is not None and self._check is not None:
            # Checked before anything is cancelled or freed, and not on the engine thread, where
            # running answers would wait.
            await asyncio.to_thread(self._check, folder)
            if draft is not None:
                await asyncio.to_thread(self._check_draft, draft)
        self._thread.send(command)
        try:
            info: ModelInfo = await reply.future
        except asyncio.CancelledError:
            command.gives_up.set()
            raise
        return info

    def _check_draft(self, folder: Path) -> None:
        try:
            if self._check is not None:
                self._check(folder)
        except ModelLoadFailed as error:
            raise DraftLoadFailed(f"the draft model cannot be loaded: {error}") from error

    async def restart(self, name: str | None = None) -> ModelInfo:
        """Load a model again that was stuck, or whose load failed; the default model stays.

        Raises:
            UnknownModel: As ``model_status``.
            NoModel: There is no such model.
            ModelLoadFailed: It cannot be loaded; the message says why.
        """
        status = self.model_status(name)
        if status is None:
            raise NoModel("no model is loaded")
        draft = status.offered.draft if status.offered is not None else None
        if status.info is not None and status.info.draft is not None:
            draft = status.info.draft.path
        return await self.load(status.folder, draft=draft, keeps_default=True)

    @property
    def is_stuck(self) -> bool:
        """Whether a thread hangs that was given up, so that the process should not wait for it."""
        return self._thread.is_stuck

    def cancel_load(self) -> None:
        """Cancel the last load, if it is not done yet.

        If it still waits for running answers, the present model stays as it is; otherwise the
        present model is loaded again when it is next needed.
        """
        if self._loading is not None:
            self._loading.gives_up.set()

    def unload_after(self, idle_s: float | None, name: str | None = None) -> None:
        """Free a model's memory whenever nobody used it for ``idle_s``; None never does.

        The model still counts as the loaded one: the next request waits until it is loaded again.

        Args:
            idle_s: Seconds.
            name: One of several models; None for all models without a time of their own.

        Raises:
            UnknownModel: As ``model_status``.
        """
        self._thread.tell(UnloadAfter(idle_s, self._choice.find(name)))

    def unload_when_idle(self, name: str | None = None) -> None:
        """Free a model's memory once nothing runs, unless a request comes first.

        As with ``unload_after``, the model still counts as loaded, and the next request loads it
        again.

        Raises:
            UnknownModel: As ``model_status``.
        """
        self._thread.tell(UnloadWhenIdle(self._choice.find(name)))

    async def unload(self, name: str | None = None, *, cancels_running: bool = False) -> None:
        """Remove a model; waits for running answers unless ``cancels_running`` is set.

        One of several models is loaded again when a request names it.

        Raises:
            UnknownModel: As ``model_status``.
        """
        model = self._choice.find(name)
        await self._reply_to(lambda reply: Unload(reply, cancels_running, model))

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

        Consecutive requests whose prompts are the same objects are rendered once.

        Args:
            requests: At least one, all for the same model.

        Raises:
            EngineError: See ``generate``.
        """
        return await self._asking.start(requests, self._choice.find(requests[0].model))

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Return the number of prompt tokens of a request; raises as ``generate`` does."""
        model = self._choice.find(request.model)
        count: int = await self._reply_to(lambda reply: CountTokens(request, reply, model))
        return count

    async def prompt_pieces(self, request: GenerationRequest) -> TokenTexts:
        """Return the (id, text) pairs of a request's whole prompt; raises as ``generate`` does."""
        model = self._choice.find(request.model)
        pieces: TokenTexts = await self._reply_to(lambda reply: RenderPrompt(request, reply, model))
        return pieces

    async def tokenize(self, text: str, name: str | None = None) -> TokenTexts:
        """Return the (id, text) pairs of the tokens of a plain text.

        Loads a model that is not in memory; raises as ``generate`` does.
        """
        model = self._choice.find(name)
        pieces: TokenTexts = await self._reply_to(lambda reply: Tokenize(text, reply, model))
        return pieces

    async def detokenize(self, ids: Sequence[int], name: str | None = None) -> str:
        """Return the text of token ids, including that of special tokens.

        Loads a model that is not in memory; raises as ``generate`` does.
        """
        model = self._choice.find(name)
        text: str = await self._reply_to(lambda reply: Detokenize(ids, reply, model))
        return text

    async def embed(self, request: EmbeddingRequest) -> Embeddings:
        """Return the vectors of some texts, read between the steps of running answers.

        Cancelling the caller ends the reading within a fraction of a second. Loads a model that is
        not in memory.

        Raises:
            InvalidRequest: The request can never succeed; the message names the field.
            EngineError: As for ``generate``.
        """
        request.check()
        command = Embed(request, Reply.here(), self._choice.find(request.model))
        self._thread.send(command)
        try:
            found: Embeddings = await command.reply.future
        except asyncio.CancelledError:
            command.gives_up.set()
            raise
        return found

    async def forget_prompts(self, owner: CacheOwner) -> tuple[int, int]:
        """Drop an owner's earlier prompts in memory, for all models; running answers continue.

        Returns:
            How many prompts were dropped, and the bytes that they took.
        """
        dropped: tuple[int, int] = await self._reply_to(lambda reply: ForgetPrompts(owner, reply))
        return dropped

    def forget(self, owner: CacheOwner) -> None:
        """Delete an owner's caches on disk that are kept with the same thing; returns at once.

        Running answers leave none of these there either. Caches in memory stay until newer ones
        replace them, or the model is unloaded.
        """
        if self.disk is not None:
            self.disk.forget(owner)

    def close(self) -> None:
        """Cancel all running answers and end the engine thread; returns when it has ended.

        A thread that does not end within seconds is given up (``is_stuck``).
        """
        self.forms.close()
        self._thread.close()

    def give_up(self, cause: str, patience_s: float = 2.0) -> None:
        """End every answer with an error and take no more requests, even if the thread is stuck.

        Blocks for up to ``patience_s``; until then, answers may still end by themselves. The thread
        may keep running, so the process should end afterwards. Not on the engine thread.
        """
        self.forms.close(cause)
        self._thread.give_up(cause, patience_s)

    async def aclose(self) -> None:
        """Close the engine without blocking the loop."""
        await asyncio.to_thread(self.close)

    async def _reply_to(self, command: Callable[[Reply], Command]) -> Any:
        """Make a command with a reply and send it; return the reply's value, or raise its error."""
        reply = Reply.here()
        self._thread.send(command(reply))
        return await reply.future

"""The one model of an engine thread: loaded, replaced, unloaded while idle, and loaded again.

Knows no answer. Engine thread only.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace

from engine.errors import EngineError, ModelLoadFailed, NoModel
from engine.inference.backend import Backend, BatchLimits, Loader
from engine.library.loading import LoadCancelled, LoadProgress
from engine.library.models import ModelInfo
from engine.scheduling.limits import Limits
from engine.scheduling.queue.scheduler import cause_of
from engine.scheduling.thread.commands import EngineStatus, Load, Unload


class ModelSlot:
    """Holds the loaded model, and says what the engine is doing.

    Args:
        limits: Handed to the loader.
        loader: Loads a model folder.
        on_status: Told of every change of state.
        is_ending: Set on another thread when the engine is to end; breaks a load off.

    Attributes:
        backend: The loaded model; None while its memory is free.
        change: The change of model that was asked for and is not done yet.
        unloads_after_s: Free the memory when nothing was asked for so long; None never does.
    """

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        on_status: Callable[[EngineStatus], None],
        is_ending: threading.Event,
    ) -> None:
        self.backend: Backend | None = None
        self.change: Load | Unload | None = None
        self.unloads_after_s: float | None = None
        self._limits = limits
        self._loader = loader
        self._on_status = on_status
        self._is_ending = is_ending
        self._status = EngineStatus()
        self._unloads_when_idle = False
        # The model whose memory was freed and that is loaded again when it is next needed.
        self._unloaded: ModelInfo | None = None

    @property
    def is_unloaded(self) -> bool:
        """Whether there is a model whose memory is free: it must be loaded before it is used."""
        return self._unloaded is not None

    def no_model(self) -> NoModel:
        """Return the error for a request that finds no model."""
        return NoModel(self._status.message or "no model is loaded")

    # -- changes that were asked for -------------------------------------------------------

    def drop_cancelled_load(self) -> bool:
        """Forget a load that was broken off before it began; returns whether there was one."""
        change = self.change
        if not isinstance(change, Load) or not change.gives_up.is_set():
            return False
        self.change = None
        if change.reply is not None:
            change.reply.send(LoadCancelled())
        return True

    def carry_out(self, change: Load | Unload) -> None:
        """Carry out a change of model; nothing may use the present one any more."""
        self.change = None
        before = self._unloaded if self.backend is None else self.backend.info
        self._free()
        if isinstance(change, Unload):
            self._set_status(EngineStatus())
            change.reply.send(None)
        else:
            self._load(change, before)

    def close(self) -> None:
        """Free the model, at the end of the thread."""
        if self.backend is not None:
            self.backend.close()
            self.backend = None

    def _free(self) -> None:
        self._unloaded = None
        self._unloads_when_idle = False
        self.close()

    # -- unloading while idle --------------------------------------------------------------

    def unload_when_idle(self) -> None:
        """Free the memory as soon as nothing runs, unless ``stay`` is called before."""
        self._unloads_when_idle = self.backend is not None

    def stay(self) -> None:
        """Keep the model, because a request has come."""
        self._unloads_when_idle = False

    def unload_due_s(self, idle_since_s: float) -> float | None:
        """Return in how many seconds the memory is to be freed; None for never.

        Args:
            idle_since_s: Since when nothing has been asked, in ``time.monotonic()`` seconds.
        """
        if self.backend is not None and self._unloads_when_idle:
            return 0.0
        if self.unloads_after_s is None or self.backend is None:
            return None
        return max(0.0, idle_since_s + self.unloads_after_s - time.monotonic())

    def unload_idle(self) -> None:
        """Free the memory; for everybody who asks, the model stays the loaded one."""
        if self.backend is not None:
            info = self.backend.info
            self._free()
            self._note_unloaded(info, "")

    def _note_unloaded(self, info: ModelInfo, why: str) -> None:
        self._unloaded = info
        self._set_status(EngineStatus("ready", info, message=why, is_unloaded=True))

    def load_again(self) -> None:
        """Load the model again that was unloaded; if that fails, the next request tries again."""
        info = self._unloaded
        if info is not None:
            draft = None if info.draft is None else info.draft.path
            command = Load(info.path, None, cancels_running=False, draft=draft)
            self._load(command, info, is_again=True)

    # -- loading ---------------------------------------------------------------------------

    def _load(self, command: Load, before: ModelInfo | None, *, is_again: bool = False) -> None:
        """Load a model; if that fails, the one before it is loaded when it is next needed.

        Args:
            command: What is to be loaded.
            before: The model that was there, whose memory is free by now.
            is_again: Whether that one is to be loaded again: it stays the loaded model for
                everybody who asks meanwhile.
        """
        self._unloaded = None
        shown = before if is_again else None
        loading = EngineStatus("loading", shown, message=command.folder.name)
        self._set_status(loading)

        def on_progress(progress: LoadProgress) -> None:
            if command.gives_up.is_set() or self._is_ending.is_set():
                raise LoadCancelled
            self._set_status(replace(loading, loading=progress))

        limits = self._limits
        outcome: object
        try:
            self.backend = self._loader(
                command.folder,
                limits=BatchLimits(
                    limits.prefill_chunk,
                    limits.prompt_cache_bytes,
                    limits.max_rows,
                    not limits.plain_decoding,
                ),
                on_progress=on_progress,
                # Most loaders know of no draft models.
                **({} if command.draft is None else {"draft": command.draft}),
            )
        except LoadCancelled as cancelled:
            outcome = cancelled
            self._not_loaded(before, EngineStatus(message=str(cancelled)))
        except Exception as error:
            outcome = error if isinstance(error, EngineError) else ModelLoadFailed(cause_of(error))
            why = str(outcome)
            if is_again and before is not None:
                why = f"{before.id} could not be read again: {why}. Try again"
            self._not_loaded(before, EngineStatus("failed", message=why))
        else:
            outcome = self.backend.info
            self._set_status(EngineStatus("ready", self.backend.info))
        if command.reply is not None:
            command.reply.send(outcome)

    def _not_loaded(self, before: ModelInfo | None, status: EngineStatus) -> None:
        if before is None or self._is_ending.is_set():
            self._set_status(status)
        else:
            self._note_unloaded(before, status.message)

    # -- what others see -------------------------------------------------------------------

    def publish(self, running: int, waiting: int) -> None:
        """Tell of the numbers of answers, and of the prompt cache, only when they changed."""
        status = self._status
        use = status.cache_use if self.backend is None else self.backend.cache_use
        if (running, waiting) != (status.running, status.waiting) or use is not status.cache_use:
            self._set_status(replace(status, running=running, waiting=waiting, cache_use=use))

    def _set_status(self, status: EngineStatus) -> None:
        self._status = status
        self._on_status(status)

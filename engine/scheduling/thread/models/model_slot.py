"""Loads the model of a lane, replaces it, unloads it while idle, and loads it again.

Knows nothing of answers. Engine thread only.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import EngineError, ModelLoadFailed, NoModel
from engine.inference.backend import BatchLimits
from engine.inference.loader import Loader
from engine.library.loading import LoadCancelled, LoadProgress
from engine.library.models import ModelInfo, model_name
from engine.scheduling.limits import Limits
from engine.scheduling.offering import OfferedModel
from engine.scheduling.queue.failures import cause_of
from engine.scheduling.thread.commands import EngineStatus, Load, Unload
from engine.scheduling.thread.models.idle_time import IdleTime
from engine.scheduling.thread.models.slot_status import SlotStatus
from engine.scheduling.thread.pulse import GivenUp, Pulse

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


class Source(NamedTuple):
    """Where a model is loaded from."""

    folder: Path
    draft: Path | None


@dataclass(frozen=True, slots=True)
class Hang:
    """Where a model was stuck when its thread was given up."""

    cause: str
    is_over: Callable[[], bool]


class ModelSlot:
    """Holds a loaded model, and changes it."""

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        on_status: Callable[[EngineStatus], None],
        is_ending: threading.Event,
        pulse: Pulse,
        offered: OfferedModel | None = None,
    ) -> None:
        self.backend: MlxBackend | None = None
        self.change: Load | Unload | None = None
        self.idle = IdleTime()
        is_pinned = offered is not None and offered.is_pinned
        self.status = SlotStatus(on_status, self.idle, is_pinned=is_pinned)
        self.kept_bytes = limits.prompt_cache_bytes
        self.is_loading = False
        self._limits = limits
        self._loader = loader
        self._is_ending = is_ending
        self._pulse = pulse
        self.hang: Hang | None = None
        # The running load, and the model that comes back if it fails.
        self._load_at_hand: Load | None = None
        self._before: ModelInfo | None = None
        self._offered = offered
        # The model whose memory was freed, and which is loaded again when it is next needed.
        self._unloaded: ModelInfo | None = None

    @property
    def is_unloaded(self) -> bool:
        """Whether there is a model whose memory is free: it must be loaded before it is used."""
        return self.backend is None and self.source is not None and not self.is_loading

    @property
    def source(self) -> Source | None:
        """The folders of the model that is loaded, or will be when it is next needed."""
        info = self._unloaded if self.backend is None else self.backend.info
        if info is not None:
            return Source(info.path, None if info.draft is None else info.draft.path)
        if self._offered is None:
            return None
        return Source(self._offered.folder, self._offered.draft)

    @property
    def offered(self) -> OfferedModel | None:
        """Which of several models it is."""
        return self._offered

    @property
    def name(self) -> str:
        """The model's name."""
        source = self.source
        if self._offered is not None:
            return self._offered.id
        return "" if source is None else model_name(source.folder)

    def become(self, offered: OfferedModel) -> None:
        """Make the model in the slot one of several models."""
        self._offered = offered
        self.status.is_pinned = self.status.is_pinned or offered.is_pinned
        if self.backend is not None:
            self.backend.info = replace(self.backend.info, id=offered.id)
        self.status.tell_again()

    def inherit(self, info: ModelInfo | None, hang: Hang | None) -> None:
        """Take the place of a model whose thread was given up; it is loaded when it is needed."""
        self.hang = hang
        self._unloaded = info
        if hang is not None:
            self.status.tell(EngineStatus("failed", info, message=hang.cause, is_stuck=True))
        elif info is not None:
            self._note_unloaded(info, "")
        else:
            self.status.tell(EngineStatus())

    @property
    def info(self) -> ModelInfo | None:
        """The model that is loaded, or will be when it is next needed."""
        if self.backend is not None:
            return self.backend.info
        return self._before if self.is_loading else self._unloaded

    def take_load_at_hand(self) -> Load | None:
        """Return the load that somebody asked for and that is under way, for another thread."""
        command, self._load_at_hand = self._load_at_hand, None
        return command

    def no_model(self) -> NoModel:
        """Return the error for a request when there is no model."""
        return NoModel(self.status.now.message or "no model is loaded")

    # -- changes that were asked for -------------------------------------------------------

    def drop_cancelled_load(self) -> bool:
        """Forget a load that was cancelled before it began; return whether there was one."""
        change = self.change
        if not isinstance(change, Load) or not change.gives_up.is_set():
            return False
        self.change = None
        self.unsay()
        if change.reply is not None:
            change.reply.send(LoadCancelled())
        return True

    def remove(self, change: Unload) -> None:
        """Remove the model, which nothing may be using."""
        self.change = None
        self._free()
        self.status.tell(EngineStatus())
        change.reply.send(None)

    def carry_out(self, change: Load, meanwhile: Callable[[], None]) -> bool:
        """Load another model in place of the present one, which nothing may be using."""
        self.change = None
        before = self._unloaded if self.backend is None else self.backend.info
        self._free()
        return self._load(change, before, meanwhile)

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, before it begins."""
        self.status.forget_unsaid()
        change, self.change = self.change, None
        if self._unloaded is not None:
            self._note_unloaded(self._unloaded, str(why))
        elif self.backend is None:
            self.status.tell(EngineStatus("failed", message=str(why)))
        if isinstance(change, Load) and change.reply is not None:
            change.reply.send(why)

    def close(self) -> None:
        """Free the model, at the end of the thread."""
        if self.backend is not None:
            self.backend.close()
            self.backend = None

    def _free(self) -> None:
        self._unloaded = None
        self.idle.is_over = False
        self.close()

    # -- unloading while idle --------------------------------------------------------------

    def unload_after(self, idle_s: float | None) -> None:
        """Free the memory when the model was idle for ``idle_s``; None never does."""
        self.idle.most_s = idle_s
        self.status.tell_again()

    def unload_when_idle(self) -> None:
        """Free the memory as soon as nothing runs, unless ``stay`` is called first."""
        self.idle.is_over = self.backend is not None

    def stay(self) -> None:
        """Keep the model in memory, because a request has arrived."""
        self.idle.is_over = False

    @property
    def unload_due_s(self) -> float | None:
        """In how many seconds the memory of an idle model should be freed; None for never."""
        return None if self.backend is None else self.idle.due_s

    def unload_idle(self) -> None:
        """Free the memory; the model still counts as the loaded one."""
        if self.backend is not None:
            info = self.backend.info
            self._free()
            self._note_unloaded(info, "")

    def _note_unloaded(self, info: ModelInfo, why: str) -> None:
        self._unloaded = info
        self.status.tell(EngineStatus("ready", info, message=why, is_unloaded=True))

    def load_again(self, meanwhile: Callable[[], None]) -> bool:
        """Load the model that is not in memory; if that fails, the next request tries again."""
        source = self.source
        if source is None:
            return False
        command = Load(source.folder, None, cancels_running=False, draft=source.draft)
        return self._load(command, self._unloaded, meanwhile, is_again=True)

    # -- loading ---------------------------------------------------------------------------

    def _load(
        self,
        command: Load,
        before: ModelInfo | None,
        meanwhile: Callable[[], None],
        *,
        is_again: bool = False,
    ) -> bool:
        """Load a model; if that fails, the one before it is loaded when it is next needed."""
        self._unloaded, self._before = None, before
        self._load_at_hand = None if is_again else command
        self.hang = None
        self.status.forget_unsaid()
        self.is_loading = True
        shown = before if is_again else None
        self.status.tell(EngineStatus("loading", shown, message=command.folder.name))

        def on_progress(progress: LoadProgress) -> None:
            if command.gives_up.is_set() or self._is_ending.is_set():
                raise LoadCancelled
            self.status.tell(replace(self.status.now, loading=progress))
            meanwhile()

        limits = self._limits
        outcome: object
        try:
            self.backend = self._loader(
                command.folder,
                limits=BatchLimits(
                    limits.prefill_chunk,
                    self.kept_bytes,
                    limits.max_rows,
                    not limits.plain_decoding,
                ),
                on_progress=on_progress,
                # Most loaders do not know about draft models.
                **({} if command.draft is None else {"draft": command.draft}),
            )
        except LoadCancelled as cancelled:
            self._check_pulse()
            outcome = cancelled
            self._not_loaded(before, EngineStatus(message=str(cancelled)))
        except Exception as error:
            self._check_pulse()
            cause = cause_of(error, command.folder, command.folder.resolve())
            outcome = error if isinstance(error, EngineError) else ModelLoadFailed(cause)
            why = str(outcome)
            if is_again and before is not None:
                why = f"{before.id} could not be read again: {why}. Try again"
            self._not_loaded(before, EngineStatus("failed", message=why))
        else:
            self._check_pulse()
            if self._offered is not None:
                self.backend.info = replace(self.backend.info, id=self._offered.id)
            outcome = self.backend.info
            held = self.backend.info.weights_bytes
            self.status.tell(EngineStatus("ready", self.backend.info, memory_bytes=held))
        self.is_loading = False
        self._load_at_hand = self._before = None
        if command.reply is not None:
            command.reply.send(outcome)
        return self.backend is not None

    def _check_pulse(self) -> None:
        """Raise ``GivenUp`` where another thread has taken this load over, or has refused it."""
        if self._pulse.is_given_up:
            self.close()
            raise GivenUp

    def _not_loaded(self, before: ModelInfo | None, status: EngineStatus) -> None:
        if before is None or self._is_ending.is_set():
            self.status.tell(status)
        else:
            self._note_unloaded(before, status.message)

    def unsay(self) -> None:
        """Withdraw the message about what a load waits for."""
        if not self.is_loading:
            self.status.unsay()

"""One model of the engine thread with all its commands and answers.

Belongs to the engine thread, except where a method says otherwise. Knows no other model.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from engine.errors import (
    EngineError,
    EngineStuck,
    ModelLoadFailed,
    NoModel,
    QueueFull,
    RequestCancelled,
)
from engine.inference.backend import BatchLimits, LoadCancelled, LoadProgress, Step
from engine.inference.loader import Loader
from engine.library.memory import MemoryNeed
from engine.library.models import ModelInfo, model_name
from engine.scheduling.generation import Generation, cause_of, settle
from engine.scheduling.inbox import (
    Ask,
    Cancel,
    Command,
    Embed,
    Load,
    Pin,
    Rendered,
    Resume,
    Submit,
    Unload,
    UnloadAfter,
    UnloadWhenIdle,
    refuse,
)
from engine.scheduling.model_list import ModelList, ModelStatus, OfferedModel
from engine.scheduling.pulse import GivenUp, Pulse
from engine.scheduling.scheduler import Scheduler
from engine.scheduling.sequence import ScheduledSequence
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from engine.values.request import Limits

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

_NEEDS_MODEL = (Submit, Resume, Ask, Embed)
_NOT_TAKEN = "cancelled before it was taken"


class Source(NamedTuple):
    """Where a model is loaded from."""

    folder: Path
    draft: Path | None


@dataclass(frozen=True, slots=True)
class Hang:
    """Where a model was stuck when its thread was given up."""

    cause: str
    is_over: Callable[[], bool]


@dataclass(slots=True)
class LeftModel:
    """A model of a thread that was given up, with all that the next thread has to do for it."""

    offered: OfferedModel | None
    info: ModelInfo | None
    is_default: bool
    commands: list[Command] = field(default_factory=list)
    hang: Hang | None = None


class LoadedModel:
    """A model that is loaded, or is when it is next needed: its commands, and its batch.

    Each method that touches the model or an answer first notes that this model is worked on, which
    ends a thread that was given up.
    """

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        pulse: Pulse,
        is_ending: threading.Event,
        model_list: ModelList,
        new_scheduler: "Callable[[MlxBackend], Scheduler]",
        offered: OfferedModel | None,
    ) -> None:
        self._limits = limits
        self._loader = loader
        self._pulse = pulse
        self._is_ending = is_ending
        self._list = model_list
        # Its number in the list.
        self.number = model_list.add()
        self._new_scheduler = new_scheduler
        # The requests of the model, while it is in memory.
        self._scheduler: Scheduler | None = None
        self.offered = offered
        self.is_pinned = offered is not None and offered.is_pinned
        self.need: MemoryNeed | None = None
        self.cache_bytes = limits.prompt_cache_bytes
        self.hang: Hang | None = None
        # The load or unload that is due, and whether a load is under way.
        self.change: Load | Unload | None = None
        self.is_loading = False
        # Whether it takes no more requests, so that it can leave for another model.
        self.is_leaving = False
        # The running load, and the model that comes back if it fails.
        self._load_at_hand: Load | None = None
        self._before: ModelInfo | None = None
        # The model whose memory was freed, and which is loaded again when it is next needed.
        self._unloaded: ModelInfo | None = None
        # The command that is being carried out, and those that wait for a change or the model.
        self._at_hand: Command | None = None
        self._postponed: deque[Command] = deque()
        # How long it may be idle: by a command for this model alone, or for all.
        self.has_own_time = False
        self.max_idle_s: float | None = None
        self._unloads_once_idle = False
        self._idle_since_s = self.used_s = time.monotonic()
        self._used_at: float | None = None
        self._status = ModelStatus()
        # The status before the message about what a load waits for; None without such a message.
        self._before_message: ModelStatus | None = None

    # -- what it is ------------------------------------------------------------------------

    @property
    def backend(self) -> "MlxBackend | None":
        """The model, while it is in memory."""
        scheduler = self._scheduler
        return None if scheduler is None else scheduler.backend

    @property
    def source(self) -> Source | None:
        """The folders of the model that is loaded, or will be when it is next needed."""
        info = self._unloaded if self.backend is None else self.backend.info
        if info is not None:
            return Source(info.path, None if info.draft is None else info.draft.path)
        return None if self.offered is None else Source(self.offered.folder, self.offered.draft)

    @property
    def name(self) -> str:
        """The model's name."""
        if self.offered is not None:
            return self.offered.id
        return "" if self.source is None else model_name(self.source.folder)

    @property
    def info(self) -> ModelInfo | None:
        """The model that is loaded, or will be when it is next needed."""
        if self.backend is not None:
            return self.backend.info
        return self._before if self.is_loading else self._unloaded

    def become(self, offered: OfferedModel) -> None:
        """Make it one of several models, or take a changed offer of it.

        Where its folder is another one now, later requests are answered by the model there.
        """
        source = self.source
        self.offered = offered
        self.is_pinned = self.is_pinned or offered.is_pinned
        if self.backend is not None:
            self.backend.info = replace(self.backend.info, id=offered.id)
        self.tell(self._status)
        if source is None or source.folder.resolve() == offered.folder.resolve():
            return
        if self.backend is not None:
            self.do(Load(offered.folder, None, cancels_running=False, draft=offered.draft))
        elif not self.is_loading:
            self._unloaded = None
            self.tell(ModelStatus())

    def inherit(self, info: ModelInfo | None, hang: Hang | None) -> None:
        """Take the place of a model whose thread was given up; it is loaded when it is needed."""
        self.hang = hang
        self._unloaded = info
        if hang is not None:
            self.tell(ModelStatus(state="failed", info=info, message=hang.cause, is_stuck=True))
        elif info is not None:
            self._note_unloaded(info, "")
        else:
            self.tell(ModelStatus())

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a command comes."""
        return self._is_free and self.change is None and not self._postponed

    @property
    def _is_free(self) -> bool:
        """Whether nothing uses the model."""
        return self._scheduler is None or self._scheduler.is_idle

    @property
    def _is_unloaded(self) -> bool:
        """Whether there is a model whose memory is free: it must be loaded before it is used."""
        return self._scheduler is None and self.source is not None and not self.is_loading

    @property
    def waits_for_prompts(self) -> bool:
        """Whether nothing can be done until a prompt has been rendered."""
        return not (self._is_free or self.has_answers or self.is_running)

    @property
    def is_running(self) -> bool:
        """Whether answers are in the batch, or texts are read beside it."""
        return self._scheduler is not None and self._scheduler.is_running

    @property
    def waits_for_room(self) -> bool:
        """Whether answers wait for a place in the batch."""
        return self._scheduler is not None and bool(self._scheduler.waiting)

    @property
    def is_starved(self) -> bool:
        """Whether no answer runs, and one waits for memory that other models use."""
        return self.waits_for_room and not self.is_running

    @property
    def has_answers(self) -> bool:
        """Whether answers run, or wait for a place. Any thread."""
        scheduler = self._scheduler
        return scheduler is not None and scheduler.has_answers

    @property
    def is_evictable(self) -> bool:
        """Whether the model's memory can be freed now, for another model."""
        return self.backend is not None and self._is_free and self.change is None

    @property
    def wants_load(self) -> bool:
        """Whether a model should be loaded now, if there is room for it."""
        if self.is_loading or not self._is_free:
            return False
        if self.change is not None:
            return isinstance(self.change, Load)
        return self._is_unloaded and bool(self._postponed)

    @property
    def running_bytes(self) -> int:
        """The memory that the caches of the answers in the batch take."""
        return 0 if self._scheduler is None else self._scheduler.running_bytes

    @property
    def reserved_bytes(self) -> int:
        """The memory that the caches of the answers in the batch will take."""
        return 0 if self._scheduler is None else self._scheduler.memory.reserved_bytes

    def is_rendering(self, request: Submit | Embed) -> bool:
        """Whether a request is being rendered for this model."""
        return self._scheduler is not None and self._scheduler.is_rendering(request)

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the batch, which changes no answer; None if there is nothing to run."""
        scheduler = self._scheduler
        if scheduler is None or not scheduler.is_running:
            return None
        self._pulse.begin(self)
        outcome = scheduler.decoded() if scheduler.running else None
        if scheduler.embeddings.is_due:
            scheduler.embeddings.read()
        return outcome

    def resume(self) -> None:
        """Note that another model was stepped since the last step of this one."""
        if self._scheduler is not None:
            self._scheduler.backend.batch.resume()

    def advance(self, outcome: Step | BaseException | None, *, is_held: bool) -> None:
        """Give the answers the tokens of a step, fill free places, and change the model if due.

        No answer joins those that run while ``is_held``.
        """
        self._pulse.begin(self)
        if (scheduler := self._scheduler) is not None:
            scheduler.is_held = is_held
            if outcome is not None:
                scheduler.take(outcome)
            scheduler.fill()
        if self.change is not None:
            self._change_model()

    def note_work(self) -> None:
        """Note that the model is worked on again, after another one made room for it."""
        self._pulse.begin(self)

    def measure_again(self) -> None:
        """Measure the memory for answers again, because other models came or left."""
        if self._scheduler is not None:
            self._scheduler.memory.measure_again()

    # -- its status ------------------------------------------------------------------------

    def tell(self, status: ModelStatus) -> None:
        """Publish another status."""
        info, offered, unloads_at = status.info, self.offered, None
        if status.is_loaded and self._used_at is not None:
            keeps_s = 0.0 if self._unloads_once_idle else self.max_idle_s
            unloads_at = None if keeps_s is None else self._used_at + keeps_s
        self._status = replace(
            status,
            id=status.id if info is None else info.id,
            folder=status.folder if info is None else info.path,
            offered=offered,
            memory_bytes=status.memory_bytes if status.is_loaded else 0,
            used_at=self._used_at,
            unloads_at=unloads_at,
            is_pinned=self.is_pinned,
        )
        self._list.post(self.number, self._status)

    def publish(self) -> None:
        """Publish the numbers of answers and the use of the prompt cache, if they changed."""
        status, scheduler = self._status, self._scheduler
        running, waiting, use = 0, 0, status.cache_use
        if scheduler is not None:
            running, waiting = len(scheduler.running), scheduler.waiting_answers
            use = scheduler.backend.batch.cache_use
        if self._postponed:
            waiting += self._postponed_choices
        if (running, waiting) == (status.running, status.waiting) and use is status.cache_use:
            return
        if running != status.running:
            self._note_use()
        held = 0
        if scheduler is not None:
            weights_bytes = scheduler.backend.info.weights_bytes
            held = weights_bytes + use.size_bytes + scheduler.running_bytes
        self.tell(
            replace(status, running=running, waiting=waiting, cache_use=use, memory_bytes=held)
        )

    def say(self, message: str) -> None:
        """Publish a message about what a due load waits for."""
        if self._before_message is None:
            self._before_message = self._status
        if self._status.message != message:
            self.tell(replace(self._status, state="loading", message=message))

    def clear_message(self) -> None:
        """Withdraw that message: no load is due any more."""
        if not self.is_loading and self._before_message is not None:
            before, self._before_message = self._before_message, None
            self.tell(before)

    def _note_use(self) -> None:
        self.used_s, self._used_at = time.monotonic(), time.time()

    def _no_model(self) -> NoModel:
        """Return the error for a request when there is no model."""
        return NoModel(self._status.message or "no model is loaded")

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until its model is loaded."""
        self._pulse.begin(self)
        if self._is_stuck(command):
            return
        if not isinstance(command, (Cancel, Rendered)) and self._must_wait(command):
            self._postpone(command)
        else:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        self._at_hand = command
        scheduler = self._scheduler
        if isinstance(command, _NEEDS_MODEL):
            self._note_use()
            if scheduler is None:
                refuse(command, self._no_model())
                return
        match command:
            case Submit() if scheduler is not None:
                self._unloads_once_idle = False
                scheduler.begin(command)
            case Embed() if scheduler is not None:
                self._unloads_once_idle = False
                if not command.gives_up.is_set():
                    scheduler.embeddings.begin(command)
            case Rendered() if scheduler is not None:
                scheduler.finish(command)
            case Resume() if scheduler is not None:
                scheduler.resume(command.sequences)
            case Ask() if scheduler is not None:
                scheduler.ask(command)
            case Load() if self._has(command):
                if command.reply is not None and scheduler is not None:
                    command.reply.send(scheduler.backend.info)
            case Load() | Unload():
                self.change = command
                if command.cancels_running and scheduler is not None:
                    scheduler.cancel_all()
                    scheduler.embeddings.refuse_all(RequestCancelled("cancelled for another model"))
                    scheduler.refuse_all(RequestCancelled(_NOT_TAKEN))
                self._change_model()
            case UnloadAfter():
                self.max_idle_s = command.idle_s
                self.tell(self._status)
            case UnloadWhenIdle():
                self._unloads_once_idle = scheduler is not None
            case Pin():
                self.is_pinned = command.is_pinned
                self.tell(self._status)
            case _:
                raise AssertionError(f"not a command for one model: {type(command).__name__}")

    def _is_stuck(self, command: Command) -> bool:
        """Refuse a command for a model that is stuck; False for any other command or model."""
        if self.hang is None:
            return False
        if self.hang.is_over() or isinstance(command, (Load, Unload)):
            self.hang = None
            return False
        if isinstance(command, UnloadWhenIdle):
            self.inherit(self.info, None)  # the next request loads it again
            return False
        if isinstance(command, _NEEDS_MODEL):
            refuse(command, EngineStuck(f"{self.hang.cause}. Restart this model to use it again"))
            return True
        return False

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Evict an owner's cached prompts; return how many, and their bytes."""
        self._pulse.begin(self)
        backend = self.backend
        return (0, 0) if backend is None else backend.forget_prompts(owner)

    def _has(self, wanted: Load) -> bool:
        """Whether the wanted model is one of several and already in memory."""
        is_there = self.offered is not None and self.backend is not None
        return is_there and self.source == Source(wanted.folder.resolve(), wanted.draft)

    def _must_wait(self, command: Command) -> bool:
        """Whether a command waits: behind others, for a change of model, or for the model."""
        if self._postponed or self.change is not None or self.is_loading:
            return True
        return isinstance(command, _NEEDS_MODEL) and (self._is_unloaded or self.is_leaving)

    def cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that was not accepted yet is dropped with all its choices."""
        self._pulse.begin(self)
        why = RequestCancelled(_NOT_TAKEN)
        left = list(generations)
        if (scheduler := self._scheduler) is not None:
            left = [
                generation
                for generation in generations
                if not scheduler.cancel_submit(generation, why)
            ]
            scheduler.cancel(left)
        for command in self._postponed.copy():
            if isinstance(command, Resume):
                for sequence in command.sequences.copy():
                    if sequence.generation in left:
                        command.sequences.remove(sequence)
                        sequence.end_for_reader(StopKind.CANCELLED)
            elif isinstance(command, Submit) and any(
                generation in command.generations for generation in left
            ):
                self._postponed.remove(command)
                settle(command.generations, why)

    # -- commands that wait ----------------------------------------------------------------

    @property
    def _postponed_choices(self) -> int:
        """How many answers the postponed commands ask for."""
        return sum(
            len(command.generations if isinstance(command, Submit) else command.sequences)
            for command in self._postponed
            if isinstance(command, (Submit, Resume))
        )

    def _postpone(self, command: Command) -> None:
        """Let a command wait behind the others; a request for too many answers is refused."""
        if isinstance(command, Submit):
            limit, waiting = self._limits.max_rows + self._limits.max_waiting, 0
            if len(self._postponed) + len(command.generations) > limit:
                waiting = self._postponed_choices
            if waiting + len(command.generations) > limit:
                settle(command.generations, QueueFull(waiting, len(command.generations)))
                return
        self._postponed.append(command)

    def _do_postponed(self) -> None:
        """Carry out the postponed commands that need not wait any longer."""
        while self._postponed and self.change is None and not self.is_loading:
            needs_model = isinstance(self._postponed[0], _NEEDS_MODEL)
            if needs_model and (self._is_unloaded or self.is_leaving):
                return
            self._carry_out(self._postponed.popleft())

    def _refuse_postponed(self, why: EngineError) -> None:
        """Refuse the commands that need the model in memory; the others continue to wait."""
        waiting, self._postponed = self._postponed, deque()
        for command in waiting:
            if isinstance(command, _NEEDS_MODEL):
                refuse(command, why)
            else:
                self._postponed.append(command)

    def _take_postponed(self) -> list[Command]:
        """Remove and return the change that is due, and all postponed commands. Any thread."""
        left: list[Command] = [] if self.change is None else [self.change]
        left += self._postponed
        self.change = None
        self._postponed.clear()
        return left

    # -- loading ---------------------------------------------------------------------------

    def _change_model(self) -> None:
        """Drop a cancelled load, and carry out an unload once nothing uses the model."""
        load = self.change
        if isinstance(load, Load) and load.gives_up.is_set():
            self.change = None
            self.clear_message()
            if load.reply is not None:
                load.reply.send(LoadCancelled())
            self._do_postponed()
        unload = self.change
        if isinstance(unload, Unload) and self._is_free:
            self.change = None
            self._free()
            self.tell(ModelStatus())
            unload.reply.send(None)
            self._do_postponed()

    def load(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the model, then carry out the commands that waited for it.

        If that fails, the model before it is loaded when it is next needed.
        """
        self._pulse.begin(self, is_load=True)

        def go_on() -> None:
            meanwhile()
            self._pulse.begin(self, is_load=True)

        change = self.change
        if isinstance(change, Load):
            wanted: Source | None = Source(change.folder, change.draft)
            self.change = None
            backend = self.backend
            before = self._unloaded if backend is None else backend.info
            self._free()
            self._load(change, before, go_on)
        else:
            wanted = self.source
            if wanted is not None:
                again = Load(wanted.folder, None, cancels_running=False, draft=wanted.draft)
                self._load(again, self._unloaded, go_on, is_again=True)
        self._pulse.begin(self)
        with turn:
            # If another model was loaded instead, it answers the waiting requests.
            if self.backend is None and self.source == wanted:
                self._refuse_postponed(self._no_model())
            self._do_postponed()

    def _load(
        self,
        command: Load,
        before: ModelInfo | None,
        meanwhile: Callable[[], None],
        *,
        is_again: bool = False,
    ) -> None:
        self._unloaded, self._before = None, before
        self._load_at_hand = None if is_again else command
        self.hang = None
        self._before_message = None
        self.is_loading = True
        known = before if is_again else None
        name = model_name(command.folder)
        self.tell(ModelStatus(name, command.folder, "loading", message=name, info=known))

        def on_progress(progress: LoadProgress) -> None:
            if command.gives_up.is_set() or self._is_ending.is_set():
                raise LoadCancelled
            self.tell(replace(self._status, loading=progress))
            meanwhile()

        limits = self._limits
        outcome: object
        try:
            backend = self._loader(
                command.folder,
                limits=BatchLimits(
                    limits.prefill_chunk,
                    self.cache_bytes,
                    limits.max_rows,
                    not limits.plain_decoding,
                ),
                on_progress=on_progress,
                # Most loaders do not know about draft models.
                **({} if command.draft is None else {"draft": command.draft}),
            )
            self._scheduler = self._new_scheduler(backend)
        except LoadCancelled as cancelled:
            self._check_pulse()
            outcome = cancelled
            self._not_loaded(before, ModelStatus(message=str(cancelled)))
        except Exception as error:
            self._check_pulse()
            cause = cause_of(error, command.folder, command.folder.resolve())
            outcome = error if isinstance(error, EngineError) else ModelLoadFailed(cause)
            why = str(outcome)
            if is_again and before is not None:
                why = f"{before.id} could not be read again: {why}. Try again"
            self._not_loaded(before, ModelStatus(state="failed", message=why))
        else:
            self._check_pulse()
            if self.offered is not None:
                backend.info = replace(backend.info, id=self.offered.id)
            outcome = backend.info
            self.tell(ModelStatus(state="ready", info=outcome, memory_bytes=outcome.weights_bytes))
        self.is_loading = False
        self._load_at_hand = self._before = None
        if command.reply is not None:
            command.reply.send(outcome)

    def _check_pulse(self) -> None:
        """Raise ``GivenUp`` where another thread has taken this load over, or has refused it."""
        if self._pulse.is_given_up:
            self.close()
            raise GivenUp

    def _not_loaded(self, before: ModelInfo | None, status: ModelStatus) -> None:
        if before is None or self._is_ending.is_set():
            self.tell(status)
        else:
            self._note_unloaded(before, status.message)

    def _note_unloaded(self, info: ModelInfo, why: str) -> None:
        self._unloaded = info
        self.tell(ModelStatus(info=info, message=why))

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, before it begins, and the commands that wait for it."""
        self._pulse.begin(self)
        self._before_message = None
        change, self.change = self.change, None
        if self._unloaded is not None:
            self._note_unloaded(self._unloaded, str(why))
        elif self.backend is None:
            self.tell(ModelStatus(state="failed", message=str(why)))
        if isinstance(change, Load) and change.reply is not None:
            change.reply.send(why)
        if self.backend is None:
            self._refuse_postponed(NoModel(str(why)))
        self._do_postponed()

    def stay(self) -> None:
        """Take requests again: another model has left."""
        if self.is_leaving:
            self._pulse.begin(self)
            self.is_leaving = False
            self._do_postponed()

    # -- unloading -------------------------------------------------------------------------

    def begin_idle_time(self) -> None:
        """Note that the model is used now: its idle time begins again."""
        self._idle_since_s = time.monotonic()

    @property
    def unload_due_s(self) -> float | None:
        """In how many seconds the memory of an idle model should be freed; None for never."""
        if self.backend is None:
            return None
        if self._unloads_once_idle:
            return 0.0
        if self.max_idle_s is None:
            return None
        return max(0.0, self._idle_since_s + self.max_idle_s - time.monotonic())

    def unload_idle(self) -> None:
        """Free the memory of the model, which nothing may be using; it still counts as loaded."""
        self._pulse.begin(self)
        if (backend := self.backend) is not None:
            self._free()
            self._note_unloaded(backend.info, "")

    def _free(self) -> None:
        self._unloaded = None
        self._unloads_once_idle = False
        self.close()

    def close(self) -> None:
        """Free the model, at the end of the thread."""
        if (backend := self.backend) is not None:
            backend.close()
            self._scheduler = None

    # -- the end ---------------------------------------------------------------------------

    def hand_over(self, *, is_default: bool, hang: Hang | None, is_touched: bool) -> LeftModel:
        """Give up the model with all that waits for it, for another thread. Any thread.

        The engine thread must have been given up, so that it begins nothing here.
        """
        left = LeftModel(self.offered, self.info, is_default, hang=hang)
        load, self._load_at_hand = self._load_at_hand, None
        scheduler = self._scheduler
        if hang is not None:
            self.inherit(self.info, hang)  # told before its readers learn the end
            why = EngineStuck(hang.cause)
            if is_touched:
                self.fail_readers(hang.cause, why)
            else:
                self.abandon(StopKind.ERROR, hang.cause)
            if load is not None:
                refuse(load, ModelLoadFailed(hang.cause))
            if self._at_hand is not None:
                refuse(self._at_hand, why)
            if scheduler is not None:
                scheduler.embeddings.refuse_all(why)
        else:
            sequences = [] if scheduler is None else scheduler.hand_over()
            if going_on := [sequence for sequence in sequences if _goes_on(sequence)]:
                left.commands.append(Resume(going_on, self.offered))
            if load is not None:
                left.commands.append(load)
        if scheduler is not None:
            left.commands += scheduler.hand_over_requests()
        left.commands += self._take_postponed()
        return left

    def drop(self) -> None:
        """Let go of the model after ``hand_over``, so that its memory is free."""
        self._scheduler = None

    def abandon(self, kind: StopKind, cause: str | None) -> None:
        """End every answer, running or waiting, with what it has so far."""
        if (scheduler := self._scheduler) is not None:
            scheduler.abandon(kind, cause)

    def fail_readers(self, cause: str, why: EngineError) -> None:
        """End every answer with an error, because the engine thread is stuck. Any thread."""
        ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=cause)
        if (scheduler := self._scheduler) is not None:
            scheduler.close_all(ending, why)

    def refuse_the_rest(self, why: EngineError) -> None:
        """Drop requests that are being rendered, and refuse commands that were never carried out.

        Any thread, while the engine thread waits, is stuck, or has ended.
        """
        if (scheduler := self._scheduler) is not None:
            scheduler.refuse_all(why)
        if self._load_at_hand is not None:  # it hangs: the thread may never say how it ended
            refuse(self._load_at_hand, why)
        for command in self._take_postponed():
            refuse(command, why)


def _goes_on(sequence: ScheduledSequence) -> bool:
    """Take a sequence out of a lost batch; whether it can go on in another. Any thread."""
    sequence.generation.wake_soon()  # the outbox of the thread may not have done it
    if not (goes_on := sequence.leave_batch()):
        sequence.end_for_reader(StopKind.ERROR, "another model was stuck; ask again")
    return goes_on

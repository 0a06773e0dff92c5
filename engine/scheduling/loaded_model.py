"""One model of the engine thread with all its commands and answers."""

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, assert_never

from engine.errors import (
    EngineError,
    EngineStuck,
    ModelLoadFailed,
    NoModel,
    QueueFull,
    RequestCancelled,
)
from engine.inference.backend import BatchLimits, Step
from engine.inference.loader import Loader
from engine.library.loading import LoadCancelled, LoadProgress
from engine.library.memory import MemoryNeed
from engine.library.models import ModelInfo, model_name
from engine.scheduling.generation import Generation
from engine.scheduling.inbox import (
    Cancel,
    Command,
    CountTokens,
    Detokenize,
    Embed,
    EngineStatus,
    ForgetPrompts,
    Load,
    Rendered,
    RenderPrompt,
    Resume,
    Shutdown,
    Submit,
    Tokenize,
    Unload,
    UnloadAfter,
    UnloadWhenIdle,
    refuse,
)
from engine.scheduling.intake import EmbeddingQueue, Intake
from engine.scheduling.limits import Limits
from engine.scheduling.offering import OfferedModel
from engine.scheduling.outbox import cause_of, settle
from engine.scheduling.pulse import GivenUp, Pulse
from engine.scheduling.scheduler import Scheduler
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage

# The commands that wait for a change of a model, or for the model itself, in order.
#
# Knows how many may wait and refuses the rest, but not when they are due. Engine thread, except
# where a method says otherwise.

_NEEDS_MODEL = (Submit, Resume, CountTokens, RenderPrompt, Tokenize, Detokenize, Embed)


def needs_model(command: Command) -> bool:
    """Whether a command needs the model in memory."""
    return isinstance(command, _NEEDS_MODEL)


class PostponedCommands:
    """The commands that one model still has to carry out."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._commands: deque[Command] = deque()

    def __bool__(self) -> bool:
        return bool(self._commands)

    @property
    def choices(self) -> int:
        """How many answers they ask for."""
        submitted = sum(len(one.generations) for one in self._commands if isinstance(one, Submit))
        return submitted + sum(len(one.rows) for one in self._commands if isinstance(one, Resume))

    @property
    def is_model_next(self) -> bool:
        """Whether the first command needs the model in memory; there must be one."""
        return needs_model(self._commands[0])

    def add(self, command: Command) -> None:
        """Let a command wait behind the others; a request for too many answers is refused."""
        if isinstance(command, Submit):
            most, waiting = self._limits.max_rows + self._limits.max_waiting, 0
            if len(self._commands) + len(command.generations) > most:
                waiting = self.choices
            if waiting + len(command.generations) > most:
                settle(command.generations, QueueFull(waiting, len(command.generations)))
                return
        self._commands.append(command)

    def take_next(self) -> Command:
        """Remove and return the first command."""
        return self._commands.popleft()

    def cancel(self, generations: Sequence[Generation], why: EngineError) -> None:
        """Drop the requests for some answers, each with all its choices."""
        for command in self._commands.copy():
            if isinstance(command, Resume):
                for row in [one for one in command.rows if one.generation in generations]:
                    command.rows.remove(row)
                    row.end_for_reader(StopKind.CANCELLED)
            elif isinstance(command, Submit) and any(
                one in command.generations for one in generations
            ):
                self._commands.remove(command)
                settle(command.generations, why)

    def refuse_model_users(self, why: EngineError) -> None:
        """Refuse the commands that need the model in memory; the others continue to wait."""
        kept = [one for one in self._commands if not needs_model(one)]
        for command in self._commands:
            if needs_model(command):
                refuse(command, why)
        self._commands = deque(kept)

    def take_all(self) -> list[Command]:
        """Remove and return all commands. Any thread, as for ``Lane.refuse_the_rest``."""
        left = list(self._commands)
        self._commands.clear()
        return left


# How long a model is idle, and when its memory should therefore be freed.
#
# Engine thread only.


class IdleTime:
    """The idle time of one model."""

    def __init__(self) -> None:
        self.most_s: float | None = None
        self.is_over = False
        self._began_s = time.monotonic()

    def begin_anew(self) -> None:
        """Note that the model is used now: the idle time begins again."""
        self._began_s = time.monotonic()

    @property
    def keeps_s(self) -> float | None:
        """How long an idle model stays in memory; None for no limit."""
        return 0.0 if self.is_over else self.most_s

    @property
    def due_s(self) -> float | None:
        """In how many seconds the memory of a loaded model should be freed; None for never."""
        if self.is_over:
            return 0.0
        if self.most_s is None:
            return None
        return max(0.0, self._began_s + self.most_s - time.monotonic())


# Publishes the status of one model of the engine thread.
#
# Engine thread only.

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


class SlotStatus:
    """The status of a model, with a callback for each change."""

    def __init__(
        self, on_status: Callable[[EngineStatus], None], idle: IdleTime, *, is_pinned: bool
    ) -> None:
        self.now = EngineStatus()
        self.is_pinned = is_pinned
        self.used_s = time.monotonic()
        self._used_at: float | None = None
        self._on_status = on_status
        self._idle = idle
        # The status before the message about what a load waits for; None without such a message.
        self._unsaid: EngineStatus | None = None

    def tell(self, status: EngineStatus) -> None:
        """Publish another status."""
        self.now = replace(
            status,
            used_at=self._used_at,
            keeps_s=self._idle.keeps_s,
            is_pinned=self.is_pinned,
        )
        self._on_status(self.now)

    def tell_again(self) -> None:
        """Publish the same state again, because a figure beside it has changed."""
        self.tell(self.now)

    def note_use(self) -> None:
        """Note that the model is used now."""
        self.used_s, self._used_at = time.monotonic(), time.time()

    def publish(
        self,
        backend: "MlxBackend | None",
        running: int,
        waiting: int,
        rows_bytes: Callable[[], int],
    ) -> None:
        """Publish the numbers of answers and the use of the prompt cache, if they changed."""
        status = self.now
        use = status.cache_use if backend is None else backend.cache_use
        if (running, waiting) != (status.running, status.waiting) or use is not status.cache_use:
            if running != status.running:
                self.note_use()
            held = 0
            if backend is not None:
                held = backend.info.weights_bytes + use.size_bytes + rows_bytes()
            self.tell(
                replace(status, running=running, waiting=waiting, cache_use=use, memory_bytes=held)
            )

    def say(self, message: str) -> None:
        """Publish a message about what a due load waits for."""
        if self._unsaid is None:
            self._unsaid = self.now
        if self.now.message != message:
            self.tell(replace(self.now, state="loading", message=message))

    def unsay(self) -> None:
        """Withdraw that message: no load is due any more."""
        if self._unsaid is not None:
            before, self._unsaid = self._unsaid, None
            self.tell(before)

    def forget_unsaid(self) -> None:
        """Forget that message: another status follows at once."""
        self._unsaid = None


# Loads the model of a lane, replaces it, unloads it while idle, and loads it again.
#
# Knows nothing of answers. Engine thread only.

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


# One model of the engine thread with all its commands and answers.
#
# A lane carries out the commands for its model, steps its batch, and says when its model should
# be loaded. Engine thread only, except where a method says otherwise.


@dataclass(slots=True)
class LeftLane:
    """A model of a thread that was given up, with all that the next thread has to do for it."""

    offered: OfferedModel | None
    info: ModelInfo | None
    is_default: bool
    commands: list[Command] = field(default_factory=list)
    hang: Hang | None = None


class Lane:
    """A model, the requests that are being rendered for it, and its batch.

    Each method that touches the model or an answer first notes that this lane is worked on, which
    ends a thread that was given up.
    """

    def __init__(
        self,
        pulse: Pulse,
        limits: Limits,
        slot: ModelSlot,
        scheduler: Scheduler,
        intake: Intake,
        embedding: EmbeddingQueue,
    ) -> None:
        self._pulse = pulse
        self.slot = slot
        self.need: MemoryNeed | None = None
        self.has_own_time = False
        self.is_leaving = False
        self._scheduler = scheduler
        self._intake = intake
        self._embedding = embedding
        self._postponed = PostponedCommands(limits)
        # The command that is being carried out.
        self._at_hand: Command | None = None

    # -- what there is to do ---------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to do until a command comes."""
        return self._is_free and self.slot.change is None and not self._postponed

    @property
    def _is_free(self) -> bool:
        """Whether nothing uses the model."""
        return self._scheduler.is_idle and self._intake.is_idle and not self._embedding

    @property
    def waits_for_prompts(self) -> bool:
        """Whether nothing can be done until a prompt has been rendered."""
        is_reading = self._embedding.is_due or not self._scheduler.is_idle
        return not is_reading and not self._is_free

    @property
    def has_rows(self) -> bool:
        """Whether answers are in the batch, or texts are read beside it."""
        return bool(self._scheduler.rows) or self._embedding.is_due

    @property
    def waits_for_room(self) -> bool:
        """Whether answers wait for a place in the batch."""
        return bool(self._scheduler.waiting)

    @property
    def is_starved(self) -> bool:
        """Whether no answer runs, and one waits for memory that other models use."""
        return self.waits_for_room and not self.has_rows

    def hold(self, *, is_held: bool) -> None:
        """Let no answer join those that run, or let them join again."""
        self._scheduler.is_held = is_held

    @property
    def has_answers(self) -> bool:
        """Whether answers run, or wait for a place. Any thread."""
        return not self._scheduler.is_idle

    @property
    def is_evictable(self) -> bool:
        """Whether the model's memory can be freed now, for another model."""
        return self.slot.backend is not None and self._is_free and self.slot.change is None

    @property
    def wants_load(self) -> bool:
        """Whether a model should be loaded now, if there is room for it."""
        slot = self.slot
        if slot.is_loading or not self._is_free:
            return False
        if slot.change is not None:
            return isinstance(slot.change, Load)
        return slot.is_unloaded and bool(self._postponed)

    @property
    def rows_bytes(self) -> int:
        """The memory that the caches of the answers in the batch take."""
        backend = self.slot.backend
        return 0 if backend is None else self._scheduler.rows_bytes(backend.info)

    @property
    def reserved_bytes(self) -> int:
        """The memory that the caches of the answers in the batch will take."""
        backend = self.slot.backend
        return 0 if backend is None else self._scheduler.reserved_bytes(backend.info)

    def is_rendering(self, request: Submit | Embed) -> bool:
        """Whether a request is being rendered for this model."""
        return self._intake.holds(request) or self._embedding.holds(request)

    # -- one step --------------------------------------------------------------------------

    def decode(self) -> Step | BaseException | None:
        """Run one step of the batch, which changes no answer; None if there is nothing to run."""
        backend = self.slot.backend
        if backend is None or not self.has_rows:
            return None
        self._pulse.begin(self)
        outcome = self._scheduler.decoded(backend) if self._scheduler.rows else None
        if self._embedding.is_due:
            self._embedding.read()
        return outcome

    def resume(self) -> None:
        """Note that another model was stepped since the last step of this one."""
        if self.slot.backend is not None:
            self.slot.backend.resume()

    def advance(self, outcome: Step | BaseException | None) -> None:
        """Give the answers the tokens of a step, fill free places, and change the model if due."""
        self._pulse.begin(self)
        backend = self.slot.backend
        if backend is not None:
            if outcome is not None:
                self._scheduler.take(backend, outcome)
            self._scheduler.fill(backend)
        if self.slot.change is not None:
            self._change_model()

    def publish(self) -> None:
        """Publish the numbers of answers if they changed."""
        scheduler = self._scheduler
        waiting = len(scheduler.waiting) + len(scheduler.behind) + self._intake.choices
        waiting += len(self._embedding)
        if self._postponed:
            waiting += self._postponed.choices
        slot = self.slot
        slot.status.publish(slot.backend, len(scheduler.rows), waiting, lambda: self.rows_bytes)

    # -- commands --------------------------------------------------------------------------

    def do(self, command: Command) -> None:
        """Carry out a command, or let it wait until its model is loaded."""
        self._pulse.begin(self)
        if self._is_stuck(command):
            return
        if not isinstance(command, (Cancel, Rendered)) and self._must_wait(command):
            self._postponed.add(command)
        else:
            self._carry_out(command)

    def _carry_out(self, command: Command) -> None:
        self._at_hand = command
        slot = self.slot
        if needs_model(command):
            slot.status.note_use()
        match command:
            case Submit():
                slot.stay()
                if slot.backend is None:
                    settle(command.generations, slot.no_model())
                else:
                    self._intake.begin(slot.backend, command)
            case Embed():
                slot.stay()
                if slot.backend is None:
                    refuse(command, slot.no_model())
                elif not command.gives_up.is_set():
                    self._embedding.begin(slot.backend, command)
            case Rendered(request=Embed()):
                self._embedding.finish(slot.backend, command, self._scheduler.most_text_tokens)
            case Rendered():
                self._intake.finish(slot.backend, command)
            case Resume():
                if slot.backend is None:
                    refuse(command, slot.no_model())
                else:
                    self._scheduler.resume(slot.backend, command.rows)
            case Cancel():
                self.cancel([command.generation])
            case Load() if self._has(command):
                if command.reply is not None and slot.backend is not None:
                    command.reply.send(slot.backend.info)
            case Load() | Unload():
                slot.change = command
                if command.cancels_running and slot.backend is not None:
                    self._scheduler.cancel_all(slot.backend)
                    self._intake.cancel_all(RequestCancelled("cancelled before it was taken"))
                    self._embedding.refuse_all(RequestCancelled("cancelled for another model"))
                self._change_model()
            case CountTokens() | RenderPrompt() | Tokenize() | Detokenize():
                if slot.backend is None:
                    command.reply.send(slot.no_model())
                else:
                    self._intake.answer(slot.backend, command)
            case UnloadAfter():
                slot.unload_after(command.idle_s)
            case UnloadWhenIdle():
                slot.unload_when_idle()
            case Shutdown() | ForgetPrompts():
                raise AssertionError("served for all models at once")
            case _:
                assert_never(command)

    def _is_stuck(self, command: Command) -> bool:
        """Refuse a command for a model that is stuck; False for any other command or model."""
        slot = self.slot
        if slot.hang is None:
            return False
        if slot.hang.is_over() or isinstance(command, (Load, Unload)):
            slot.hang = None
            return False
        if isinstance(command, UnloadWhenIdle):
            slot.inherit(slot.info, None)  # the next request loads it again
            return False
        if needs_model(command):
            refuse(command, EngineStuck(f"{slot.hang.cause}. Restart this model to use it again"))
            return True
        return False

    def forget_prompts(self, owner: str) -> tuple[int, int]:
        """Drop the caches of an owner's earlier prompts; return how many, and their bytes."""
        self._pulse.begin(self)
        return (0, 0) if self.slot.backend is None else self.slot.backend.forget_prompts(owner)

    def _has(self, wanted: Load) -> bool:
        """Whether the wanted model is one of several and already in memory."""
        is_there = self.slot.offered is not None and self.slot.backend is not None
        return is_there and self.slot.source == Source(wanted.folder.resolve(), wanted.draft)

    def _must_wait(self, command: Command) -> bool:
        """Whether a command waits: behind others, for a change of model, or for the model."""
        if self._postponed or self.slot.change is not None or self.slot.is_loading:
            return True
        return needs_model(command) and (self.slot.is_unloaded or self.is_leaving)

    def cancel(self, generations: Sequence[Generation]) -> None:
        """End answers; a request that was not accepted yet is dropped with all its choices."""
        self._pulse.begin(self)
        why = RequestCancelled("cancelled before it was taken")
        left = [one for one in generations if not self._intake.cancel(one, why)]
        if self.slot.backend is not None:
            self._scheduler.cancel(self.slot.backend, left)
        self._postponed.cancel(left, why)

    def _change_model(self) -> None:
        """Drop a cancelled load, and carry out an unload once nothing uses the model."""
        slot = self.slot
        if slot.drop_cancelled_load():
            self._do_postponed()
        if isinstance(slot.change, Unload) and self._is_free:
            slot.remove(slot.change)
            self._do_postponed()

    def _do_postponed(self) -> None:
        """Carry out the postponed commands that need not wait any longer."""
        slot, postponed = self.slot, self._postponed
        while postponed and slot.change is None and not slot.is_loading:
            if postponed.is_model_next and (slot.is_unloaded or self.is_leaving):
                return
            self._carry_out(postponed.take_next())

    # -- loading ---------------------------------------------------------------------------

    def load(self, meanwhile: Callable[[], None], turn: threading.Lock) -> None:
        """Load the model, then carry out the commands that waited for it."""
        self._pulse.begin(self, is_load=True)
        slot = self.slot

        def go_on() -> None:
            meanwhile()
            self._pulse.begin(self, is_load=True)

        if isinstance(slot.change, Load):
            wanted: Source | None = Source(slot.change.folder, slot.change.draft)
            is_there = slot.carry_out(slot.change, go_on)
        else:
            wanted = slot.source
            is_there = slot.load_again(go_on)
        self._pulse.begin(self)
        with turn:
            # If another model was loaded instead, it answers the waiting requests.
            if not is_there and slot.source == wanted:
                self._postponed.refuse_model_users(slot.no_model())
            self._do_postponed()

    def refuse_load(self, why: ModelLoadFailed) -> None:
        """Refuse the load that is due, and the commands that wait for the model."""
        self._pulse.begin(self)
        self.slot.refuse_load(why)
        if self.slot.backend is None:
            self._postponed.refuse_model_users(NoModel(str(why)))
        self._do_postponed()

    def stay(self) -> None:
        """Take requests again: another model has left."""
        if self.is_leaving:
            self._pulse.begin(self)
            self.is_leaving = False
            self._do_postponed()

    def unload_idle(self) -> None:
        """Free the memory of the model, which nothing may be using."""
        self._pulse.begin(self)
        self.slot.unload_idle()

    def go_on(self) -> None:
        """Note that this lane is worked on again, after another one made room for it."""
        self._pulse.begin(self)

    def measure_again(self) -> None:
        """Measure the memory for answers again, because other models came or left."""
        self._scheduler.measure_again()

    # -- the end ---------------------------------------------------------------------------

    def hand_over(self, *, is_default: bool, hang: Hang | None, is_touched: bool) -> LeftLane:
        """Give up the model with all that waits for it, for another thread. Any thread.

        The engine thread must have been given up, so that it begins nothing here.
        """
        slot = self.slot
        left = LeftLane(slot.offered, slot.info, is_default, hang=hang)
        load = slot.take_load_at_hand()
        if hang is not None:
            slot.inherit(slot.info, hang)  # told before its readers learn the end
            why = EngineStuck(hang.cause)
            if is_touched:
                self.fail_readers(hang.cause, why)
            else:
                self.abandon(StopKind.ERROR, hang.cause)
            if load is not None:
                refuse(load, ModelLoadFailed(hang.cause))
            if self._at_hand is not None:
                refuse(self._at_hand, why)
            self._embedding.refuse_all(why)
        else:
            rows = self._scheduler.hand_over()
            for row in rows:
                row.generation.wake_soon()  # the outbox of the thread may not have done it
            going_on = [row for row in rows if row.leave_batch()]
            for row in rows:
                if row not in going_on:
                    row.end_for_reader(StopKind.ERROR, "another model was stuck; ask again")
            if going_on:
                left.commands.append(Resume(going_on, slot.offered))
            if load is not None:
                left.commands.append(load)
        left.commands += self._intake.hand_over()
        left.commands += self._embedding.hand_over()
        change, slot.change = slot.change, None
        if change is not None:
            left.commands.append(change)
        left.commands += self._postponed.take_all()
        return left

    def drop(self) -> None:
        """Let go of the model after ``hand_over``, so that its memory is free."""
        self.slot.backend = None

    def abandon(self, kind: StopKind, cause: str | None) -> None:
        """End every answer, running or waiting, with what it has so far."""
        self._scheduler.abandon(kind, cause)

    def fail_readers(self, cause: str, why: EngineError) -> None:
        """End every answer with an error, because the engine thread is stuck. Any thread."""
        ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=cause)
        self._scheduler.close_all(ending, why)

    def refuse_the_rest(self, why: EngineError) -> None:
        """Drop requests that are being rendered, and refuse commands that were never carried out.

        Any thread, while the engine thread waits, is stuck, or has ended.
        """
        self._intake.cancel_all(why)
        self._embedding.refuse_all(why)
        left = self._postponed.take_all()
        change, self.slot.change = self.slot.change, None
        for command in [*left, *([] if change is None else [change])]:
            refuse(command, why)

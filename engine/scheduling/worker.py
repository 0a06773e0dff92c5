"""The engine thread: serves its inbox between steps, and steps the batch while there is work.

Everything that touches the model happens here. Between two decode steps (and between two chunks
of a long prompt) the inbox is served, so that a cancel waits at most one step.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, assert_never

from engine.errors import EngineClosed, EngineError, ModelLoadFailed, NoModel, QueueFull
from engine.inference.backend import Backend, Loader
from engine.inference.tuning import share_one_arena, work_in_long_turns
from engine.library.loading import LoadCancelled, LoadProgress
from engine.library.models import ModelInfo
from engine.scheduling.commands import (
    Cancel,
    Command,
    CountTokens,
    EngineStatus,
    Load,
    Rendered,
    RenderPrompt,
    Reply,
    RestAfter,
    RestNow,
    Shutdown,
    Submit,
    Tokenize,
    Unload,
)
from engine.scheduling.generation import Generation
from engine.scheduling.outbox import Outbox, settle
from engine.scheduling.preparing import Job, Preparation, Watch
from engine.scheduling.scheduler import Limits, Scheduler, cause_of, refusal
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage

_log = logging.getLogger(__name__)
# What needs the model, and so ends its rest.
_WAKING = (Submit, CountTokens, RenderPrompt, Tokenize)
_GLANCE_S = 0.05
# Characters of prompts that may be rendered, or wait for that, at the same time.
_MOST_PREPARED = 64_000_000
# How long commands are served between two steps, of which each may take longer.
_SERVING_S = 0.004


class EngineThread:
    """One run of the engine thread. Made by the service; ends by ``Shutdown`` or by dying.

    Args:
        limits: How much it takes on.
        loader: Loads a model folder; called on the thread.
        on_status: Told of every change of state (engine thread).
        leave: Frees what the libraries keep for a thread; called as the thread's last act.
    """

    def __init__(
        self,
        limits: Limits,
        loader: Loader,
        on_status: Callable[[EngineStatus], None],
        leave: Callable[[], None],
    ) -> None:
        self._limits = limits
        self._leave = leave
        self._loader = loader
        self._on_status = on_status
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self._is_lost = False
        self._is_given_up = threading.Event()
        # Held by whoever changes answers: the thread itself but while it waits for the model or
        # for work, and whoever gives it up.
        self._turn = threading.Lock()
        # Seen by a load, which may take long: who ends the program does not wait for it.
        self._is_ending = threading.Event()
        self._backend: Backend | None = None
        self._outbox = Outbox()
        self._scheduler = Scheduler(limits, self._outbox)
        self._model_change: Load | Unload | None = None
        # What was asked and not begun yet, and what waits for a change of model.
        self._asked: deque[Command] = deque()
        self._later: deque[Command] = deque()
        self._status = EngineStatus()
        self._rests_after_s: float | None = None
        self._rests_when_idle = False
        # The model that is read again when it is next needed; its memory is free meanwhile.
        self._resting: ModelInfo | None = None
        self._idle_since_s = time.monotonic()
        self._preparation = Preparation(limits.preparing_s)
        self._preparing: dict[Submit, Job] = {}
        # Since when this thread has been at a step or a command, loading aside; None while it
        # waits.
        self._busy_since_s: float | None = None
        self._watch = Watch(self._look)
        share_one_arena()
        self._thread = threading.Thread(target=self._run, name="fullstop-engine", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> bool:
        """Put a command into the inbox; False if the thread takes no more. Any thread."""
        with self._lock:
            if not self._is_open:
                return False
            if isinstance(command, Shutdown):
                self._is_ending.set()
            self._inbox.put(command)
            return True

    def join(self) -> None:
        """Wait until the thread has ended, or has been given up."""
        while self._thread.is_alive() and not self._is_given_up.is_set():
            self._thread.join(_GLANCE_S)

    def give_up(self, cause: str, patience_s: float) -> None:
        """End everything that is open with an error, and take no more. Any other thread.

        For the case that this thread may wait for ever for something outside of the process; for
        ``patience_s`` it may end its answers by itself.
        """
        with self._lock:
            self._is_open, self._is_lost = False, True
        self._is_ending.set()
        deadline_s = time.monotonic() + patience_s
        while not self._scheduler.is_idle and time.monotonic() < deadline_s:
            time.sleep(_GLANCE_S)
        has_turn = self._turn.acquire(timeout=_GLANCE_S)
        try:
            self._on_status(EngineStatus("failed", message=cause))
            if has_turn:
                self._end_all(StopKind.ERROR, cause)
            else:  # stuck in the midst of an answer
                why = EngineClosed(cause)
                stop = StopInfo(StopKind.ERROR)
                self._scheduler.close_all(Finished(stop, Usage(), Timing(), error=cause), why)
                self._refuse_the_rest(why)
            self._is_given_up.set()
        finally:
            if has_turn:
                self._turn.release()
        self._inbox.put(Shutdown())

    @property
    def is_stuck(self) -> bool:
        """Whether it was given up and has not come back. Any thread."""
        return self._is_lost and self._thread.is_alive()

    def _look(self) -> None:
        """End what takes too long (the watch's thread)."""
        self._preparation.look()
        since_s, most_s = self._busy_since_s, self._limits.stuck_after_s
        if since_s is not None and time.monotonic() - since_s > most_s:
            self.give_up(f"the model has not completed a step for {most_s:g} seconds", 0.0)

    # -- the loop --------------------------------------------------------------------------

    def _run(self) -> None:
        cause: str | None = None
        work_in_long_turns()
        try:
            while self._serve():
                self._busy_since_s = time.monotonic()
                backend, scheduler = self._backend, self._scheduler
                has_work = backend is not None and bool(scheduler.rows)
                outcome = scheduler.decoded(backend) if backend and has_work else None
                with self._turn:
                    if self._is_given_up.is_set():
                        break
                    if backend is not None:
                        if outcome is not None:
                            scheduler.take(backend, outcome)
                        scheduler.fill(backend)
                    if self._model_change is not None:
                        self._change_model()
                    self._publish()
                    self._flush()
                self._busy_since_s = None
        except BaseException as error:
            _log.exception("the engine thread died")
            cause = f"the engine stopped: {cause_of(error)}"
        finally:
            self._shut(cause)

    def _serve(self) -> bool:
        """Serve the inbox, waiting only if there is nothing else to do. False ends the thread.

        While answers are under way it returns to them after a short while, at the latest after
        one command that took long. Cancels go first.
        """
        begin_s = time.monotonic()
        while True:
            has_none = self._scheduler.is_idle and not self._asked
            is_idle = has_none and self._model_change is None and not self._preparing
            # Nothing can be done until a prompt has been rendered.
            is_waiting = is_idle or (has_none and bool(self._preparing))
            if is_waiting:
                # What the last command ended must be told before the long wait.
                with self._turn:
                    self._publish()
                    self._flush(is_forced=True)
            else:
                self._idle_since_s = time.monotonic()
                if not self._asked and self._inbox.empty():
                    return True  # cheaper than what ``get`` raises, once a step
            try:
                if not self._sort(is_waiting=is_waiting, most_s=None if is_idle else _GLANCE_S):
                    return False
            except queue.Empty:
                if is_idle:
                    with self._turn:
                        self._rest()
                return True
            if self._asked:
                self._busy_since_s = time.monotonic()
                with self._turn:
                    self._do(self._asked.popleft())
                self._busy_since_s = None
            self._idle_since_s = time.monotonic()
            if self._scheduler.rows and self._idle_since_s - begin_s > _SERVING_S:
                return True

    def _sort(self, *, is_waiting: bool, most_s: float | None) -> bool:
        """Carry out the inbox's cancels and put the rest in line; False for the end.

        Args:
            is_waiting: Whether to wait for a first command.
            most_s: How long; None until the model is to rest.

        Raises:
            queue.Empty: None came in that time.
        """
        wait_s = self._rest_due_s() if most_s is None else most_s
        first = [self._inbox.get(timeout=wait_s)] if is_waiting else []
        with self._turn:
            self._asked.extend(first)
            with contextlib.suppress(queue.Empty):
                while True:
                    self._asked.append(self._inbox.get_nowait())
            if any(isinstance(command, Shutdown) for command in self._asked):
                return False
            cancels = [command for command in self._asked if isinstance(command, Cancel)]
            if cancels:
                self._asked = deque(one for one in self._asked if not isinstance(one, Cancel))
                for cancel in cancels:
                    self._do(cancel)
        return True

    def _flush(self, *, is_forced: bool = False) -> None:
        for gone in self._outbox.flush(is_forced=is_forced):
            self._cancel(gone)

    def _do(self, command: Command) -> None:
        if self._model_change is not None and not isinstance(command, (Cancel, Rendered)):
            # What was asked after a change of model is meant for the new one.
            self._later.append(command)
            return
        if self._resting is not None and isinstance(command, _WAKING):
            self._wake(self._resting)
        match command:
            case Submit():
                self._rests_when_idle = False
                self._prepare(command)
            case Rendered():
                self._take_rendered(command)
            case Cancel():
                self._cancel(command.generation)
            case Load() | Unload():
                self._model_change = command
                if command.cancels_running and self._backend is not None:
                    self._scheduler.cancel_all(self._backend)
                    self._drop_all(EngineError("cancelled before it was taken"))
                self._change_model()
            case CountTokens():
                self._answer(command.reply, lambda b: len(b.render(command.request).tokens))
            case RenderPrompt():
                self._answer(command.reply, lambda b: _pieces(b, b.render(command.request).tokens))
            case Tokenize():
                self._answer(command.reply, lambda b: _pieces(b, b.tokenize(command.text)))
            case RestAfter():
                self._rests_after_s = command.idle_s
            case RestNow():
                self._rests_when_idle = self._backend is not None
            case Shutdown():
                raise AssertionError("served by the loop")
            case _:
                assert_never(command)

    def _prepare(self, command: Submit) -> None:
        """Have a request rendered beside this thread, or refuse it."""
        generations, backend = command.generations, self._backend
        if backend is None:
            settle(generations, self._no_model())
            return
        try:
            self._scheduler.check(backend, generations, self._being_prepared)
            held = sum(one.size for one in self._preparing)
            if held and held + command.size > _MOST_PREPARED:
                raise QueueFull(self._being_prepared)
        except Exception as error:
            settle(generations, refusal(error))
            return
        self._preparing[command] = self._preparation.render(
            backend,
            [one.request for one in generations],
            command.size,
            lambda outcome: self._send_rendered(Rendered(command, outcome)),
        )

    @property
    def _being_prepared(self) -> int:
        return sum(len(one.generations) for one in self._preparing)

    def _send_rendered(self, rendered: Rendered) -> None:
        """Hand rendered prompts to this thread; another thread's."""
        if not self.send(rendered):
            settle(rendered.request.generations, EngineClosed("the engine has been shut down"))

    def _take_rendered(self, rendered: Rendered) -> None:
        command, outcome = rendered.request, rendered.outcome
        if self._preparing.pop(command, None) is None or self._backend is None:
            return  # cancelled meanwhile
        if isinstance(outcome, BaseException):
            settle(command.generations, refusal(outcome))
        elif isinstance(outcome, tuple):
            self._scheduler.submit(self._backend, command.generations, outcome, command.at)

    def _drop(self, command: Submit, why: EngineError) -> None:
        self._preparing.pop(command).is_dropped = True
        settle(command.generations, why)

    def _drop_all(self, why: EngineError) -> None:
        for command in list(self._preparing):
            self._drop(command, why)

    def _cancel(self, generation: Generation) -> None:
        """End one answer; a request that has not been taken yet goes with all its choices."""
        why = EngineError("cancelled before it was taken")
        for command in self._preparing:
            if generation in command.generations:
                self._drop(command, why)
                return
        if self._backend is not None:
            self._scheduler.cancel(self._backend, generation)
        for line in (self._asked, self._later):
            for one in line:
                if isinstance(one, Submit) and generation in one.generations:
                    line.remove(one)
                    settle(one.generations, why)
                    return

    def _answer(self, reply: Reply, ask: Callable[[Backend], object]) -> None:
        """Answer beside this thread what touches no answer."""
        backend = self._backend
        if backend is None:
            reply.send(self._no_model())
        elif (waiting := self._preparation.asides) >= self._limits.max_waiting:
            reply.send(QueueFull(waiting))
        else:

            def done(outcome: object) -> None:
                is_error = isinstance(outcome, BaseException)
                reply.send(refusal(outcome) if is_error else outcome)  # type: ignore[arg-type]

            self._preparation.aside(lambda: ask(backend), done)

    def _no_model(self) -> NoModel:
        return NoModel(self._status.message or "no model is loaded")

    # -- models ----------------------------------------------------------------------------

    def _change_model(self) -> None:
        """Carry out the change of model that was asked for, once nothing runs any more."""
        change = self._model_change
        if isinstance(change, Load) and change.gives_up.is_set():
            self._model_change = None
            if change.reply is not None:
                change.reply.send(LoadCancelled())
            self._catch_up()
            change = self._model_change
        if change is None or not self._scheduler.is_idle or self._preparing:
            return
        self._model_change = None
        before = self._resting if self._backend is None else self._backend.info
        self._free()
        if isinstance(change, Unload):
            self._set_status(EngineStatus())
            change.reply.send(None)
        else:
            self._load(change, before)
        self._catch_up()

    def _catch_up(self) -> None:
        """Do what was asked for while a change of model was due."""
        while self._later and self._model_change is None:
            self._do(self._later.popleft())

    def _free(self) -> None:
        self._resting = None
        self._rests_when_idle = False
        if self._backend is not None:
            self._backend.close()
            self._backend = None

    def _rest_due_s(self) -> float | None:
        """Return in how many seconds the model's memory is to be freed; None for never."""
        if self._backend is not None and self._rests_when_idle:
            return 0.0
        if self._rests_after_s is None or self._backend is None:
            return None
        return max(0.0, self._idle_since_s + self._rests_after_s - time.monotonic())

    def _rest(self) -> None:
        if self._backend is not None:
            info = self._backend.info
            self._free()
            self._rest_as(info, "")

    def _rest_as(self, info: ModelInfo, why: str) -> None:
        self._resting = info
        self._set_status(EngineStatus("ready", info, message=why, is_resting=True))

    def _wake(self, info: ModelInfo) -> None:
        """Read the resting model again; where that fails, the next request tries it again."""
        self._load(Load(info.path, None, cancels_running=False), info, is_waking=True)

    def _load(
        self, command: Load, before: ModelInfo | None = None, *, is_waking: bool = False
    ) -> None:
        """Load a model; where that fails, the one before it is read again when it is needed.

        Args:
            command: What is to be loaded.
            before: The model that was there, whose memory is free by now.
            is_waking: Whether that one is to be read again: it stays the loaded model for
                everybody who asks meanwhile.
        """
        self._busy_since_s = None  # how long this takes is for whoever asked to judge
        self._resting = None
        awaking = before if is_waking else None
        loading = EngineStatus("loading", awaking, message=command.folder.name)
        self._set_status(loading)

        def on_progress(progress: LoadProgress) -> None:
            if command.gives_up.is_set() or self._is_ending.is_set():
                raise LoadCancelled
            self._set_status(replace(loading, loading=progress))

        limits = self._limits
        outcome: object
        try:
            self._backend = self._loader(
                command.folder,
                prefill_chunk=limits.prefill_chunk,
                cache_bytes=limits.prompt_cache_bytes,
                rows=limits.max_rows,
                on_progress=on_progress,
            )
        except LoadCancelled as cancelled:
            outcome = cancelled
            self._not_loaded(before, EngineStatus(message=str(cancelled)))
        except Exception as error:
            outcome = error if isinstance(error, EngineError) else ModelLoadFailed(cause_of(error))
            why = str(outcome)
            if is_waking and before is not None:
                why = f"{before.id} could not be read again: {why}. Try again"
            self._not_loaded(before, EngineStatus("failed", message=why))
        else:
            outcome = self._backend.info
            self._set_status(EngineStatus("ready", self._backend.info))
        if command.reply is not None:
            command.reply.send(outcome)

    def _not_loaded(self, before: ModelInfo | None, status: EngineStatus) -> None:
        if before is None or self._is_ending.is_set():
            self._set_status(status)
        else:
            self._rest_as(before, status.message)

    def _set_status(self, status: EngineStatus) -> None:
        self._status = status
        self._on_status(status)

    def _publish(self) -> None:
        """Tell of changed counts, only when they changed."""
        status = self._status
        running = len(self._scheduler.rows)
        waiting = len(self._scheduler.waiting) + self._being_prepared
        use = status.cache_use if self._backend is None else self._backend.cache_use
        if (running, waiting) != (status.running, status.waiting) or use is not status.cache_use:
            self._set_status(replace(status, running=running, waiting=waiting, cache_use=use))

    # -- the end ---------------------------------------------------------------------------

    def _shut(self, cause: str | None) -> None:
        """End everything that is open, so that nobody waits for a thread that is gone."""
        with self._lock:
            self._is_open = False
        with self._turn:
            is_given_up = self._is_given_up.is_set()
            if is_given_up:
                self._refuse_the_rest(EngineClosed("the engine has been given up"))
            else:
                self._end_all(StopKind.CANCELLED if cause is None else StopKind.ERROR, cause)
        if self._backend is not None:
            with contextlib.suppress(Exception):  # after a fault, freeing may fail as well
                self._backend.close()
        self._backend = None
        with contextlib.suppress(Exception):
            self._leave()  # a load that was broken off has used the libraries, too
        if not is_given_up:
            state: Literal["none", "failed"] = "none" if cause is None else "failed"
            self._on_status(EngineStatus(state, message=cause or ""))

    def _end_all(self, kind: StopKind, cause: str | None) -> None:
        self._scheduler.abandon(kind, cause)
        self._outbox.flush(is_forced=True)
        self._refuse_the_rest(EngineClosed(cause or "the engine has been shut down"))

    def _refuse_the_rest(self, why: EngineClosed) -> None:
        """Answer the commands that were never carried out."""
        self._watch.end()
        self._drop_all(why)
        self._preparation.close(why)
        left: list[Command] = [*self._later, *self._asked]
        if self._model_change is not None:
            left.append(self._model_change)
        with contextlib.suppress(queue.Empty):
            while True:
                left.append(self._inbox.get_nowait())
        for command in left:
            if isinstance(command, Submit):
                settle(command.generations, why)
            elif isinstance(command, Rendered):
                settle(command.request.generations, why)
            elif (
                isinstance(command, (Load, Unload, CountTokens, RenderPrompt, Tokenize))
                and command.reply
            ):
                command.reply.send(why)


def _pieces(backend: Backend, tokens: Sequence[int]) -> tuple[tuple[int, str], ...]:
    text_of = backend.vocabulary.text_of
    return tuple((token, text_of(token)) for token in tokens)

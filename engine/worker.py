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
from collections.abc import Callable
from dataclasses import dataclass
from typing import assert_never

from engine.admission import admit
from engine.backend import Backend, Loader, Step
from engine.commands import (
    Cancel,
    Command,
    CountTokens,
    EngineStatus,
    Load,
    Reply,
    Shutdown,
    Submit,
    Tokenize,
    Unload,
)
from engine.errors import (
    EngineClosed,
    EngineError,
    ModelLoadFailed,
    NoModel,
    QueueFull,
)
from engine.generation import Generation
from engine.outbox import Outbox, settle
from engine.row import Row, wanted_stats
from engine.stopping.record import StopKind

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the engine takes on at once.

    Attributes:
        max_rows: Answers that are generated together.
        max_waiting: Requests that may wait behind them; more are refused.
        prompt_cache_bytes: Most bytes kept of earlier prompts.
        prefill_chunk: Tokens of a prompt read between two decode steps.
    """

    max_rows: int = 32
    max_waiting: int = 256
    prompt_cache_bytes: int = 1 << 30
    prefill_chunk: int = 512


class EngineThread:
    """One run of the engine thread. Made by the service; ends by ``Shutdown`` or by dying.

    Args:
        limits: How much it takes on.
        loader: Loads a model folder; called on the thread.
        on_status: Told of every change of state (engine thread).
    """

    def __init__(
        self, limits: Limits, loader: Loader, on_status: Callable[[EngineStatus], None]
    ) -> None:
        self._limits = limits
        self._loader = loader
        self._on_status = on_status
        self._inbox: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._is_open = True
        self._backend: Backend | None = None
        self._rows: dict[int, Row] = {}
        self._waiting: deque[Row] = deque()
        self._model_change: Load | Unload | None = None
        self._later: deque[Command] = deque()
        self._outbox = Outbox()
        self._status = EngineStatus()
        self._thread = threading.Thread(target=self._run, name="fullstop-engine", daemon=True)
        self._thread.start()

    def send(self, command: Command) -> bool:
        """Put a command into the inbox; False if the thread takes no more. Any thread."""
        with self._lock:
            if not self._is_open:
                return False
            self._inbox.put(command)
            return True

    def join(self) -> None:
        """Wait until the thread has ended."""
        self._thread.join()

    # -- the loop --------------------------------------------------------------------------

    def _run(self) -> None:
        cause: str | None = None
        try:
            while self._serve():
                if self._rows:
                    self._step()
                self._fill()
                self._flush()
        except BaseException as error:
            _log.exception("the engine thread died")
            cause = f"the engine stopped: {type(error).__name__}: {error}"
        finally:
            self._shut(cause)

    def _serve(self) -> bool:
        """Serve the inbox, waiting only if there is nothing else to do. False ends the thread."""
        while True:
            is_idle = not (self._rows or self._waiting or self._model_change or self._later)
            if is_idle:
                # What the last command ended must be told before the long wait.
                self._publish()
                self._flush(is_forced=True)
            try:
                command = self._inbox.get(block=is_idle)
            except queue.Empty:
                return True
            if isinstance(command, Shutdown):
                return False
            self._do(command)

    def _flush(self, *, is_forced: bool = False) -> None:
        for gone in self._outbox.flush(is_forced=is_forced):
            self._cancel(gone)

    def _do(self, command: Command) -> None:
        if self._model_change is not None and not isinstance(command, Cancel):
            # What was asked after a change of model is meant for the new one.
            self._later.append(command)
            return
        match command:
            case Submit():
                self._submit(command)
            case Cancel():
                self._cancel(command.generation)
            case Load() | Unload():
                self._model_change = command
                if command.cancels_running:
                    self._end_all(StopKind.CANCELLED)
                self._change_model()
            case CountTokens():
                self._answer(command.reply, lambda b: len(b.render(command.request).tokens))
            case Tokenize():
                self._answer(command.reply, lambda b: _pieces(b, command.text))
            case Shutdown():
                raise AssertionError("served by the loop")
            case _:
                assert_never(command)

    def _answer(self, reply: Reply, ask: Callable[[Backend], object]) -> None:
        try:
            reply.send(ask(self._ready()))
        except Exception as error:
            reply.send(_refusal(error))

    def _ready(self) -> Backend:
        if self._backend is None:
            raise NoModel(self._status.message or "no model is loaded")
        return self._backend

    # -- requests --------------------------------------------------------------------------

    def _submit(self, command: Submit) -> None:
        generation = command.generation
        try:
            waiting = len(self._waiting)
            if waiting >= self._limits.max_waiting:
                raise QueueFull(waiting)
            row = admit(self._ready(), generation, command.at)
        except Exception as error:
            settle(generation, _refusal(error))
            return
        settle(generation, None)
        self._waiting.append(row)
        self._fill()

    def _fill(self) -> None:
        """Move waiting requests into the batch while there is room."""
        backend = self._backend
        while self._waiting and backend is not None and len(self._rows) < self._limits.max_rows:
            row = self._waiting.popleft()
            try:
                number, cached = backend.join(row.prompt, row.generation.request)
            except Exception as error:
                _log.exception("a request could not join the batch")
                self._finish(row, StopKind.ERROR, _cause(error))
                continue
            self._rows[number] = row
            self._outbox.put(row.generation, [row.joined(number, cached, time.perf_counter())])
        self._publish()

    def _cancel(self, generation: Generation) -> None:
        for row in (*self._rows.values(), *self._waiting):
            if row.generation is generation:
                self._withdraw(row)
                self._finish(row, StopKind.CANCELLED)
                return

    def _withdraw(self, row: Row) -> None:
        if row.number < 0:
            self._waiting.remove(row)
            return
        del self._rows[row.number]
        if self._backend is not None:
            try:
                self._backend.leave(row.number)
            except Exception as error:
                self._fail_batch(error)

    def _finish(self, row: Row, kind: StopKind, error: str | None = None) -> None:
        last = row.end(kind, time.perf_counter(), error)
        self._outbox.put(row.generation, last, is_urgent=True)

    def _end_all(self, kind: StopKind, error: str | None = None) -> None:
        for row in (*self._rows.values(), *self._waiting):
            if kind is StopKind.CANCELLED and row.number >= 0 and self._backend is not None:
                self._backend.leave(row.number)
            self._finish(row, kind, error)
        self._rows.clear()
        self._waiting.clear()

    # -- stepping --------------------------------------------------------------------------

    def _step(self) -> None:
        backend = self._backend
        assert backend is not None, "rows exist only while a model is loaded"
        try:
            step = backend.step()
        except Exception as error:
            self._fail_batch(error)
        else:
            self._spread(backend, step)
        if self._model_change is not None:
            self._change_model()

    def _spread(self, backend: Backend, step: Step) -> None:
        """Hand the tokens of one step to their rows and let go of those that ended."""
        now = time.perf_counter()
        rows = self._rows
        put = self._outbox.put
        stats = wanted_stats(backend, rows, step)
        for number, token_id, _ in step.sampled:
            row = rows.get(number)
            if row is None:
                continue
            stop = row.sampled(token_id, now, stats.get(number))
            if stop is not None:
                del rows[number]
                backend.leave(number)
                last = row.finish(stop, time.perf_counter())
                put(row.generation, [*row.take_events(), last], is_urgent=True)
            elif row.builder.events:
                put(row.generation, row.take_events(), is_urgent=row.builder.count == 1)
        for number, why in step.failed:
            row = rows.pop(number, None)
            if row is not None:
                backend.leave(number)
                self._finish(row, StopKind.ERROR, f"the answer could not be constrained: {why}")
        for number, tokens in step.read:
            row = rows.get(number)
            if row is not None:
                put(row.generation, [row.read(tokens)])

    def _fail_batch(self, error: Exception) -> None:
        """End the rows of a batch that failed; what waits behind them goes on."""
        _log.exception("a step of the batch failed", exc_info=error)
        for row in self._rows.values():
            self._finish(row, StopKind.ERROR, _cause(error))
        self._rows.clear()
        if self._backend is not None:
            self._backend.reset()

    # -- models ----------------------------------------------------------------------------

    def _change_model(self) -> None:
        """Carry out the change of model that was asked for, once nothing runs any more."""
        change = self._model_change
        if change is None or self._rows or self._waiting:
            return
        self._model_change = None
        if self._backend is not None:
            self._backend.close(ends_thread=False)
            self._backend = None
        if isinstance(change, Unload):
            self._set_status(EngineStatus())
            change.reply.send(None)
        else:
            self._load(change)
        while self._later and self._model_change is None:
            self._do(self._later.popleft())

    def _load(self, command: Load) -> None:
        self._set_status(EngineStatus("loading", message=command.folder.name))
        limits = self._limits
        try:
            self._backend = self._loader(
                command.folder,
                prefill_chunk=limits.prefill_chunk,
                cache_bytes=limits.prompt_cache_bytes,
                rows=limits.max_rows,
            )
        except Exception as error:
            failure = error if isinstance(error, EngineError) else ModelLoadFailed(_cause(error))
            self._set_status(EngineStatus("failed", message=str(failure)))
            if command.reply is not None:
                command.reply.send(failure)
            return
        self._set_status(EngineStatus("ready", self._backend.info))
        if command.reply is not None:
            command.reply.send(self._backend.info)

    def _set_status(self, status: EngineStatus) -> None:
        self._status = status
        self._on_status(status)

    def _publish(self) -> None:
        """Tell of changed counts, only when they changed."""
        status = self._status
        running, waiting = len(self._rows), len(self._waiting)
        if (running, waiting) != (status.running, status.waiting):
            self._set_status(
                EngineStatus(status.state, status.model, running, waiting, status.message)
            )

    # -- the end ---------------------------------------------------------------------------

    def _shut(self, cause: str | None) -> None:
        """End everything that is open, so that nobody waits for a thread that is gone."""
        with self._lock:
            self._is_open = False
        kind = StopKind.CANCELLED if cause is None else StopKind.ERROR
        for row in (*self._rows.values(), *self._waiting):
            self._finish(row, kind, cause)
        self._outbox.flush(is_forced=True)
        left = [self._model_change, *self._later] if self._model_change else [*self._later]
        while True:
            try:
                left.append(self._inbox.get_nowait())
            except queue.Empty:
                break
        refusal = EngineClosed(cause or "the engine has been shut down")
        for command in left:
            if isinstance(command, Submit):
                settle(command.generation, refusal)
            elif isinstance(command, (Load, Unload, CountTokens, Tokenize)) and command.reply:
                command.reply.send(refusal)
        if self._backend is not None:
            with contextlib.suppress(Exception):  # after a fault, freeing may fail as well
                self._backend.close(ends_thread=True)
        self._backend = None
        self._on_status(EngineStatus("none" if cause is None else "failed", message=cause or ""))


def _refusal(error: Exception) -> EngineError:
    """Return what to tell the caller; a fault of ours must not end the thread."""
    if isinstance(error, EngineError):
        return error
    _log.exception("a request could not be prepared", exc_info=error)
    return EngineError(f"the request could not be prepared: {_cause(error)}")


def _cause(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def _pieces(backend: Backend, text: str) -> tuple[tuple[int, str], ...]:
    vocabulary = backend.vocabulary
    return tuple((token, vocabulary.text_of(token)) for token in backend.tokenize(text))

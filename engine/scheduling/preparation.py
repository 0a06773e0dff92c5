"""Prepares prompts and grammars on threads beside the engine's, so that no answer waits. No MLX."""

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from engine.errors import EngineClosed, EngineError, InvalidRequest, QueueFull
from engine.grammar.masks import Form
from engine.inference.backend import Prompt
from engine.scheduling.generation import cause_of
from engine.values.request import GenerationRequest

if TYPE_CHECKING:
    from engine.grammar.form_compiler import FormCompiler
    from engine.inference.mlx_backend import MlxBackend

MAX_WAITING = 64
_log = logging.getLogger(__name__)
# A prompt of up to this many characters is tokenised in a few milliseconds.
_SHORT = 32_000
# A grammar that is slow to compile holds up few others.
_COMPILED_AT_ONCE = 4
_CLOSED = "the engine has been shut down"


@dataclass(slots=True, eq=False)
class Job:
    """One task for a prompt; its outcome is reported once."""

    work: Callable[[], object]
    done: Callable[[object], None]
    is_dropped: bool = False
    started_s: float | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_done: bool = False

    def run(self) -> None:
        """Do the task and report its outcome."""
        if self.is_dropped:
            return
        self.started_s = time.monotonic()
        outcome: object
        try:
            outcome = self.work()
        except Exception as error:
            outcome = error
        except BaseException as error:  # panics of native libraries are such exceptions
            outcome = EngineError(f"the prompt could not be read: {cause_of(error)}")
        self.finish(outcome)

    def finish(self, outcome: object) -> None:
        """Report the outcome, unless one was reported already."""
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
        self.done(outcome)


class _Lane:
    """One thread, its queue, and the deadline of each of its jobs."""

    def __init__(self, name: str, max_s: float) -> None:
        self._name = name
        self._max_s = max_s
        self._lock = threading.Lock()
        self._jobs: dict[Job, None] = {}
        self._pool = ThreadPoolExecutor(1, name)
        self._why_closed: EngineError | None = None

    def __len__(self) -> int:
        return len(self._jobs)

    def put(self, job: Job) -> None:
        with self._lock:
            if (why := self._why_closed) is None:
                self._jobs[job] = None
                self._pool.submit(self._run, job)
        if why is not None:
            job.finish(why)

    def _run(self, job: Job) -> None:
        job.run()
        with self._lock:
            self._jobs.pop(job, None)

    def check_deadline(self) -> None:
        """Refuse a job that takes too long; the others get a new thread."""
        with self._lock:
            job = next(iter(self._jobs), None)
            if job is None or job.started_s is None or self._why_closed is not None:
                return
            if time.monotonic() - job.started_s < self._max_s:
                return
            _log.error("a prompt takes too long; the others get a new thread")
            del self._jobs[job]
            self._pool.shutdown(wait=False, cancel_futures=True)
            self._pool = ThreadPoolExecutor(1, self._name)
            for waiting in self._jobs:
                self._pool.submit(self._run, waiting)
        job.finish(_too_long(self._max_s))

    def close(self, why: EngineError) -> None:
        with self._lock:
            self._why_closed = why
            jobs = list(self._jobs)
            self._jobs.clear()
            self._pool.shutdown(wait=False, cancel_futures=True)
        for job in jobs:
            job.finish(why)


class Preparation:
    """Renders and tokenises prompts for the model. Any thread.

    Three threads: short prompts wait neither for long ones nor for those that are only counted.
    """

    def __init__(self, max_s: float) -> None:
        self._short = _Lane("fullstop-prompts", max_s)
        self._long = _Lane("fullstop-long-prompts", max_s)
        self._asides = _Lane("fullstop-counting", max_s)

    def render(
        self,
        backend: "MlxBackend",
        requests: Sequence[GenerationRequest],
        size: int,
        done: Callable[[object], None],
    ) -> Job:
        """Render requests; call ``done`` with a tuple of their prompts, or with the error."""
        job = Job(lambda: _rendered(backend, requests), done)
        (self._short if size <= _SHORT else self._long).put(job)
        return job

    def aside(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        """Do work that no answer waits for."""
        self._asides.put(Job(work, done))

    @property
    def asides(self) -> int:
        """The number of such jobs that wait or run."""
        return len(self._asides)

    def check_deadlines(self) -> None:
        """Refuse jobs that take too long."""
        for lane in (self._short, self._long, self._asides):
            lane.check_deadline()

    def close(self, why: EngineError) -> None:
        """Refuse the jobs that wait, and end the threads."""
        for lane in (self._short, self._long, self._asides):
            lane.close(why)


def _rendered(backend: "MlxBackend", requests: Sequence[GenerationRequest]) -> tuple[Prompt, ...]:
    prompts = [backend.render(requests[0])]
    for before, request in pairwise(requests):
        prompts.append(prompts[-1] if _reads_as(before, request) else backend.render(request))
    return tuple(prompts)


def prompts_size(requests: Sequence[GenerationRequest]) -> int:
    """Return about how many characters or ids rendering these requests takes."""
    again = (_reads_as(before, request) for before, request in pairwise(requests))
    return _size(requests[0]) + sum(
        0 if is_same else _size(request)
        for request, is_same in zip(requests[1:], again, strict=True)
    )


def _size(request: GenerationRequest) -> int:
    expected = len(request.prediction or "")
    if request.prompt is not None:
        return expected + len(request.prompt)
    sizes = (len(message.content) + len(message.thinking or "") + 8 for message in request.messages)
    return expected + sum(sizes)


def choices_field(requests: Sequence[GenerationRequest]) -> str:
    """Return the field that asks for several answers: ``n``, or a list of prompts."""
    return (
        "n"
        if any(_reads_as(before, request) for before, request in pairwise(requests))
        else "prompt"
    )


def _reads_as(request: GenerationRequest, other: GenerationRequest) -> bool:
    """Return whether two requests share one prompt, as the choices of one request do."""
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


def _too_long(max_s: float) -> InvalidRequest:
    return InvalidRequest(
        "messages",
        f"the model's chat template took longer than {max_s:g} seconds and was ended; shorten "
        "the conversation, or use another model",
    )


class Forms:
    """The forms of one engine's answers, a few of which are compiled at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._why_closed: str | None = None
        # By the names of the models. Weak references, so that a model's memory can be freed.
        self._makers: dict[str | None, weakref.ref[FormCompiler]] = {}

    def maker(self, model: str | None = None) -> "FormCompiler | None":
        """Return the compiler of a model's forms; None if the model is not loaded.

        Args:
            model: Its name among several; None for the default one.
        """
        known = self._makers.get(model)
        return None if known is None else known()

    def learn(self, maker: "FormCompiler", model: str | None = None) -> None:
        """Note the compiler of a model's forms. Any thread."""
        self._makers[model] = weakref.ref(maker)

    async def prepared(self, maker: "FormCompiler", request: GenerationRequest) -> Form:
        """Return the form of an answer; cancelling the caller ends the wait.

        Raises:
            InvalidRequest: It cannot be compiled; the message names the field.
            QueueFull: Too many other forms wait to be compiled.
            EngineClosed: ``close`` was called.
        """
        future = self._submit(maker, request)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            raise EngineClosed(
                self._why_closed or _CLOSED
            ) from None  # by ``close``, which took it from the queue

    def close(self, why: str = _CLOSED) -> None:
        """Refuse waiting forms. The first reason is kept. Any thread."""
        with self._lock:
            self._why_closed = self._why_closed or why
            thread = self._thread
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, maker: "FormCompiler", request: GenerationRequest) -> "Future[Form]":
        with self._lock:
            if self._why_closed is not None:
                raise EngineClosed(self._why_closed)
            if self._waiting >= MAX_WAITING:
                raise QueueFull(self._waiting)
            if self._thread is None:
                self._thread = ThreadPoolExecutor(_COMPILED_AT_ONCE, "fullstop-grammars")
            self._waiting += 1
            future = self._thread.submit(maker.prepare, request)
        future.add_done_callback(self._leave)
        return future

    def _leave(self, _: "Future[Form]") -> None:
        with self._lock:
            self._waiting -= 1

"""What is prepared for requests on other threads, so that none delays a running answer.

Prompts are rendered and tokenised on three threads: one for short prompts, one for long prompts,
and one for prompts that are only counted or shown, so that short prompts never wait for the others.
A job that takes too long is ended. The forms of answers are compiled on a fourth. No MLX.
"""

import asyncio
import ctypes
import logging
import queue
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
    from engine.grammar.form_compiler import FormCompiler, GrammarHelper
    from engine.grammar.grammars import FormDraft
    from engine.inference.mlx_backend import MlxBackend

_log = logging.getLogger(__name__)
# A prompt of up to this many characters is tokenised in a few milliseconds.
_SHORT = 32_000


class TookTooLong(BaseException):
    """Raised inside a job that takes too long. No ``Exception``, because libraries catch those."""


@dataclass(slots=True, eq=False)
class Job:
    """One task for a prompt."""

    work: Callable[[], object]
    done: Callable[[object], None]
    is_dropped: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_done: bool = False

    def finish(self, outcome: object) -> None:
        """Report the outcome, unless one was reported already."""
        with self._lock:
            if self._is_done:
                return
            self._is_done = True
        self.done(outcome)


class _PromptThread:
    """One thread and the jobs in line for it."""

    def __init__(self, name: str, max_s: float) -> None:
        self._name = name
        self._max_s = max_s
        self.jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._began: tuple[Job, float] | None = None
        self._is_told = False
        self._why_closed: EngineError | None = None
        self._thread: threading.Thread | None = None

    def put(self, job: Job) -> None:
        with self._lock:
            if self._why_closed is not None:
                job.finish(self._why_closed)
                return
            self.jobs.put(job)
            if self._thread is None:
                self._start()

    def close(self, why: EngineError) -> None:
        with self._lock:
            self._why_closed = why
            began = self._began
        while not self.jobs.empty():
            try:
                job = self.jobs.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job.finish(why)
        if began is not None:
            began[0].finish(why)
        self.jobs.put(None)

    def look(self) -> None:
        """End a job that takes too long; a thread that cannot be interrupted is left behind."""
        with self._lock:
            thread, began = self._thread, self._began
            if thread is None or thread.ident is None or began is None:
                return
            job, began_s = began
            over_s = time.monotonic() - began_s - self._max_s
            if over_s < 0:
                return
            if not self._is_told:
                self._is_told = True
                ctypes.pythonapi.PyThreadState_SetAsyncExc(
                    ctypes.c_ulong(thread.ident), ctypes.py_object(TookTooLong)
                )
                return
            if over_s < self._max_s:
                return
            _log.error("a prompt's thread is stuck and is left behind")
            self._began = None
            self._start()
        job.finish(_too_long(self._max_s))

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                job = self.jobs.get()
                if job is None:
                    return
                self._do(job)
                if threading.current_thread() is not self._thread:
                    return
            except TookTooLong:
                continue  # the interruption came just after the job had ended

    def _do(self, job: Job) -> None:
        if job.is_dropped:
            return
        with self._lock:
            self._began, self._is_told = (job, time.monotonic()), False
        outcome: object
        try:
            outcome = job.work()
        except TookTooLong:
            outcome = _too_long(self._max_s)
        except Exception as error:
            outcome = error
        except BaseException as error:  # panics of native libraries are such exceptions
            outcome = EngineError(f"the prompt could not be read: {cause_of(error)}")
        finally:
            with self._lock:
                if self._began is not None and self._began[0] is job:
                    self._began = None
        job.finish(outcome)


class Preparation:
    """Prepares prompts for the model. Any thread."""

    def __init__(self, max_s: float) -> None:
        self._short = _PromptThread("fullstop-prompts", max_s)
        self._long = _PromptThread("fullstop-long-prompts", max_s)
        self._asides = _PromptThread("fullstop-counting", max_s)

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
        """How many such jobs wait."""
        return self._asides.jobs.qsize()

    def look(self) -> None:
        """End jobs that take too long."""
        for thread in (self._short, self._long, self._asides):
            thread.look()

    def close(self, why: EngineError) -> None:
        """Refuse the jobs that wait, and end the threads."""
        for thread in (self._short, self._long, self._asides):
            thread.close(why)


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


# A request whose schemas were prepared recently gets the form of its answer at once. Any other
# waits for one thread, which lets the trial process compile it first.

MAX_WAITING = 64
_CLOSED = "the engine has been shut down"


class Forms:
    """The forms of one engine's answers."""

    def __init__(self) -> None:
        # Tries grammars; made with the first one.
        self._helper: GrammarHelper | None = None
        self._lock = threading.Lock()
        self._thread: ThreadPoolExecutor | None = None
        self._waiting = 0
        self._why_closed: str | None = None
        # By the names of the models. Weak references, so that a model's memory can be freed.
        self._makers: dict[str | None, weakref.ref[FormCompiler]] = {}

    @property
    def helper(self) -> "GrammarHelper":
        """The helper that tries grammars."""
        with self._lock:
            return self._made_helper()

    def _made_helper(self) -> "GrammarHelper":
        if self._helper is None:
            from engine.grammar.form_compiler import GrammarHelper

            self._helper = GrammarHelper()
        return self._helper

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

    async def prepared(self, maker: "FormCompiler", draft: "FormDraft") -> Form:
        """Return the form of a draft; cancelling the caller ends the wait.

        Raises:
            InvalidRequest: It cannot be compiled; the message names the field.
            QueueFull: Too many other forms wait to be compiled.
            HelperUnavailable: The trial process does not start, or does not answer.
            EngineClosed: ``close`` was called.
        """
        form = maker.ready(draft)
        if form is not None:
            return form
        future = self._submit(maker, draft)
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
        """End the trial process and refuse waiting forms. The first reason is kept. Any thread."""
        with self._lock:
            why = self._why_closed = self._why_closed or why
            thread = self._thread
            helper = self._helper
        if helper is not None:
            helper.close(why)
        if thread is not None:
            thread.shutdown(wait=False, cancel_futures=True)

    def _submit(self, maker: "FormCompiler", draft: "FormDraft") -> "Future[Form]":
        with self._lock:
            if self._why_closed is not None:
                raise EngineClosed(self._why_closed)
            if self._waiting >= MAX_WAITING:
                raise QueueFull(self._waiting)
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1, "fullstop-grammars")
            self._waiting += 1
            future = self._thread.submit(maker.prepare, draft, self._made_helper())
        future.add_done_callback(self._leave)
        return future

    def _leave(self, _: "Future[Form]") -> None:
        with self._lock:
            self._waiting -= 1

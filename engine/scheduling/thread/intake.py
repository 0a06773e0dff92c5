"""Checks the requests from the inbox, and has them rendered on other threads for the scheduler.

Belongs to the engine thread.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, assert_never

from engine.errors import EngineError, QueueFull
from engine.inference.backend import Prompt
from engine.scheduling.generation import Generation
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import settle
from engine.scheduling.queue.failures import refusal
from engine.scheduling.queue.preparing import Job, Preparation
from engine.scheduling.queue.scheduler import Scheduler
from engine.scheduling.thread.commands import (
    CountTokens,
    Detokenize,
    Rendered,
    RenderPrompt,
    Submit,
    Tokenize,
    TokenTexts,
)
from engine.scheduling.thread.inbox import Inbox

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

# Most characters of prompts that are rendered, or wait for that, at the same time.
_MOST_PREPARED = 64_000_000

Question = CountTokens | RenderPrompt | Tokenize | Detokenize
"""A command that a model answers without a place in the batch."""


class Intake:
    """Requests that are being rendered, and questions that are being answered."""

    def __init__(
        self, limits: Limits, scheduler: Scheduler, inbox: Inbox, preparation: Preparation
    ) -> None:
        self._limits = limits
        self._scheduler = scheduler
        self._inbox = inbox
        self._preparation = preparation
        self._rendering: dict[Submit, Job] = {}

    @property
    def is_idle(self) -> bool:
        """Whether no request is being rendered."""
        return not self._rendering

    @property
    def choices(self) -> int:
        """How many answers the requests that are being rendered ask for."""
        return sum(len(one.generations) for one in self._rendering)

    def begin(self, backend: "MlxBackend", command: Submit) -> None:
        """Have a request rendered on another thread, or refuse it."""
        generations = command.generations
        try:
            self._scheduler.check(backend, generations, self.choices)
            held = sum(one.size for one in self._rendering)
            if held and held + command.size > _MOST_PREPARED:
                raise QueueFull(self.choices)
        except Exception as error:
            settle(generations, refusal(error))
            return
        self._rendering[command] = self._preparation.render(
            backend,
            [one.request for one in generations],
            command.size,
            lambda outcome: self._send_rendered(Rendered(command, outcome)),
        )

    def _send_rendered(self, rendered: Rendered) -> None:
        """Hand rendered prompts to the engine thread; called on another thread."""
        request = rendered.request
        if not self._inbox.send(rendered) and isinstance(request, Submit) and self.holds(request):
            settle(request.generations, self._inbox.why_closed)

    def finish(self, backend: "MlxBackend | None", rendered: Rendered) -> None:
        """Hand a rendered request to the scheduler, unless it was cancelled meanwhile.

        If files hold the beginning of its prompt, another thread reads them first.
        """
        command, outcome = rendered.request, rendered.outcome
        if not isinstance(command, Submit) or command not in self._rendering:
            return
        if isinstance(outcome, tuple) and backend is not None and not rendered.is_fetched:
            done = partial(self._send_fetched, command)
            if backend.fetch(outcome, done):
                return
        del self._rendering[command]
        if backend is None:
            return
        if isinstance(outcome, BaseException):
            settle(command.generations, refusal(outcome))
        elif isinstance(outcome, tuple):
            self._scheduler.submit(backend, command.generations, outcome, command.at)

    def _send_fetched(self, command: Submit, prompts: tuple[Prompt, ...]) -> None:
        self._send_rendered(Rendered(command, prompts, is_fetched=True))

    def cancel(self, generation: Generation, why: EngineError) -> bool:
        """Drop the request of a generation, with all its choices; False if it is not here."""
        for command in self._rendering:
            if generation in command.generations:
                self._drop(command, why)
                return True
        return False

    def hand_over(self) -> list[Submit]:
        """Give up the requests that are being rendered, for another thread; return them in order.

        Called on another thread, while the engine thread may touch no answer of this model.
        """
        jobs, self._rendering = self._rendering, {}
        for job in jobs.values():
            job.is_dropped = True
        return list(jobs)

    def cancel_all(self, why: EngineError) -> None:
        """Drop every request that is being rendered."""
        for command in list(self._rendering):
            self._drop(command, why)

    def _drop(self, command: Submit, why: EngineError) -> None:
        self._rendering.pop(command).is_dropped = True
        settle(command.generations, why)

    def answer(self, backend: "MlxBackend", question: Question) -> None:
        """Answer a question on another thread."""
        reply = question.reply
        if (waiting := self._preparation.asides) >= self._limits.max_waiting:
            reply.send(QueueFull(waiting))
            return

        def send(outcome: object) -> None:
            reply.send(refusal(outcome) if isinstance(outcome, BaseException) else outcome)

        self._preparation.aside(lambda: _answer(backend, question), send)

    def holds(self, request: object) -> bool:
        """Whether a request is being rendered here."""
        return request in self._rendering


def _answer(backend: "MlxBackend", question: Question) -> object:
    match question:
        case CountTokens():
            return len(backend.render(question.request).tokens)
        case RenderPrompt():
            return _pieces(backend, backend.render(question.request).tokens)
        case Tokenize():
            return _pieces(backend, backend.tokenize(question.text))
        case Detokenize():
            return backend.detokenize(question.ids)
        case _:
            assert_never(question)


def _pieces(backend: "MlxBackend", tokens: Sequence[int]) -> TokenTexts:
    text_of = backend.vocabulary.text_of
    return tuple((token, text_of(token)) for token in tokens)

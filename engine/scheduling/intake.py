"""Requests on their way to the batch: checked, rendered on other threads, or read as vectors."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, assert_never

from engine.errors import EngineError, QueueFull
from engine.inference.backend import Prompt
from engine.scheduling.generation import Generation
from engine.scheduling.inbox import (
    CountTokens,
    Detokenize,
    Embed,
    Inbox,
    Rendered,
    RenderPrompt,
    Submit,
    Tokenize,
    TokenTexts,
)
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import refusal, settle
from engine.scheduling.prompt_rendering import Job, Preparation
from engine.scheduling.scheduler import Scheduler
from engine.values.request import Embeddings, Vector

# Checks the requests from the inbox, and has them rendered on other threads for the scheduler.
#
# Belongs to the engine thread.

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


# The texts that become vectors beside one model's answers: they wait, are tokenised, and are
# read.
#
# Requests take turns, a short while each, between two steps of the batch. Engine thread, except
# where a method says otherwise. No MLX.


_Found = Sequence[tuple[int, Vector]]


class _Reading:
    """A request that is being read."""

    def __init__(
        self, command: Embed, texts: Sequence[Sequence[int]], parts: Iterator[_Found]
    ) -> None:
        self.command = command
        self._parts = parts
        self._tokens = tuple(len(one) for one in texts)
        self._vectors: dict[int, Vector] = {}

    def advance(self) -> Embeddings | None:
        """Read a part; return all vectors once they are complete."""
        self._vectors.update(next(self._parts))
        if len(self._vectors) < len(self._tokens):
            return None
        vectors = tuple(self._vectors[place] for place in range(len(self._tokens)))
        return Embeddings(vectors, self._tokens)


class EmbeddingQueue:
    """The requests for vectors of one model."""

    def __init__(
        self, limits: Limits, preparation: Preparation, send: Callable[[Rendered], object]
    ) -> None:
        self._limits = limits
        self._preparation = preparation
        self._send = send
        # In order of arrival; the value of a request is None until it is tokenised.
        self._requests: dict[Embed, _Reading | None] = {}
        self._turns: deque[Embed] = deque()

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def is_due(self) -> bool:
        """Whether there is anything to read."""
        return bool(self._turns)

    def holds(self, command: object) -> bool:
        """Whether a request is here."""
        return command in self._requests

    def begin(self, backend: "MlxBackend", command: Embed) -> None:
        """Have the texts of a request tokenised on another thread, or refuse it."""
        waiting = len(self._requests)
        if waiting >= self._limits.max_waiting:
            command.reply.send(QueueFull(waiting))
            return
        self._requests[command] = None
        self._preparation.aside(
            lambda: backend.embedding_texts(command.request),
            lambda outcome: self._send_tokenised(Rendered(command, outcome)),
        )

    def _send_tokenised(self, rendered: Rendered) -> None:
        """Hand the tokens to the engine thread; one that has ended has refused the request."""
        self._send(rendered)

    def finish(
        self,
        backend: "MlxBackend | None",
        rendered: Rendered,
        most_tokens: Callable[["MlxBackend", int], int],
    ) -> None:
        """Let a tokenised request be read."""
        command, outcome = rendered.request, rendered.outcome
        if not isinstance(command, Embed) or command not in self._requests:
            return
        if command.gives_up.is_set() or backend is None:
            self._drop(command)
        elif isinstance(outcome, BaseException):
            self._drop(command, refusal(outcome))
        elif isinstance(outcome, list):
            try:
                most = most_tokens(backend, max(map(len, outcome)))
                parts = backend.embed(outcome, command.request.dimensions, most)
            except BaseException as error:
                self._drop(command, refusal(error))
                return
            self._requests[command] = _Reading(command, outcome, parts)
            self._turns.append(command)

    def read(self) -> None:
        """Read a part of the request whose turn it is."""
        while self._turns:
            command = self._turns.popleft()
            reading = self._requests.get(command)
            if reading is None or command.gives_up.is_set():
                self._drop(command)
                continue
            try:
                found = reading.advance()
            except BaseException as error:
                self._drop(command, refusal(error))
                return
            if found is None:
                self._turns.append(command)
            else:
                self._requests.pop(command, None)
                command.reply.send(found)
            return

    def _drop(self, command: Embed, why: EngineError | None = None) -> None:
        self._requests.pop(command, None)
        if why is not None:
            command.reply.send(why)

    def hand_over(self) -> list[Embed]:
        """Give up all requests, for another thread; return them in order. Any thread."""
        commands = list(self._requests)
        self._requests.clear()
        self._turns.clear()
        return commands

    def refuse_all(self, why: EngineError) -> None:
        """Refuse every request. Any thread, as for ``Lane.refuse_the_rest``."""
        for command in self.hand_over():
            command.reply.send(why)

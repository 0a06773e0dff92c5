"""The texts that become vectors beside one model's answers: they wait, are tokenised, and are read.

Requests take turns, a short while each, between two steps of the batch. Engine thread, except where
a method says otherwise. No MLX.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from engine.errors import EngineError, QueueFull
from engine.scheduling.limits import Limits
from engine.scheduling.queue.failures import refusal
from engine.scheduling.queue.preparing import Preparation
from engine.scheduling.thread.commands import Embed, Rendered
from engine.values.request import Embeddings, Vector

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend

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

"""The texts that become vectors beside one model's answers: they are tokenised, and read in turn.

Requests are read a short while each, between two steps of the batch. Engine thread, except where a
method says otherwise. No MLX.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

from engine.errors import EngineError, QueueFull
from engine.scheduling.inbox import Embed, Inbox, Rendered
from engine.scheduling.limits import Limits
from engine.scheduling.outbox import refusal
from engine.scheduling.prompt_rendering import Preparation
from engine.values.request import Embeddings, Vector

if TYPE_CHECKING:
    from engine.inference.mlx_backend import MlxBackend


class EmbeddingQueue:
    """The requests for vectors of one model."""

    def __init__(
        self,
        backend: "MlxBackend",
        limits: Limits,
        preparation: Preparation,
        inbox: Inbox,
    ) -> None:
        self._backend = backend
        self._limits = limits
        self._preparation = preparation
        self._inbox = inbox
        # In order of arrival; the value of a request is None until it is tokenised.
        self._requests: dict[Embed, Iterator[Embeddings | None] | None] = {}
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

    def begin(self, command: Embed) -> None:
        """Have the texts of a request tokenised on another thread, or refuse it."""
        waiting = len(self._requests)
        if waiting >= self._limits.max_waiting:
            command.reply.send(QueueFull(waiting))
            return
        self._requests[command] = None

        def send(outcome: object) -> None:
            self._inbox.send(Rendered(command, outcome))  # one that is closed has refused it

        texts = partial(self._backend.embedding_texts, command.request)
        self._preparation.aside(texts, send)

    def finish(self, command: Embed, outcome: object, max_tokens: Callable[[int], int]) -> None:
        """Let a tokenised request be read."""
        if command not in self._requests:
            return
        if command.gives_up.is_set():
            del self._requests[command]
        elif isinstance(outcome, BaseException):
            self._refuse(command, outcome)
        elif isinstance(outcome, list):
            try:
                limit = max_tokens(max(map(len, outcome)))
                parts = self._backend.embed(outcome, command.request.dimensions, limit)
            except BaseException as error:
                self._refuse(command, error)
                return
            self._requests[command] = _embeddings(outcome, parts)
            self._turns.append(command)

    def read(self) -> None:
        """Read a part of the request whose turn it is."""
        while self._turns:
            command = self._turns.popleft()
            reading = self._requests.get(command)
            if reading is None or command.gives_up.is_set():
                self._requests.pop(command, None)
                continue
            try:
                embeddings = next(reading)
            except BaseException as error:
                self._refuse(command, error)
                return
            if embeddings is None:
                self._turns.append(command)
            else:
                self._requests.pop(command, None)
                command.reply.send(embeddings)
            return

    def _refuse(self, command: Embed, why: BaseException) -> None:
        self._requests.pop(command, None)
        command.reply.send(refusal(why))

    def hand_over(self) -> list[Embed]:
        """Give up all requests, for another thread; return them in order. Any thread."""
        commands = list(self._requests)
        self._requests.clear()
        self._turns.clear()
        return commands

    def refuse_all(self, why: EngineError) -> None:
        """Refuse every request. Any thread."""
        for command in self.hand_over():
            command.reply.send(why)


def _embeddings(
    texts: Sequence[Sequence[int]], parts: Iterator[Sequence[tuple[int, Vector]]]
) -> Iterator[Embeddings | None]:
    """Read a part with each item; yield all vectors once they are complete."""
    vectors: dict[int, Vector] = {}
    for part in parts:
        vectors.update(part)
        if len(vectors) == len(texts):
            yield Embeddings(
                tuple(vectors[place] for place in range(len(texts))), tuple(map(len, texts))
            )
        else:
            yield None

"""A prompt as the model would read it, and its parts. Pure values; any thread."""

from dataclasses import dataclass
from typing import NamedTuple

from engine.values.events import PromptPart


class Part(NamedTuple):
    """The text of one part of a request, from ``start`` to ``end`` in characters.

    ``message`` counts from 1, without system texts; 0 for these and for tools. ``field`` is its
    name in the request, such as ``messages.1.content``.
    """

    kind: PromptPart
    message: int
    role: str
    start: int
    end: int
    field: str

    @property
    def key(self) -> tuple[PromptPart, int]:
        return self.kind, self.message


@dataclass(frozen=True, slots=True)
class UnansweredPrompt:
    """A prompt that is not answered.

    Attributes:
        pieces: The text of each token; together they are the prompt.
        not_applied: Options and fields of the request without effect on this model.
        missing: Parts of the request that are in no part of the prompt.
        parts: The others at their places in the joined pieces, in order; empty if none is known.
    """

    tokens: list[int]
    text: str
    pieces: tuple[str, ...]
    not_applied: tuple[str, ...]
    missing: tuple[str, ...]
    parts: tuple[Part, ...]

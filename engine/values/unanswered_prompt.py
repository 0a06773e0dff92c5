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


class PictureTokens(NamedTuple):
    """A picture's tokens in a prompt.

    Attributes:
        picture: Its number among the pictures of the request, from 0.
        first: The index of its first token.
        last: The index of its last one; the tower's breaks between rows are among them.
        tokens: How many of them the model reads the picture from.
        grid: Rows and columns, where positions have three dimensions.
        positions: Those of the first and the last token in time, height and width; None where a
            position is the token's index.
    """

    picture: int
    first: int
    last: int
    tokens: int
    grid: tuple[int, int] | None = None
    positions: tuple[tuple[int, ...], tuple[int, ...]] | None = None


@dataclass(frozen=True, slots=True)
class UnansweredPrompt:
    """A prompt that is not answered.

    Attributes:
        pieces: The text of each token; together they are the prompt.
        not_applied: Options and fields of the request without effect on this model.
        missing: Parts of the request that are in no part of the prompt.
        parts: The others at their places in the joined pieces, in order; empty if none is known.
        pictures: The tokens of its pictures, in order.
        marked: With pictures, the text with the model's own mark for each, as a raw prompt has it.
    """

    tokens: list[int]
    text: str
    pieces: tuple[str, ...]
    not_applied: tuple[str, ...]
    missing: tuple[str, ...]
    parts: tuple[Part, ...]
    pictures: tuple[PictureTokens, ...] = ()
    marked: str = ""

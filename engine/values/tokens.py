"""Single tokens of an answer and of a prompt: text, likelihood, origin.

Pure values; any thread.
"""

from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class TokenStats:
    """How likely a sampled token was, from the model's log-probabilities (natural logarithm).

    Attributes:
        rank: 0 for the most likely token.
        eos_probability: Probability, from 0 to 1, that the answer would have ended here.
    """

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]
    eos_probability: float


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """The text of an answer that one token stands for.

    Text of a stop that was cut, of a tag or of a tool call is in no span. A character whose bytes
    come from several tokens is in the text of the last of them; each has its own bytes.

    Attributes:
        index: The token's index, from 0 over the generated tokens.
        channel: Text or thinking; a token that is in both has a span in each.
        start: Code points of that channel's text before it.
    """

    index: int
    token_id: int
    channel: Channel
    start: int
    text: str
    raw: bytes
    stats: TokenStats | None

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class TokenOrigin(StrEnum):
    """How a token was found: sampled, or drafted by a source and accepted by the model.

    Whatever the origin, it is the token that the model would have sampled without drafts. Tokens of
    ``BUDGET`` are not drafts: they end reasoning whose budget is used up. Nor are those of
    ``CHOSEN``: at them, a fork leaves an earlier answer.
    """

    SAMPLED = "sampled"
    LOOKUP = "lookup"
    PREDICTION = "prediction"
    DRAFT = "draft"
    HEAD = "head"
    FORCED = "forced"
    BUDGET = "budget"
    CHOSEN = "chosen"


@dataclass(frozen=True, slots=True)
class PromptScoring:
    """Which tokens of a prompt are scored, and with which figures.

    A token's score comes from reading the tokens before it. So the model reads the prompt from the
    token before ``start`` on, even if a cache contains it.

    Attributes:
        start: The first token that is scored. Token 0 has no score, because nothing precedes it.
        top: How many of the likeliest tokens to list at each place.
    """

    start: int = 0
    top: int = 0


class PromptToken(NamedTuple):
    """A token of a prompt and its score; see ``TokenStats``. The first token has none."""

    token_id: int
    logprob: float | None
    rank: int | None
    top: tuple[tuple[int, float], ...]


@dataclass(frozen=True, slots=True)
class PromptScores:
    """The scores of consecutive tokens of a prompt, as plain arrays because prompts are long.

    The events of a generation come in the order of the tokens, without gaps.

    Attributes:
        start: The index of the first of them in the prompt.
        logprobs: One of each token, as ``ranks``; both are empty for the first token of a prompt.
        top_ids: The same number for each token, best first.
    """

    start: int
    token_ids: tuple[int, ...]
    logprobs: "array[float]" = field(default_factory=lambda: array("f"))
    ranks: "array[int]" = field(default_factory=lambda: array("i"))
    top_ids: "array[int]" = field(default_factory=lambda: array("i"))
    top_logprobs: "array[float]" = field(default_factory=lambda: array("f"))

    def __len__(self) -> int:
        return len(self.token_ids)

    def tokens(self) -> Iterator[PromptToken]:
        if not self.logprobs:
            yield from (PromptToken(number, None, None, ()) for number in self.token_ids)
            return
        top = len(self.top_ids) // len(self.token_ids)
        for index, token_id in enumerate(self.token_ids):
            best = slice(index * top, (index + 1) * top)
            yield PromptToken(
                token_id,
                self.logprobs[index],
                self.ranks[index],
                tuple(zip(self.top_ids[best], self.top_logprobs[best], strict=True)),
            )


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where an answer has another token than the plain loop.

    The logit of the expected token is higher by ``distance``; in a near tie, rounding alone may
    have decided.
    """

    index: int
    token_id: int
    expected_id: int
    distance: float
    is_near_tie: bool


@dataclass(frozen=True, slots=True)
class Comparison:
    """A greedy answer beside the plain loop, which goes on with the answer's own tokens."""

    tokens: int
    near_ties: int
    differences: tuple[Difference, ...]

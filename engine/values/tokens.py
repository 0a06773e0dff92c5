"""What is known about a single token of an answer: its text, its likelihood, its origin.

Pure values; made on the engine thread, read on any.
"""

from dataclasses import dataclass
from enum import StrEnum

from engine.stopping.record import Channel


@dataclass(frozen=True, slots=True)
class TokenStats:
    """How likely a sampled token was, from the model's log-probabilities (natural logarithm).

    Attributes:
        logprob: The log-probability of the token itself.
        rank: 0 for the most likely token.
        top: The most likely tokens with their log-probabilities, best first.
        eos_probability: Probability, from 0 to 1, that the answer would have ended here.
        chosen: The ids that the request chose, with their log-probabilities.
    """

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]
    eos_probability: float
    chosen: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """The text of an answer that one token stands for.

    Text of a stop that was cut, of a tag or of a tool call is in no span. A character whose bytes
    come from several tokens is in the text of the last of them; each has its own bytes.

    Attributes:
        index: The token's index, from 0 over the generated tokens.
        token_id: Its id.
        channel: Text or thinking; a token that is in both has a span in each.
        start: Code points of that channel's text before it.
        text: Its text there; empty while a character is incomplete.
        raw: Its bytes there.
        token_raw: All bytes of the token.
        stats: How likely the token was.
    """

    index: int
    token_id: int
    channel: Channel
    start: int
    text: str
    raw: bytes
    token_raw: bytes
    stats: TokenStats | None

    @property
    def end(self) -> int:
        """Code points of the channel's text up to the end of the span."""
        return self.start + len(self.text)


class TokenOrigin(StrEnum):
    """How a token was found: drawn by itself, or guessed by a source and confirmed by the model.

    Whatever the origin, it is the token that the model would have drawn without guesses. Tokens of
    ``BUDGET`` are not guesses: they end reasoning whose budget is used up.
    """

    SAMPLED = "sampled"
    LOOKUP = "lookup"
    PREDICTION = "prediction"
    DRAFT = "draft"
    FORCED = "forced"
    BUDGET = "budget"

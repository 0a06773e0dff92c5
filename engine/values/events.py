"""What a generation tells its reader: a closed union of events that ends in one ``Finished``.

Pure values; made on the engine thread, read on any.
"""

from dataclasses import dataclass

from engine.stopping.record import Channel, StopInfo
from engine.values.chat import ToolCall
from engine.values.sources import Source


@dataclass(frozen=True, slots=True)
class PromptProgress:
    """The prompt has been read up to here (tokens; ``cached`` of them needed no work)."""

    processed: int
    total: int
    cached: int


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingDelta:
    """More text of the reasoning that precedes the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ToolCallDelta:
    """A complete call, the ``index``-th of this answer.

    ``raw`` is the model's own text; where one text held several calls, the first has it.
    """

    index: int
    call: ToolCall
    raw: str = ""


@dataclass(frozen=True, slots=True)
class TokenStats:
    """How likely a sampled token was, from the model's log-probabilities (natural logarithm).

    Attributes:
        logprob: Of the token itself.
        rank: 0 for the most likely token.
        top: The most likely tokens with their log-probabilities, best first.
        eos_probability: Probability, from 0 to 1, that the answer would have ended here.
    """

    logprob: float
    rank: int
    top: tuple[tuple[int, float], ...]
    eos_probability: float


@dataclass(frozen=True, slots=True)
class TokenTrace:
    """One sampled token and what became of it.

    Attributes:
        index: From 0 over the generated tokens.
        token_id: Its id.
        piece: The text it completed (empty while a character is incomplete, and for tags).
        raw: Its bytes.
        channel: The channel it belongs to; a tag belongs to what it opens or closes.
        time_s: Seconds since the request was submitted.
        released: Characters that went out to the reader on this token.
        held: Text held back after it.
        progress: For each stop string, how many of its first characters the text ends with.
        special: Its text, if it is a special token (whose text is no part of an answer).
        stats: How likely it was; at trace level ``full`` only.
        is_structure: Whether none of its bytes is text: an EOS, a stop by id, a tag.
        sources: The tokens whose text went out with the answer's on this one; at trace level
            ``full`` only.
        waiting: The earliest token whose text may still go out; None if there is none.
    """

    index: int
    token_id: int
    piece: str
    raw: bytes
    channel: Channel
    time_s: float
    released: int
    held: str
    progress: tuple[int, ...]
    special: str | None = None
    stats: TokenStats | None = None
    is_structure: bool = False
    sources: tuple[Source, ...] = ()
    waiting: int | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of one generation.

    Attributes:
        prompt_tokens: All tokens of the prompt, cached ones included.
        cached_tokens: Those of them that the prompt cache held.
        output_tokens: All sampled tokens, those of the stop and EOS included.
        thinking_tokens: Those of them that were reasoning.
    """

    prompt_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    thinking_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one generation, in seconds.

    Attributes:
        queued_s: From submission to the start of prefill.
        prefill_s: Reading the prompt, up to the first sampled token.
        first_token_s: From submission to the first sampled token; None if there was none.
        decode_s: From the first sampled token to the last.
        total_s: From submission to the end.
    """

    queued_s: float = 0.0
    prefill_s: float = 0.0
    first_token_s: float | None = None
    decode_s: float = 0.0
    total_s: float = 0.0


def tokens_per_s(usage: Usage, timing: Timing) -> float | None:
    """Return the decoding speed, or None where fewer than two tokens were sampled."""
    if usage.output_tokens < 2 or timing.decode_s <= 0:
        return None
    return (usage.output_tokens - 1) / timing.decode_s


@dataclass(frozen=True, slots=True)
class Finished:
    """The last event of every generation, whatever happened.

    Attributes:
        stop: Why it ended.
        usage: Token counts.
        timing: Durations.
        error: For kind ``error``, the cause in words; else None.
        unfinished_tool_call: Raw text of a tool call that was cut short, else empty.
        residue: Text that appeared only when the last characters were finalised.
    """

    stop: StopInfo
    usage: Usage
    timing: Timing
    error: str | None = None
    unfinished_tool_call: str = ""
    residue: str = ""


Event = PromptProgress | TextDelta | ThinkingDelta | ToolCallDelta | TokenTrace | Finished

"""What the window says about an answer's end: one verdict per stop kind, in plain words.

Renders the engine's record and decides nothing. Pure; knows no Qt. Any thread.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from engine.events import Finished, Timing, Usage, tokens_per_s
from engine.stopping.record import Channel, StopInfo, StopKind
from ui.visible import quoted


class Tone(StrEnum):
    """How a state of an answer looks: each has a colour of its own in the theme."""

    MATCH = "match"
    DONE = "done"
    LIMIT = "limit"
    TOOL = "tool"
    QUIET = "quiet"
    FAULT = "fault"
    BUSY = "busy"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an answer ended, said for a person.

    Attributes:
        icon: Name of the icon.
        tone: How it looks.
        word: A few words, for the line under the answer.
        sentence: One plain sentence.
        detail: Where and on which token, what to do about it; may be empty.
    """

    icon: str
    tone: Tone
    word: str
    sentence: str
    detail: str


def verdict(finished: Finished, max_tokens: int | None = None) -> Verdict:
    """Return the verdict on a finished answer.

    Args:
        finished: The engine's last event.
        max_tokens: The limit that the request had, if any.
    """
    stop = finished.stop
    where = _where(stop, max_tokens)
    match stop.kind:
        case StopKind.EOS:
            token = f" ({quoted(stop.token_text)})" if stop.token_text else ""
            detail = f"It chose its end token{token}, so nothing was cut off."
            return Verdict("check", Tone.DONE, "Ended by the model", _ENDED, detail)
        case StopKind.STOP_STRING:
            name = quoted(str(stop.value))
            return Verdict(
                "stop-match",
                Tone.MATCH,
                f"Stopped by {name}",
                f"Your stop sequence {name} ended this answer.",
                where,
            )
        case StopKind.STOP_TOKEN:
            token = f" ({quoted(stop.token_text)})" if stop.token_text else ""
            return Verdict(
                "stop-match",
                Tone.MATCH,
                f"Stopped by token {stop.value}",
                f"The stop token {stop.value}{token} ended this answer.",
                where,
            )
        case StopKind.MAX_TOKENS:
            limit = finished.usage.output_tokens if max_tokens is None else max_tokens
            return Verdict(
                "limit",
                Tone.LIMIT,
                f"Cut off at {_count(limit, 'token')}",
                f"The answer reached its limit of {_count(limit, 'token')}.",
                "Raise the limit in the conversation settings to let it go on.",
            )
        case StopKind.CONTEXT_FULL:
            total = finished.usage.prompt_tokens + finished.usage.output_tokens
            return Verdict(
                "limit",
                Tone.LIMIT,
                "Context full",
                "The conversation fills the model’s context.",
                f"Prompt and answer came to {_count(total, 'token')}. Start a new conversation "
                "to go on.",
            )
        case StopKind.TOOL_CALL:
            return Verdict(
                "tool",
                Tone.TOOL,
                "Called a tool",
                "The model called a tool and waits for its result.",
                "",
            )
        case StopKind.CANCELLED:
            return Verdict(
                "cancelled",
                Tone.QUIET,
                "Stopped by you",
                "You stopped this answer.",
                "The text up to that point is kept.",
            )
        case StopKind.ERROR:
            cause = finished.error or "The engine gave no cause."
            word = f"Failed: {finished.error}" if finished.error else "Failed"
            return Verdict("fault", Tone.FAULT, word, "This answer failed.", cause)
        case _:
            assert_never(stop.kind)


def position(stop: StopInfo, output_tokens: int, max_tokens: int | None) -> str:
    """Return which token ended the answer, of how many: ``token 11 of at most 512``."""
    number = output_tokens if stop.token_index is None else stop.token_index + 1
    if not number:
        return "before the first token"
    return f"token {number}" if max_tokens is None else f"token {number} of at most {max_tokens}"


def channel_name(channel: Channel) -> str:
    """Return the part of the output in plain words."""
    names = {Channel.TEXT: "answer", Channel.THINKING: "thinking", Channel.TOOL: "tool call"}
    return names[channel]


def answer_figures(usage: Usage, timing: Timing) -> list[str]:
    """Return the figures that stand before the reason: speed, first token, tokens."""
    figures: list[str] = []
    speed = tokens_per_s(usage, timing)
    if speed is not None:
        figures.append(f"{figure(speed)} tok/s")
    if timing.first_token_s is not None:
        figures.append(f"{seconds(timing.first_token_s)} to first token")
    figures.append(_count(usage.output_tokens, "token"))
    return figures


def answer_line(finished: Finished, max_tokens: int | None = None) -> str:
    """Return the line under an answer: figures, then the reason by name."""
    parts = answer_figures(finished.usage, finished.timing)
    return " · ".join([*parts, verdict(finished, max_tokens).word])


def figure(value: float) -> str:
    """Return a number with as many digits as help: 0.42, 4.2, 42, 1,204."""
    if value >= 10:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 1 else f"{value:.2f}"


def seconds(duration_s: float) -> str:
    """Return a duration: ``8 ms``, ``0.38 s``, ``12.4 s``, ``2 min 5 s``."""
    if duration_s < 0.0995:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 9.995:
        return f"{duration_s:.2f} s"
    if duration_s < 60:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    return f"{minutes} min {rest} s"


INTERRUPTED_SENTENCE = "This answer was interrupted."
INTERRUPTED_DETAIL = (
    "Fullstop ended before the answer did. What had arrived is kept; at most the last second is "
    "missing."
)

_ENDED = "The model finished its answer by itself."


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _where(stop: StopInfo, max_tokens: int | None) -> str:
    if stop.token_index is None:
        return ""
    limit = "" if max_tokens is None else f" of at most {max_tokens}"
    return (
        f"It began after {_count(stop.text_offset, 'character')} of the "
        f"{channel_name(stop.channel)} and was complete with token "
        f"{stop.token_index + 1:,}{limit}."
    )

"""What the window says about an answer's end: one verdict per stop kind, in plain words.

Renders the engine's record and decides nothing. Pure; knows no Qt. Any thread.
"""

import re
from dataclasses import dataclass
from typing import assert_never

from engine import Channel, Finished, StopInfo, StopKind, counted, figures
from ui.words.tones import Tone
from ui.words.visible import quoted


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
                f"Cut off at {counted(limit, 'token')}",
                f"The answer reached its limit of {counted(limit, 'token')}.",
                "Raise the limit in the conversation settings to let it go on.",
            )
        case StopKind.CONTEXT_FULL:
            total = finished.usage.prompt_tokens + finished.usage.output_tokens
            return Verdict(
                "limit",
                Tone.LIMIT,
                "Context full",
                "The conversation fills the model’s context.",
                f"Prompt and answer came to {counted(total, 'token')}. Start a new conversation "
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
            cause = plain_cause(finished.error or "The engine gave no cause.")
            word = "Failed" if cause == UNEXPECTED or not finished.error else f"Failed: {cause}"
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


def answer_line(finished: Finished, max_tokens: int | None = None) -> str:
    """Return the line under an answer: figures, then the reason by name."""
    parts = figures(finished)
    return " · ".join([*parts, verdict(finished, max_tokens).word])


def plain_cause(text: str) -> str:
    """Return why something failed, without the words of an exception that nobody expected.

    Our own causes are sentences for people; those that begin with an exception's name are not.
    """
    if not _EXCEPTION.match(text):
        return text
    is_memory = "memory" in text.lower()
    return "The computer ran out of memory" if is_memory else UNEXPECTED


UNEXPECTED = "Something unexpected went wrong inside Fullstop. The log has the details."
_EXCEPTION = re.compile(r"(the engine stopped: )?[A-Za-z_][\w.]*(Error|Exception)\b(:|$)")

INTERRUPTED_SENTENCE = "This answer was interrupted."
INTERRUPTED_DETAIL = (
    "Fullstop ended before the answer did. What had arrived is kept; at most the last second is "
    "missing."
)

UNRECORDED_SENTENCE = "How this answer ended is not known."
UNRECORDED_DETAIL = "It came from a file that does not say why the model stopped."

_ENDED = "The model finished its answer by itself."


def _where(stop: StopInfo, max_tokens: int | None) -> str:
    if stop.token_index is None:
        return ""
    limit = "" if max_tokens is None else f" of at most {max_tokens}"
    return (
        f"It began after {counted(stop.text_offset, 'character')} of the "
        f"{channel_name(stop.channel)} and was complete with token "
        f"{stop.token_index + 1:,}{limit}."
    )

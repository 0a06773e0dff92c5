"""All words about why a generation ended; no other module has words of its own for that.

Pure functions of the record and of the figures beside it; must not know transports or toolkits.
Any thread.
"""

import re
from dataclasses import dataclass
from typing import Protocol, assert_never

from engine.stopping.record import Channel, StopInfo, StopKind
from engine.wording import counted, quoted

_WHERE = {Channel.TEXT: "", Channel.THINKING: " of its thinking", Channel.TOOL: " of a tool call"}
_CHANNELS = {Channel.TEXT: "answer", Channel.THINKING: "thinking", Channel.TOOL: "tool call"}
# Headlines, labels and table cells are short, so a longer stop is cut there.
_HEADLINE_CHARS = 80
_LABEL_CHARS = 40
_CELL_CHARS = 24

UNEXPECTED = "Something unexpected went wrong inside Fullstop. The log has the details."
"""The words for a failure without a known cause."""


class TokenCounts(Protocol):
    """How many tokens a generation took, as ``engine.values.events.Usage`` has it."""

    @property
    def prompt_tokens(self) -> int:
        """All tokens of the prompt."""
        ...

    @property
    def output_tokens(self) -> int:
        """All sampled tokens."""
        ...


class Ended(Protocol):
    """What is known of an end, as ``engine.values.events.Finished`` has it."""

    @property
    def stop(self) -> StopInfo:
        """Why it ended."""
        ...

    @property
    def usage(self) -> TokenCounts:
        """The token counts."""
        ...

    @property
    def error(self) -> str | None:
        """The cause of a failure."""
        ...

    @property
    def context_length(self) -> int:
        """Tokens that the model's context holds; 0 where no model was reached."""
        ...

    @property
    def unfinished_tool_call(self) -> str:
        """The text of a tool call that was cut short."""
        ...


@dataclass(frozen=True, slots=True)
class VerdictWords:
    """Why a generation ended, in words of different lengths.

    Attributes:
        headline: A few words without position or counts: ``Stopped by "6"``.
        line: Why and where, on one line without a full stop:
            ``Stopped by "6" after 10 characters``.
        label: A few words with the figure that matters, for the line under an answer.
        sentence: One plain sentence to the person who asked.
        detail: Where and on which token, or what to do about it; may be empty.
    """

    headline: str
    line: str
    label: str
    sentence: str
    detail: str = ""


def _unjudged(label: str, sentence: str, detail: str) -> VerdictWords:
    return VerdictWords(label, label, label, sentence, detail)


INTERRUPTED = _unjudged(
    "Interrupted",
    "This answer was interrupted.",
    "Fullstop ended before the answer did. The text up to then is kept; at most the last half "
    "second is missing.",
)
"""The words about an answer that was not over when the program ended."""

WRITTEN = _unjudged(
    "Written by you",
    "You wrote this answer.",
    "No model ran for it, so nothing stopped it.",
)
"""The words about an answer that a person wrote."""

UNRECORDED = _unjudged(
    "Reason not recorded",
    "How this answer ended is not known.",
    "It came from a file that does not say why the model stopped.",
)
"""The words about an answer from a file that does not say why it ended."""


def headline(stop: StopInfo) -> str:
    """Return the reason in a few words, without position or counts: ``Stopped by "6"``."""
    match stop.kind:
        case StopKind.EOS:
            return "Ended by itself"
        case StopKind.STOP_STRING:
            return f"Stopped by {_sequence(stop, _HEADLINE_CHARS)}"
        case StopKind.STOP_TOKEN:
            return f"Stopped by token {stop.value}{_in_brackets(stop.token_text)}"
        case StopKind.MAX_TOKENS:
            return "Reached the token limit"
        case StopKind.CONTEXT_FULL:
            return "The context is full"
        case StopKind.MEMORY_FULL:
            return "Memory is full"
        case StopKind.TOOL_CALL:
            return "Called a tool"
        case StopKind.CANCELLED:
            return "Cancelled"
        case StopKind.ERROR:
            return "Failed"
        case _:
            assert_never(stop.kind)


def shortest(stop: StopInfo) -> str:
    """Return the reason as a table has room for it, in lower case: ``stop "END"``."""
    match stop.kind:
        case StopKind.EOS:
            return "end of answer"
        case StopKind.STOP_STRING:
            return "stop sequence" if stop.value is None else f"stop {_sequence(stop, _CELL_CHARS)}"
        case StopKind.STOP_TOKEN:
            return f"stop token {stop.value}"
        case StopKind.MAX_TOKENS:
            return "token limit"
        case StopKind.CONTEXT_FULL:
            return "context full"
        case StopKind.MEMORY_FULL:
            return "memory full"
        case StopKind.TOOL_CALL:
            return "tool call"
        case StopKind.CANCELLED:
            return "cancelled"
        case StopKind.ERROR:
            return "failed"
        case _:
            assert_never(stop.kind)


def sentence(end: Ended) -> str:
    """Return why and where a generation ended, as one sentence without a full stop.

    For example ``Stopped by "6" after 10 characters`` or ``Reached the limit of 5 tokens``.
    """
    return verdict_words(end).line


def verdict_words(end: Ended, max_tokens: int | None = None) -> VerdictWords:
    """Return all words about an end.

    Args:
        end: The end, usually a ``Finished``.
        max_tokens: The limit that the request had, if any.
    """
    stop, usage = end.stop, end.usage
    short = headline(stop)
    in_call = " in the middle of a tool call" if end.unfinished_tool_call else ""
    output = counted(usage.output_tokens, "token")
    # A file of another program may tell why an answer ended, but not how many tokens it has.
    is_counted = usage.output_tokens > 0 or stop.text_offset == 0
    match stop.kind:
        case StopKind.EOS:
            named = "" if stop.token_text is None else f" token {stop.token_text}"
            return VerdictWords(
                short,
                f"{short} (EOS{named}){in_call}",
                "Ended by the model",
                "The model finished its answer by itself.",
                f"It chose its end token{_in_brackets(stop.token_text)}, so nothing was cut off.",
            )
        case StopKind.STOP_STRING:
            name = _sequence(stop, _LABEL_CHARS)
            which = (
                "One of your stop sequences" if stop.value is None else f"Your stop sequence {name}"
            )
            return VerdictWords(
                short,
                short + _before(stop),
                f"Stopped by {name}",
                f"{which} ended this answer.",
                _place(stop, max_tokens),
            )
        case StopKind.STOP_TOKEN:
            return VerdictWords(
                short,
                short + _before(stop),
                f"Stopped by token {stop.value}",
                f"The stop token {stop.value}{_in_brackets(stop.token_text)} ended this answer.",
                _place(stop, max_tokens),
            )
        case StopKind.MAX_TOKENS:
            limit = f" of {output}" if is_counted else ""
            limit = limit if max_tokens is None else f" of {counted(max_tokens, 'token')}"
            return VerdictWords(
                short,
                f"Reached the limit of {output}{in_call}" if is_counted else f"{short}{in_call}",
                f"Cut off at{limit.removeprefix(' of')}" if limit else "Cut off at the token limit",
                f"The answer reached its limit{limit}."
                if limit
                else "The answer reached its token limit.",
                "Raise the limit in the conversation settings to let it go on.",
            )
        case StopKind.CONTEXT_FULL:
            total = counted(usage.prompt_tokens + usage.output_tokens, "token")
            went_on = "Start a new conversation to go on."
            return VerdictWords(
                short,
                f"{short} at {total}{in_call}" if is_counted else short,
                "Context full",
                "The conversation fills the model’s context.",
                f"Prompt and answer came to {total}. {went_on}" if is_counted else went_on,
            )
        case StopKind.MEMORY_FULL:
            total = counted(usage.prompt_tokens + usage.output_tokens, "token")
            holds = f"; the model’s context holds {end.context_length:,}" * bool(end.context_length)
            return VerdictWords(
                short,
                f"{short} at {total}{in_call}",
                "Memory full",
                "There is no memory for more of this answer.",
                f"Prompt and answer came to {total}{holds}. Unload other models or close other "
                "apps, then continue the answer.",
            )
        case StopKind.TOOL_CALL:
            told = "The model called a tool and waits for its result."
            return VerdictWords(short, short, short, told)
        case StopKind.CANCELLED:
            return VerdictWords(
                short,
                f"{short} after {output}{in_call}" if is_counted else f"{short}{in_call}",
                "Stopped by you",
                "You stopped this answer.",
                "The text up to that point is kept.",
            )
        case StopKind.ERROR:
            cause = plain_cause(end.error or "The cause is not known.")
            return VerdictWords(
                short,
                f"{short}: {end.error or 'the cause is unknown'}",
                short if cause == UNEXPECTED or not end.error else f"{short}: {cause}",
                "This answer failed.",
                cause,
            )
        case _:
            assert_never(stop.kind)


def position(stop: StopInfo, output_tokens: int, max_tokens: int | None) -> str:
    """Return which token ended the answer, of how many: ``token 11 of at most 512``.

    Args:
        stop: The record of the end.
        output_tokens: How many tokens were sampled.
        max_tokens: The limit that the request had, if any.
    """
    number = output_tokens if stop.token_index is None else stop.token_index + 1
    return f"token {number}{_of_at_most(max_tokens)}" if number else "before the first token"


def channel_name(channel: Channel) -> str:
    """Return the part of the output in plain words."""
    return _CHANNELS[channel]


def plain_cause(text: str) -> str:
    """Return why something failed, without the text of an unexpected exception.

    Fullstop's own causes are sentences for people; causes that begin with an exception's name are
    not.
    """
    if not _EXCEPTION.match(text):
        return text
    is_memory = "memory" in text.lower()
    return "The computer ran out of memory" if is_memory else UNEXPECTED


_EXCEPTION = re.compile(r"(the engine stopped: )?[A-Za-z_][\w.]*(Error|Exception)\b(:|$)")


def _sequence(stop: StopInfo, max_chars: int) -> str:
    """Return the stop that matched, in quotes; other programs do not say which one it was."""
    return "a stop sequence" if stop.value is None else quoted(str(stop.value), max_chars=max_chars)


def _before(stop: StopInfo) -> str:
    where = _WHERE[stop.channel]
    if stop.text_offset == 0:
        return f" before the first character{where}"
    return f" after {counted(stop.text_offset, 'character')}{where}"


def _place(stop: StopInfo, max_tokens: int | None) -> str:
    if stop.token_index is None:
        return ""
    return (
        f"It began after {counted(stop.text_offset, 'character')} of the "
        f"{channel_name(stop.channel)} and was complete with token "
        f"{stop.token_index + 1:,}{_of_at_most(max_tokens)}."
    )


def _of_at_most(max_tokens: int | None) -> str:
    return "" if max_tokens is None else f" of at most {max_tokens}"


def _in_brackets(text: str | None) -> str:
    return f" ({quoted(text, max_chars=_LABEL_CHARS)})" if text else ""

"""All words about why a generation ended; no other module has words of its own for that.

Pure functions of the record and of the figures beside it; must not know transports or toolkits.
Any thread.
"""

import re
from dataclasses import dataclass, replace
from typing import assert_never

from engine.stopping.record import (
    FORK_SOURCE,
    TEMPLATE_SOURCE,
    Channel,
    StopInfo,
    StopKind,
    describe_source,
)
from engine.stopping.repetition import Repetition
from engine.values.events import Finished
from engine.values.request import LimitSource
from engine.wording import as_sentence, counted, quoted

_WHERE = {Channel.TEXT: "", Channel.THINKING: " of its thinking", Channel.TOOL: " of a tool call"}
_CHANNELS = {Channel.TEXT: "answer", Channel.THINKING: "thinking", Channel.TOOL: "tool call"}
# For the kinds that name no stop: the headline, and the words for a table's cell.
_NAMES = {
    StopKind.EOS: ("Ended by itself", "end of answer"),
    StopKind.REPETITION: ("Repeated itself", "repetition"),
    StopKind.MAX_TOKENS: ("Reached the token limit", "token limit"),
    StopKind.CONTEXT_FULL: ("The context is full", "context full"),
    StopKind.MEMORY_FULL: ("Memory is full", "memory full"),
    StopKind.TOOL_CALL: ("Ended with a tool call", "tool call"),
    StopKind.CANCELLED: ("Cancelled", "cancelled"),
    StopKind.ERROR: ("Failed", "failed"),
}
_LIMIT_SOURCES = {
    LimitSource.REQUEST: "the request",
    LimitSource.TOOL: "the client’s tool",
    LimitSource.SETTINGS: "the conversation settings",
    LimitSource.PRESET: "a preset",
    LimitSource.COMMAND: "an option of the command",
    LimitSource.SERVER: "the server’s default",
    LimitSource.API: "the API’s default",
    LimitSource.MODEL: "the model’s files",
}
# Labels are short, so a longer stop is cut there.
_LABEL_CHARS = 40

UNEXPECTED = "Something unexpected went wrong inside Fullstop. The log has the details."
"""The words for a failure without a known cause."""

_EXCEPTION = re.compile(r"(the engine stopped: )?[A-Za-z_][\w.]*(Error|Exception)\b(:|$)")


@dataclass(frozen=True, slots=True)
class AnswerContext:
    """Facts about an answer beside its end.

    An own answer was requested in this window, so that nobody else can have cancelled it. A
    continued answer counts its tokens and characters from the end of the earlier answer.
    """

    max_tokens: int | None = None
    is_own: bool = False
    has_text: bool = True
    is_continued: bool = False


UNKNOWN_CONTEXT = AnswerContext()
"""The context of an answer of which only the end is known."""


@dataclass(frozen=True, slots=True)
class VerdictText:
    """Why a generation ended: on one line, in a few words, and to the person who asked.

    ``detail`` is where and on which token, or what to do about it; it may be empty.
    """

    line: str
    label: str
    sentence: str
    detail: str = ""


def _unjudged(label: str, sentence: str, detail: str) -> VerdictText:
    return VerdictText(label, label, sentence, detail)


def interrupted(*, has_text: bool) -> VerdictText:
    """Return the words about an answer that was not over when the program ended."""
    detail = "Fullstop ended before the answer did."
    if has_text:
        detail += " The text up to then is kept; at most the last half second is missing."
    return _unjudged("Interrupted", "This answer was interrupted.", detail)


def stopped_by_quit(*, has_text: bool) -> VerdictText:
    """Return the words about an answer that was stopped because the user quit the program."""
    detail = "The text up to then is kept." if has_text else ""
    sentence = "This answer stopped when Fullstop quit."
    return _unjudged("Stopped when Fullstop quit", sentence, detail)


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
    if stop.kind is StopKind.STOP_STRING:
        return f"Stopped by {_sequence(stop, 80)}"
    if stop.kind is StopKind.STOP_TOKEN:
        return f"Stopped by token {stop.value}{_in_brackets(stop.token_text)}"
    return "Ended at a fork" if stop.source == FORK_SOURCE else _NAMES[stop.kind][0]


def headline_of_several(stop: StopInfo) -> str:
    """Return the reason of several answers as a predicate: ``stopped by "6"``."""
    match stop.kind:
        case StopKind.EOS:
            return "ended by themselves"
        case StopKind.REPETITION:
            return "repeated themselves"
        case StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            return f"ended with {shortest(stop)}"
        case _:
            line = headline(stop)
            return line[:1].lower() + line[1:]


def shortest(stop: StopInfo) -> str:
    """Return the reason as a table has room for it, in lower case: ``stop "END"``."""
    if stop.kind is StopKind.STOP_STRING:
        return "stop sequence" if stop.value is None else f"stop {_sequence(stop, 24)}"
    return f"stop token {stop.value}" if stop.kind is StopKind.STOP_TOKEN else _NAMES[stop.kind][1]


def sentence(end: Finished) -> str:
    """Return why and where a generation ended, as one sentence without a full stop.

    For example ``Stopped by "6" after 10 characters`` or ``Reached the limit of 5 tokens``.
    """
    return verdict_text(end).line


def verdict_text(end: Finished, context: AnswerContext = UNKNOWN_CONTEXT) -> VerdictText:
    """Return all words about an end."""
    verdict = _verdict_text(end, context)
    if end.details.planned_call is None:
        return verdict
    missed = describe_planned_call(end.details.planned_call)
    detail = f"{verdict.detail} {missed[:1].upper()}{missed[1:]}.".lstrip()
    return replace(verdict, line=f"{verdict.line}; {missed}", detail=detail)


def _verdict_text(end: Finished, context: AnswerContext) -> VerdictText:
    stop, usage, details = end.stop, end.usage, end.details
    short = headline(stop)
    in_call = " in the middle of a tool call" if end.unfinished_tool_call else ""
    output = counted(usage.output_tokens, "token")
    # A file of another program may tell why an answer ended, but not how many tokens it has.
    is_counted = usage.output_tokens > 0 or stop.text_offset == 0
    match stop.kind:
        case StopKind.EOS if stop.source == FORK_SOURCE:
            who = "You ended" if context.is_own else "The user ended"
            return VerdictText(short, short, f"{who} this answer at a fork.", "")
        case StopKind.EOS:
            named = f" token {stop.token_text}" if stop.token_text else ""
            if stop.source == TEMPLATE_SOURCE:
                named += ", named by the chat template"
            line, label = f"{short} (EOS{named}){in_call}", "Ended by the model"
            chose = f"It chose its end token{_in_brackets(stop.token_text)}"
            if stop.source == TEMPLATE_SOURCE:
                chose += f", named by {describe_source(stop.source)}"
            if in_call:
                lines = f"The model ended its answer{in_call}."
                detail = f"{chose} before the call was complete, so the call was not made."
            else:
                lines = "The model finished its answer by itself."
                detail = f"{chose}, so nothing was cut off."
            return VerdictText(line, label, lines, detail)
        case StopKind.STOP_STRING | StopKind.STOP_TOKEN:
            if stop.kind is StopKind.STOP_TOKEN:
                name = f"token {stop.value}"
                which = f"The stop {name}{_in_brackets(stop.token_text)}"
            else:
                name = _sequence(stop, _LABEL_CHARS)
                is_known = stop.value is not None
                which = f"Your stop sequence {name}" if is_known else "One of your stop sequences"
            return VerdictText(
                short + _before(stop),
                f"Stopped by {name}",
                f"{which} ended this answer.",
                _describe_position(stop, context),
            )
        case StopKind.MAX_TOKENS:
            limit = f" of {output}" if is_counted else ""
            if context.max_tokens is not None:
                limit = f" of {counted(context.max_tokens, 'token')}"
            raise_it = "Raise the limit in Settings."
            detail = raise_it if context.is_own else "Its request allowed no more."
            by = ""
            if details.limit_from is not None:
                source = describe_limit_source(details.limit_from, details.preset)
                by = f", set by {source}" + "," * bool(in_call)
                if details.limit_from is LimitSource.PRESET and context.is_own:
                    detail = f"The limit was set by {source}. {raise_it}"
                elif details.limit_from is not LimitSource.SETTINGS:
                    detail = f"The limit was set by {source}."
                elif context.is_own:
                    detail = f"The limit was set by {source}. Raise it there to let it go on."
            if details.repetition is not None:
                by = by.rstrip(",")
                in_call = f"; {describe_repetition(details.repetition)}"
                detail = "A higher limit would give more copies. Try another question or model."
            return VerdictText(
                f"Reached the limit of {output}{by}{in_call}"
                if is_counted
                else f"{short}{in_call}",
                f"Cut off at{limit.removeprefix(' of')}" if limit else "Cut off at the token limit",
                f"The answer reached its limit{limit}{in_call}."
                if limit
                else f"The answer reached its token limit{in_call}.",
                detail,
            )
        case StopKind.REPETITION:
            found = details.repetition
            cycle = describe_repetition(found) if found else "it is a cycle"
            return VerdictText(
                f"{short}: {cycle}",
                short,
                f"The answer repeated itself{_WHERE[stop.channel]}.",
                f"{cycle[:1].upper()}{cycle[1:]}. The text is whole; nothing was cut off.",
            )
        case StopKind.CONTEXT_FULL:
            total = counted(usage.prompt_tokens + usage.output_tokens, "token")
            went_on = "A shorter prompt leaves more room."
            if context.is_own:
                went_on = "The next message goes on; the oldest ones are left out then."
            if details.limit_from is not None:
                source = describe_limit_source(details.limit_from)
                went_on = f"The limit was set by {source}. {went_on}"
            return VerdictText(
                f"{short} at {total}{in_call}" if is_counted else short,
                "Context full",
                "The conversation fills the model’s context.",
                f"Prompt and answer came to {total}. {went_on}" if is_counted else went_on,
            )
        case StopKind.MEMORY_FULL:
            total = counted(usage.prompt_tokens + usage.output_tokens, "token")
            holds = f"; the model’s context holds {end.context_length:,}" * bool(end.context_length)
            return VerdictText(
                f"{short} at {total}{in_call}",
                "Memory full",
                "There is no memory for more of this answer.",
                f"Prompt and answer came to {total}{holds}. Unload other models or close other "
                "apps, then continue the answer.",
            )
        case StopKind.TOOL_CALL:
            lines = "The model called a tool and waits for its result."
            return VerdictText(short, short, lines)
        case StopKind.CANCELLED:
            after = f"after {output}" if usage.output_tokens else "before the first token"
            return VerdictText(
                f"{short} {after}{in_call}" if is_counted else f"{short}{in_call}",
                "Stopped by you" if context.is_own else short,
                f"{'Stopped by you' if context.is_own else 'This answer was cancelled'}{in_call}.",
                _kept_when_cancelled(end, context),
            )
        case StopKind.ERROR:
            cause = as_sentence(plain_cause(end.error or "The cause is not known."))
            brief = cause.rstrip(".")
            return VerdictText(
                f"{short}: {end.error.rstrip('.') if end.error else 'the cause is unknown'}",
                short if cause == UNEXPECTED or not end.error else f"{short}: {brief}",
                f"This answer failed{in_call}.",
                cause,
            )
        case _:
            assert_never(stop.kind)


def _kept_when_cancelled(end: Finished, context: AnswerContext) -> str:
    if end.usage.output_tokens or end.stop.text_offset:
        if context.has_text:
            return "The text up to that point is kept."
        return "Nothing that can be shown had been written."
    earlier = " The text from before is kept." if context.has_text and context.is_continued else ""
    if end.timing.prefill_s > 0:
        return f"The model was still reading the prompt and had written nothing.{earlier}"
    return f"The model had not begun with it.{earlier}"


def steps(
    end: Finished,
    context: AnswerContext = UNKNOWN_CONTEXT,
    *,
    began: tuple[int, str] | None = None,
    probability: str = "",
) -> list[str]:
    """Return the steps that led to an end: a stop's beginning and completion, the kept text.

    A stop ``began`` in a token with an index and a text; ``probability`` of the last token.
    """
    stop = end.stop
    is_traced = stop.kind not in (StopKind.CANCELLED, StopKind.ERROR)
    if is_traced and stop.token_index is None and stop.text_offset:
        return ["That is the reason in the file that this answer came from. It has no tokens."]
    match stop.kind:
        case StopKind.STOP_STRING:
            stages = [f"Began {_after(stop, context)}"]
            if began is not None and began[0] == stop.token_index:
                stages = [f"Complete with {_token(stop)}"]
            elif began is not None:
                token = quoted(began[1], max_chars=_LABEL_CHARS)
                stages = [f"Began in token {began[0] + 1:,} {token}"]
            if _token(stop) and (began is None or began[0] != stop.token_index):
                stages.append(f"was complete with {_token(stop)}")
            lines = [f"{' → '.join(stages)} → {_kept(stop, context)}"]
        case StopKind.STOP_TOKEN:
            which = f"Token {stop.value} is one of the stop token ids."
            kept = _kept(stop, context)
            lines = [which, _came(stop, context), f"{kept[:1].upper()}{kept[1:]}."]
        case StopKind.EOS:
            odds = f" Its probability there was {probability}." if probability else ""
            name = quoted(stop.token_text, max_chars=_LABEL_CHARS) if stop.token_text else ""
            cut = "The tool call was not complete, so it was not made."
            first = f"{name} is one of the model’s end tokens." if name else "An end token came."
            if stop.source == FORK_SOURCE:
                first = "The end was chosen in place of the next token."
            lines = [
                first,
                f"{_came(stop, context)}{odds}",
                _released(stop) or (cut if end.unfinished_tool_call else "Nothing was cut off."),
            ]
        case StopKind.MAX_TOKENS:
            limit = end.usage.output_tokens if context.max_tokens is None else context.max_tokens
            source, preset = end.details.limit_from, end.details.preset
            by = describe_limit_source(source, preset) if source is not None else ""
            is_known = bool(by) and stop.token_index == limit - 1  # the headline names the limit
            lines = [
                f"The limit was set by {by}." if by else "",
                "" if is_known else _came(stop, context),
                _released(stop),
            ]
        case StopKind.REPETITION:
            cycle = end.details.repetition
            first = f"The first copy began with token {cycle.token_index + 1:,}." if cycle else ""
            lines = [first, verdict_text(end, context).detail, _released(stop)]
        case StopKind.CONTEXT_FULL | StopKind.MEMORY_FULL:
            lines = [verdict_text(end, context).detail, _came(stop, context), _released(stop)]
        case StopKind.TOOL_CALL:
            lines = [
                "The text of a tool call was complete.",
                _came(stop, context),
                "The answer waits for the tool’s result.",
            ]
        case StopKind.CANCELLED | StopKind.ERROR:
            lines = [verdict_text(end, context).detail, _released(stop)]
        case _:
            assert_never(stop.kind)
    if end.details.planned_call is not None:
        missed = describe_planned_call(end.details.planned_call)
        lines.append(f"{missed[:1].upper()}{missed[1:]}.")
    return [step for step in lines if step]


def describe_limit_source(source: LimitSource, preset: str = "") -> str:
    """Return who set a limit, in words."""
    if source is LimitSource.PRESET and preset:
        return f"the preset {quoted(preset, max_chars=_LABEL_CHARS)}"
    return _LIMIT_SOURCES[source]


def describe_planned_call(name: str) -> str:
    """Return in words that a call stands in the thinking and was not made."""
    return f"it wrote a call of {name} in its thinking and did not make it"


def describe_repetition(cycle: Repetition) -> str:
    """Return a cycle in words: ``the last 280 tokens are 4 copies of the same 70``."""
    total = cycle.period * cycle.copies
    if cycle.period == 1:
        return f"the last {total:,} tokens are the same token"
    return f"the last {total:,} tokens are {cycle.copies:,} copies of the same {cycle.period:,}"


def position(end: Finished, context: AnswerContext = UNKNOWN_CONTEXT) -> str:
    """Return where an answer ended: ``token 11 of at most 512, after 26 characters of the answer``.

    Tokens are numbered from 1; characters are counted, never numbered.
    """
    stop, output = end.stop, end.usage.output_tokens
    number = output if stop.token_index is None else stop.token_index + 1
    if not number:
        # An answer from another program may have text without a count of its tokens.
        return _after(stop, context) if stop.text_offset else "before the first token"
    return f"token {number:,}{_limit(context)}, {_after(stop, context)}"


def _limit(context: AnswerContext) -> str:
    return "" if context.max_tokens is None else f" of at most {context.max_tokens:,}"


def plain_cause(text: str) -> str:
    """Return why something failed, without the text of an unexpected exception.

    Fullstop's own causes are sentences for people; causes that begin with an exception's name are
    not.
    """
    if not _EXCEPTION.match(text):
        return text
    is_memory = "memory" in text.lower()
    return "The computer ran out of memory" if is_memory else UNEXPECTED


def _sequence(stop: StopInfo, max_chars: int) -> str:
    """Return the stop that matched, in quotes; other programs do not say which one it was."""
    return "a stop sequence" if stop.value is None else quoted(str(stop.value), max_chars=max_chars)


def _before(stop: StopInfo) -> str:
    where = _WHERE[stop.channel]
    if stop.text_offset == 0:
        return f" before the first character{where}"
    return f" after {counted(stop.text_offset, 'character')}{where}"


def _after(stop: StopInfo, context: AnswerContext) -> str:
    """Return the position in its text where an answer ended; a continuation counts anew."""
    part = _part(stop, context)
    if stop.text_offset == 0:
        return f"at the beginning of the {part}"
    return f"after {counted(stop.text_offset, 'character')} of the {part}"


def _part(stop: StopInfo, context: AnswerContext) -> str:
    is_rest = context.is_continued and stop.channel is Channel.TEXT
    return "continuation" if is_rest else _CHANNELS[stop.channel]


def _describe_position(stop: StopInfo, context: AnswerContext) -> str:
    if stop.token_index is None:
        return ""
    return (
        f"It began {_after(stop, context)} and was complete with token "
        f"{stop.token_index + 1:,}{_limit(context)}."
    )


def _token(stop: StopInfo) -> str:
    if stop.token_index is None:
        return ""
    text = f" {quoted(stop.token_text, max_chars=_LABEL_CHARS)}" if stop.token_text else ""
    return f"token {stop.token_index + 1:,}{text}"


def _came(stop: StopInfo, context: AnswerContext) -> str:
    if stop.token_index is None:
        return ""
    whole = "continuation" if context.is_continued else "answer"
    return f"It came as token {stop.token_index + 1:,} of the {whole}."


def _kept(stop: StopInfo, context: AnswerContext) -> str:
    value = stop.value if isinstance(stop.value, str) else stop.token_text or ""
    is_in_text = not stop.dropped.startswith(value)  # because the stop was to stay
    kept = stop.text_offset + (len(value) if is_in_text else 0)
    cut = f"; {len(stop.dropped):,} cut off" if stop.dropped else ""
    return f"the {_part(stop, context)} keeps {counted(kept, 'character')}{cut}"


def _released(stop: StopInfo) -> str:
    if not stop.held:
        return ""
    held = quoted(stop.held, max_chars=_LABEL_CHARS)
    return f"{held} was still held back, and was then released."


def _in_brackets(text: str | None) -> str:
    return f" ({quoted(text, max_chars=_LABEL_CHARS)})" if text else ""

"""Says what is wrong with an answer, and where; as values, as text and as JSON.

Pure; any thread.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from api.conformance.captures.frames import parsed
from api.conformance.captures.readers import MESSAGES_REASONS
from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedChoice,
    CapturedEnding,
    CapturedEvent,
    CapturedUsage,
    Finding,
    Severity,
    WireDialect,
    excerpt,
    first_occurrence,
    status_in_words,
    unfinished_stop,
)
from api.terminal_text import harmless, harmless_json, on_one_line

# Finds implausible values in an answer: unknown reasons, impossible counts, broken calls.

# Reasons by dialect, from the reference that is named in the dialect's reader.
_REASONS: Mapping[WireDialect, frozenset[str]] = {
    WireDialect.MESSAGES: MESSAGES_REASONS,
    WireDialect.CHAT: frozenset(
        {"stop", "length", "tool_calls", "content_filter", "function_call"}
    ),
    WireDialect.COMPLETIONS: frozenset({"stop", "length", "content_filter"}),
    WireDialect.RESPONSES: frozenset(
        {
            "completed",
            "cancelled",
            "queued",
            "in_progress",
            "incomplete: max_output_tokens",
            "incomplete: content_filter",
        }
    ),
    WireDialect.GENERATE: frozenset({"stop", "length", "abort"}),
    WireDialect.OLLAMA: frozenset({"stop", "length", "load", "unload"}),
}
# Their vendor says that the total is the sum.
_ADDING_UP = (WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.RESPONSES)
# Their counts of a prompt include what of it was in a cache.
_COUNTING_CACHED = (*_ADDING_UP, WireDialect.GENERATE)
# So much thinking has tokens of its own.
_MUCH_THINKING = 40


def implausible(capture: Capture) -> Iterator[Finding]:
    """Yield the implausible values of the first choice of an answer."""
    yield from unknown_reason(capture)
    yield from _calls(capture)
    is_named = capture.dialect is WireDialect.MESSAGES and capture.matched is not None
    if is_named and capture.ending is not CapturedEnding.STOP:
        yield Finding(
            "sequence_without_reason",
            Severity.ERROR,
            f"stop_sequence is set although stop_reason is {capture.reason}.",
            excerpt=str(capture.matched),
        )


def miscounted(capture: Capture) -> Iterator[Finding]:
    """Yield findings about the token counts."""
    usage = capture.usage
    if usage is None:
        return
    for name in usage.invalid:
        yield Finding("usage_invalid", Severity.ERROR, f"The count {name} is not a whole number.")
    named = {
        "prompt": usage.input_tokens,
        "answer": usage.output_tokens,
        "cached prompt": usage.cached_tokens,
        "sum": usage.total_tokens,
    }
    negative = [f"{name} {count}" for name, count in named.items() if (count or 0) < 0]
    if negative:
        yield Finding(
            "usage_negative",
            Severity.ERROR,
            f"A count of tokens is negative: {', '.join(negative)}.",
        )
        return
    given, made, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    if given is not None and made is not None and total is not None and given + made != total:
        yield Finding(
            "usage_total",
            Severity.ERROR if capture.dialect in _ADDING_UP else Severity.WARNING,
            f"The sum of tokens is {total}, but the prompt has {given} and the answer {made}.",
        )
    cached = usage.cached_tokens
    if cached and given is not None and cached > given and capture.dialect in _COUNTING_CACHED:
        said = f"{cached} tokens of the prompt are cached, but the prompt has {given}."
        yield Finding("usage_cached", Severity.ERROR, said)
    yield from _reasoning(capture, usage)
    ids = len(capture.output_ids)
    if made is not None and ids > made and capture.dialect is WireDialect.GENERATE:
        said = f"output_ids has {ids} ids, but the answer has {made} tokens."
        yield Finding("ids_differ", Severity.ERROR, said)
    if made == 0 and (capture.text or capture.thinking or capture.tool_calls):
        yield Finding("usage_zero", Severity.ERROR, "The answer has content, but 0 tokens.")


def _reasoning(capture: Capture, usage: CapturedUsage) -> Iterator[Finding]:
    """Yield that the tokens of the thinking are more than those of the answer, or none."""
    spent, made = usage.reasoning_tokens, usage.output_tokens
    if spent is None or made is None:
        return
    if spent > made or spent < 0:
        said = f"reasoning_tokens is {spent}, but the whole answer has {made} tokens."
        yield Finding("usage_reasoning", Severity.ERROR, said)
    elif spent == 0 and len(capture.thinking) > _MUCH_THINKING:
        said = f"reasoning_tokens is 0, but there are {len(capture.thinking)} characters of it."
        yield Finding("usage_reasoning", Severity.ERROR, said)


def unknown_reason(capture: Capture) -> Iterator[Finding]:
    """Yield that the reason is none of its API."""
    known = _REASONS.get(capture.dialect) if capture.dialect is not None else None
    if capture.reason is None or known is None or capture.reason in known:
        return
    yield Finding(
        "unknown_reason",
        Severity.ERROR,
        f"{capture.reason!r} is not a reason of this API ({', '.join(sorted(known))}), so clients "
        "cannot tell why the answer ended.",
        excerpt=capture.reason[:200],
    )


def _calls(capture: Capture) -> Iterator[Finding]:
    if capture.ending is CapturedEnding.TOOL and not capture.tool_calls:
        yield Finding(
            "call_missing", Severity.ERROR, f"The reason is {capture.reason}, but there is no call."
        )
    for call in capture.tool_calls:
        if not call.name:
            yield Finding(
                "call_name_missing",
                Severity.ERROR,
                "A tool call does not name its tool.",
                excerpt=call.arguments[:200],
            )
        yield from _arguments(capture, call)


def _arguments(capture: Capture, call: CapturedCall) -> Iterator[Finding]:
    # Messages sends no arguments for a call without arguments.
    if not call.arguments and capture.dialect is WireDialect.MESSAGES:
        return
    try:
        is_object = isinstance(parsed(call.arguments), dict)
    except ValueError:
        is_object = False
    if is_object:
        return
    named = (
        f"The arguments of the call of {call.name!r}" if call.name else "The arguments of a call"
    )
    if capture.ending is CapturedEnding.LIMIT or capture.reason is None:
        yield Finding(
            "arguments_cut",
            Severity.NOTE,
            f"{named} break off, as the answer does.",
            excerpt=call.arguments[-200:],
        )
        return
    yield Finding(
        "arguments_broken",
        Severity.ERROR,
        f"{named} are not a JSON object, so the tool cannot be called.",
        excerpt=call.arguments[-200:],
    )


# Diagnoses a captured answer: its form, its reason, and its handling of stops.

_SHOWN = 40


def diagnose(capture: Capture, stops: Sequence[str] = ()) -> list[Finding]:
    """Return all findings of an answer, those about its form first.

    Args:
        capture: The answer.
        stops: The stops of its request; if empty, those of a captured curl command.
    """
    wanted = tuple(stop for stop in (stops or capture.asked_stops) if stop)
    findings = list(capture.findings)
    if capture.dialect is None or not capture.events:
        return findings
    error = _error(capture)
    if error is not None:
        return [*findings, error]
    findings.extend(_of_choice(capture, wanted))
    for choice in capture.choices:
        findings.extend(_of_other(capture, choice, wanted))
    findings.extend(miscounted(capture))
    return findings


def _error(capture: Capture) -> Finding | None:
    """Return an error's message with its status; None if the answer is not an error."""
    is_refused = capture.status is not None and capture.status >= 400
    if capture.error is None and not is_refused:
        return None
    said = excerpt(capture.error or "no message")
    if is_refused:
        assert capture.status is not None
        wait = capture.headers.get("retry-after")
        later = f" The server asks to wait (retry-after: {excerpt(wait)})." if wait else ""
        sentence = f"The server answered with {status_in_words(capture.status)}: {said}.{later}"
        return Finding("error_status", Severity.ERROR, sentence)
    status = "" if capture.status is None else f", after {status_in_words(capture.status)}"
    at = next((event.index for event in capture.events if "error" in event.raw[:_SHOWN]), None)
    if capture.is_streamed:
        sentence = f"The stream breaks off with an error{status}: {said}"
        return Finding("error_in_stream", Severity.ERROR, sentence, at)
    sentence = f"The answer is an error{status}: {said}"
    return Finding("error", Severity.ERROR, sentence)


def _of_choice(capture: Capture, wanted: Sequence[str]) -> Iterator[Finding]:
    yield from _diagnosis_reason(capture)
    yield from implausible(capture)
    yield from _sequence(capture, wanted)
    yield from _text(capture, wanted)


def _of_other(capture: Capture, choice: CapturedChoice, wanted: Sequence[str]) -> Iterator[Finding]:
    """Judge another choice as the first one is judged."""
    events, at = [], 0
    for index, length in choice.pieces:
        events.append(CapturedEvent(index, None, "", choice.text[at : at + length]))
        at += length
    as_first = replace(capture.of_choice(choice), events=tuple(events))
    for finding in _of_choice(as_first, wanted):
        yield replace(finding, sentence=f"Choice {choice.index}: {finding.sentence}")


def _diagnosis_reason(capture: Capture) -> Iterator[Finding]:
    if capture.reason is None:
        yield Finding(
            "reason_missing",
            Severity.ERROR,
            "The answer gives no reason for its end; some clients raise an error, others wait.",
        )


def _sequence(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    """Check the stop that is named as matched, if the dialect has a field for it."""
    is_stopped = capture.dialect is WireDialect.MESSAGES and capture.ending is CapturedEnding.STOP
    if is_stopped and capture.matched is None:
        yield Finding(
            "sequence_null",
            Severity.ERROR,
            "stop_reason is stop_sequence, but stop_sequence is null, so it is not known "
            "which stop matched.",
        )
    if isinstance(capture.matched, str) and stops and capture.matched not in stops:
        yield Finding(
            "sequence_unknown",
            Severity.ERROR,
            f"The answer names {capture.matched!r} as the stop that matched, but the request did "
            "not have it.",
            excerpt=capture.matched,
        )


def _text(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    text = capture.text
    occurrence = first_occurrence(text, stops)
    if occurrence is None:
        yield from _left_over(capture, stops)
        return
    yield Finding(
        "stop_in_text",
        Severity.ERROR,
        f"The text contains the stop {occurrence.stop!r}, at character {occurrence.start}.",
        _event_at(capture, occurrence.start),
        excerpt(text[max(0, occurrence.start - _SHOWN) : occurrence.end + _SHOWN]),
    )
    rest = text[occurrence.end :]
    if rest:
        yield Finding(
            "text_after_stop",
            Severity.ERROR,
            f"The text goes on for {len(rest)} characters after the stop {occurrence.stop!r}.",
            _event_at(capture, occurrence.end),
            excerpt(rest),
        )
    elif (
        capture.says_matched
        and capture.matched is None
        and capture.ending is not CapturedEnding.STOP
    ):
        yield Finding(
            "sequence_null",
            Severity.ERROR,
            f"The text ends with the stop {occurrence.stop!r}, but the answer names no match.",
        )


def _left_over(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    occurrence = unfinished_stop(capture.text, stops)
    if occurrence is None:
        return
    letters, stop = occurrence
    could_be_leak = capture.ending in (CapturedEnding.STOP, CapturedEnding.NATURAL_OR_STOP)
    if isinstance(capture.matched, str) and capture.matched != stop:
        could_be_leak = False
    yield Finding(
        "stop_prefix_at_end",
        Severity.WARNING if could_be_leak else Severity.NOTE,
        f"The text ends with {letters!r}, the beginning of the stop {stop!r}"
        + (": it may have leaked." if could_be_leak else "; it was released correctly."),
        _event_at(capture, len(capture.text) - len(letters)),
        excerpt(capture.text[-_SHOWN:]),
    )


def _event_at(capture: Capture, offset: int) -> int | None:
    """Return the event with the character at ``offset``."""
    seen = 0
    for event in capture.events:
        seen += len(event.text)
        if seen > offset:
            return event.index
    return None


FORMAT = 2
_UNKNOWN = "unknown"
# An answer may have megabytes; a terminal shows its beginning and end.
_SHOWN_CHARS = 20_000
_SEPARATOR = ",\n"


def has_faults(findings: Sequence[Finding]) -> bool:
    """Whether a finding is an error, not only a warning or a note."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def as_text(capture: Capture, findings: Sequence[Finding]) -> str:
    """Return an answer and its findings, one fact per line."""
    return harmless("\n".join((*_capture_lines(capture), *_finding_lines(findings)))) + "\n"


def as_json(answers: Iterable[tuple[Capture, Sequence[Finding]]]) -> Iterator[str]:
    """Yield the pieces of one JSON object with all answers, each with its findings."""
    yield f'{{"format": {FORMAT}, "answers": ['
    before = "\n"
    for capture, findings in answers:
        yield before
        yield from _json_of(capture, findings)
        before = _SEPARATOR
    yield "]}\n"


def _json_of(capture: Capture, findings: Sequence[Finding]) -> Iterator[str]:
    # The events are most of a large answer, so they are written one by one.
    values: dict[str, Any] = {
        field.name: _plain(getattr(capture, field.name))
        for field in dataclasses.fields(capture)
        if field.name not in ("events", "findings")
    }
    values["has_faults"] = has_faults(findings)
    values["findings"] = _plain(tuple(findings))
    yield harmless_json(values).removesuffix("}") + ', "events": ['
    before = "\n"
    for event in capture.events:
        values = {"index": event.index, "name": event.name, "raw": event.raw}
        values |= {"text": event.text, "thinking": event.thinking}
        yield before + harmless_json(values)
        before = _SEPARATOR
    yield "]}"


def _plain(value: Any) -> Any:
    """Return a value of these modules as a value that JSON supports."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


def _capture_lines(capture: Capture) -> Iterator[str]:
    if capture.label:
        yield f"from      {on_one_line(capture.label)}"
    if capture.dialect is None:
        if capture.status is not None:
            yield f"answer    {status_in_words(capture.status)}"
        return
    form = f"streamed in {len(capture.events)} events" if capture.is_streamed else "not streamed"
    status = f", {status_in_words(capture.status)}" if capture.status is not None else ""
    yield f"answer    {capture.dialect}, {form}{status}"
    if capture.model is not None:
        yield f"model     {on_one_line(capture.model)}"
    if capture.error is not None:
        yield f"error     {on_one_line(capture.error)}"
        return
    yield f"reason    {_reason(capture.reason, capture.matched)}"
    if capture.usage is not None:
        yield f"tokens    {_usage(capture.usage)}"
    if capture.asked_stops:
        yield f"stops     {', '.join(map(repr, capture.asked_stops))}"
    if capture.thinking:
        yield f"thinking  {_quoted(capture.thinking)}"
    yield from _call_lines(capture.tool_calls)
    yield f"text      {_quoted(capture.text)}"
    for choice in capture.choices:
        yield f"choice {choice.index}  {_reason(choice.reason, choice.matched)}"
        if choice.thinking:
            yield f"thinking  {_quoted(choice.thinking)}"
        yield from _call_lines(choice.tool_calls)
        yield f"text      {_quoted(choice.text)}"


def _call_lines(calls: Sequence[CapturedCall]) -> Iterator[str]:
    for call in calls:
        yield f"call      {on_one_line(call.name)}({on_one_line(call.arguments, _SHOWN_CHARS)})"


def _reason(reason: str | None, matched: str | int | None) -> str:
    named = f", stop {matched!r}" if matched is not None else ""
    return f"{on_one_line(reason or 'none')}{named}"


def _quoted(text: str) -> str:
    if len(text) <= _SHOWN_CHARS:
        return repr(text)
    half = _SHOWN_CHARS // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]!r} … {left_out:,} characters … {text[-half:]!r}"


def _usage(usage: CapturedUsage) -> str:
    given = usage.input_tokens if usage.input_tokens is not None else _UNKNOWN
    made = usage.output_tokens if usage.output_tokens is not None else _UNKNOWN
    cached = f", {usage.cached_tokens} cached" if usage.cached_tokens is not None else ""
    return f"prompt {given}{cached}, answer {made}"


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    yield ""
    if not findings:
        yield "Nothing is wrong with it."
    for finding in findings:
        place = f" (event {finding.event_index})" if finding.event_index is not None else ""
        yield f"{finding.severity.upper()} {finding.code}{place}: {on_one_line(finding.sentence)}"
        if finding.excerpt:
            yield f"    {finding.excerpt!r}"

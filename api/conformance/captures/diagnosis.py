"""Diagnoses a saved answer, its form, reason, counts, calls and stops; as values, text and JSON.

Pure; any thread.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from api.conformance.captures.frames import parse_json
from api.conformance.captures.messages_reader import MESSAGES_REASONS
from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedChoice,
    CapturedEnding,
    CapturedUsage,
    Finding,
    Severity,
    WireDialect,
    excerpt,
    first_occurrence,
    status_text,
    unfinished_stop,
)
from api.terminal_text import harmless, harmless_json, on_one_line

# Version of the JSON report.
FORMAT = 2
# Reasons by dialect, from the reference of its vendor; "repetition" is vLLM's.
_REASONS: Mapping[WireDialect, frozenset[str]] = {
    WireDialect.MESSAGES: MESSAGES_REASONS,
    WireDialect.CHAT: frozenset(
        {"stop", "length", "repetition", "tool_calls", "content_filter", "function_call"}
    ),
    WireDialect.COMPLETIONS: frozenset({"stop", "length", "repetition", "content_filter"}),
    WireDialect.RESPONSES: frozenset(
        {
            *("completed", "cancelled", "queued", "in_progress"),
            *("incomplete: max_output_tokens", "incomplete: content_filter"),
        }
    ),
    WireDialect.GENERATE: frozenset({"stop", "length", "abort"}),
    WireDialect.OLLAMA: frozenset({"stop", "length", "load", "unload"}),
}
# Their vendor states that the total is the sum.
_TOTAL_DIALECTS = (WireDialect.CHAT, WireDialect.COMPLETIONS, WireDialect.RESPONSES)
_CONTEXT_CHARS = 40
# An answer may have megabytes; a terminal shows its beginning and end.
_SHOWN_CHARS = 20_000
# The JSON report's names of fields that differ from those of ``Capture``.
_JSON_NAMES = {
    "request_stops": "asked_stops",
    "reports_match": "says_matched",
    "is_truncated": "is_cut",
}


def diagnose(capture: Capture, stops: Sequence[str] = ()) -> list[Finding]:
    """Return all findings of an answer, those about its form first."""
    stops = tuple(stop for stop in (stops or capture.request_stops) if stop)
    findings = list(capture.findings)
    if capture.dialect is None or not capture.events:
        return findings
    error = _diagnose_error(capture)
    if error is not None:
        return [*findings, error]
    findings.extend(_diagnose_choice(capture, stops))
    for choice in capture.choices:
        for finding in _diagnose_choice(capture.of_choice(choice), stops):
            sentence = f"Choice {choice.index}: {finding.sentence}"
            findings.append(replace(finding, sentence=sentence))
    findings.extend(diagnose_usage(capture))
    return findings


def diagnose_choice(capture: Capture) -> Iterator[Finding]:
    """Yield the implausible values of the first choice: its reason, calls and matched stop."""
    known = _REASONS.get(capture.dialect) if capture.dialect is not None else None
    if capture.reason is not None and known is not None and capture.reason not in known:
        yield _error(
            "unknown_reason",
            f"{capture.reason!r} is not a reason of this API ({', '.join(sorted(known))}), so "
            "clients cannot tell why the answer ended.",
            capture.reason[:200],
        )
    if capture.ending is CapturedEnding.TOOL and not capture.tool_calls:
        yield _error("call_missing", f"The reason is {capture.reason}, but there is no call.")
    for call in capture.tool_calls:
        if not call.name:
            message = "A tool call does not name its tool."
            yield _error("call_name_missing", message, call.arguments[:200])
        yield from _diagnose_arguments(capture, call)
    is_named = capture.dialect is WireDialect.MESSAGES and capture.matched is not None
    if is_named and capture.ending is not CapturedEnding.STOP:
        message = f"stop_sequence is set although stop_reason is {capture.reason}."
        yield _error("sequence_without_reason", message, str(capture.matched))


def diagnose_usage(capture: Capture) -> Iterator[Finding]:
    """Yield findings about the token counts."""
    usage = capture.usage
    if usage is None:
        return
    for name in usage.invalid:
        yield _error("usage_invalid", f"The count {name} is not a whole number.")
    prompt, output, total = usage.input_tokens, usage.output_tokens, usage.total_tokens
    cached, reasoning = usage.cached_tokens, usage.reasoning_tokens
    counts = {"prompt": prompt, "answer": output, "cached prompt": cached, "sum": total}
    negative = [f"{name} {count}" for name, count in counts.items() if (count or 0) < 0]
    if negative:
        yield _error("usage_negative", f"A count of tokens is negative: {', '.join(negative)}.")
        return
    if prompt is not None and output is not None and total not in (None, prompt + output):
        message = (
            f"The sum of tokens is {total}, but the prompt has {prompt} and the answer {output}."
        )
        is_stated = capture.dialect in _TOTAL_DIALECTS
        severity = Severity.ERROR if is_stated else Severity.WARNING
        yield Finding("usage_total", severity, message)
    if reasoning is not None and output is not None:
        if not 0 <= reasoning <= output:
            message = f"reasoning_tokens is {reasoning}, but the whole answer has {output} tokens."
            yield _error("usage_reasoning", message)
        # More characters of thinking than this have tokens.
        elif reasoning == 0 and len(capture.thinking) > 40:
            length = len(capture.thinking)
            message = f"reasoning_tokens is 0, but there are {length} characters of it."
            yield _error("usage_reasoning", message)
    if output == 0 and (capture.text or capture.thinking or capture.tool_calls):
        yield _error("usage_zero", "The answer has content, but 0 tokens.")


def _error(code: str, message: str, shown: str = "", index: int | None = None) -> Finding:
    return Finding(code, Severity.ERROR, message, index, shown)


def _diagnose_arguments(capture: Capture, call: CapturedCall) -> Iterator[Finding]:
    # Messages sends no arguments for a call without arguments.
    if is_object(call.arguments) or (
        not call.arguments and capture.dialect is WireDialect.MESSAGES
    ):
        return
    subject = "The arguments of a call"
    if call.name:
        subject = f"The arguments of the call of {call.name!r}"
    shown = call.arguments[-200:]
    if capture.ending is CapturedEnding.LIMIT or capture.reason is None:
        message = f"{subject} break off, as the answer does."
        yield Finding("arguments_cut", Severity.NOTE, message, excerpt=shown)
    else:
        message = f"{subject} are not a JSON object, so the tool cannot be called."
        yield _error("arguments_broken", message, shown)


def is_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    try:
        return isinstance(parse_json(text), dict)
    except ValueError:
        return False


def _diagnose_error(capture: Capture) -> Finding | None:
    """Return an error's message with its status; None if the answer is not an error."""
    is_refused = capture.status is not None and capture.status >= 400
    if capture.error is None and not is_refused:
        return None
    cause = excerpt(capture.error or "no message")
    status = "" if capture.status is None else status_text(capture.status)
    if is_refused:
        wait = capture.headers.get("retry-after")
        later = f" The server asks to wait (retry-after: {excerpt(wait)})." if wait else ""
        return _error("error_status", f"The server answered with {status}: {cause}.{later}")
    status = f", after {status}" if status else ""
    if capture.is_streamed:
        shown = (event for event in capture.events if "error" in event.raw[:_CONTEXT_CHARS])
        index = next((event.index for event in shown), None)
        message = f"The stream breaks off with an error{status}: {cause}"
        return _error("error_in_stream", message, index=index)
    return _error("error", f"The answer is an error{status}: {cause}")


def _diagnose_choice(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    if capture.reason is None:
        message = (
            "The answer gives no reason for its end; some clients raise an error, others wait."
        )
        yield _error("reason_missing", message)
    yield from diagnose_choice(capture)
    is_stopped = capture.dialect is WireDialect.MESSAGES and capture.ending is CapturedEnding.STOP
    if is_stopped and capture.matched is None:
        yield _error(
            "sequence_null",
            "stop_reason is stop_sequence, but stop_sequence is null, so it is not known "
            "which stop matched.",
        )
    if isinstance(capture.matched, str) and stops and capture.matched not in stops:
        message = (
            f"The answer names {capture.matched!r} as the stop that matched, but the request did "
            "not have it."
        )
        yield _error("sequence_unknown", message, capture.matched)
    yield from _diagnose_text(capture, stops)


def _diagnose_text(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    text, found = capture.text, first_occurrence(capture.text, stops)
    if found is None:
        yield from _diagnose_end(capture, stops)
        return
    start, stop = found
    end = start + len(stop)
    yield _error(
        "stop_in_text",
        f"The text contains the stop {stop!r}, at character {start}.",
        excerpt(text[max(0, start - _CONTEXT_CHARS) : end + _CONTEXT_CHARS]),
        _event_at(capture, start),
    )
    tail = text[end:]
    is_unnamed = capture.reports_match and capture.matched is None
    if tail:
        message = f"The text goes on for {len(tail)} characters after the stop {stop!r}."
        yield _error("text_after_stop", message, excerpt(tail), _event_at(capture, end))
    elif is_unnamed and capture.ending is not CapturedEnding.STOP:
        message = f"The text ends with the stop {stop!r}, but the answer names no match."
        yield _error("sequence_null", message)


def _diagnose_end(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    occurrence = unfinished_stop(capture.text, stops)
    if occurrence is None:
        return
    prefix, stop = occurrence
    may_leak = capture.ending in (CapturedEnding.STOP, CapturedEnding.NATURAL_OR_STOP)
    if isinstance(capture.matched, str) and capture.matched != stop:
        may_leak = False
    verdict = ": it may have leaked." if may_leak else "; it was released correctly."
    yield Finding(
        "stop_prefix_at_end",
        Severity.WARNING if may_leak else Severity.NOTE,
        f"The text ends with {prefix!r}, the beginning of the stop {stop!r}{verdict}",
        _event_at(capture, len(capture.text) - len(prefix)),
        excerpt(capture.text[-_CONTEXT_CHARS:]),
    )


def _event_at(capture: Capture, offset: int) -> int | None:
    end = 0
    for index, length in capture.pieces:
        end += length
        if end > offset:
            return index
    return None


def has_faults(findings: Sequence[Finding]) -> bool:
    """Whether a finding is an error, not only a warning or a note."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def as_text(capture: Capture, findings: Sequence[Finding]) -> str:
    """Return an answer and its findings, one fact per line."""
    return harmless("\n".join((*_capture_lines(capture), *_finding_lines(findings)))) + "\n"


def as_json(answers: Iterable[tuple[Capture, Sequence[Finding]]]) -> Iterator[str]:
    """Yield the pieces of one JSON object with all answers, each with its findings."""
    yield f'{{"format": {FORMAT}, "answers": ['
    for number, (capture, findings) in enumerate(answers):
        fields = dataclasses.asdict(replace(capture, headers=dict(capture.headers)))
        values = {_JSON_NAMES.get(name, name): value for name, value in fields.items()}
        for choice in values["choices"]:
            choice["says_matched"] = choice.pop("reports_match")
        del values["index"], values["pieces"]
        values["has_faults"] = has_faults(findings)
        values["findings"] = [dataclasses.asdict(finding) for finding in findings]
        yield (",\n" if number else "\n") + harmless_json(values)
    yield "]}\n"


def _capture_lines(capture: Capture) -> Iterator[str]:
    if capture.label:
        yield f"from      {on_one_line(capture.label)}"
    if capture.dialect is None:
        if capture.status is not None:
            yield f"answer    {status_text(capture.status)}"
        return
    form = f"streamed in {len(capture.events)} events" if capture.is_streamed else "not streamed"
    status = f", {status_text(capture.status)}" if capture.status is not None else ""
    yield f"answer    {capture.dialect}, {form}{status}"
    if capture.model is not None:
        yield f"model     {on_one_line(capture.model)}"
    if capture.error is not None:
        yield f"error     {on_one_line(capture.error)}"
        return
    usage = None if capture.usage is None else f"tokens    {_usage_text(capture.usage)}"
    yield from _choice_lines(capture, "reason  ", usage)
    for choice in capture.choices:
        yield from _choice_lines(choice, f"choice {choice.index}")


def _choice_lines(choice: CapturedChoice, heading: str, usage: str | None = None) -> Iterator[str]:
    named = f", stop {choice.matched!r}" if choice.matched is not None else ""
    yield f"{heading}  {on_one_line(choice.reason or 'none')}{named}"
    if isinstance(choice, Capture) and choice.verdict is not None:
        yield f"verdict   {on_one_line(choice.verdict)}"
    if usage is not None:
        yield usage
    if isinstance(choice, Capture) and choice.request_stops:
        yield f"stops     {', '.join(map(repr, choice.request_stops))}"
    if choice.thinking:
        yield f"thinking  {excerpt(repr(choice.thinking), _SHOWN_CHARS)}"
    for call in choice.tool_calls:
        yield f"call      {on_one_line(call.name)}({on_one_line(call.arguments, _SHOWN_CHARS)})"
    yield f"text      {excerpt(repr(choice.text), _SHOWN_CHARS)}"


def _usage_text(usage: CapturedUsage) -> str:
    prompt, output = (
        "unknown" if count is None else count for count in (usage.input_tokens, usage.output_tokens)
    )
    cached = f", {usage.cached_tokens} cached" if usage.cached_tokens is not None else ""
    return f"prompt {prompt}{cached}, answer {output}"


def _finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    yield ""
    if not findings:
        yield "Nothing is wrong with it."
    for finding in findings:
        event = f" (event {finding.event_index})" if finding.event_index is not None else ""
        yield f"{finding.severity.upper()} {finding.code}{event}: {on_one_line(finding.sentence)}"
        if finding.excerpt:
            yield f"    {finding.excerpt!r}"

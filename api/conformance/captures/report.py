"""Reports a captured answer and its findings as text and as JSON. Pure; any thread."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from api.conformance.captures.values import (
    Capture,
    CapturedCall,
    CapturedUsage,
    Finding,
    Severity,
    status_in_words,
)
from api.terminal_text import harmless, harmless_json, on_one_line

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
        one.name: _plain(getattr(capture, one.name))
        for one in dataclasses.fields(capture)
        if one.name not in ("events", "findings")
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
        return [_plain(one) for one in value]
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

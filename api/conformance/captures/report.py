"""A captured answer and its findings, in words and as JSON values. Pure; any thread."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from api.conformance.captures.harmless import harmless, on_one_line
from api.conformance.captures.values import Capture, CapturedUsage, Finding, Severity

FORMAT = 1
_UNKNOWN = "unknown"


def has_faults(findings: Sequence[Finding]) -> bool:
    """Whether something is wrong, not merely suspicious or worth knowing."""
    return any(finding.severity is Severity.ERROR for finding in findings)


def as_text(capture: Capture, findings: Sequence[Finding]) -> str:
    """Return what an answer says and what is wrong with it, a line for each thing."""
    return harmless("\n".join((*_capture_lines(capture), *_finding_lines(findings)))) + "\n"


def as_data(capture: Capture, findings: Sequence[Finding]) -> dict[str, Any]:
    """Return the same as an object that ``json`` can write."""
    data = dataclasses.asdict(capture)
    data.pop("findings")
    return {
        "format": FORMAT,
        **data,
        "findings": [dataclasses.asdict(finding) for finding in findings],
    }


def _capture_lines(capture: Capture) -> Iterator[str]:
    if capture.dialect is None:
        return
    form = f"streamed in {len(capture.events)} events" if capture.is_streamed else "not streamed"
    status = f", HTTP {capture.status}" if capture.status is not None else ""
    yield f"answer    {capture.dialect}, {form}{status}"
    if capture.model is not None:
        yield f"model     {on_one_line(capture.model)}"
    if capture.error is not None:
        yield f"error     {on_one_line(capture.error)}"
        return
    matched = f", stop {capture.matched!r}" if capture.matched is not None else ""
    yield f"reason    {on_one_line(capture.reason or 'none')}{matched}"
    if capture.usage is not None:
        yield f"tokens    {_usage(capture.usage)}"
    if capture.asked_stops:
        yield f"stops     {', '.join(map(repr, capture.asked_stops))}"
    if capture.thinking:
        yield f"thinking  {capture.thinking!r}"
    for call in capture.tool_calls:
        yield f"call      {on_one_line(call.name)}({on_one_line(call.arguments)})"
    yield f"text      {capture.text!r}"


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

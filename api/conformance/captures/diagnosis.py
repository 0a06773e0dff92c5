"""What is wrong with a captured answer: its form, its reason, and what it did with the stops.

Pure; any thread.
"""

from collections.abc import Iterator, Sequence

from api.conformance.captures.matching import first_occurrence, unfinished_stop
from api.conformance.captures.values import (
    Capture,
    CapturedEnding,
    Finding,
    Severity,
    WireDialect,
    excerpt,
)

_SHOWN = 40


def diagnose(capture: Capture, stops: Sequence[str] = ()) -> list[Finding]:
    """Return all findings of an answer, those of its form first.

    Args:
        capture: The answer.
        stops: The stops of its request; without them those of a curl line that was captured too.
    """
    wanted = tuple(stop for stop in (stops or capture.asked_stops) if stop)
    findings = list(capture.findings)
    if capture.dialect is None or not capture.events:
        return findings
    if capture.error is not None:
        shown = excerpt(capture.error)
        findings.append(Finding("error", Severity.NOTE, f"The server reports: {shown}"))
        return findings
    findings.extend(_reason(capture))
    findings.extend(_sequence(capture, wanted))
    findings.extend(_text(capture, wanted))
    return findings


def _reason(capture: Capture) -> Iterator[Finding]:
    if capture.reason is None:
        yield Finding(
            "reason_missing",
            Severity.ERROR,
            "The answer gives no reason for its end; some clients raise an error, others wait.",
        )


def _sequence(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    """Judge what is said to have matched, where the dialect has a place for it."""
    if capture.dialect is WireDialect.MESSAGES:
        if capture.ending is CapturedEnding.STOP and capture.matched is None:
            yield Finding(
                "sequence_null",
                Severity.ERROR,
                "stop_reason is stop_sequence, but stop_sequence is null, so it is not known "
                "which stop matched.",
            )
        elif capture.ending is not CapturedEnding.STOP and capture.matched is not None:
            yield Finding(
                "sequence_without_reason",
                Severity.ERROR,
                f"stop_sequence is set although stop_reason is {capture.reason}.",
                excerpt=str(capture.matched),
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
    found = first_occurrence(text, stops)
    if found is None:
        yield from _left_over(capture, stops)
        return
    yield Finding(
        "stop_in_text",
        Severity.ERROR,
        f"The text contains the stop {found.stop!r}, at character {found.start}.",
        _event_at(capture, found.start),
        excerpt(text[max(0, found.start - _SHOWN) : found.end + _SHOWN]),
    )
    rest = text[found.end :]
    if rest:
        yield Finding(
            "text_after_stop",
            Severity.ERROR,
            f"The text goes on for {len(rest)} characters after the stop {found.stop!r}.",
            _event_at(capture, found.end),
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
            f"The text ends with the stop {found.stop!r}, but the answer names no match.",
        )


def _left_over(capture: Capture, stops: Sequence[str]) -> Iterator[Finding]:
    found = unfinished_stop(capture.text, stops)
    if found is None:
        return
    letters, stop = found
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
    """Return the event that brought the character at ``offset``."""
    seen = 0
    for event in capture.events:
        seen += len(event.text)
        if seen > offset:
            return event.index
    return None

"""Converts captured answers to the inspector's views. Pure; any thread."""

from collections.abc import Sequence
from itertools import islice

from api.conformance.captures.diagnosis import diagnose
from api.conformance.captures.opening import captures_of
from api.conformance.captures.recordings import as_archive, opened
from api.conformance.captures.report import as_text, has_faults
from api.conformance.captures.values import Capture, Severity
from engine import counted, quoted
from ui.inspector.shown_run import CaptureFinding, CaptureView

# The window shows no more findings; ``fullstop inspect`` prints all.
_MOST = 100
# The same as the window's limit for files; for a compressed file, the decompressed size.
_MOST_BYTES = 16 * 1024 * 1024
_ORDER = {Severity.ERROR: 0, Severity.WARNING: 1, Severity.NOTE: 2}


def capture_text(content: bytes) -> str:
    """Return the content of a file as a text for ``read_capture``."""
    found = opened(content, _MOST_BYTES)
    return as_archive(found.records) if found.records else found.decode(found.text)


def read_capture(text: str, stops: Sequence[str] = ()) -> CaptureView:
    """Read a captured answer with its findings.

    Of several answers, the first one with an error is shown, or else the first one. The findings
    and the report cover all answers.
    """
    judged = [(one, diagnose(one, tuple(stops))) for one in islice(captures_of(text), _MOST)]
    number, (capture, _) = next(
        (one for one in enumerate(judged) if has_faults(one[1][1])), (0, judged[0])
    )
    shown = tuple(
        CaptureFinding(
            one.severity.value,
            one.sentence if len(judged) == 1 else f"Answer {at + 1}: {one.sentence}",
            one.excerpt,
            one.event_index if at == number else None,
        )
        for at, (_, findings) in enumerate(judged)
        for one in sorted(findings, key=lambda one: _ORDER[one.severity])
    )
    if capture.dialect is None:
        why = shown[0].sentence if shown else "The format was not recognised."
        return CaptureView(why, is_answer=False, findings=shown)
    form = "not streamed"
    if capture.is_streamed:
        form = f"streamed in {counted(len(capture.events), 'event')}"
    among = f"Answer {number + 1} of {len(judged)}: " if len(judged) > 1 else "Format: "
    return CaptureView(
        title=f"{among}{capture.dialect.value}, {form}",
        is_answer=True,
        facts=tuple(_facts(capture)),
        thinking=capture.thinking,
        text=capture.text,
        matched=capture.matched if isinstance(capture.matched, str) else None,
        findings=shown,
        events=tuple((event.name or "", event.raw) for event in capture.events),
        report="\n".join(as_text(one, findings) for one, findings in judged),
    )


def _facts(capture: Capture) -> list[tuple[str, str]]:
    usage = capture.usage
    facts = [("Reason", capture.reason or "none")]
    if capture.says_matched or capture.matched is not None:
        matched = capture.matched
        named = "null" if matched is None else f"token {matched}"
        if isinstance(matched, str):
            named = quoted(matched, 40)
        facts.append(("Matched stop", named))
    if capture.asked_stops:
        facts.append(("Requested stops", "  ".join(quoted(one, 40) for one in capture.asked_stops)))
    if capture.model:
        facts.append(("Model", capture.model))
    if capture.status is not None:
        facts.append(("Status", str(capture.status)))
    if capture.error is not None:
        facts.append(("Error", capture.error))
    given = "unknown" if usage is None or usage.input_tokens is None else f"{usage.input_tokens:,}"
    made = "unknown" if usage is None or usage.output_tokens is None else f"{usage.output_tokens:,}"
    facts.append(("Tokens", f"prompt {given}, answer {made}"))
    facts += [("Tool call", f"{call.name}({call.arguments})") for call in capture.tool_calls]
    facts += [
        (f"Choice {one.index}", f"{one.reason or 'no reason'}: {quoted(one.text, 40)}")
        for one in capture.choices
    ]
    return facts

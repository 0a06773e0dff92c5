"""A report as a table that can be pasted into a bug report, with commands that show each fault.

Pure; any thread.
"""

from collections.abc import Iterator, Sequence

from api.conformance.captures.harmless import harmless, on_one_line
from api.conformance.probe.values import CheckOutcome, CheckResult, Fault, Report

_SIGNS = {
    CheckOutcome.HELD: "Passed",
    CheckOutcome.FAILED: "Failed",
    CheckOutcome.UNDECIDED: "Unclear",
    CheckOutcome.SKIPPED: "Skipped",
    CheckOutcome.NOT_ASKED: "Not asked",
}
_SEEN_WIDTH = 90
_TEXT_WIDTH = 300
_NAME_WIDTH = 200


def as_text(report: Report) -> str:
    """Return the report as Markdown that also reads well in a terminal."""
    return harmless("\n".join(_lines(report))) + "\n"


def summary(report: Report) -> str:
    """Return in one sentence what was found."""
    held = sum(one.outcome is CheckOutcome.HELD for one in report.results)
    failed, left_out = len(report.failed), len(report.not_asked)
    judged = held + failed
    if failed:
        said = f"{failed} of {judged} checks failed"
    elif report.is_complete:
        said = f"All {judged} checks passed"
    else:
        said = f"Incomplete: {judged} checks passed"
    why = f" ({report.cut_short})" if report.cut_short else ""
    rest = f"; {left_out} were not asked{why}" if left_out else ""
    return f"{said}{rest}."


def _lines(report: Report) -> Iterator[str]:
    yield f"## Stops at {report.url}"
    yield ""
    yield f"- dialect: {report.dialect}"
    yield f"- model: {on_one_line(report.model, _NAME_WIDTH)}"
    if report.server:
        yield f"- server: {on_one_line(report.server, _NAME_WIDTH)}"
    yield f"- same answers each time: {'yes' if report.is_deterministic else 'no'}"
    yield f"- {report.requests} requests in {report.duration_s:.1f} s"
    if report.other_dialects:
        yield f"- answers too, not probed: {', '.join(report.other_dialects)}"
    yield ""
    yield from _table(report.results)
    yield ""
    yield f"**{summary(report)}**"
    for result in report.failed:
        yield ""
        yield f"### {result.title} ({result.code})"
        for fault in result.faults:
            yield from _fault(fault)


def _table(results: Sequence[CheckResult]) -> Iterator[str]:
    rows = [("check", "result", "what was seen")]
    rows += [(one.title, _SIGNS[one.outcome], _cell(one.sentence)) for one in results]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for number, row in enumerate(rows):
        cells = (row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2])
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|---|"


def _cell(text: str) -> str:
    shown = harmless(text).replace("|", "\\|").replace("\n", " ")
    return shown if len(shown) <= _SEEN_WIDTH else shown[: _SEEN_WIDTH - 1] + "…"


def _fault(fault: Fault) -> Iterator[str]:
    yield ""
    mode = f" ({fault.mode})" if fault.mode else ""
    yield f"- **{fault.code}**{mode}: {on_one_line(fault.sentence)}"
    if fault.expected or fault.got:
        yield f"  - expected: `{_shown(fault.expected)}`"
        yield f"  - got: `{_shown(fault.got)}`"
    if fault.curl:
        yield ""
        yield "  ```sh"
        yield from (f"  {line}" for line in fault.curl.split("\n"))
        yield "  ```"


def _shown(text: str) -> str:
    shown = repr(text).replace("`", "'")
    return shown if len(shown) <= _TEXT_WIDTH else shown[: _TEXT_WIDTH - 1] + "…"

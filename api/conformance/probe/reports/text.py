"""The report of a run for people, as text and as Markdown.

Pure; any thread.
"""

import html
import json
import re
from collections.abc import Callable, Iterator, Sequence

from api.conformance.probe.reports.suite import ProbeSuite, SuiteVerdict
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Fault, Report
from api.terminal_text import harmless, on_one_line

# Escapes any text for Markdown: code spans, cells, fences.

# A quoted text, as ``repr`` writes it, and not an apostrophe.
_QUOTED = re.compile(r"(?<![\w`])('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?![\w`])")
_TICKS = re.compile(r"`+")


def code(text: str) -> str:
    """Return any text as a code span."""
    shown = on_one_line(text)
    longest = max((len(found) for found in _TICKS.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}"


def with_code(sentence: str) -> str:
    """Return a sentence with its quoted texts as code spans."""
    return _QUOTED.sub(lambda found: code(found[0]), on_one_line(sentence))


def cell(text: str, most_chars: int) -> str:
    """Return a sentence for a cell of a table, shortened if it is too long."""
    shown = harmless(text)
    if len(shown) > most_chars:
        # A quoted text that was cut is no longer a code span.
        shown = shown[: most_chars - 1] + "…"
    return with_code(shown).replace("|", "\\|")


def fenced(text: str, language: str = "") -> list[str]:
    """Return a block of text as lines between fences that it cannot end."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *harmless(text).split("\n"), fence]


# A report as text that can be pasted into a bug report, with commands that show each fault.
#
# It is Markdown that also reads well in a terminal; ``as_markdown`` adds the raw answers, folded.

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
# Shown characters of a raw answer; the JSON report has the whole answer.
_RAW_CHARS = 4_000


def as_text(report: Report) -> str:
    """Return the report as text for a terminal and for a bug report."""
    return harmless("\n".join(_lines(report, has_raw=False))) + "\n"


def as_markdown(report: Report) -> str:
    """Return the report as a page of Markdown, with the raw answers folded."""
    return harmless("\n".join(_lines(report, has_raw=True))) + "\n"


def summary(report: Report) -> str:
    """Return the result in one sentence."""
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


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield facts about the server and the probe, each with a name and a text."""
    yield "dialect", report.dialect
    if report.model:
        yield "model", report.model
    if report.server:
        yield "server", report.server
    yield "same answers each time", "yes" if report.is_deterministic else "no"
    yield "requests", f"{report.requests} in {report.duration_s:.1f} s"
    if report.waits:
        times = "once" if report.waits == 1 else f"{report.waits} times"
        yield "busy", f"waited for {times}, {report.waited_s:.1f} s in all"
    if report.tool:
        yield "probed by", f"{report.tool}, {report.began_at}".rstrip(", ")
    yield "levels that count", ", ".join(sorted(report.levels))
    yield from (("concluded", sentence) for sentence in report.conclusions)
    if report.other_dialects:
        yield "answers too, not probed", ", ".join(report.other_dialects)


def faults_as_text(result: CheckResult) -> str:
    """Return the findings of a check as plain lines."""
    lines = [result.rule] if result.rule else []
    if result.reference is not None:
        lines.append(f"{result.reference.sentence} {result.reference.address}")
    for fault in result.faults:
        lines.append(f"{fault.code}{f' ({fault.mode})' if fault.mode else ''}: {fault.sentence}")
        lines += [f"  {name}: {_short(text)}" for name, text in compared(fault)]
        lines += [f"  {fault.curl}"] if fault.curl else []
    return "\n".join(lines)


def compared(fault: Fault) -> list[tuple[str, str]]:
    """Return the expected text, the actual text, and the text without stops, if known."""
    named = []
    if fault.expected or fault.got:
        named += [("expected", fault.expected), ("got", fault.got)]
    if fault.baseline:
        named.append(("without stops", fault.baseline))
    return named


def _lines(report: Report, *, has_raw: bool) -> Iterator[str]:
    yield f"## Stops at {report.url}"
    yield ""
    yield from (f"- {name}: {on_one_line(text, _NAME_WIDTH)}" for name, text in facts(report))
    yield ""
    yield f"**{summary(report)}**"
    for result in report.failed:
        yield from _failure(report, result, has_raw=has_raw)
    if report.remarks:
        yield ""
        yield "### Failed, of levels that do not count"
        for result in report.remarks:
            yield from _failure(report, result, has_raw=has_raw)
    yield ""
    yield from _table(report.results)


def _failure(report: Report, result: CheckResult, *, has_raw: bool) -> Iterator[str]:
    yield ""
    yield f"### {result.title} ({result.code})"
    yield ""
    if result.rule:
        yield f"{result.level.capitalize()}: {with_code(result.rule)}"
    if result.reference is not None:
        yield f"{result.reference.sentence} <{result.reference.address}>"
    for fault in result.faults:
        yield from _fault(fault)
    folded = report.consequences_of(result.code)
    if folded:
        yield ""
        names = ", ".join(code(one.code) for one in folded)
        yield f"Checks that fail for the same reason: {names}."
    if has_raw and result.exchanges:
        yield from _raw(result.exchanges)


def _raw(exchanges: Sequence[Exchange]) -> Iterator[str]:
    for number, one in enumerate(exchanges, 1):
        status = f"status {one.status}" if one.status else "no status"
        problem = f", {html.escape(on_one_line(one.problem))}" if one.problem else ""
        yield ""
        yield f"<details><summary>Answer {number}: {one.mode}, {status}{problem}</summary>"
        yield ""
        asked = one.body.decode("utf-8", "replace") if isinstance(one.body, bytes) else one.body
        shown = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
        yield from fenced(_cut(shown), "json")
        yield from fenced(_cut(one.text))
        yield ""
        yield "</details>"


def _cut(text: str) -> str:
    if len(text) <= _RAW_CHARS:
        return text
    return f"{text[:_RAW_CHARS]}\n… {len(text) - _RAW_CHARS:,} more characters"


def _table(results: Sequence[CheckResult]) -> Iterator[str]:
    rows = [("check", "result", "what was seen")]
    rows += [(one.title, _sign(one), cell(_seen(one), _SEEN_WIDTH)) for one in _ordered(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for number, row in enumerate(rows):
        cells = (row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2])
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|---|"


def _ordered(results: Sequence[CheckResult]) -> list[CheckResult]:
    """Return the failures first, then undecided checks, then the rest."""
    order = (CheckOutcome.FAILED, CheckOutcome.NOT_ASKED, CheckOutcome.UNDECIDED)
    return sorted(
        results, key=lambda one: order.index(one.outcome) if one.outcome in order else len(order)
    )


def _sign(result: CheckResult) -> str:
    return _SIGNS[result.outcome]


def _seen(result: CheckResult) -> str:
    return f"Follows from {result.cause}." if result.cause else result.sentence


def _fault(fault: Fault) -> Iterator[str]:
    yield ""
    mode = f" ({fault.mode})" if fault.mode else ""
    yield f"- **{fault.code}**{mode}: {with_code(fault.sentence)}"
    for name, text in compared(fault):
        yield f"  - {name}: {code(_short(text))}"
    if fault.curl:
        yield ""
        yield from (f"  {line}" for line in fenced(fault.curl, "sh"))


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= _TEXT_WIDTH else shown[: _TEXT_WIDTH - 1] + "…"


# All reports of a call as text and as Markdown, with their overall verdict.

_SAID = {
    SuiteVerdict.HELD: "All checks that count passed.",
    SuiteVerdict.FAILED: "A check that counts failed.",
    SuiteVerdict.INCOMPLETE: "Incomplete: some checks were not run, or most were undecided.",
    SuiteVerdict.UNREACHABLE: "There is nothing to judge.",
    SuiteVerdict.INTERRUPTED: "Interrupted: the results so far are above.",
}


def suite_as_text(suite: ProbeSuite) -> str:
    """Return the reports for a terminal."""
    return _joined(suite, as_text)


def suite_as_markdown(suite: ProbeSuite) -> str:
    """Return the reports as a page of Markdown, with the raw answers folded."""
    return _joined(suite, as_markdown)


def _joined(suite: ProbeSuite, shown: Callable[[Report], str]) -> str:
    parts = [shown(report) for report in suite.reports]
    closing = list(_closing(suite))
    if closing:
        parts.append(harmless("\n".join(closing)) + "\n")
    return "\n".join(parts)


def _closing(suite: ProbeSuite) -> Iterator[str]:
    """Yield the lines about all reports together."""
    if suite.problem:
        yield f"{on_one_line(suite.problem)}"
    yield from (f"- {name}: {on_one_line(why)}" for name, why in suite.problems)
    known = [
        (report, result)
        for report in suite.reports
        for result in report.failed
        if suite.is_expected(report, result)
    ]
    yield from _named("Expected failures", known)
    yield from _named("Passed, though expected to fail", suite.unexpected_passes)
    if suite.expected.entries or len(suite.reports) > 1 or suite.is_interrupted:
        yield f"**{_SAID[suite.verdict]}**"


def _named(title: str, pairs: Sequence[tuple[Report, CheckResult]]) -> Iterator[str]:
    if pairs:
        yield f"{title}: {', '.join(code(f'{one.dialect}:{two.code}') for one, two in pairs)}."
        yield ""

"""Reports as Markdown that also reads well in a terminal and in a bug report.

Pure; any thread.
"""

import html
import re
from collections.abc import Iterator, Sequence

from api.conformance.captures.values import excerpt
from api.conformance.probe.suite import (
    OUTCOME_NAMES,
    REMARKS_TITLE,
    ProbeSuite,
    compare_texts,
    exchange_title,
    facts,
    failure_groups,
    group_faults,
    request_text,
    sort_results,
    summary,
    table_text,
    without_middle,
)
from api.conformance.probe.values import CheckResult, Report, Verdict
from api.terminal_text import harmless, on_one_line

_VERDICTS = {
    Verdict.HELD: "All checks that count passed.",
    Verdict.FAILED: "A check that counts failed.",
    Verdict.INCOMPLETE: "Incomplete: some checks were not run.",
    Verdict.NOT_JUDGED: "Not judged: most checks of a kind said nothing.",
    Verdict.UNREACHABLE: "There is nothing to judge.",
    Verdict.INTERRUPTED: "Interrupted: the results so far are above.",
}
# A quoted text, as ``repr`` writes it, and not an apostrophe.
_QUOTED = re.compile(r"(?<![\w`])('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(?![\w`])")
_TICKS = re.compile(r"`+")
_CELL_CHARS = 90
# The JSON report has the whole answer.
_RAW_CHARS = 4_000


def suite_as_markdown(suite: ProbeSuite, *, has_raw: bool = True) -> str:
    """Return all reports of a call, with the raw answers folded if requested."""
    parts = [as_markdown(report, has_raw=has_raw) for report in suite.reports]
    closing = "\n".join(_closing_lines(suite))
    if closing:
        parts.append(harmless(closing) + "\n")
    return "\n".join(parts)


def as_markdown(report: Report, *, has_raw: bool = True) -> str:
    """Return one report, with the raw answers folded if requested."""
    return harmless("\n".join(_lines(report, has_raw=has_raw))) + "\n"


def as_text(report: Report) -> str:
    """Return one report for a terminal and for a bug report."""
    return as_markdown(report, has_raw=False)


def failure_as_text(result: CheckResult) -> str:
    """Return the section of one failure."""
    return "\n".join(_failure_lines(result, (), has_raw=False)).strip()


def code_span(text: str) -> str:
    """Return any text as a code span."""
    shown = on_one_line(text)
    longest = max((len(found) for found in _TICKS.findall(shown)), default=0)
    if not longest:
        return f"`{shown}`"
    ticks = "`" * (longest + 1)
    return f"{ticks} {shown} {ticks}"


def _with_code(sentence: str) -> str:
    """Return a sentence with its quoted texts as code spans."""
    return _QUOTED.sub(lambda match: code_span(match[0]), on_one_line(sentence))


def _fenced(text: str, language: str = "") -> list[str]:
    """Return a block of text as lines between fences that it cannot end."""
    longest = max((len(found) for found in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}{language}", *harmless(text).split("\n"), fence]


def _lines(report: Report, *, has_raw: bool) -> Iterator[str]:
    yield from (f"## Stops at {report.url}", "", f"**{summary(report)}**")
    for title, results in (("", report.failed), (REMARKS_TITLE, report.remarks)):
        if title and results:
            yield from ("", f"### {title}")
        for result, similar in failure_groups(results):
            yield from _failure_lines(result, similar, has_raw=has_raw)
    yield ""
    yield from (f"- {name}: {on_one_line(text, 200)}" for name, text in facts(report))
    yield ""
    yield from _table_lines(report.results)


def _failure_lines(
    result: CheckResult, similar: Sequence[CheckResult], *, has_raw: bool
) -> Iterator[str]:
    yield from ("", f"### {result.title} ({result.check_id})")
    for fault, modes in group_faults(result):
        mode = f" ({modes})" if modes else ""
        yield from ("", f"- **{fault.code}**{mode}: {_with_code(fault.sentence)}")
        for name, text in compare_texts(fault):
            yield f"  - {name}: {code_span(excerpt(repr(text), 300))}"
        if fault.curl:
            yield ""
            yield from (f"  {line}" for line in _fenced(fault.curl, "sh"))
    yield ""
    if result.rule:
        yield f"{result.level.capitalize()}: {_with_code(result.rule)}"
    if result.reference is not None:
        yield f"{result.reference.sentence} <{result.reference.address}>"
    if similar:
        yield from (
            "",
            f"Fails in the same way: {', '.join(code_span(one.check_id) for one in similar)}.",
        )
    for number, exchange in enumerate(result.exchanges if has_raw else (), 1):
        title = html.escape(exchange_title(number, exchange))
        yield from ("", f"<details><summary>{title}</summary>", "")
        yield from _fenced(without_middle(request_text(exchange), _RAW_CHARS), "json")
        yield from _fenced(without_middle(exchange.text, _RAW_CHARS))
        yield from ("", "</details>")


def _table_lines(results: Sequence[CheckResult]) -> Iterator[str]:
    rows = [("check", "result", "what was seen")]
    rows += [(one.title, OUTCOME_NAMES[one.outcome], _cell(one)) for one in sort_results(results)]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    lines = [f"| {row[0]:{widths[0]}} | {row[1]:{widths[1]}} | {row[2]} |" for row in rows]
    yield lines[0]
    yield f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|---|"
    yield from lines[1:]


def _cell(result: CheckResult) -> str:
    text = harmless(table_text(result))
    if len(text) > _CELL_CHARS:
        # A quoted text that was cut is no longer a code span.
        text = text[: _CELL_CHARS - 1] + "…"
    return _with_code(text).replace("|", "\\|")


def _closing_lines(suite: ProbeSuite) -> Iterator[str]:
    """Yield the lines about all reports together."""
    if suite.problem:
        yield on_one_line(suite.problem)
    yield from (f"- {name}: {on_one_line(why)}" for name, why in suite.problems)
    for title, pairs in (
        ("Expected failures", suite.known_failures),
        ("Passed, though expected to fail", suite.unexpected_passes),
    ):
        names = []
        for report, result in pairs:
            line = suite.expectation(report, result)
            name = code_span(f"{report.dialect}:{result.check_id}")
            names.append(name + (line.suffix if line is not None else ""))
        if names:
            yield from (f"{title}: {', '.join(names)}.", "")
    if suite.expected or len(suite.reports) > 1 or suite.is_interrupted:
        yield f"**{_VERDICTS[suite.verdict]}**"

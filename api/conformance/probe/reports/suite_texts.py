"""All reports of a call as text and as Markdown, with their overall verdict. Pure; any thread."""

from collections.abc import Callable, Iterator, Sequence

from api.conformance.captures.harmless import harmless, on_one_line
from api.conformance.probe.reports.as_text import as_markdown, as_text
from api.conformance.probe.reports.marking import code
from api.conformance.probe.reports.suite import ProbeSuite, SuiteVerdict
from api.conformance.probe.values import CheckResult, Report

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

"""The report of a run for people, as text and as Markdown, of one dialect or of several together.

Pure; any thread.
"""

import html
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from api.conformance.probe.catalogue import CASES
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Fault, Report
from api.terminal_text import harmless, on_one_line

# The file of expected failures: checks that are known to fail, one per line.

_DIALECTS = tuple(dialect.value for dialect in DRIVERS)


class ExpectedFileWrong(ValueError):
    """A line names no check or no dialect; the message says which."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected failures.

    Attributes:
        entries: Pairs of a dialect (empty for all) and a pattern of check ids.
    """

    entries: tuple[tuple[str, str], ...] = ()

    def names(self, dialect: str, code: str) -> bool:
        """Whether the failure of a check is expected."""
        return any(
            where in ("", dialect) and fnmatchcase(code, pattern) for where, pattern in self.entries
        )


def read_expected(text: str) -> Expected:
    """Read a file: ``[dialect:]id`` on each line, ``#`` before comments.

    Raises:
        ExpectedFileWrong: A line names no check or no dialect.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        named = line.partition("#")[0].strip()
        if not named:
            continue
        dialect, colon, pattern = named.rpartition(":")
        if colon and dialect not in _DIALECTS:
            raise ExpectedFileWrong(
                f"line {number}: {dialect!r} is not a dialect ({', '.join(_DIALECTS)})"
            )
        if unknown := unknown_patterns([pattern]):
            raise ExpectedFileWrong(
                f"line {number}: no check has the id {unknown[0]!r}; fullstop probe --list has all"
            )
        entries.append((dialect, pattern))
    return Expected(tuple(entries))


def unknown_patterns(patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match no check."""
    return [
        pattern for pattern in patterns if not any(fnmatchcase(one.code, pattern) for one in CASES)
    ]


# All reports of one call of the probe, one for each dialect, and their overall verdict.


class SuiteVerdict(StrEnum):
    """The overall verdict of a call of the probe."""

    HELD = "held"
    FAILED = "failed"
    INCOMPLETE = "incomplete"
    UNREACHABLE = "unreachable"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class ProbeSuite:
    """The reports of one call.

    Attributes:
        url: The address that was given.
        reports: One for each dialect.
        problems: For each requested dialect without a report, why.
        problem: Why there is no report at all; empty if there is one.
        is_interrupted: Whether a person interrupted it.
        expected: The expected failures.
    """

    url: str
    reports: tuple[Report, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    is_interrupted: bool = False
    expected: Expected = field(default_factory=Expected)

    @property
    def verdict(self) -> SuiteVerdict:
        """The overall verdict; expected failures count as passes."""
        if self.failures or self.unexpected_passes:
            return SuiteVerdict.FAILED
        if self.is_interrupted:
            return SuiteVerdict.INTERRUPTED
        if not self.reports:
            return SuiteVerdict.UNREACHABLE
        if self.problems or any(not report.is_complete for report in self.reports):
            return SuiteVerdict.INCOMPLETE
        return SuiteVerdict.HELD

    @property
    def failures(self) -> tuple[tuple[Report, CheckResult], ...]:
        """The failures that count and are not expected."""
        return tuple(
            (report, result)
            for report in self.reports
            for result in report.failed
            if not self.is_expected(report, result)
        )

    @property
    def unexpected_passes(self) -> tuple[tuple[Report, CheckResult], ...]:
        """The checks that passed although the file says that they fail."""
        return tuple(
            (report, result)
            for report, result in self._results()
            if result.outcome is CheckOutcome.HELD and self.is_expected(report, result)
        )

    def is_expected(self, report: Report, result: CheckResult) -> bool:
        """Whether a check of a report is in the file of expected failures."""
        return self.expected.names(report.dialect, result.code)

    def counts(self, report: Report, result: CheckResult) -> bool:
        """Whether a result is a failure that makes the call fail."""
        return result in report.failed and not self.is_expected(report, result)

    def _results(self) -> Iterator[tuple[Report, CheckResult]]:
        for report in self.reports:
            for result in report.results:
                yield report, result


def of_one(report: Report) -> ProbeSuite:
    """Return the suite of a probe of one dialect."""
    return ProbeSuite(report.url, (report,))


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

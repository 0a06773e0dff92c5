"""The report of a run for people, as text and as Markdown, of one dialect or of several together.

Pure; any thread.
"""

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import unified_diff
from fnmatch import fnmatchcase

from api.conformance.probe.catalogue import CASES
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.values import (
    CheckOutcome,
    CheckResult,
    Exchange,
    Fault,
    Report,
    Verdict,
)
from api.terminal_text import harmless, on_one_line

# The file of expected failures: checks that are known to fail, one per line.

_DIALECTS = tuple(dialect.value for dialect in DRIVERS)
_FLAKY = "flaky"


class ExpectedFileWrong(ValueError):
    """A line names no check or no dialect, or has an unknown word; the message says which."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One line of the file.

    Attributes:
        dialect: The dialect; empty for all.
        pattern: A pattern of check ids.
        is_flaky: Whether the check may hold, too.
        link: The address of the issue about it; empty for none.
    """

    dialect: str
    pattern: str
    is_flaky: bool = False
    link: str = ""


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected failures."""

    entries: tuple[Expectation, ...] = ()

    def of(self, dialect: str, code: str) -> Expectation | None:
        """Return the line that expects the failure of a check, or None."""
        return next(
            (
                entry
                for entry in self.entries
                if entry.dialect in ("", dialect) and fnmatchcase(code, entry.pattern)
            ),
            None,
        )


def read_expected(text: str) -> Expected:
    """Read a file: ``[dialect:]id [flaky] [link]`` on each line, ``#`` before comments.

    Raises:
        ExpectedFileWrong: A line names no check or no dialect, or has an unknown word.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        # An address may have a "#", too, but no space before it.
        named, *words = re.split(r"(?:^|\s)#", line)[0].split() or [""]
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
        links = [word for word in words if word.startswith(("http://", "https://"))]
        if strange := [word for word in words if word not in (_FLAKY, *links)]:
            raise ExpectedFileWrong(
                f"line {number}: {strange[0]!r} is neither {_FLAKY!r} nor the address of an issue"
            )
        entries.append(Expectation(dialect, pattern, _FLAKY in words, "".join(links[:1])))
    return Expected(tuple(entries))


def unknown_patterns(patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match no check."""
    return [
        pattern
        for pattern in patterns
        if not any(fnmatchcase(case.code, pattern) for case in CASES)
    ]


# All reports of one call of the probe, one for each dialect, and their overall verdict.


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
    def verdict(self) -> Verdict:
        """The overall verdict; expected failures count as passes."""
        if self.failures or self.unexpected_passes:
            return Verdict.FAILED
        if self.is_interrupted:
            return Verdict.INTERRUPTED
        if not self.reports:
            return Verdict.UNREACHABLE
        verdicts = {report.verdict_without_failures for report in self.reports}
        if self.problems or Verdict.INCOMPLETE in verdicts:
            return Verdict.INCOMPLETE
        return Verdict.NOT_JUDGED if Verdict.NOT_JUDGED in verdicts else Verdict.HELD

    @property
    def failures(self) -> tuple[tuple[Report, CheckResult], ...]:
        """The failures that count and are not expected."""
        return tuple(
            (report, result)
            for report in self.reports
            for result in report.failed
            if self.expectation(report, result) is None
        )

    @property
    def known_failures(self) -> tuple[tuple[Report, CheckResult], ...]:
        """The failures that count and are expected."""
        return tuple(
            (report, result)
            for report in self.reports
            for result in report.failed
            if self.expectation(report, result) is not None
        )

    @property
    def unexpected_passes(self) -> tuple[tuple[Report, CheckResult], ...]:
        """The checks that passed although the file says that they always fail."""
        return tuple(
            (report, result)
            for report in self.reports
            for result in report.results
            if result.outcome is CheckOutcome.HELD
            and (line := self.expectation(report, result)) is not None
            and not line.is_flaky
        )

    def expectation(self, report: Report, result: CheckResult) -> Expectation | None:
        """Return the line of the file that expects a check of a report to fail, or None."""
        return self.expected.of(report.dialect, result.code)

    def counts(self, report: Report, result: CheckResult) -> bool:
        """Whether a result is a failure that makes the call fail."""
        return result in report.failed and self.expectation(report, result) is None


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
    return _QUOTED.sub(lambda match: code(match[0]), on_one_line(sentence))


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

WORDS = {
    CheckOutcome.HELD: "Passed",
    CheckOutcome.FAILED: "Failed",
    CheckOutcome.FLAKY: "Flaky",
    CheckOutcome.UNDECIDED: "Unclear",
    CheckOutcome.SKIPPED: "Skipped",
    CheckOutcome.NOT_RUN: "Not asked",
}
_ORDER = (
    *(CheckOutcome.FAILED, CheckOutcome.NOT_RUN, CheckOutcome.FLAKY),
    *(CheckOutcome.UNDECIDED, CheckOutcome.HELD, CheckOutcome.SKIPPED),
)
_SEEN_WIDTH = 90
_TEXT_WIDTH = 300
_NAME_WIDTH = 200
_HEALTH = "server.answers"
# Shown characters of a raw answer, most of them from its end, where faults are; the JSON report
# has the whole answer.
_RAW_CHARS = 4_000
_DIFF_LINES = 40


def as_text(report: Report) -> str:
    """Return the report as text for a terminal and for a bug report."""
    return harmless("\n".join(_lines(report, has_raw=False))) + "\n"


def as_markdown(report: Report) -> str:
    """Return the report as a page of Markdown, with the raw answers folded."""
    return harmless("\n".join(_lines(report, has_raw=True))) + "\n"


def summary(report: Report) -> str:
    """Return the result in a sentence or two."""
    held = sum(result.outcome is CheckOutcome.HELD for result in report.results)
    failed, left_out = len(report.failed), len(report.not_run)
    judged = held + failed
    if failed:
        said = f"{failed} of {judged} checks failed"
    elif report.verdict is Verdict.HELD:
        said = f"All {judged} checks passed"
    elif report.verdict is Verdict.NOT_JUDGED:
        said = f"Not judged: only {held} of {len(report.results)} checks say something"
    else:
        said = f"Incomplete: {held} checks passed"
    why = f" ({report.cut_short})" if report.cut_short else ""
    rest = f"; {left_out} {'was' if left_out == 1 else 'were'} not asked{why}" if left_out else ""
    return f"{said}{rest}.{advice(report)}"


def advice(report: Report) -> str:
    """Return what to do where most checks of a kind said nothing, after a space; else nothing."""
    silent = report.unjudged
    if not silent or report.failed or not report.is_complete:
        return ""
    counted = Counter(result.sentence for result in silent if result.sentence)
    reasons = [f"{on_one_line(why, 120).rstrip('.')} ({n})" for why, n in counted.most_common(3)]
    kind = "the checks of stops" if all(result.is_of_stops for result in silent) else "the checks"
    return (
        f" {len(silent)} of {kind} were not judged: {'; '.join(reasons)}. Try another question "
        "(--prompt TEXT), another model (--model NAME), or longer answers (--max-tokens N)."
    )


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


def headings(results: Sequence[CheckResult]) -> list[tuple[CheckResult, list[CheckResult]]]:
    """Return the failures that have a section, each with those that are shown under it."""
    there = {result.code: result for result in results}
    under: dict[str, list[CheckResult]] = {
        result.code: [] for result in results if result.cause not in there
    }
    for result in results:
        if result.cause in there:
            under.setdefault(result.cause, []).append(result)
    # What killed the server comes first.
    first = sorted(under, key=lambda code: code != _HEALTH)
    return [(there[code], under[code]) for code in first]


def grouped(result: CheckResult) -> list[tuple[Fault, str]]:
    """Return the faults of a check, each sentence once, with the modes in which it showed."""
    modes: dict[tuple[str, str], list[str]] = {}
    first: dict[tuple[str, str], Fault] = {}
    for fault in result.faults:
        key = (fault.code, fault.sentence)
        first.setdefault(key, fault)
        modes.setdefault(key, []).extend([fault.mode] if fault.mode else [])
    return [(one, ", ".join(dict.fromkeys(modes[key]))) for key, one in first.items()]


def faults_as_text(result: CheckResult) -> str:
    """Return the findings of a check as plain lines."""
    lines = [result.rule] if result.rule else []
    if result.reference is not None:
        lines.append(f"{result.reference.sentence} {result.reference.address}")
    for fault, modes in grouped(result):
        lines.append(f"{fault.code}{f' ({modes})' if modes else ''}: {fault.sentence}")
        lines += [f"  {name}: {_short(text)}" for name, text in compared(fault)]
        lines += [f"  {line}" for line in fault.curl.splitlines()]
    return "\n".join(lines)


def compared(fault: Fault) -> list[tuple[str, str]]:
    """Return the expected text, the actual text, and the text without stops, if known."""
    named = []
    if fault.expected or fault.got:
        named += [("expected", fault.expected), ("got", fault.got)]
    if fault.baseline and fault.baseline != fault.expected:
        named.append(("without stops", fault.baseline))
    return named


def difference(fault: Fault) -> list[str]:
    """Return the lines of a diff of the expected and the actual text; [] for short ones."""
    if "\n" not in fault.expected + fault.got and len(fault.expected + fault.got) < _TEXT_WIDTH:
        return []
    expected, got = (
        [repr(line)[1:-1] for line in text.splitlines(keepends=True)]
        for text in (fault.expected, fault.got)
    )
    lines = [one for one in unified_diff(expected, got, n=1, lineterm="") if one[:3] != "@@ "]
    shown = [on_one_line(line, _TEXT_WIDTH) for line in lines[2 : 2 + _DIFF_LINES]]
    left_out = len(lines) - 2 - len(shown)
    return [
        "--- expected",
        "+++ got",
        *shown,
        *([f"… {left_out} more lines"] if left_out > 0 else []),
    ]


def _lines(report: Report, *, has_raw: bool) -> Iterator[str]:
    yield f"## Stops at {report.url}"
    yield ""
    yield f"**{summary(report)}**"
    for result, under in headings(report.failed):
        yield from _failure(result, under, has_raw=has_raw)
    if report.remarks:
        yield ""
        yield "### Failed, of levels that do not count"
        for result, under in headings(report.remarks):
            yield from _failure(result, under, has_raw=has_raw)
    yield ""
    yield from (f"- {name}: {on_one_line(text, _NAME_WIDTH)}" for name, text in facts(report))
    yield ""
    yield from _table(report.results)


def _failure(result: CheckResult, under: Sequence[CheckResult], *, has_raw: bool) -> Iterator[str]:
    yield ""
    yield f"### {result.title} ({result.code})"
    for fault, modes in grouped(result):
        yield from _fault(fault, modes, has_diff=has_raw)
    yield ""
    if result.rule:
        yield f"{result.level.capitalize()}: {with_code(result.rule)}"
    if result.reference is not None:
        yield f"{result.reference.sentence} <{result.reference.address}>"
    if under:
        yield ""
        yield f"Fails in the same way: {', '.join(code(one.code) for one in under)}."
    if has_raw and result.exchanges:
        yield from _raw(result.exchanges)


def _raw(exchanges: Sequence[Exchange]) -> Iterator[str]:
    for number, exchange in enumerate(exchanges, 1):
        status = f"status {exchange.status}" if exchange.status else "no status"
        problem = f", {html.escape(on_one_line(exchange.problem))}" if exchange.problem else ""
        yield ""
        yield f"<details><summary>Answer {number}: {exchange.mode}, {status}{problem}</summary>"
        yield ""
        yield from fenced(cut(request_text(exchange), _RAW_CHARS), "json")
        yield from fenced(cut(exchange.text, _RAW_CHARS))
        yield ""
        yield "</details>"


def request_text(exchange: Exchange) -> str:
    """Return the body of a request as text."""
    body = exchange.body
    if isinstance(body, bytes):
        return body.decode("utf-8", "replace")
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def cut(text: str, max_chars: int) -> str:
    """Return the beginning and the end of a long text; most of it from the end."""
    if len(text) <= max_chars:
        return text
    begin = max_chars // 4
    left_out = len(text) - max_chars
    return f"{text[:begin]}\n… {left_out:,} characters …\n{text[-(max_chars - begin) :]}"


def _table(results: Sequence[CheckResult]) -> Iterator[str]:
    rows = [("check", "result", "what was seen")]
    rows += [
        (result.title, WORDS[result.outcome], cell(seen(result), _SEEN_WIDTH))
        for result in ordered(results)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(2)]
    for number, row in enumerate(rows):
        cells = (row[0].ljust(widths[0]), row[1].ljust(widths[1]), row[2])
        yield f"| {' | '.join(cells)} |"
        if number == 0:
            yield f"|{'-' * (widths[0] + 2)}|{'-' * (widths[1] + 2)}|---|"


def ordered(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the failures first, each before those shown under it, and what does not apply last."""
    return sorted(results, key=lambda result: _ORDER.index(result.outcome))


def seen(result: CheckResult) -> str:
    """Return what a table says of a check: the sentence of a failure is in its section."""
    if result.cause:
        return f"As {result.cause}."
    return "See above." if result.outcome is CheckOutcome.FAILED else result.sentence


def _fault(fault: Fault, modes: str, *, has_diff: bool) -> Iterator[str]:
    yield ""
    mode = f" ({modes})" if modes else ""
    yield f"- **{fault.code}**{mode}: {with_code(fault.sentence)}"
    for name, text in compared(fault):
        yield f"  - {name}: {code(_short(text))}"
    if has_diff and (lines := difference(fault)):
        yield ""
        yield from (f"  {line}" for line in fenced("\n".join(lines), "diff"))
    if fault.curl:
        yield ""
        yield from (f"  {line}" for line in fenced(fault.curl, "sh"))


def _short(text: str) -> str:
    shown = repr(text)
    if len(shown) <= _TEXT_WIDTH:
        return shown
    return f"{shown[: _TEXT_WIDTH // 2]} … {shown[-_TEXT_WIDTH // 2 :]}"


# All reports of a call as text and as Markdown, with their overall verdict.

_SAID = {
    Verdict.HELD: "All checks that count passed.",
    Verdict.FAILED: "A check that counts failed.",
    Verdict.INCOMPLETE: "Incomplete: some checks were not run.",
    Verdict.NOT_JUDGED: "Not judged: most checks of a kind said nothing.",
    Verdict.UNREACHABLE: "There is nothing to judge.",
    Verdict.INTERRUPTED: "Interrupted: the results so far are above.",
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
    yield from _named(suite, "Expected failures", suite.known_failures)
    yield from _named(suite, "Passed, though expected to fail", suite.unexpected_passes)
    if suite.expected.entries or len(suite.reports) > 1 or suite.is_interrupted:
        yield f"**{_SAID[suite.verdict]}**"


def _named(
    suite: ProbeSuite, title: str, pairs: Sequence[tuple[Report, CheckResult]]
) -> Iterator[str]:
    if not pairs:
        return
    names = []
    for report, result in pairs:
        line = suite.expectation(report, result)
        link = f" ({line.link})" if line is not None and line.link else ""
        names.append(code(f"{report.dialect}:{result.code}") + link)
    yield f"{title}: {', '.join(names)}."
    yield ""

"""The reports of one call of the probe, their verdict, and the text that all formats share.

Pure; any thread.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
from api.terminal_text import on_one_line

OUTCOME_NAMES = {
    CheckOutcome.FAILED: "Failed",
    CheckOutcome.NOT_RUN: "Not asked",
    CheckOutcome.FLAKY: "Flaky",
    CheckOutcome.UNDECIDED: "Unclear",
    CheckOutcome.HELD: "Passed",
    CheckOutcome.SKIPPED: "Skipped",
}
REMARKS_TITLE = "Failed, of levels that do not count"
_DIALECTS = tuple(dialect.value for dialect in DRIVERS)
_FLAKY = "flaky"
_REMEDY = (
    "another question (--prompt TEXT), another model (--model NAME), or longer answers "
    "(--max-tokens N)"
)


@dataclass(frozen=True, slots=True)
class Expectation:
    """A line of the file of expected failures; without a dialect it is for all."""

    dialect: str
    pattern: str
    is_flaky: bool = False
    link: str = ""

    @property
    def suffix(self) -> str:
        return f" ({self.link})" if self.link else ""


def read_expected(text: str) -> tuple[Expectation, ...]:
    """Read a file: ``[dialect:]id [flaky] [link]`` on each line, ``#`` before comments.

    Raises:
        ValueError: A line names no check or no dialect, or has an unknown word.
    """
    entries = []
    for number, line in enumerate(text.splitlines(), 1):
        # An address may have a "#", too, but no space before it.
        name, *options = re.split(r"(?:^|\s)#", line)[0].split() or [""]
        if not name:
            continue
        dialect, colon, pattern = name.rpartition(":")
        links = [word for word in options if word.startswith(("http://", "https://"))]
        strange = [word for word in options if word not in (_FLAKY, *links)]
        problem = ""
        if colon and dialect not in _DIALECTS:
            problem = f"{dialect!r} is not a dialect ({', '.join(_DIALECTS)})"
        elif unknown := unknown_patterns([pattern]):
            problem = f"no check has the id {unknown[0]!r}; fullstop probe --list has all"
        elif strange:
            problem = f"{strange[0]!r} is neither {_FLAKY!r} nor the address of an issue"
        if problem:
            raise ValueError(f"line {number}: {problem}")
        entries.append(Expectation(dialect, pattern, _FLAKY in options, "".join(links[:1])))
    return tuple(entries)


def unknown_patterns(patterns: Iterable[str]) -> list[str]:
    """Return the patterns that match no check."""
    check_ids = [case.check_id for case in CASES]
    return [one for one in patterns if not any(fnmatchcase(name, one) for name in check_ids)]


@dataclass(frozen=True, slots=True)
class ProbeSuite:
    """The reports of one call."""

    url: str
    reports: tuple[Report, ...] = ()
    problems: tuple[tuple[str, str], ...] = ()
    problem: str = ""
    is_interrupted: bool = False
    expected: tuple[Expectation, ...] = ()

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
        return tuple(pair for pair in self._failed() if self.expectation(*pair) is None)

    @property
    def known_failures(self) -> tuple[tuple[Report, CheckResult], ...]:
        return tuple(pair for pair in self._failed() if self.expectation(*pair) is not None)

    @property
    def unexpected_passes(self) -> tuple[tuple[Report, CheckResult], ...]:
        """The checks that passed although the file expects them to fail."""
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
        lines = (line for line in self.expected if line.dialect in ("", report.dialect))
        return next((line for line in lines if fnmatchcase(result.check_id, line.pattern)), None)

    def _failed(self) -> Iterator[tuple[Report, CheckResult]]:
        for report in self.reports:
            yield from ((report, result) for result in report.failed)


def score(report: Report) -> tuple[int, int]:
    """Return how many checks passed, and how many passed or failed."""
    held = sum(result.outcome is CheckOutcome.HELD for result in report.results)
    return held, held + len(report.failed)


def summary(report: Report, remedy: str = _REMEDY) -> str:
    """Return the result in a sentence or two; ``remedy`` completes "Try"."""
    (held, judged), omitted = score(report), len(report.not_run)
    if held < judged:
        text = f"{judged - held} of {judged} checks failed"
    elif report.verdict is Verdict.HELD:
        text = f"All {held} checks passed"
    elif report.verdict is Verdict.NOT_JUDGED:
        text = f"Not judged: only {held} of {len(report.results)} checks say something"
    else:
        text = f"Incomplete: {held} checks passed"
    if omitted:
        why = f" ({report.cut_short})" if report.cut_short else ""
        text += f"; {omitted} {'was' if omitted == 1 else 'were'} not asked{why}"
    return f"{text}.{_advice(report, remedy)}"


def _advice(report: Report, remedy: str) -> str:
    """Return advice where most checks of a kind were not judged, after a space."""
    silent = report.unjudged
    if not silent or report.failed or not report.is_complete:
        return ""
    counted = Counter(result.sentence for result in silent if result.sentence)
    reasons = [f"{on_one_line(why, 120).rstrip('.')} ({n})" for why, n in counted.most_common(3)]
    kind = "the checks of stops" if all(result.is_of_stops for result in silent) else "the checks"
    return f" {len(silent)} of {kind} were not judged: {'; '.join(reasons)}. Try {remedy}."


def facts(report: Report) -> Iterator[tuple[str, str]]:
    """Yield facts about the server and the probe, each with a name and a text."""
    times = "once" if report.waits == 1 else f"{report.waits} times"
    optional = {
        "model": report.model,
        "server": report.server,
        "same answers each time": "yes" if report.is_deterministic else "no",
        "requests": f"{report.requests} in {report.duration_s:.1f} s",
        "busy": f"waited for {times}, {report.waited_s:.1f} s in all" if report.waits else "",
        "probed by": f"{report.tool}, {report.began_at}".rstrip(", ") if report.tool else "",
        "levels that count": ", ".join(sorted(report.levels)),
    }
    yield "dialect", report.dialect
    yield from ((name, text) for name, text in optional.items() if text)
    yield from (("concluded", sentence) for sentence in report.conclusions)
    if report.other_dialects:
        yield "answers too, not probed", ", ".join(report.other_dialects)


def failure_groups(results: Sequence[CheckResult]) -> list[tuple[CheckResult, list[CheckResult]]]:
    """Return the failures that have a section, each with its similar failures.

    The check that the server did not survive comes first.
    """
    known = {result.check_id for result in results}
    heads = [result for result in results if result.cause not in known]
    heads.sort(key=lambda result: result.check_id != "server.answers")
    return [(head, [one for one in results if one.cause == head.check_id]) for head in heads]


def group_faults(result: CheckResult) -> list[tuple[Fault, str]]:
    """Return the faults of a check, each sentence once, with the modes in which it showed."""
    groups: dict[tuple[str, str], list[Fault]] = {}
    for fault in result.faults:
        groups.setdefault((fault.code, fault.sentence), []).append(fault)
    return [
        (faults[0], ", ".join(dict.fromkeys(one.mode for one in faults if one.mode)))
        for faults in groups.values()
    ]


def compare_texts(fault: Fault) -> list[tuple[str, str]]:
    """Return the expected text, the actual text, and the text without stops, if known."""
    pairs = []
    if fault.expected or fault.got:
        pairs += [("expected", fault.expected), ("got", fault.got)]
    if fault.baseline and fault.baseline != fault.expected:
        pairs.append(("without stops", fault.baseline))
    return pairs


def sort_results(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the failures first, and the results that do not apply last."""
    order = list(OUTCOME_NAMES)
    return sorted(results, key=lambda result: order.index(result.outcome))


def table_text(result: CheckResult) -> str:
    """Return the text of a result in a table: the sentence of a failure is in its section."""
    if result.cause:
        return f"As {result.cause}."
    return "See above." if result.outcome is CheckOutcome.FAILED else result.sentence


def exchange_title(number: int, exchange: Exchange) -> str:
    """Return the title of a raw answer."""
    status = f"status {exchange.status}" if exchange.status else "no status"
    problem = f", {on_one_line(exchange.problem)}" if exchange.problem else ""
    return f"Answer {number}: {exchange.mode}, {status}{problem}"


def request_text(exchange: Exchange) -> str:
    """Return the body of a request as text."""
    body = exchange.body
    if isinstance(body, bytes):
        return body.decode("utf-8", "replace")
    return body if isinstance(body, str) else json.dumps(body, ensure_ascii=False)


def without_middle(text: str, max_chars: int) -> str:
    """Return the beginning and the end of a long text; most of it from the end, with the faults."""
    if len(text) <= max_chars:
        return text
    begin = max_chars // 4
    omitted = len(text) - max_chars
    return f"{text[:begin]}\n… {omitted:,} characters …\n{text[-(max_chars - begin) :]}"

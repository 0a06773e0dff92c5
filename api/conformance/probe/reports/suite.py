"""The findings of one dialect or several together, and which of them were expected.

Pure; any thread.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase

from api.conformance.probe.catalogue import CASES
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.values import CheckOutcome, CheckResult, Report

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

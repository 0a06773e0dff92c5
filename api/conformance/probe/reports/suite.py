"""All reports of one call of the probe, one for each dialect, and their overall verdict.

Pure values; any thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from api.conformance.probe.reports.expected import Expected
from api.conformance.probe.values import CheckOutcome, CheckResult, Report


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

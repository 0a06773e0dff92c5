"""Each server of the family has one fault: exactly that one is named, in every dialect."""

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.reports.as_text import as_text
from api.conformance.probe.values import CheckOutcome, ProbeVerdict, Report
from tests.api.conformance.probe.family.faulty import FAULTY, Faulty
from tests.api.conformance.probe.family.probing import report_on


def own_faults(report: Report) -> dict[str, set[str]]:
    """Return the checks that failed for themselves, each with its faults."""
    return {
        one.code: {fault.code for fault in one.faults}
        for one in report.results
        if one.outcome is CheckOutcome.FAILED and not one.cause
    }


@pytest.mark.parametrize(
    ("make", "dialect"),
    [(make, dialect) for make in FAULTY for dialect in make.dialects],
    ids=lambda value: value.__name__ if isinstance(value, type) else str(value),
)
def test_the_fault_is_named_and_nothing_else(make: type[Faulty], dialect: WireDialect) -> None:
    report = report_on(make(dialect))
    assert own_faults(report) == make.finds, as_text(report)
    assert report.verdict in (ProbeVerdict.FAILED, ProbeVerdict.HELD)

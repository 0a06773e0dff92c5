"""Servers that are right but odd get no finding, and what is odd about them is concluded."""

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.reports.as_text import as_text
from api.conformance.probe.values import ProbeVerdict, Report
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer

DIALECTS = tuple(WireDialect)[:6]


def nothing_is_wrong(report: Report) -> None:
    assert report.failed == (), as_text(report)
    assert report.remarks == (), as_text(report)
    assert report.verdict is ProbeVerdict.HELD


@pytest.mark.parametrize("dialect", FamilyServer.DIALECTS)
def test_a_server_that_is_right_has_no_fault_in_any_dialect(dialect: WireDialect) -> None:
    report = report_on(FamilyServer(dialect))
    nothing_is_wrong(report)
    assert report.is_deterministic
    assert report.conclusions == ()

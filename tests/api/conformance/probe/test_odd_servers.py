"""Servers that are right but odd get no finding, and what is odd about them is concluded."""

from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.reports.as_text import as_text
from api.conformance.probe.running import probe
from api.conformance.probe.values import ProbeOptions, ProbeVerdict, Report
from tests.api.conformance.probe.family.server import FamilyServer
from tests.support.asking import run

DIALECTS = tuple(WireDialect)[:6]


def report_on(server: FamilyServer, **options: Any) -> Report:
    """Probe a server of the family."""

    async def probing() -> Report:
        async with server.listening() as url:
            usual = {"timeout_s": 10.0, "longest_wait_s": 0.01, "dialect": server.dialect}
            return await probe(ProbeOptions(url, **{**usual, **options}))

    return run(probing())


def nothing_is_wrong(report: Report) -> None:
    assert report.failed == (), as_text(report)
    assert report.remarks == (), as_text(report)
    assert report.verdict is ProbeVerdict.HELD


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_server_that_is_right_has_no_fault_in_any_dialect(dialect: WireDialect) -> None:
    report = report_on(FamilyServer(dialect))
    nothing_is_wrong(report)
    assert report.is_deterministic
    assert report.conclusions == ()

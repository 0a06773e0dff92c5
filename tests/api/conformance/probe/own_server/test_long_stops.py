"""Our own server compares a long stop to its end, in the dialects that the usual run omits."""

import asyncio
from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.run import probe
from api.conformance.probe.values import CheckOutcome, ProbeOptions
from tests.api.conformance.probe.own_server.everything_holds import LONGEST, SKIPPED


@pytest.mark.slow
@pytest.mark.parametrize("dialect", sorted(SKIPPED))
def test_a_long_stop_is_compared_to_its_end(site: Any, dialect: WireDialect) -> None:
    report = asyncio.run(probe(ProbeOptions(site.url, dialect, only=LONGEST, patience_s=10)))
    # On a busy machine a stopped answer may once take as long as a whole one.
    settled = {CheckOutcome.HELD, CheckOutcome.FLAKY}
    assert len(report.results) == len(LONGEST)
    assert {result.outcome for result in report.results} <= settled, as_text(report)

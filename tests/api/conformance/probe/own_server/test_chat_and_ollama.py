"""Our own server passes every check of Chat Completions and Ollama."""

import asyncio
from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.run import probe
from api.conformance.probe.values import CheckOutcome, ProbeOptions
from tests.api.conformance.probe.own_server.everything_holds import check_everything

pytestmark = pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [WireDialect.CHAT, WireDialect.OLLAMA])
def test_every_check_passes(site: Any, dialect: WireDialect) -> None:
    check_everything(site, dialect)


def test_the_quick_checks_pass(site: Any) -> None:
    options = ProbeOptions(site.url, WireDialect.CHAT, is_quick=True, timeout_s=60)
    report = asyncio.run(probe(options))
    assert report.failed == report.remarks == (), as_text(report)
    assert {one.outcome for one in report.results} == {CheckOutcome.HELD}, as_text(report)

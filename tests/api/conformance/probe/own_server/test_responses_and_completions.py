"""Our own server passes every check of Responses and Completions."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.run import probe
from api.conformance.probe.values import ProbeOptions
from tests.api.conformance.probe.own_server.everything_holds import SKIPPED, check_everything

pytestmark = pytest.mark.long


@pytest.mark.slow
@pytest.mark.parametrize("dialect", [WireDialect.RESPONSES, WireDialect.COMPLETIONS])
def test_every_check_passes(site: Any, dialect: WireDialect) -> None:
    check_everything(site, dialect)


def test_a_probe_without_a_dialect_takes_the_first_that_answers(
    serve: Callable[..., Any], staged: Callable[..., Any]
) -> None:
    site = serve(api_key="secret")
    report = asyncio.run(probe(ProbeOptions(site.url, api_key="secret", max_requests=30)))
    assert report.dialect is WireDialect.MESSAGES
    assert set(report.other_dialects) == set(SKIPPED) - {WireDialect.MESSAGES}
    assert report.model == "demo-model"
    assert report.failed == ()

"""The probe says where a Fullstop server's end token is named."""

import asyncio
from pathlib import Path

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.run import probe
from api.conformance.probe.values import ProbeOptions
from tests.api.conftest import acting
from tests.engine.inference.test_end_tokens import TURN_END, stage


@pytest.mark.parametrize("dialect", [WireDialect.CHAT, WireDialect.MESSAGES])
def test_probe_names_an_end_token_of_the_template(tmp_path: Path, dialect: WireDialect) -> None:
    counted = tuple(f"{number}\n" for number in range(1, 21))
    with acting(stage(tmp_path, text=counted)) as (site, _):
        options = ProbeOptions(site.url, dialect, is_quick=True, timeout_s=60)
        report = asyncio.run(probe(options))
    assert any(TURN_END in said and "template" in said for said in report.conclusions), report

"""``fullstop probe --dialect all`` probes each dialect that a server answers."""

import json
from typing import Any

import pytest

from app.cli import main
from tests.api.conformance.probe.own_server.everything_holds import SKIPPED

pytestmark = [pytest.mark.long, pytest.mark.slow]


def test_every_dialect_that_answers_has_a_report(
    site: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    # Short answers suffice: other tests try what each dialect answers.
    short = ["--only", "stops.none", "--max-tokens", "16"]
    assert main(["probe", site.url, "--dialect", "all", *short, "--json"]) == 0
    reports = json.loads(capsys.readouterr().out)["reports"]
    assert {one["dialect"] for one in reports} == set(SKIPPED)
    assert [one["other_dialects"] for one in reports] == [[]] * len(reports)

"""Servers with faults of this year's reports, chosen without a look at the checks, are found."""

import re

import pytest

from api.conformance.probe.reports import as_text
from api.conformance.probe.values import Verdict
from tests.api.conformance.probe.family import held_back
from tests.api.conformance.probe.family.held_back import HELD_BACK, HeldBack
from tests.api.conformance.probe.family.probing import report_on

# One for each way of finding them; all others are tried where there is time.
_OFTEN = (
    held_back.RepeatsTheName,
    held_back.RestartsItsOffsets,
    held_back.CompletesCutItems,
    held_back.PrefersTheLimitToStops,
    held_back.LosesATokenToTheLimit,
)


def test_the_set_has_forty_servers_of_six_dialects() -> None:
    assert len(HELD_BACK) == 40
    assert len({make.speaks for make in HELD_BACK}) == 6


@pytest.mark.parametrize(
    "make",
    [make if make in _OFTEN else pytest.param(make, marks=pytest.mark.slow) for make in HELD_BACK],
    ids=lambda make: make.__name__,
)
def test_the_probe_fails_and_says_why(make: type[HeldBack]) -> None:
    report = report_on(make())
    assert report.verdict is Verdict.FAILED, as_text(report)
    sentences = [fault.sentence for failure in report.failed for fault in failure.faults]
    assert any(re.search(make.words, said) for said in sentences), as_text(report)


def test_of_a_stop_that_is_taken_back_nothing_is_said_but_that() -> None:
    report = report_on(held_back.TakesPartsBack(), only=("stop.*", "stops.long", "form.*"))
    faults = [fault for failure in report.failed for fault in failure.faults]
    assert {fault.code for fault in faults} == {"text_retracted"}

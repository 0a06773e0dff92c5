"""Servers with faults of real reports are found, and the report names the fault."""

import re

import pytest

from api.conformance.probe.markdown import as_text
from api.conformance.probe.values import Verdict
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.reported import REPORTED, ReportedFault


@pytest.mark.parametrize("make", REPORTED, ids=lambda make: make.__name__)
def test_reported_fault_is_found_and_named(make: type[ReportedFault]) -> None:
    report = report_on(make())
    assert report.verdict is Verdict.FAILED, as_text(report)
    sentences = [fault.sentence for failure in report.failed for fault in failure.faults]
    assert any(re.search(make.pattern, sentence) for sentence in sentences), as_text(report)

"""The dialects that Fullstop does not serve are probed if they are named, each in its own words."""

from dataclasses import replace

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.reports import as_text
from api.conformance.probe.values import Verdict
from tests.api.conformance.probe.family.named_wires import NAMED_WIRES, NamedServer
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.talk import Query, Said

PATTERNS = ("baseline", "stop.*", "limit", "stops.none", "stops.empty", "form.*")


class LeavesTheStop(NamedServer):
    """Leaves the stop in its answers."""

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, text=said.text + (said.matched or ""))


class CallsAStopALimit(NamedServer):
    """Reports the limit after a stop."""

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        return replace(said, ending="limit", matched=None)


def test_the_named_dialects_are_those_that_are_not_detected() -> None:
    named = {one for one, driver in DRIVERS.items() if not driver.is_detected}
    assert named == set(NAMED_WIRES)


@pytest.mark.parametrize("dialect", NAMED_WIRES)
def test_a_correct_server_has_no_fault(dialect: WireDialect) -> None:
    report = report_on(NamedServer(dialect), model="small")
    assert report.failed == (), as_text(report)
    assert report.remarks == (), as_text(report)
    assert report.verdict is Verdict.HELD
    assert report.is_deterministic


@pytest.mark.parametrize("dialect", NAMED_WIRES)
def test_a_stop_that_stays_in_the_answer_is_found(dialect: WireDialect) -> None:
    report = report_on(LeavesTheStop(dialect), model="small", only=PATTERNS)
    # TGI's own answers end with the stop.
    wanted = frozenset() if dialect is WireDialect.TGI else {"stop_included"}
    assert report.fault_codes & {"stop_included"} == wanted, as_text(report)


@pytest.mark.parametrize("dialect", NAMED_WIRES)
def test_a_wrong_reason_is_named_in_the_words_of_the_dialect(dialect: WireDialect) -> None:
    report = report_on(CallsAStopALimit(dialect), model="small", only=PATTERNS)
    found = [fault for one in report.failed for fault in one.faults if fault.code == "wrong_reason"]
    assert found, as_text(report)
    wire, _, _ = NAMED_WIRES[dialect]
    assert f'"{wire.words["stop"]}"' in found[0].expected
    assert wire.words["limit"] in found[0].got

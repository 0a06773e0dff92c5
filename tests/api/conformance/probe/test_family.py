"""Each server of the family has one fault; the probe names exactly that one in every dialect."""

import json

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.values import CheckOutcome, Level, Report, Verdict
from tests.api.conformance.probe.family.faulty.every import FAULTY
from tests.api.conformance.probe.family.faulty.fault import Faulty
from tests.api.conformance.probe.family.faulty.reasons import ReachesTheLimitByStep
from tests.api.conformance.probe.family.odd import RefusesBareStrings
from tests.api.conformance.probe.family.probing import report_on

NEARBY = (
    "baseline",
    "stop.one_character",
    "stop.held_*",
    "limit*",
    "usage.*",
    "form.*",
    "reason.*",
)


def own_faults(report: Report) -> dict[str, set[str]]:
    """Return the checks that failed for a cause of their own, each with its faults."""
    return {
        one.check_id: {fault.code for fault in one.faults}
        for one in report.results
        if one.outcome is CheckOutcome.FAILED and not one.cause
    }


def evidence_is_sound(report: Report) -> None:
    for result in report.results:
        for fault in result.faults:
            has_texts = fault.expected or fault.got  # or the sentence names the fault alone
            assert not has_texts or fault.expected != fault.got, (result.check_id, fault)
            assert fault.code == "not_freed" or fault.exchange is not None, fault
            if fault.exchange is not None:
                shown = result.exchanges[fault.exchange]
                assert shown.mode == fault.mode
                is_raw = isinstance(shown.body, bytes)
                assert is_raw or json.dumps(shown.body)[:40] in fault.curl


def home(make: type[Faulty]) -> WireDialect:
    """Return the dialect in which a server is probed completely; the servers share the dialects."""
    return make.dialects[FAULTY.index(make) % len(make.dialects)]


def ids(value: object) -> str:
    return value.__name__ if isinstance(value, type) else str(value)


def ends_with(report: Report, make: type[Faulty]) -> None:
    assert own_faults(report) == make.shows.get(report.dialect, make.finds), as_text(report)
    evidence_is_sound(report)
    counts = any(one.level in report.levels for one in report.failed)
    assert counts is (report.verdict is Verdict.FAILED)
    assert counts or make.__name__ in OF_OPINION, as_text(report)


# What only users expect is named, and ends with 0.
OF_OPINION = ("LosesStopsToLimits",)


@pytest.mark.parametrize("make", FAULTY, ids=ids)
def test_the_fault_is_named_and_nothing_nearby(make: type[Faulty]) -> None:
    ends_with(report_on(make(home(make)), only=(*make.finds, *NEARBY)), make)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("make", "dialect"),
    [(make, one) for make in FAULTY for one in make.dialects if one is not home(make)],
    ids=ids,
)
def test_the_fault_has_the_same_name_in_every_other_dialect(
    make: type[Faulty], dialect: WireDialect
) -> None:
    ends_with(report_on(make(dialect), only=(*make.finds, *NEARBY)), make)


@pytest.mark.parametrize("token", [r"(?s).{1,3}", r" ?[^\s\d]+|\d|\s"], ids=["three", "words"])
@pytest.mark.parametrize("width", [2, 3, 4, 5, 8])
def test_a_stop_that_a_limit_masks_is_found_at_every_step_width(width: int, token: str) -> None:
    server = ReachesTheLimitByStep(WireDialect.CHAT)
    server.width, server.token = width, token
    report = report_on(server, only=("stop.one_character", "limit.stop_before"))
    assert own_faults(report) == server.finds, as_text(report)


def test_a_bare_string_that_ollama_refuses_itself_is_a_matter_of_opinion_there() -> None:
    only = ("stop.one_character", "stops.string")
    levels = {}
    for dialect in (WireDialect.OLLAMA, WireDialect.CHAT):
        report = report_on(RefusesBareStrings(dialect), only=only)
        [failed] = (one for one in report.results if one.outcome is CheckOutcome.FAILED)
        levels[dialect] = failed.level
    assert levels == {
        WireDialect.OLLAMA: Level.OPINION,
        WireDialect.CHAT: Level.SPECIFICATION,
    }

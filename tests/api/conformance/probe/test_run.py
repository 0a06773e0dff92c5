"""A probe finds its server, keeps its limits, reports progress, and can be cancelled."""

import pytest

from api.conformance.captures.values import WireDialect
from api.conformance.probe.detection import split_url
from api.conformance.probe.values import (
    CheckOutcome,
    ProbeFailed,
    Progress,
    Verdict,
)
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer

MESSAGES = WireDialect.MESSAGES


@pytest.mark.parametrize(
    ("url", "base", "dialect"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", None),
        ("127.0.0.1:8080/", "http://127.0.0.1:8080", None),
        ("http://localhost:8080/v1", "http://localhost:8080", None),
        ("https://host/base/v1/", "https://host/base", None),
        ("http://host/v1/chat/completions", "http://host", WireDialect.CHAT),
        ("http://host/v1/completions", "http://host", WireDialect.COMPLETIONS),
        ("http://host/x/v1/messages", "http://host/x", WireDialect.MESSAGES),
        ("http://[::1]:9/api/chat", "http://[::1]:9", WireDialect.OLLAMA),
    ],
)
def test_an_address_is_split_into_its_parts(
    url: str, base: str, dialect: WireDialect | None
) -> None:
    assert split_url(url) == (base, dialect)


@pytest.mark.parametrize("url", ["ftp://host", "http://", "", "http://[", "http://host:999999"])
def test_a_text_that_is_not_an_address_is_refused(url: str) -> None:
    with pytest.raises(ProbeFailed, match="is not an address"):
        split_url(url)


def test_the_dialect_that_answers_is_found() -> None:
    report = report_on(FamilyServer(MESSAGES), dialect=None)
    assert report.dialect is WireDialect.MESSAGES
    assert report.other_dialects == ()
    assert report.failed == ()


def test_progress_is_reported_before_and_after_each_check() -> None:
    told: list[Progress] = []
    report = report_on(FamilyServer(MESSAGES), on_progress=told.append)
    results = [one.result for one in told if one.result is not None]
    assert {one.check_id for one in results} == {one.check_id for one in report.results[2:]}
    assert any(one.remaining_s is not None for one in told)
    assert (told[-1].done, told[-1].total) == (len(report.results), len(report.results))
    assert [one.done for one in told] == sorted(one.done for one in told)


def test_a_probe_sends_no_more_requests_than_its_limit() -> None:
    report = report_on(FamilyServer(MESSAGES), max_requests=20)
    assert report.requests == 20
    outcomes = [one.outcome for one in report.results]
    assert outcomes.count(CheckOutcome.HELD) >= 4
    assert report.failed == ()
    left_out = report.not_run
    assert report.verdict is Verdict.INCOMPLETE
    assert len(left_out) > 10
    assert all("the limit of 20 requests was reached" in one.sentence for one in left_out)


def test_a_probe_takes_no_longer_than_its_limit() -> None:
    class Slow(FamilyServer):
        piece_s = 0.002

    report = report_on(Slow(MESSAGES), time_limit_s=1.0)
    assert report.duration_s < 60
    assert report.cut_short == "the time limit of the probe was reached"

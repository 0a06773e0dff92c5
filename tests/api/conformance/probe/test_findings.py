"""One cause gives one finding, in the dialect's words, at its level; omitted checks are named."""

import asyncio

import pytest
from aiohttp import web

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.catalogue import CASES
from api.conformance.probe.client import curl_command
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.run import ProbeRun
from api.conformance.probe.values import (
    Access,
    CheckOutcome,
    Level,
    ProbeOptions,
    Progress,
    Verdict,
)
from tests.api.conformance.probe.family.faulty import requests, texts
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.support.asking import run

CHAT, MESSAGES, RESPONSES = WireDialect.CHAT, WireDialect.MESSAGES, WireDialect.RESPONSES


def test_failures_of_one_kind_are_shown_under_the_first_and_still_count() -> None:
    report = report_on(texts.IgnoresStops(CHAT))
    [first] = [one for one in report.failed if not one.cause]
    assert first.check_id == "stop.one_character"
    under = {
        one.check_id: one.outcome
        for one in (each for each in report.results if each.cause == first.check_id)
    }
    assert under["stop.among_others"] is CheckOutcome.FAILED
    assert under["choices.stop"] is CheckOutcome.UNDECIDED
    assert len(under) > 15
    counted = {one.check_id for one in (*report.failed, *report.remarks)}
    assert counted > {one.check_id for one in report.results if one.cause and one.faults} != set()
    assert {one.level for one in report.remarks} == {Level.OPINION}


def test_occasionally_lost_stops_are_found() -> None:
    report = report_on(requests.LosesStopsNowAndThen(CHAT), only=("stop.*", "stops.*"))
    assert report.verdict is Verdict.FAILED
    faults = [fault for one in report.failed for fault in one.faults]
    assert {fault.code for fault in faults} <= {"stop_ignored", "stop_leaks", "stops_dropped"}
    assert any(fault.is_intermittent and fault.curl.startswith("for n in") for fault in faults)


def test_stops_that_an_api_does_not_have_are_not_asked_for_in_vain() -> None:
    report = report_on(texts.IgnoresStops(RESPONSES))
    assert report.failed == ()
    assert report.verdict is Verdict.NOT_JUDGED
    assert "The server has no stops in this API, nor has its vendor." in report.conclusions


def test_an_extension_fails_unless_only_specifications_count() -> None:
    found = texts.IncludesStops(RESPONSES)
    only = {"only": ("stop.*", "limit", "form.*")}
    assert report_on(found, **only).verdict is Verdict.FAILED
    strict = report_on(found, levels=frozenset({Level.SPECIFICATION}), **only)
    assert strict.failed == ()
    assert {one.level for one in strict.remarks} == {Level.EXTENSION}


@pytest.mark.parametrize("dialect", FamilyServer.DIALECTS)
def test_the_expectation_is_in_the_words_of_the_dialect(dialect: WireDialect) -> None:
    report = report_on(texts.LosesStopsToLimits(dialect), only=("limit.stop_on_last_token",))
    [result] = report.remarks
    expected = {fault.expected for fault in result.faults}
    assert expected == {DRIVERS[dialect].reason_names[CapturedEnding.STOP]}


def test_a_failure_names_its_rule_and_its_reference() -> None:
    report = report_on(texts.IncludesStops(MESSAGES), only=("stop.one_character",))
    [failed] = report.failed
    assert failed.level is Level.SPECIFICATION
    assert failed.rule == next(one.rule for one in CASES if one.check_id == failed.check_id)
    assert failed.reference is not None
    assert failed.reference.address.startswith("https://docs.claude.com/")
    assert {one.status for one in failed.exchanges} == {200}
    assert report.tool.startswith("fullstop probe")
    assert report.began_at.endswith("+00:00")


class Counting(texts.IgnoresStops):
    open_requests = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.open_requests += 1
        try:
            await asyncio.sleep(0.01)
            return await super().handle(request)
        finally:
            self.open_requests -= 1


def test_a_cancelled_probe_reports_what_it_found_and_leaves_no_request_behind() -> None:
    async def work() -> None:
        server = Counting(CHAT)
        async with server.listening() as url:
            reached = asyncio.Event()

            def told(progress: Progress) -> None:
                if progress.done == 5:
                    reached.set()

            probing = ProbeRun(ProbeOptions(url, CHAT), told)
            assert probing.report() is None
            task = asyncio.create_task(probing.check())
            await asyncio.wait_for(reached.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            report = probing.report()
            assert report is not None
            assert report.cut_short == "the probe was cancelled"
            assert report.failed[0].check_id == "stop.one_character"
            assert [one.check_id for one in report.results] == [one.check_id for one in CASES]
            assert len(report.not_run) > 20
            async with asyncio.timeout(60):
                while server.open_requests:  # noqa: ASYNC110 - the server's own count
                    await asyncio.sleep(0.02)

    run(work(), timeout_s=120)


def test_only_the_chosen_checks_send_requests() -> None:
    report = report_on(FamilyServer(CHAT), only=("stop.*", "errors.json"), skip=("stop.un*",))
    codes = [one.check_id for one in report.results]
    assert codes[0] == "stop.one_character"
    assert codes[-1] == "errors.json"
    assert "stop.unicode" not in codes
    assert report.verdict is Verdict.HELD


@pytest.mark.parametrize(
    "code",
    ["limit.thinking", "thinking.stop", "choices.stop", "tools.limit", "limit.stop_on_last_token"],
)
def test_check_that_needs_an_answer_of_others_works_alone(code: str) -> None:
    [result] = (
        one for one in report_on(FamilyServer(CHAT), only=(code,)).results if one.check_id == code
    )
    assert result.outcome is CheckOutcome.HELD, result.sentence


def test_the_values_of_headers_are_never_in_a_command() -> None:
    access = Access(api_key="k", headers=(("X-Team", "blue"), ("Authorization", "Basic eA==")))
    line = curl_command("http://127.0.0.1/", CHAT, {}, access)
    assert '"x-team: $X_TEAM"' in line
    assert '"authorization: $AUTHORIZATION"' in line
    assert "blue" not in line
    assert "eA==" not in line
    trusting = curl_command("https://h/", CHAT, {}, Access(is_insecure=True))
    assert " --insecure " in trusting

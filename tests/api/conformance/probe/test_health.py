"""A server that breaks in the middle has one finding; what may harm it comes after all dialects."""

from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import CASES, case_of
from api.conformance.probe.markdown import as_text
from api.conformance.probe.run import ProbeRun, Probing, is_selected
from api.conformance.probe.suite import summary
from api.conformance.probe.values import CheckOutcome, ProbeOptions, Progress, Verdict
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said
from tests.support.asking import run

CHAT, MESSAGES = WireDialect.CHAT, WireDialect.MESSAGES


class Breaks(FamilyServer):
    for_requests = 10_000
    broken_since = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if b"~never~3" in await request.read() and not self.broken_since:
            self.broken_since = self.asked + 1
        is_broken = self.broken_since <= self.asked + 1 < self.broken_since + self.for_requests
        if self.broken_since and is_broken:
            self.asked += 1
            return await self.broken(request)
        return await super().handle(request)

    async def broken(self, request: web.Request) -> web.StreamResponse:
        raise NotImplementedError


class Dies(Breaks):
    async def broken(self, request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.close()
        return web.Response()


class Restarts(Dies):
    """Closes six connections: of a whole and a streamed answer, again, and of two plain ones."""

    for_requests = 6


class Fails(Breaks):
    async def broken(self, request: web.Request) -> web.StreamResponse:
        return self.refusal("out of memory", 500)


class ForgetsTheKey(Breaks):
    async def broken(self, request: web.Request) -> web.StreamResponse:
        return self.refusal("who are you?", 401)


@pytest.mark.parametrize(
    ("make", "code", "said"),
    [
        (Dies, "server_died", "no longer answers"),
        (Fails, "server_broken", "only fails"),
        (ForgetsTheKey, "key_refused", "refuses access"),
    ],
)
def test_what_breaks_a_server_is_one_finding_with_its_request_at_the_top(
    make: type[Breaks], code: str, said: str
) -> None:
    report = report_on(make(MESSAGES), recovery_s=0.1, timeout_s=0.5)
    [failed] = (*report.failed, *report.remarks)
    [fault] = failed.faults
    assert (failed.check_id, fault.code) == ("server.answers", code)
    assert said in fault.sentence
    assert '"stop_sequences": ["#~never~1"' in fault.curl
    assert report.verdict is Verdict.FAILED
    assert "the server no longer answers after 'Stop: one in a list of four'" in summary(report)
    text = as_text(report)
    assert text.index("(server.answers)") < text.index("| check")
    assert len(report.not_run) > 20


def test_a_server_that_answers_again_is_probed_to_the_end() -> None:
    report = report_on(Restarts(MESSAGES), recovery_s=20.0)
    [failed] = (*report.failed, *report.remarks)
    assert (failed.check_id, failed.faults[0].code) == ("server.answers", "server_restarted")
    assert report.not_run == ()
    outcomes = {one.check_id: one.outcome for one in report.results}
    assert outcomes["stop.among_others"] is CheckOutcome.UNDECIDED
    assert outcomes["errors.stop_item"] is CheckOutcome.HELD


def test_refused_request_is_blamed_if_all_later_ones_are_refused() -> None:
    class DiesOfSeveralChoices(FamilyServer):
        is_dead = False

        async def handle(self, request: web.Request) -> web.StreamResponse:
            self.is_dead |= "n" in await request.json()
            if self.is_dead:
                return self.refusal("generation thread died", 404)
            return await super().handle(request)

    server = DiesOfSeveralChoices(WireDialect.COMPLETIONS)
    report = report_on(server, skip=("errors.*",), recovery_s=0.1)
    [failed] = (*report.failed, *report.remarks)
    [fault] = failed.faults
    assert (failed.check_id, fault.code) == ("server.answers", "server_died")
    assert '"n": 2' in fault.curl
    assert report.cut_short == "the server no longer answers after 'Several choices'"


def test_what_may_harm_a_server_comes_after_all_dialects() -> None:
    class Two(FamilyServer):
        def routes(self, app: web.Application) -> None:
            for dialect in (MESSAGES, CHAT):
                other = FamilyServer(dialect)
                other.routes(app)

    told: list[Progress] = []

    async def work() -> Any:
        async with Two(MESSAGES).listening() as url:
            only = ("stop.one_character", "limit", "errors.json", "stops.empty")
            probing = Probing(ProbeOptions(url, only=only, timeout_s=60), told.append)
            await probing.run(is_all=True)
            return probing.reports

    reports = run(work())
    assert [one.dialect for one in reports] == [MESSAGES, CHAT]
    assert [one.other_dialects for one in reports] == [(), ()]
    assert {one.verdict for one in reports} == {Verdict.HELD}
    harms = [case_of(one.result.check_id).may_harm for one in told if one.result is not None]
    assert harms == [False] * 4 + [True] * 4


def test_health_is_not_asked_if_the_harmful_checks_are_cut_short() -> None:
    only = ("server.answers", "stop.one_character", "stops.empty")

    async def work() -> list[CheckOutcome]:
        async with FamilyServer(MESSAGES).listening() as url:
            options = ProbeOptions(url, only=only, timeout_s=60)
            whole = ProbeRun(options)
            await whole.check()
            report = whole.report()
            assert report is not None
            limited = ProbeRun(replace(options, max_requests=report.requests))
            await limited.check()
            reports = [limited.report()]
            await limited.check_harm()
            reports.append(limited.report())
            return [report.results[0].outcome for report in reports if report is not None]

    assert run(work()) == [CheckOutcome.HELD, CheckOutcome.NOT_RUN]


@pytest.mark.parametrize("dialect", FamilyServer.DIALECTS)
def test_the_quick_checks_need_few_tokens_and_are_judged(dialect: WireDialect) -> None:
    class Counts(FamilyServer):
        tokens = 0

        def answer(self, query: Query) -> Said:
            said = super().answer(query)
            self.tokens += said.tokens
            return said

    server = Counts(dialect)
    report = report_on(server, is_quick=True)
    assert report.verdict is Verdict.HELD, as_text(report)
    quick = [
        one.check_id for one in CASES if is_selected(one.check_id, ProbeOptions("", is_quick=True))
    ]
    assert [one.check_id for one in report.results] == quick
    assert sum(one.outcome is CheckOutcome.HELD for one in report.results) > 0.7 * len(quick)
    # Two minutes at 8 tokens/s.
    assert server.tokens < 2 * 60 * 8

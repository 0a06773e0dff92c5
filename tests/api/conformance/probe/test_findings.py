"""One cause gives one finding, in the dialect's words, at its level; omitted checks are named."""

import asyncio
from dataclasses import replace

import pytest

from api.conformance.captures.values import CapturedEnding, WireDialect
from api.conformance.probe.catalogue import CASES
from api.conformance.probe.client import curl_line
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.run import ProbeRun
from api.conformance.probe.values import (
    Access,
    CheckOutcome,
    Level,
    ProbeOptions,
    ProbeVerdict,
    Progress,
)
from tests.api.conformance.probe.family.faulty import streams, texts
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said
from tests.support.asking import run

CHAT, MESSAGES, RESPONSES = WireDialect.CHAT, WireDialect.MESSAGES, WireDialect.RESPONSES


class LeaksBesideOtherText(streams.ThinksAloudInStreams):
    """Leaks the beginning of a stop in streams, whose text differs anyway."""

    def stopped(self, said: Said, full: str, query: Query) -> Said:
        letters = (said.matched or "")[:-1]
        return replace(said, text=said.text + letters[:1]) if query.is_streamed else said


def test_a_leak_keeps_its_name_if_streams_have_another_text() -> None:
    report = report_on(LeaksBesideOtherText(CHAT))
    assert [one.code for one in report.failed] == ["baseline", "stop.across_tokens"]
    leak = report.failed[1].faults[0]
    assert (leak.code, leak.mode) == ("prefix_leaked", "streamed")
    assert leak.baseline.startswith("<think>")


def test_the_consequences_of_a_failure_are_folded_under_it() -> None:
    report = report_on(texts.IgnoresStops(CHAT))
    [failed] = report.failed
    assert failed.code == "stop.one_character"
    folded = {one.code: one.outcome for one in report.consequences_of(failed.code)}
    assert folded["stop.among_others"] is CheckOutcome.FAILED
    assert folded["choices.stop"] is CheckOutcome.UNDECIDED
    assert len(folded) > 15


def test_an_extension_fails_only_on_request() -> None:
    report = report_on(texts.IgnoresStops(RESPONSES))
    assert report.verdict is ProbeVerdict.HELD
    assert [(one.code, one.level) for one in report.remarks] == [
        ("stop.one_character", Level.EXTENSION)
    ]
    asked = report_on(texts.IgnoresStops(RESPONSES), levels=frozenset(Level))
    assert asked.verdict is ProbeVerdict.FAILED
    assert [one.code for one in asked.failed] == ["stop.one_character"]


@pytest.mark.parametrize("dialect", FamilyServer.DIALECTS)
def test_the_expectation_is_in_the_words_of_the_dialect(dialect: WireDialect) -> None:
    report = report_on(texts.LosesStopsToLimits(dialect), only=("limit.stop_on_last_token",))
    [result] = report.remarks
    expected = {fault.expected for fault in result.faults}
    assert expected == {DRIVERS[dialect].words[CapturedEnding.STOP]}


def test_a_failure_names_its_rule_and_its_reference() -> None:
    report = report_on(texts.IncludesStops(MESSAGES), only=("stop.one_character",))
    [failed] = report.failed
    assert failed.level is Level.SPECIFICATION
    assert failed.rule == next(one.rule for one in CASES if one.code == failed.code)
    assert failed.reference is not None
    assert failed.reference.address.startswith("https://docs.claude.com/")
    assert {one.status for one in failed.exchanges} == {200}
    assert report.tool.startswith("fullstop probe")
    assert report.began_at.endswith("+00:00")


def test_a_cancelled_probe_reports_what_it_found() -> None:
    async def work() -> None:
        async with texts.IgnoresStops(CHAT).listening() as url:
            reached = asyncio.Event()

            def told(progress: Progress) -> None:
                if progress.done == 5:
                    reached.set()

            probing = ProbeRun(ProbeOptions(url, CHAT), told)
            assert probing.report() is None
            task = asyncio.create_task(probing.run())
            await asyncio.wait_for(reached.wait(), 60)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            report = probing.report()
            assert report is not None
            assert report.cut_short == "the probe was cancelled"
            assert [one.code for one in report.failed] == ["stop.one_character"]
            assert [one.code for one in report.results] == [one.code for one in CASES]
            assert len(report.not_asked) > 20

    run(work(), timeout_s=120)


def test_only_the_chosen_checks_send_requests() -> None:
    report = report_on(FamilyServer(CHAT), only=("stop.*", "errors.json"), skip=("stop.un*",))
    codes = [one.code for one in report.results]
    assert codes[0] == "stop.one_character"
    assert codes[-1] == "errors.json"
    assert "stop.unicode" not in codes
    assert report.verdict is ProbeVerdict.HELD


def test_the_values_of_headers_are_never_in_a_command() -> None:
    access = Access(api_key="k", headers=(("X-Team", "blue"), ("Authorization", "Basic eA==")))
    line = curl_line("http://127.0.0.1/", CHAT, {}, access)
    assert '"x-team: $X_TEAM"' in line
    assert '"authorization: $AUTHORIZATION"' in line
    assert "blue" not in line
    assert "eA==" not in line
    trusting = curl_line("https://h/", CHAT, {}, Access(is_insecure=True))
    assert " --insecure " in trusting

"""Correct but unusual servers get no finding, and the report names what is unusual."""

import re
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from api.conformance.captures.values import WireDialect
from api.conformance.probe.markdown import as_text
from api.conformance.probe.values import CheckOutcome, ProbeFailed, Report, Verdict
from tests.api.conformance.probe.family import odd
from tests.api.conformance.probe.family.probing import report_on
from tests.api.conformance.probe.family.server import FamilyServer
from tests.api.conformance.probe.family.talk import Query, Said
from tests.support.outside.certificates import write_certificate
from tests.support.random_cases import few_of

CHAT, MESSAGES = WireDialect.CHAT, WireDialect.MESSAGES


def nothing_is_wrong(report: Report) -> None:
    assert report.failed == (), as_text(report)
    assert report.remarks == (), as_text(report)
    assert report.verdict is Verdict.HELD


@pytest.mark.parametrize("dialect", FamilyServer.DIALECTS)
def test_a_correct_server_has_no_fault_in_any_dialect(dialect: WireDialect) -> None:
    report = report_on(FamilyServer(dialect))
    nothing_is_wrong(report)
    assert report.is_deterministic
    assert report.conclusions == ()


@pytest.mark.parametrize("make", few_of(odd.RIGHT, 9), ids=lambda make: make.__name__)
@pytest.mark.parametrize(
    "place", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in range(1, 6))]
)
def test_an_unusual_server_has_no_fault(make: type[FamilyServer], place: int) -> None:
    # One dialect for each, so that together they cover all.
    dialects = make.dialects or FamilyServer.DIALECTS
    number = (odd.RIGHT.index(make) + place) % len(dialects)
    nothing_is_wrong(report_on(make(dialects[number])))


@pytest.mark.parametrize("dialect", [MESSAGES, CHAT, WireDialect.OLLAMA])
def test_a_server_whose_answers_vary_is_judged_as_far_as_possible(dialect: WireDialect) -> None:
    report = report_on(odd.Varies(dialect))
    assert report.failed == (), as_text(report)
    assert report.remarks == (), as_text(report)
    assert not report.is_deterministic
    outcomes = {one.check_id: one.outcome for one in report.results}
    assert outcomes["stop.one_character"] is CheckOutcome.HELD
    assert outcomes["stops.sticky"] is CheckOutcome.UNDECIDED


@pytest.mark.parametrize(
    ("dialect", "every", "text"),
    [
        pytest.param(CHAT, 3, lambda full: f"{full[:20]} and {full[20:]}", id="more"),
        pytest.param(MESSAGES, 5, lambda full: full[:-5], id="shorter"),
        pytest.param(CHAT, 4, lambda full: full[:-5], id="shorter-without-names-of-stops"),
        pytest.param(WireDialect.RESPONSES, 5, lambda full: f"Sure: {full}", id="another"),
        pytest.param(CHAT, 7, lambda full: "I would rather not say that.", id="the-same"),
    ],
)
def test_answers_that_sometimes_differ_are_no_fault(
    dialect: WireDialect, every: int, text: Callable[[str], str]
) -> None:
    server = odd.IsOddOften(dialect)
    server.odd, server.every = text, every
    report = report_on(server)
    assert report.failed == (), as_text(report)
    assert report.verdict in (Verdict.HELD, Verdict.NOT_JUDGED)


def test_several_choices_are_judged_where_they_have_to_be_sampled() -> None:
    report = report_on(odd.SamplesSeveral(CHAT), only=("stop.one_character", "choices.*"))
    assert {one.check_id: one.outcome for one in report.results} == {
        "stop.one_character": CheckOutcome.HELD,
        "choices.count": CheckOutcome.HELD,
        "choices.stop": CheckOutcome.HELD,
    }


@pytest.mark.parametrize(
    ("make", "dialect", "concluded"),
    [
        (odd.WantsSixteenTokens, WireDialect.RESPONSES, "Every request allows 16 tokens or more"),
        (odd.RaisesSmallLimits, WireDialect.RESPONSES, "Every request allows 16 tokens or more"),
        (odd.KnowsTheNewLimitOnly, CHAT, "The limit is sent as max_completion_tokens"),
        (odd.FixesTheTemperature, CHAT, "temperature is left out"),
        (odd.AlwaysThinks, MESSAGES, "Answers may have 512 tokens: the model thinks long."),
        (odd.HasLittleRoom, MESSAGES, "Answers are limited to 64 tokens"),
        (odd.HasOneOfItsOwn, CHAT, "no model is named, for 'away' got status 404"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_probe_adapts_and_reports_what_it_concluded(
    make: type[FamilyServer], dialect: WireDialect, concluded: str
) -> None:
    report = report_on(make(dialect))
    nothing_is_wrong(report)
    assert any(concluded in one for one in report.conclusions), report.conclusions


@pytest.mark.parametrize(
    ("make", "needed", "advice"),
    [
        (odd.WantsAKey, {"api_key": "secret"}, "401 asks for a key: give --api-key KEY"),
        (odd.WantsAHeader, {"headers": (("X-Team", "blue"),)}, "give --header NAME:VALUE"),
        (odd.WantsItsModel, {"model": "right"}, "404 names the model: give --model NAME"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_option_that_a_server_needs_is_named_and_suffices(
    make: type[FamilyServer], needed: dict[str, Any], advice: str
) -> None:
    with pytest.raises(ProbeFailed, match=re.escape(advice)):
        report_on(make(CHAT))
    nothing_is_wrong(report_on(make(CHAT), **needed))


def test_an_api_under_another_path_is_found_if_the_path_is_given() -> None:
    with pytest.raises(ProbeFailed, match="--base-path PATH"):
        report_on(odd.LivesElsewhere(CHAT), dialect=None)
    report = report_on(odd.LivesElsewhere(CHAT), dialect=None, base_path="/api/v3/")
    nothing_is_wrong(report)
    assert report.url.endswith("/api/v3/chat/completions")


@pytest.mark.parametrize("make", [odd.IsBusy, odd.IsAwayForAMoment])
def test_the_probe_waits_for_a_busy_server_and_says_so(make: type[FamilyServer]) -> None:
    report = report_on(make(MESSAGES))
    nothing_is_wrong(report)
    assert report.waits > 10
    assert report.waited_s > 0


def test_a_probe_of_a_server_that_stays_busy_is_incomplete() -> None:
    class GetsBusy(odd.IsBusy):
        def check(self, request: Any, query: Query) -> Any:
            return self.refusal("later", 429) if self.asked > 40 else None

    report = report_on(GetsBusy(MESSAGES))
    assert report.verdict is Verdict.INCOMPLETE
    assert report.failed == ()
    assert report.cut_short == "the server stays busy: status 429 after 6 waits"
    assert len(report.not_run) > 10


def test_a_probe_with_few_decided_checks_is_not_judged() -> None:
    report = report_on(odd.Varies(MESSAGES), only=("stops.*", "limit.*", "usage.*"))
    assert report.failed == ()
    assert report.verdict is Verdict.NOT_JUDGED
    assert report.not_run == ()


@pytest.mark.parametrize("trusted", ["ca_file", "is_insecure"])
def test_a_self_signed_certificate_is_trusted_only_if_it_is_given(
    tmp_path: Path, trusted: str
) -> None:
    files = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.cert, files.key)
    with pytest.raises(ProbeFailed, match="its certificate is not trusted; give --ca FILE"):
        report_on(FamilyServer(CHAT), tls)
    option = {"ca_file": files.cert} if trusted == "ca_file" else {"is_insecure": True}
    nothing_is_wrong(report_on(FamilyServer(CHAT), tls, only=("stop.one_character",), **option))


class HidesItsThinking(FamilyServer):
    is_thinking_always = True

    def thought(self, query: Query) -> str:
        return "" if query.has_schema else "x" * 111

    def answer(self, query: Query) -> Said:
        return replace(super().answer(query), thinking="")


@pytest.mark.parametrize("is_quick", [True, False])
def test_a_server_that_hides_its_thinking_is_judged(is_quick: bool) -> None:
    nothing_is_wrong(report_on(HidesItsThinking(MESSAGES), is_quick=is_quick))


@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        ("/api/version", {"version": "0.9.1"}, "Ollama/0.9.1"),
        ("/props", {"build_info": "b4567-abc"}, "llama.cpp/b4567-abc"),
        ("/version", {"version": "0.11.0"}, "vLLM/0.11.0"),
        ("/version", {"version": 3}, ""),
        ("/version", [], ""),
    ],
)
def test_server_is_named_by_its_version_not_its_library(path: str, body: Any, name: str) -> None:
    class Named(FamilyServer):
        def routes(self, app: web.Application) -> None:
            async def version(request: web.Request) -> web.Response:
                return web.json_response(body)

            super().routes(app)
            app.router.add_get(path, version)

    assert report_on(Named(WireDialect.MESSAGES), max_requests=20).server == name

"""The reports of one call agree in every format that CI systems read."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from api.conformance.captures.recognition import parse
from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import CASES
from api.conformance.probe.ci_files import as_junit, as_sarif
from api.conformance.probe.html_page import suite_as_html
from api.conformance.probe.json_files import (
    FORMAT,
    catalogue_as_text,
    changes,
    changes_as_text,
    suite_as_data,
)
from api.conformance.probe.markdown import suite_as_markdown
from api.conformance.probe.references import Reference
from api.conformance.probe.suite import Expectation, ProbeSuite, read_expected, summary
from api.conformance.probe.values import (
    TOOL,
    CheckOutcome,
    CheckResult,
    Exchange,
    Fault,
    Level,
    Report,
    Verdict,
)

SCHEMA = json.loads(
    (Path(__file__).parents[5] / ".github" / "probe-report.schema.json").read_text()
)
EVIL = "\x1b[2J</details>\n```\n]]> \ufffe"


def result(name: str, outcome: CheckOutcome = CheckOutcome.HELD, **more: Any) -> CheckResult:
    return CheckResult(name, f"Title of {name}", outcome, f"Said of {name}.", **more)


def failed(name: str, **more: Any) -> CheckResult:
    fault = Fault(
        "stop_ignored", "The stop '`' was ignored.", "a", EVIL, "b", mode="whole", curl="curl x"
    )
    text = f'{{"content": "{name}"}}'
    exchange = Exchange({"stop": ["`"]}, 200, text + EVIL, parse(text), total_s=0.5)
    values = {"rule": "It ends.", "reference": Reference("https://x.org/a", "It says so.")}
    values |= {"faults": (fault,), "exchanges": (exchange,)} | more
    return result(name, CheckOutcome.FAILED, **values)


def report(*results: CheckResult, **more: Any) -> Report:
    values: dict[str, Any] = {
        "url": "http://127.0.0.1:1/v1/messages",
        "dialect": WireDialect.MESSAGES,
        "model": "m",
        "server": "s 1.2",
        "is_deterministic": True,
        "results": results,
        "requests": 12,
        "duration_s": 1.25,
        "tool": "fullstop probe 1",
        "began_at": "2026-11-22T14:00:00+00:00",
    }
    return Report(**(values | more))


HELD, LIMIT = result("stop.unicode"), result("limit")
FAILED = failed("stop.very_first")
FOLDED = failed("stops.string", cause="stop.very_first")
REMARK = failed("thinking.stop", level=Level.OPINION)
NOT_RUN = result("errors.json", CheckOutcome.NOT_RUN)
SKIPPED = result("stops.blank", CheckOutcome.SKIPPED)
EVERY = report(HELD, FAILED, FOLDED, REMARK, LIMIT, NOT_RUN, SKIPPED, cut_short="Ctrl-C")
CHAT = report(HELD, LIMIT, dialect=WireDialect.CHAT)


def suite(*reports: Report, expected: str = "", **more: Any) -> ProbeSuite:
    return ProbeSuite("http://127.0.0.1:1", reports, expected=read_expected(expected), **more)


# -- verdicts ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (suite(CHAT), Verdict.HELD),
        (suite(CHAT, EVERY), Verdict.FAILED),
        (suite(report(HELD, NOT_RUN)), Verdict.INCOMPLETE),
        (suite(CHAT, problems=(("ollama", "not asked"),)), Verdict.INCOMPLETE),
        (suite(problem="nothing listens there"), Verdict.UNREACHABLE),
        (suite(report(HELD, NOT_RUN), is_interrupted=True), Verdict.INTERRUPTED),
        (suite(report(HELD, REMARK)), Verdict.HELD),
    ],
)
def test_the_verdict_counts_all_reports(given: ProbeSuite, verdict: Verdict) -> None:
    assert given.verdict is verdict


def test_an_expected_failure_passes_and_a_new_one_fails() -> None:
    mixed = report(HELD, FAILED, LIMIT)
    assert suite(mixed, expected="stop.very_first").verdict is Verdict.HELD
    assert suite(mixed, expected="messages:stop.very_first # why").verdict is Verdict.HELD
    assert suite(mixed, expected="chat:stop.very_first").verdict is Verdict.FAILED
    assert suite(mixed, expected="stop.very_*\n\n# all").verdict is Verdict.HELD


def test_an_expected_failure_that_passes_fails_the_call() -> None:
    found = suite(report(HELD, LIMIT), expected="limit")
    assert found.verdict is Verdict.FAILED
    assert [one.check_id for _, one in found.unexpected_passes] == ["limit"]
    skipped = suite(report(HELD, LIMIT, SKIPPED), expected="stops.blank")
    assert skipped.verdict is Verdict.HELD


@pytest.mark.parametrize(
    ("text", "why"),
    [("limit\nno.such", "line 2: no check has the id 'no.such'"), ("klingon:limit", "'klingon'")],
)
def test_an_expected_failure_that_names_no_check_is_refused(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_expected(text)
    assert read_expected("# nothing") == ()


def test_a_line_of_the_file_may_be_flaky_and_have_the_address_of_an_issue() -> None:
    file = "limit flaky https://x.org/issues/1#a  # sometimes\nstop.very_first https://x.org/2"
    assert read_expected(file) == (
        Expectation("", "limit", is_flaky=True, link="https://x.org/issues/1#a"),
        Expectation("", "stop.very_first", link="https://x.org/2"),
    )
    # A flaky one may hold, and may fail; either way it decides nothing.
    assert suite(report(HELD, FAILED, LIMIT), expected=file).verdict is Verdict.HELD
    assert suite(report(HELD, FAILED, failed("limit")), expected=file).verdict is Verdict.HELD
    known = suite(report(HELD, FAILED, LIMIT), expected=file)
    assert "Expected failures: `messages:stop.very_first` (https://x.org/2)." in suite_as_markdown(
        known, has_raw=False
    )
    assert "Expected failure (https://x.org/2)" in as_junit(known)
    assert "https://x.org/2" in json.dumps(as_sarif(known))
    with pytest.raises(ValueError, match="line 1: 'maybe' is neither 'flaky' nor"):
        read_expected("limit maybe")


# -- no green that is not earned --------------------------------------------------------------


def happened(given: ProbeSuite) -> dict[str, list[str]]:
    root = ElementTree.fromstring(as_junit(given))
    found = {}
    for case in root.iter("testcase"):
        name = case.get("name", "")
        found[name.partition("(")[2].rstrip(")") or name] = [child.tag for child in case]
    return found


def test_a_probe_that_says_too_little_says_what_to_do() -> None:
    silent = [result(f"stop.{n}", CheckOutcome.UNDECIDED) for n in range(13)]
    given = suite(report(*silent, HELD, result("stop.very_first"), LIMIT))
    assert given.verdict is Verdict.NOT_JUDGED
    text = suite_as_markdown(given, has_raw=False)
    assert "Not judged: only 3 of 16 checks say something." in text
    for said in (
        "13 of the checks of stops were not judged",
        "--prompt",
        "--model",
        "--max-tokens",
    ):
        assert said in text
    assert "--" not in summary(given.reports[0], "another model")
    assert happened(given)["most checks say something"] == ["error"]


# -- formats ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [suite(EVERY, CHAT, expected="stop.very_first\nlimit"), suite(problem="gone")],
    ids=["reports", "problem"],
)
def test_the_json_matches_its_schema(given: ProbeSuite) -> None:
    data = json.loads(json.dumps(suite_as_data(given)))
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    jsonschema.validate(data, SCHEMA)
    assert SCHEMA["properties"]["format"]["const"] == FORMAT
    fields = SCHEMA["$defs"]["report"]["properties"]
    assert all(set(one) == set(fields) for one in data["reports"])


def test_junit_fails_the_checks_that_count_and_skips_the_others() -> None:
    assert happened(suite(EVERY)) == {
        "stop.unicode": [],
        "stop.very_first": ["failure"],
        "stops.string": ["failure"],
        "thinking.stop": ["skipped"],
        "limit": [],
        "errors.json": ["error"],
        "stops.blank": ["skipped"],
    }
    known = happened(suite(EVERY, expected="stop.very_first\nlimit"))
    assert (known["stop.very_first"], known["limit"]) == (["skipped"], ["failure"])
    assert happened(suite(problem="nothing listens there")) == {"a server that answers": ["error"]}


# Jenkins' xUnit plugin has these attributes and children: "junit-10.xsd" in jenkinsci/xunit-plugin.
_MESSAGE = ({"type", "message"}, set[str](), set[str]())
JENKINS: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": ({"name", "time", "tests", "failures", "errors"}, set(), {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp"},
        {"name", "tests", "failures", "errors"},
        {"properties", "testcase"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, {"name", "value"}, set()),
    "testcase": ({"name", "time", "classname"}, {"name"}, {"skipped", "error", "failure"}),
    "skipped": _MESSAGE,
    "error": _MESSAGE,
    "failure": _MESSAGE,
}


@pytest.mark.parametrize(
    "given",
    [
        suite(EVERY, CHAT, expected="limit", problems=(("ollama", "no"),)),
        suite(report(SKIPPED)),
        suite(problem="gone"),
    ],
    ids=["reports", "not judged", "problem"],
)
def test_junit_is_valid_for_jenkins(given: ProbeSuite) -> None:
    root = ElementTree.fromstring(as_junit(given))
    assert root.tag == "testsuites"
    for element in root.iter():
        allowed, required, children = JENKINS[element.tag]
        assert required <= set(element.keys()) <= allowed, element.tag
        assert {child.tag for child in element} <= children
        assert re.fullmatch(r"[\d.]*", element.get("time", ""))


def test_sarif_without_an_installed_distribution_has_no_version(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("api.conformance.probe.ci_files.tool_name", lambda: TOOL)
    [run] = as_sarif(suite(EVERY))["runs"]
    driver = run["tool"]["driver"]
    assert (driver["name"], driver.get("version")) == ("fullstop probe", None)


def test_sarif_has_a_rule_for_each_check_and_a_result_for_each_failure() -> None:
    found = as_sarif(suite(EVERY, expected="stop.very_first"))
    [run] = found["runs"]
    assert found["version"] == "2.1.0"
    rules = run["tool"]["driver"]["rules"]
    assert {rule["id"] for rule in rules} == {one.check_id for one in CASES}
    assert all(rule["helpUri"].startswith("https://") for rule in rules)
    results = {one["ruleId"]: one for one in run["results"]}
    assert set(results) == {"stop.very_first", "stops.string", "thinking.stop"}
    assert results["stop.very_first"]["level"] == "error"
    assert results["thinking.stop"]["level"] == "note"
    assert results["stop.very_first"]["suppressions"]
    assert "suppressions" not in results["thinking.stop"]
    prints = [one["partialFingerprints"]["check/v1"] for one in run["results"]]
    assert len(prints) == len(set(prints))
    assert "\x1b" not in json.dumps(found, ensure_ascii=False)
    gone = as_sarif(suite(problem="gone"))["runs"][0]
    assert gone["invocations"][0]["executionSuccessful"] is False


def test_report_lists_failures_first_with_rule_and_baseline() -> None:
    text = suite_as_markdown(suite(EVERY), has_raw=False)
    assert text.index("### Title of stop.very_first") < text.index("| check")
    for said in (
        "- probed by: fullstop probe 1, 2026-11-22T14:00:00+00:00",
        "- server: s 1.2",
        "Specification: It ends.",
        "It says so. <https://x.org/a>",
        "- without stops: `'b'`",
        "Fails in the same way: `stops.string`.",
        "### Failed, of levels that do not count",
        "**2 of 4 checks failed; 1 was not asked (Ctrl-C).**",
    ):
        assert said in text
    assert text.index("The stop") < text.index("- server: s 1.2")
    assert "<details>" not in text


def test_a_page_has_every_dialect_and_the_raw_answers() -> None:
    chat = replace(EVERY, dialect=WireDialect.CHAT)
    page = suite_as_html(suite(EVERY, chat))
    assert 'id="messages.stop.very_first"' in page
    assert 'href="#chat.stop.very_first"' in page
    assert page.count("<details>") == 4
    assert "\x1b" not in page


# -- comparing and listing --------------------------------------------------------------------


def data(*results: CheckResult) -> Any:
    return json.loads(json.dumps(suite_as_data(suite(report(*results)))))


def test_a_comparison_lists_new_failures_first_and_then_what_is_fixed() -> None:
    old = data(HELD, failed("limit"), SKIPPED)
    new = data(failed("stop.unicode"), LIMIT, REMARK, SKIPPED)
    found = changes(old, new)
    assert [(one.name, one.is_new_failure) for one in found] == [
        ("messages:stop.unicode", True),
        ("messages:limit", False),
        ("messages:thinking.stop", False),
    ]
    text = changes_as_text(found)
    assert "NEW FAILURE `messages:stop.unicode`: held → failed" in text
    assert "FIXED `messages:limit`: failed → held" in text
    assert "`messages:thinking.stop`: not in the report → failed" in text
    assert changes(old, old) == []


@pytest.mark.parametrize("wrong", [None, [], {}, {"format": 3}, {"format": 3, "reports": []}])
def test_a_file_that_is_not_a_report_is_not_compared(wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"report|format"):
        changes(data(HELD), wrong)


def test_the_list_has_every_check_with_its_level_and_its_references() -> None:
    text = catalogue_as_text()
    for case in CASES:
        assert f"{case.check_id}  ({case.level})" in text

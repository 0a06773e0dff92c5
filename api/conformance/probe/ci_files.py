"""Reports for CI systems: JUnit XML and SARIF.

JUnit has a suite for each dialect and a test for each check (https://github.com/testmoapp/junitxml),
and is valid by the stricter schema of Jenkins' xUnit plugin. SARIF
(https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html) has a rule for each check, and a
result for each failure. Pure; any thread.
"""

import re
from collections.abc import Sequence
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import CASES, Case, Level
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.markdown import failure_as_text
from api.conformance.probe.references import reference
from api.conformance.probe.suite import OUTCOME_NAMES, ProbeSuite, summary
from api.conformance.probe.values import (
    TOOL,
    CheckOutcome,
    CheckResult,
    Report,
    Verdict,
    tool_name,
)
from api.terminal_text import harmless

# Characters that XML forbids and ``harmless`` does not escape.
_FORBIDDEN = re.compile("[\ufffe\uffff]")
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.SPECIFICATION: "error", Level.EXTENSION: "warning", Level.OPINION: "note"}


def as_junit(suite: ProbeSuite) -> str:
    """Return the reports as XML."""
    root = Element("testsuites", name="fullstop probe")
    root.extend(_suite_element(suite, report) for report in suite.reports)
    for dialect, why in suite.problems or ([("probe", suite.problem)] if suite.problem else []):
        test = Element("testcase", name="a server that answers", classname=dialect)
        SubElement(test, "error", message=_text(why), type="unreachable")
        root.append(_counted_suite(dialect, [test]))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(element.get(name, "0")) for element in root)))
    root.set("time", f"{sum(report.duration_s for report in suite.reports):.3f}")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, "unicode") + "\n"


def _counted_suite(name: str, tests: Sequence[Element], *before: Element) -> Element:
    element = Element("testsuite", name=name, tests=str(len(tests)))
    for plural, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        element.set(plural, str(sum(test.find(tag) is not None for test in tests)))
    element.extend((*before, *tests))
    return element


def _suite_element(suite: ProbeSuite, report: Report) -> Element:
    tests = [_test_element(suite, report, result) for result in report.results]
    if report.verdict_without_failures is Verdict.NOT_JUDGED:
        name = "most checks say something"
        test = Element("testcase", name=name, classname=f"{report.dialect}.verdict", time="0.000")
        SubElement(test, "error", message=_text(summary(report)), type="not judged")
        tests.append(test)
    properties = Element("properties")
    named = {"tool": report.tool, "server": report.server, "model": report.model}
    for name, value in named.items():
        SubElement(properties, "property", name=name, value=_text(value))
    element = _counted_suite(f"{report.dialect} at {_text(report.url)}", tests, properties)
    element.set("time", f"{report.duration_s:.3f}")
    if report.began_at:
        element.set("timestamp", report.began_at.removesuffix("+00:00"))
    return element


def _test_element(suite: ProbeSuite, report: Report, result: CheckResult) -> Element:
    seconds = sum(exchange.total_s for exchange in result.exchanges)
    name, group = f"{result.title} ({result.check_id})", result.check_id.partition(".")[0]
    test = Element(
        "testcase", name=name, classname=f"{report.dialect}.{group}", time=f"{seconds:.3f}"
    )
    sentence, line = _text(result.sentence), suite.expectation(report, result)
    if (report, result) in suite.failures:
        failure = SubElement(test, "failure", message=sentence, type=result.level)
        failure.text = _text(failure_as_text(result))
    elif (report, result) in suite.unexpected_passes:
        message = (
            "It passed, but the file of expected failures says that it fails: remove its line."
        )
        SubElement(test, "failure", message=message, type="unexpected pass")
    elif result.outcome is CheckOutcome.FAILED:
        why = f"Failed, but {result.level} does not count"
        if line is not None:
            why = f"Expected failure{line.suffix}"
        SubElement(test, "skipped", message=f"{why}: {sentence}")
    elif result.outcome is CheckOutcome.NOT_RUN:
        SubElement(test, "error", message=sentence, type="not asked")
    elif result.outcome is not CheckOutcome.HELD:
        SubElement(test, "skipped", message=f"{OUTCOME_NAMES[result.outcome]}: {sentence}")
    return test


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", harmless(text))


def as_sarif(suite: ProbeSuite) -> dict[str, Any]:
    """Return the reports as an object that ``json`` can write."""
    # Without an installed distribution there is no version.
    version = tool_name().removeprefix(TOOL).strip()
    dialects = [report.dialect for report in suite.reports]
    driver = {"name": TOOL, "rules": [_rule(case, dialects) for case in CASES]}
    if version:
        driver["version"] = version
    has_run = suite.verdict not in (Verdict.UNREACHABLE, Verdict.INTERRUPTED)
    problems = [suite.problem] if suite.problem else []
    problems += [f"{dialect}: {why}" for dialect, why in suite.problems]
    problems += [f"{one.dialect}: {one.cut_short}" for one in suite.reports if one.cut_short]
    notes = [{"level": "error", "message": {"text": harmless(text)}} for text in problems]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": has_run, "toolExecutionNotifications": notes}],
        "results": [
            _result(suite, report, result)
            for report in suite.reports
            for result in report.results
            if result.outcome is CheckOutcome.FAILED
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(case: Case, dialects: Sequence[WireDialect]) -> dict[str, Any]:
    levels = [case.level_in(dialect) for dialect in dialects] or [case.level]
    # The page of the rule; else one about streams.
    pages = [case.reference_in(dialect) for dialect in (*dialects, *DRIVERS)]
    pages += [reference(dialect, "streams") for dialect in (*dialects, *DRIVERS)]
    return {
        "id": case.check_id,
        "name": case.title,
        "shortDescription": {"text": case.title},
        "fullDescription": {"text": case.rule},
        "helpUri": next(page.address for page in pages if page is not None),
        "defaultConfiguration": {"level": _LEVELS[min(levels, key=tuple(Level).index)]},
        "properties": {"level": case.level},
    }


def _result(suite: ProbeSuite, report: Report, result: CheckResult) -> dict[str, Any]:
    sentence = harmless(f"{report.dialect}: {result.title}. {result.sentence}")
    check = f"{report.dialect}/{result.check_id}"
    # A server has no files, so the check is the location, which keeps results separate.
    location = {"artifactLocation": {"uri": f"probe/{check}"}, "region": {"startLine": 1}}
    sarif: dict[str, Any] = {
        "ruleId": result.check_id,
        "level": _LEVELS[result.level],
        "message": {"text": f"{sentence}\n\n{harmless(failure_as_text(result))}".rstrip()},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"check/v1": check},
        "properties": {"url": harmless(report.url), "rule": result.rule},
    }
    if result.reference is not None:
        sarif["properties"]["reference"] = result.reference.address
    line = suite.expectation(report, result)
    if line is not None:
        why = f"an expected failure{f': {line.link}' if line.link else ''}"
        sarif["suppressions"] = [{"kind": "external", "justification": why}]
    return sarif

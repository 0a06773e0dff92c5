"""Reports as JUnit XML for CI systems: a suite for each dialect, a test for each check.

https://github.com/testmoapp/junitxml. Pure; any thread.
"""

import re
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from api.conformance.captures.harmless import harmless
from api.conformance.probe.reports.as_text import faults_as_text
from api.conformance.probe.reports.suite import ProbeSuite
from api.conformance.probe.values import CheckOutcome, CheckResult, Report

# Characters that XML forbids, in addition to those that ``harmless`` escapes.
_FORBIDDEN = re.compile("[\ufffe\uffff]")
_SKIPPED = (CheckOutcome.SKIPPED, CheckOutcome.UNDECIDED)


def as_junit(suite: ProbeSuite) -> str:
    """Return the reports as XML."""
    root = Element("testsuites", name="fullstop probe")
    totals = dict.fromkeys(("tests", "failures", "errors", "skipped"), 0)
    for report in suite.reports:
        one = _suite(suite, report)
        root.append(one)
        for name in totals:
            totals[name] += int(one.get(name, "0"))
    for dialect, why in suite.problems or ([("probe", suite.problem)] if suite.problem else []):
        root.append(_no_report(dialect, why))
        totals["tests"] += 1
        totals["errors"] += 1
    for name, count in totals.items():
        root.set(name, str(count))
    root.set("time", f"{sum(report.duration_s for report in suite.reports):.3f}")
    indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + tostring(root, "unicode") + "\n"


def _suite(suite: ProbeSuite, report: Report) -> Element:
    tests = [_test(suite, report, result) for result in report.results]
    element = Element(
        "testsuite",
        name=f"{report.dialect} at {_text(report.url)}",
        tests=str(len(tests)),
        failures=str(sum(test.find("failure") is not None for test in tests)),
        errors=str(sum(test.find("error") is not None for test in tests)),
        skipped=str(sum(test.find("skipped") is not None for test in tests)),
        time=f"{report.duration_s:.3f}",
    )
    if report.began_at:
        element.set("timestamp", report.began_at.removesuffix("+00:00"))
    properties = SubElement(element, "properties")
    named = {"tool": report.tool, "server": report.server, "model": report.model}
    for name, value in named.items():
        SubElement(properties, "property", name=name, value=_text(value))
    element.extend(tests)
    return element


def _test(suite: ProbeSuite, report: Report, result: CheckResult) -> Element:
    seconds = sum(exchange.total_s for exchange in result.exchanges)
    name, group = f"{result.title} ({result.code})", f"{report.dialect}.{_group(result.code)}"
    test = Element("testcase", name=name, classname=group, time=f"{seconds:.3f}")
    said = _text(result.sentence)
    if suite.counts(report, result):
        failure = SubElement(test, "failure", message=said, type=result.level)
        failure.text = _text(faults_as_text(result))
    elif (report, result) in suite.unexpected_passes:
        message = (
            "It passed, but the file of expected failures says that it fails: remove its line."
        )
        SubElement(test, "failure", message=message, type="unexpected pass")
    elif result.outcome is CheckOutcome.FAILED:
        SubElement(test, "skipped", message=f"{_why_not(suite, report, result)}: {said}")
    elif result.outcome is CheckOutcome.NOT_ASKED:
        SubElement(test, "error", message=said, type="not asked")
    elif result.outcome in _SKIPPED:
        SubElement(test, "skipped", message=said)
    return test


def _why_not(suite: ProbeSuite, report: Report, result: CheckResult) -> str:
    """Return why a failure does not count."""
    if result.cause:
        return f"Follows from {result.cause}"
    if suite.is_expected(report, result):
        return "Expected failure"
    return f"Failed, but {result.level} does not count"


def _no_report(dialect: str, why: str) -> Element:
    element = Element("testsuite", name=dialect, tests="1", failures="0", errors="1", skipped="0")
    test = SubElement(element, "testcase", name="a server that answers", classname=dialect)
    SubElement(test, "error", message=_text(why), type="unreachable")
    return element


def _group(code: str) -> str:
    return code.partition(".")[0]


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", harmless(text))

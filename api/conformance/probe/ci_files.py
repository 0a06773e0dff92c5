"""Reports for CI systems: JUnit XML.

It has a suite for each dialect and a test for each check (https://github.com/testmoapp/junitxml),
and is valid by the stricter schema of Jenkins' xUnit plugin. Pure; any thread.
"""

import re
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from api.conformance.probe.markdown import failure_as_text
from api.conformance.probe.suite import OUTCOME_NAMES, ProbeSuite, summary
from api.conformance.probe.values import CheckOutcome, CheckResult, Report, Verdict
from api.terminal_text import harmless

# Characters that XML forbids and ``harmless`` does not escape.
_FORBIDDEN = re.compile("[\ufffe\uffff]")


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
    name, group = f"{result.title} ({result.code})", result.code.partition(".")[0]
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
    elif line is not None and result.outcome is CheckOutcome.FAILED:
        SubElement(test, "skipped", message=f"Expected failure{line.suffix}: {sentence}")
    elif result.outcome is CheckOutcome.NOT_RUN:
        SubElement(test, "error", message=sentence, type="not asked")
    elif result.outcome is not CheckOutcome.HELD:
        SubElement(test, "skipped", message=f"{OUTCOME_NAMES[result.outcome]}: {sentence}")
    return test


def _text(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", harmless(text))

"""Reports as SARIF for code scanning: a rule for each check, a result for each failure.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html. Pure; any thread.
"""

from typing import Any

from api.conformance.captures.harmless import harmless
from api.conformance.probe.cases import Case, Level
from api.conformance.probe.catalogue.every_case import CASES
from api.conformance.probe.reports.as_text import faults_as_text
from api.conformance.probe.reports.suite import ProbeSuite, SuiteVerdict
from api.conformance.probe.tool import tool_name
from api.conformance.probe.values import CheckOutcome, CheckResult, Report

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.SPECIFICATION: "error", Level.EXTENSION: "warning", Level.OPINION: "note"}


def as_sarif(suite: ProbeSuite) -> dict[str, Any]:
    """Return the reports as an object that ``json`` can write."""
    name, _, version = tool_name().rpartition(" ")
    driver = {
        "name": name or version,
        "rules": [_rule(case) for case in CASES],
    }
    if name:
        driver["version"] = version
    ran = suite.verdict not in (SuiteVerdict.UNREACHABLE, SuiteVerdict.INTERRUPTED)
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": ran, "toolExecutionNotifications": _notes(suite)}],
        "results": [
            _result(suite, report, result)
            for report in suite.reports
            for result in report.results
            if result.outcome is CheckOutcome.FAILED and not result.cause
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(case: Case) -> dict[str, Any]:
    return {
        "id": case.code,
        "name": case.title,
        "shortDescription": {"text": case.title},
        "fullDescription": {"text": case.rule},
        "defaultConfiguration": {"level": _LEVELS[case.level]},
        "properties": {"level": case.level},
    }


def _result(suite: ProbeSuite, report: Report, result: CheckResult) -> dict[str, Any]:
    said = harmless(f"{report.dialect}: {result.title}. {result.sentence}")
    found: dict[str, Any] = {
        "ruleId": result.code,
        "level": _LEVELS[result.level],
        "message": {"text": f"{said}\n\n{harmless(faults_as_text(result))}".rstrip()},
        # A server has no files, so the check is the location, which keeps results separate.
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": f"probe/{report.dialect}/{result.code}"},
                    "region": {"startLine": 1},
                }
            }
        ],
        "partialFingerprints": {"check/v1": f"{report.dialect}/{result.code}"},
        "properties": {"url": harmless(report.url), "rule": result.rule},
    }
    if result.reference is not None:
        found["properties"]["reference"] = result.reference.address
    if suite.is_expected(report, result):
        found["suppressions"] = [{"kind": "external", "justification": "an expected failure"}]
    return found


def _notes(suite: ProbeSuite) -> list[dict[str, Any]]:
    said = [suite.problem] if suite.problem else []
    said += [f"{dialect}: {why}" for dialect, why in suite.problems]
    said += [f"{one.dialect}: {one.cut_short}" for one in suite.reports if one.cut_short]
    return [{"level": "error", "message": {"text": harmless(text)}} for text in said]

"""The result as a badge of https://shields.io/badges/endpoint-badge. Pure; any thread."""

from typing import Any

from api.conformance.probe.reports.suite import ProbeSuite, SuiteVerdict
from api.conformance.probe.values import CheckOutcome

_COLORS = {
    SuiteVerdict.HELD: "brightgreen",
    SuiteVerdict.FAILED: "red",
    SuiteVerdict.INCOMPLETE: "yellow",
    SuiteVerdict.INTERRUPTED: "yellow",
    SuiteVerdict.UNREACHABLE: "lightgrey",
}


def as_badge(suite: ProbeSuite) -> dict[str, Any]:
    """Return the badge as an object that ``json`` can write."""
    held = sum(
        one.outcome is CheckOutcome.HELD for report in suite.reports for one in report.results
    )
    judged = held + sum(len(report.failed) for report in suite.reports)
    verdict = suite.verdict
    message = f"{held} of {judged} passed" if suite.reports else verdict.value
    if suite.reports and verdict in (SuiteVerdict.INCOMPLETE, SuiteVerdict.INTERRUPTED):
        message += f", {verdict}"
    color = _COLORS[verdict]
    return {"schemaVersion": 1, "label": "stops", "message": message, "color": color}

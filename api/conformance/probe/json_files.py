"""Reports as JSON, and the list of checks.

Pure; any thread.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

from api.conformance.probe.catalogue import CASES, Case, Level
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.suite import ProbeSuite
from api.conformance.probe.values import CheckResult, Exchange, Report, tool_name

# Version of the object that ``.github/probe-report.schema.json`` describes.
FORMAT = 6


def suite_as_data(suite: ProbeSuite) -> dict[str, Any]:
    """Return all reports of a call as an object that ``json`` can write."""
    return {
        "format": FORMAT,
        "tool": tool_name(),
        "url": suite.url,
        "verdict": suite.verdict,
        "problem": suite.problem,
        "problems": [{"dialect": name, "problem": why} for name, why in suite.problems],
        "failures": _names(suite.failures),
        "unexpected_passes": _names(suite.unexpected_passes),
        "expected_failures": _names(suite.known_failures),
        "reports": [as_data(report) for report in suite.reports],
    }


def _names(pairs: Sequence[tuple[Report, CheckResult]]) -> list[dict[str, str]]:
    return [{"dialect": report.dialect, "code": result.code} for report, result in pairs]


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def as_data(report: Report) -> dict[str, Any]:
    """Return one report as an object that ``json`` can write."""
    return {
        "verdict": report.verdict,
        "has_passed": report.has_passed,
        "is_complete": report.is_complete,
        **_fields(report),
        "results": [_result_data(result) for result in report.results],
    }


def _result_data(result: CheckResult) -> dict[str, Any]:
    faults = [_fields(fault) for fault in result.faults]
    for fault in faults:
        del fault["is_certain"]
    return {
        **_fields(result),
        "reference": None if result.reference is None else _fields(result.reference),
        "faults": faults,
        "exchanges": [_exchange_data(exchange) for exchange in result.exchanges],
    }


def _exchange_data(exchange: Exchange) -> dict[str, Any]:
    body = exchange.body
    names = ("status", "headers", "text", "problem", "total_s", "is_streamed")
    request = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    return {"request": request, **{name: getattr(exchange, name) for name in names}}


def catalogue_as_text() -> str:
    """Return the checks for a terminal: id, level, rule, and the page of each vendor."""
    return "\n".join(line for case in CASES for line in _case_lines(case)) + "\n"


def _case_lines(case: Case) -> Iterator[str]:
    yield f"{case.code}  ({case.level})"
    yield f"    {case.title}: {case.rule}"
    addresses: dict[str, list[str]] = {}
    for dialect in DRIVERS:
        stated = case.reference_in(dialect)
        if stated is not None:
            addresses.setdefault(stated.address, []).append(dialect)
    for address, dialects in addresses.items():
        yield f"    {', '.join(dialects)}: {address}"
    if extensions := extension_in(case):
        yield f"    an extension in {extensions}"


def extension_in(case: Case) -> str:
    """Return the dialects in which a rule is an extension."""
    if case.level is not Level.SPECIFICATION:
        return ""
    return ", ".join(driver for driver in DRIVERS if case.level_in(driver) is Level.EXTENSION)

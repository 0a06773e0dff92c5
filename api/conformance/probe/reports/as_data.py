"""A report as JSON values for programs. Pure; any thread."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.reports.suite import ProbeSuite
from api.conformance.probe.tool import tool_name
from api.conformance.probe.values import CheckResult, Report

# Version of the object with all reports of a call, which ``.github/probe-report.schema.json``
# describes.
FORMAT = 4


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
        "expected_failures": _names(
            [
                (report, result)
                for report in suite.reports
                for result in report.failed
                if suite.is_expected(report, result)
            ]
        ),
        "reports": [as_data(report) for report in suite.reports],
    }


def _names(pairs: Sequence[tuple[Report, CheckResult]]) -> list[dict[str, str]]:
    return [{"dialect": report.dialect, "code": result.code} for report, result in pairs]


def as_data(report: Report) -> dict[str, Any]:
    """Return one report as an object that ``json`` can write."""
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return {
        "verdict": report.verdict,
        "has_passed": report.has_passed,
        "is_complete": report.is_complete,
        **fields,
        "levels": sorted(report.levels),
        "results": [_result(one) for one in report.results],
    }


def _result(result: CheckResult) -> dict[str, Any]:
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    reference = result.reference
    return {
        **fields,
        "reference": dataclasses.asdict(reference) if reference is not None else None,
        "faults": [dataclasses.asdict(fault) for fault in result.faults],
        "exchanges": [_exchange(one) for one in result.exchanges],
    }


def _exchange(exchange: Exchange) -> dict[str, Any]:
    body = exchange.body
    return {
        "request": body.decode("utf-8", "replace") if isinstance(body, bytes) else body,
        "status": exchange.status,
        "headers": exchange.headers,
        "text": exchange.text,
        "problem": exchange.problem,
        "total_s": exchange.total_s,
        "is_streamed": exchange.is_streamed,
    }

"""A report as JSON values for programs. Pure; any thread."""

import dataclasses
from typing import Any

from api.conformance.probe.asking.exchange import Exchange
from api.conformance.probe.values import CheckResult, Report

FORMAT = 3


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as an object that ``json`` can write."""
    fields = {field.name: getattr(report, field.name) for field in dataclasses.fields(report)}
    return {
        "format": FORMAT,
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

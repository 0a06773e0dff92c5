"""A report as JSON values for programs. Pure; any thread."""

import dataclasses
from typing import Any

from api.conformance.probe.values import Report

FORMAT = 2


def as_data(report: Report) -> dict[str, Any]:
    """Return the report as an object that ``json`` can write."""
    data = dataclasses.asdict(report)
    data["results"] = list(data["results"])
    return {"format": FORMAT, "has_passed": report.has_passed, **data}

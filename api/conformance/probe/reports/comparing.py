"""Compares two JSON reports: new failures, and checks that no longer fail.

Pure; any thread.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from api.conformance.captures.draft import items, mapping
from api.conformance.captures.harmless import harmless, on_one_line
from api.conformance.probe.reports.as_data import FORMAT
from api.conformance.probe.reports.marking import code
from api.conformance.probe.values import CheckOutcome


class NotAReport(ValueError):
    """A file is not a report of the probe that can be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """A check whose outcome has changed.

    Attributes:
        name: Its dialect and its id.
        before: Its outcome in the old report; empty if it was not in it.
        now: Its outcome in the new report; empty if it is not in it.
        counts: Whether a failure of it counts in the new report.
    """

    name: str
    before: str
    now: str
    counts: bool

    @property
    def is_new_failure(self) -> bool:
        """Whether it fails now, and did not before."""
        return self.now == CheckOutcome.FAILED and self.counts


@dataclass(frozen=True, slots=True)
class _Row:
    outcome: str
    counts: bool


def changes(old: Any, new: Any) -> list[Change]:
    """Return the differences between two reports, new failures first.

    Raises:
        NotAReport: One of them is not a report, or has another format.
    """
    before, now = _rows(old), _rows(new)
    missing = _Row("", counts=False)
    found = [
        Change(name, there.outcome, here.outcome, here.counts)
        for name in dict.fromkeys([*before, *now])
        if (there := before.get(name, missing)).outcome != (here := now.get(name, missing)).outcome
        or there.counts != here.counts
    ]
    return sorted(found, key=lambda one: (not one.is_new_failure, one.now != CheckOutcome.HELD))


def changes_as_text(found: list[Change]) -> str:
    """Return the differences as text, one per line."""
    return harmless("\n".join(_lines(found))) + "\n"


def changes_as_data(found: list[Change]) -> dict[str, Any]:
    """Return the differences as an object that ``json`` can write."""
    return {
        "format": FORMAT,
        "changes": [
            {
                "check": one.name,
                "before": one.before or None,
                "now": one.now or None,
                "is_new_failure": one.is_new_failure,
            }
            for one in found
        ],
    }


def _lines(found: list[Change]) -> Iterator[str]:
    if not found:
        yield "The reports say the same of every check."
    for one in found:
        mark = "NEW FAILURE" if one.is_new_failure else "changed"
        if one.before == CheckOutcome.FAILED and one.now == CheckOutcome.HELD:
            mark = "FIXED"
        before, now = one.before or "not in the report", one.now or "not in the report"
        yield f"- {mark} {code(one.name)}: {on_one_line(before)} → {on_one_line(now)}"


def _rows(data: Any) -> dict[str, _Row]:
    reports = mapping(data).get("reports")
    if not isinstance(reports, list) or "format" not in data:
        raise NotAReport("it is not a report of fullstop probe --json")
    if data["format"] != FORMAT:
        raise NotAReport(f"its format is {data['format']}; this version compares format {FORMAT}")
    found: dict[str, _Row] = {}
    for report in map(mapping, reports):
        levels = items(report.get("levels"))
        for result in map(mapping, items(report.get("results"))):
            name = f"{report.get('dialect')}:{result.get('code')}"
            outcome = str(result.get("outcome"))
            counts = result.get("level") in levels and not result.get("cause")
            found[name] = _Row(outcome, counts and outcome == CheckOutcome.FAILED)
    return found

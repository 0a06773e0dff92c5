"""Reports as JSON, the list of checks, and the differences of two JSON reports.

Pure; any thread.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from api.conformance.captures.frames import items, mapping, objects
from api.conformance.probe.catalogue import CASES, Case, Level
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.markdown import code_span
from api.conformance.probe.suite import ProbeSuite
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Report, tool_name
from api.terminal_text import harmless, on_one_line

# Version of the object that ``.github/probe-report.schema.json`` describes.
FORMAT = 5


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
    return [{"dialect": report.dialect, "code": result.check_id} for report, result in pairs]


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def as_data(report: Report) -> dict[str, Any]:
    """Return one report as an object that ``json`` can write."""
    return {
        "verdict": report.verdict,
        "has_passed": report.has_passed,
        "is_complete": report.is_complete,
        **_fields(report),
        "levels": sorted(report.levels),
        "results": [_result_data(result) for result in report.results],
    }


def _result_data(result: CheckResult) -> dict[str, Any]:
    faults = [_fields(fault) for fault in result.faults]
    for fault in faults:
        del fault["is_certain"]
    fields = _fields(result)
    return {
        "code": fields.pop("check_id"),
        **fields,
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
    yield f"{case.check_id}  ({case.level})"
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


@dataclass(frozen=True, slots=True)
class Change:
    """A check with another outcome, or another effect on the verdict, than before."""

    name: str
    before: str
    now: str
    counts: bool

    @property
    def is_new_failure(self) -> bool:
        return self.now == CheckOutcome.FAILED and self.counts


def changes(old: Any, new: Any) -> list[Change]:
    """Return the differences between two reports, new failures first.

    Raises:
        ValueError: One of them is not a report, or has another format.
    """
    before, now = _outcomes(old), _outcomes(new)
    pairs = {name: (before.get(name, ("", False)), now.get(name, ("", False)))
             for name in [*before, *now]}  # fmt: skip
    found = [Change(name, was[0], *is_) for name, (was, is_) in pairs.items() if was != is_]
    return sorted(found, key=lambda one: (not one.is_new_failure, one.now != CheckOutcome.HELD))


def _outcomes(data: Any) -> dict[str, tuple[str, bool]]:
    if not isinstance(mapping(data).get("reports"), list) or "format" not in data:
        raise ValueError("it is not a report of fullstop probe --json")
    if data["format"] != FORMAT:
        raise ValueError(f"its format is {data['format']}; this version compares format {FORMAT}")
    found: dict[str, tuple[str, bool]] = {}
    for report in objects(data["reports"]):
        levels = items(report.get("levels"))
        for result in objects(report.get("results")):
            outcome, counts = str(result.get("outcome")), result.get("level") in levels
            name = f"{report.get('dialect')}:{result.get('code')}"
            found[name] = outcome, counts and outcome == CheckOutcome.FAILED
    return found


def changes_as_text(found: list[Change]) -> str:
    """Return the differences as text, one per line."""
    lines = [] if found else ["The reports say the same of every check."]
    for change in found:
        mark = "NEW FAILURE" if change.is_new_failure else "changed"
        if change.before == CheckOutcome.FAILED and change.now == CheckOutcome.HELD:
            mark = "FIXED"
        before, now = (
            on_one_line(one or "not in the report") for one in (change.before, change.now)
        )
        lines.append(f"- {mark} {code_span(change.name)}: {before} → {now}")
    return harmless("\n".join(lines)) + "\n"

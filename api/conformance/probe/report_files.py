"""The report of a run as files: JSON, JUnit, SARIF, a badge, a page, and comparisons of reports.

Pure; any thread.
"""

import dataclasses
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from api.conformance.captures.frames import items, mapping
from api.conformance.captures.values import WireDialect
from api.conformance.probe.catalogue import CASES, Case, Level
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.references import Topic, reference
from api.conformance.probe.reports import (
    WORDS,
    ProbeSuite,
    code,
    compared,
    cut,
    facts,
    faults_as_text,
    grouped,
    headings,
    of_one,
    request_text,
    seen,
    summary,
)
from api.conformance.probe.values import (
    CheckOutcome,
    CheckResult,
    Exchange,
    Fault,
    Report,
    Verdict,
    tool_name,
)
from api.terminal_text import harmless, on_one_line

# A report as JSON values for programs.

# Version of the object with all reports of a call, which ``.github/probe-report.schema.json``
# describes.
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
        "results": [_data_result(result) for result in report.results],
    }


def _data_result(result: CheckResult) -> dict[str, Any]:
    fields = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    reference = result.reference
    return {
        **fields,
        "reference": dataclasses.asdict(reference) if reference is not None else None,
        "faults": [_fault_data(fault) for fault in result.faults],
        "exchanges": [_exchange(exchange) for exchange in result.exchanges],
    }


def _fault_data(fault: Fault) -> dict[str, Any]:
    values = dataclasses.asdict(fault)
    del values["is_certain"]
    return values


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


# The result as a badge of https://shields.io/badges/endpoint-badge.

_COLORS = {
    Verdict.HELD: "brightgreen",
    Verdict.FAILED: "red",
    Verdict.INCOMPLETE: "yellow",
    Verdict.NOT_JUDGED: "yellow",
    Verdict.INTERRUPTED: "yellow",
    Verdict.UNREACHABLE: "lightgrey",
}


def as_badge(suite: ProbeSuite) -> dict[str, Any]:
    """Return the badge as an object that ``json`` can write."""
    held = sum(
        result.outcome is CheckOutcome.HELD for report in suite.reports for result in report.results
    )
    judged = held + sum(len(report.failed) for report in suite.reports)
    verdict = suite.verdict
    message = f"{held} of {judged} passed" if suite.reports else verdict.value
    if suite.reports and verdict not in (Verdict.HELD, Verdict.FAILED):
        message += f", {verdict}"
    color = _COLORS[verdict]
    return {"schemaVersion": 1, "label": "stops", "message": message, "color": color}


# Reports as JUnit XML for CI systems: a suite for each dialect, a test for each check.
#
# https://github.com/testmoapp/junitxml, and valid by the stricter schema of Jenkins' xUnit plugin,
# which knows no ``skipped`` of all suites together.

# Characters that XML forbids, in addition to those that ``harmless`` escapes.
_FORBIDDEN = re.compile("[\ufffe\uffff]")
_SKIPPED = (CheckOutcome.SKIPPED, CheckOutcome.UNDECIDED, CheckOutcome.FLAKY)


def as_junit(suite: ProbeSuite) -> str:
    """Return the reports as XML."""
    root = Element("testsuites", name="fullstop probe")
    totals = dict.fromkeys(("tests", "failures", "errors"), 0)
    for report in suite.reports:
        element = _suite(suite, report)
        root.append(element)
        for name in totals:
            totals[name] += int(element.get(name, "0"))
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
    if report.verdict_without_failures is Verdict.NOT_JUDGED:
        name = "most checks say something"
        test = Element("testcase", name=name, classname=f"{report.dialect}.verdict", time="0.000")
        SubElement(test, "error", message=_text(summary(report)), type="not judged")
        tests.append(test)
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
    elif result.outcome is CheckOutcome.NOT_RUN:
        SubElement(test, "error", message=said, type="not asked")
    elif result.outcome in _SKIPPED:
        SubElement(test, "skipped", message=f"{WORDS[result.outcome]}: {said}")
    return test


def _why_not(suite: ProbeSuite, report: Report, result: CheckResult) -> str:
    """Return why a failure does not count."""
    line = suite.expectation(report, result)
    if line is not None:
        return f"Expected failure{f' ({line.link})' if line.link else ''}"
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


# Reports as SARIF for code scanning: a rule for each check, a result for each failure.
#
# https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html.

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_LEVELS = {Level.SPECIFICATION: "error", Level.EXTENSION: "warning", Level.OPINION: "note"}


def as_sarif(suite: ProbeSuite) -> dict[str, Any]:
    """Return the reports as an object that ``json`` can write."""
    name, _, version = tool_name().rpartition(" ")
    driver = {
        "name": name or version,
        "rules": [_rule(case, [report.dialect for report in suite.reports]) for case in CASES],
    }
    if name:
        driver["version"] = version
    ran = suite.verdict not in (Verdict.UNREACHABLE, Verdict.INTERRUPTED)
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": ran, "toolExecutionNotifications": _notes(suite)}],
        "results": [
            _sarif_result(suite, report, result)
            for report in suite.reports
            for result in report.results
            if result.outcome is CheckOutcome.FAILED
        ],
    }
    return {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}


def _rule(case: Case, dialects: Sequence[WireDialect]) -> dict[str, Any]:
    levels = [case.level_in(dialect) for dialect in dialects] or [case.level]
    return {
        "id": case.code,
        "name": case.title,
        "shortDescription": {"text": case.title},
        "fullDescription": {"text": case.rule},
        "helpUri": _help_address(case, dialects),
        "defaultConfiguration": {"level": _LEVELS[min(levels, key=tuple(Level).index)]},
        "properties": {"level": case.level},
    }


def _help_address(case: Case, dialects: Sequence[WireDialect]) -> str:
    """Return where the rule is stated; else where a vendor states how streams look."""
    every = (*dialects, *DRIVERS)
    stated = [found for driver in every if (found := case.reference_in(driver)) is not None]
    nearby = (found for driver in every if (found := reference(driver, Topic.STREAM)) is not None)
    return stated[0].address if stated else next(nearby).address


def _sarif_result(suite: ProbeSuite, report: Report, result: CheckResult) -> dict[str, Any]:
    said = harmless(f"{report.dialect}: {result.title}. {result.sentence}")
    sarif: dict[str, Any] = {
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
        sarif["properties"]["reference"] = result.reference.address
    line = suite.expectation(report, result)
    if line is not None:
        why = f"an expected failure{f': {line.link}' if line.link else ''}"
        sarif["suppressions"] = [{"kind": "external", "justification": why}]
    return sarif


def _notes(suite: ProbeSuite) -> list[dict[str, Any]]:
    said = [suite.problem] if suite.problem else []
    said += [f"{dialect}: {why}" for dialect, why in suite.problems]
    said += [
        f"{report.dialect}: {report.cut_short}" for report in suite.reports if report.cut_short
    ]
    return [{"level": "error", "message": {"text": harmless(text)}} for text in said]


# The catalogue of checks as a list for a terminal, as data, and as a table.


def catalogue_as_text() -> str:
    """Return the checks for a terminal: id, level, rule, and where each vendor states it."""
    return "\n".join(_listing_lines()) + "\n"


def catalogue_as_data() -> dict[str, Any]:
    """Return the checks as an object that ``json`` can write."""
    return {
        "format": FORMAT,
        "checks": [
            {
                "code": case.code,
                "title": case.title,
                "rule": case.rule,
                "level": case.level,
                "dialects": [_in_dialect(case, dialect) for dialect in DRIVERS],
            }
            for case in CASES
        ],
    }


def _in_dialect(case: Case, dialect: Any) -> dict[str, Any]:
    stated = case.reference_in(dialect)
    return {
        "dialect": dialect,
        "level": case.level_in(dialect),
        "reference": None if stated is None else stated.address,
        "sentence": None if stated is None else stated.sentence,
    }


def _listing_lines() -> Iterator[str]:
    for case in CASES:
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


# Compares two JSON reports: new failures, and checks that no longer fail.


class NotAReport(ValueError):
    """A file is not a report of the probe that can be compared; the message says why."""


@dataclass(frozen=True, slots=True)
class Change:
    """A check whose outcome has changed."""

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
    return sorted(
        found, key=lambda change: (not change.is_new_failure, change.now != CheckOutcome.HELD)
    )


def changes_as_text(found: list[Change]) -> str:
    """Return the differences as text, one per line."""
    return harmless("\n".join(_comparing_lines(found))) + "\n"


def changes_as_data(found: list[Change]) -> dict[str, Any]:
    """Return the differences as an object that ``json`` can write."""
    return {
        "format": FORMAT,
        "changes": [
            {
                "check": change.name,
                "before": change.before or None,
                "now": change.now or None,
                "is_new_failure": change.is_new_failure,
            }
            for change in found
        ],
    }


def _comparing_lines(found: list[Change]) -> Iterator[str]:
    if not found:
        yield "The reports say the same of every check."
    for change in found:
        mark = "NEW FAILURE" if change.is_new_failure else "changed"
        if change.before == CheckOutcome.FAILED and change.now == CheckOutcome.HELD:
            mark = "FIXED"
        before, now = change.before or "not in the report", change.now or "not in the report"
        yield f"- {mark} {code(change.name)}: {on_one_line(before)} → {on_one_line(now)}"


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
            counts = result.get("level") in levels
            found[name] = _Row(outcome, counts and outcome == CheckOutcome.FAILED)
    return found


# A report as one self-contained HTML page: no script, no font, no network.

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .35rem .6rem; text-align: left;
  vertical-align: top; }
.failed { color: #c62828; font-weight: 600; } .held { color: #2e7d32; }
.undecided, .flaky, .not_run, .incomplete, .not.judged, .interrupted { color: #9a6700; }
.skipped { opacity: .6; }
@media (prefers-color-scheme: dark) { .failed { color: #ff8a80; } .held { color: #81c784; }
  .undecided, .flaky, .not_run, .incomplete, .not.judged, .interrupted { color: #ffcc66; } }
.verdict { font-size: 1.1rem; font-weight: 600; }
details { margin: .4rem 0; } summary { cursor: pointer; }
code { background: #8881; border-radius: 4px; padding: 0 .25em; }
pre { background: #8881; border-radius: 6px; overflow-x: auto; padding: .6rem .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem; }
"""
_RAW_CHARS = 20_000
_MARKS = {CheckOutcome.HELD: "✓", CheckOutcome.FAILED: "✗", CheckOutcome.SKIPPED: "–"}


def as_html(report: Report) -> str:
    """Return one report as a page."""
    return suite_as_html(of_one(report))


def suite_as_html(suite: ProbeSuite) -> str:
    """Return all reports of a call as one page."""
    return "\n".join(_lines(suite)) + "\n"


def _lines(suite: ProbeSuite) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Stops at {_shown(suite.url)}</title><style>{_STYLE}</style></head><body>"
    if suite.problem:
        yield f'<p class="failed">{_shown(suite.problem)}</p>'
    for report in suite.reports:
        # All dialects have the same check ids.
        prefix = f"{report.dialect}." if len(suite.reports) > 1 else ""
        yield from _report(suite, report, prefix)
    for name, why in suite.problems:
        yield f"<h1>{_shown(name)}</h1><p>{_shown(why)}</p>"
    yield "</body></html>"


def _report(suite: ProbeSuite, report: Report, prefix: str) -> Iterator[str]:
    yield f"<h1>Stops at {_shown(report.url)}</h1>"
    yield f'<p class="verdict {report.verdict}">{_shown(summary(report))}</p>'
    headed: set[str] = set()
    for title, results in (
        ("", report.failed),
        ("Failed, of levels that do not count", report.remarks),
    ):
        if title and results:
            yield f"<h1>{title}</h1>"
        for result, under in headings(results):
            headed.add(result.code)
            yield from _failure(suite, report, result, under, prefix)
    yield "<h1>The server and the probe</h1><dl>"
    for name, text in facts(report):
        yield f"<dt>{_shown(name.capitalize())}</dt><dd>{_shown(text)}</dd>"
    yield "</dl><h1>All checks</h1>"
    yield "<table><thead><tr><th>Check</th><th>Result</th><th>What was seen</th></tr></thead>"
    yield "<tbody>"
    yield from (_row(result, prefix, is_headed=result.code in headed) for result in report.results)
    yield "</tbody></table>"


def _row(result: CheckResult, prefix: str, *, is_headed: bool) -> str:
    title = _shown(result.title)
    if is_headed:
        title = f'<a href="#{_shown(prefix + result.code)}">{title}</a>'
    said = f"{_MARKS.get(result.outcome, '?')} {WORDS[result.outcome].lower()}"
    mark = result.outcome.name.lower()
    return f'<tr><td>{title}</td><td class="{mark}">{said}</td><td>{_shown(seen(result))}</td></tr>'


def _failure(
    suite: ProbeSuite,
    report: Report,
    result: CheckResult,
    under: Sequence[CheckResult],
    prefix: str,
) -> Iterator[str]:
    yield f'<h2 id="{_shown(prefix + result.code)}">{_shown(result.title)}</h2>'
    line = suite.expectation(report, result)
    known = "" if line is None else f" (an expected failure{f': {line.link}' if line.link else ''})"
    yield f"<p><code>{_shown(result.code)}</code>{_shown(known)}</p>"
    for fault, modes in grouped(result):
        yield from _fault(fault, modes)
    if result.rule:
        yield f"<p>{_shown(result.level.capitalize())}: {_shown(result.rule)}</p>"
    stated = result.reference
    if stated is not None:
        address = _shown(stated.address)
        yield f'<p>{_shown(stated.sentence)} <a href="{address}">{address}</a></p>'
    if under:
        names = ", ".join(f"<code>{_shown(one.code)}</code>" for one in under)
        yield f"<p>Fails in the same way: {names}.</p>"
    yield from _raw(result.exchanges)


def _fault(fault: Fault, modes: str) -> Iterator[str]:
    mode = f" ({_shown(modes)})" if modes else ""
    yield f"<p><strong>{_shown(fault.code)}</strong>{mode}: {_shown(fault.sentence)}</p>"
    yield "<dl>"
    for name, text in compared(fault):
        yield f"<dt>{_shown(name.capitalize())}</dt><dd><pre>{_shown(repr(text))}</pre></dd>"
    yield "</dl>"
    if fault.curl:
        yield f"<pre>{_shown(fault.curl)}</pre>"


def _raw(exchanges: Sequence[Exchange]) -> Iterator[str]:
    for number, exchange in enumerate(exchanges, 1):
        status = f"status {exchange.status}" if exchange.status else "no status"
        problem = f", {_shown(exchange.problem)}" if exchange.problem else ""
        yield f"<details><summary>Answer {number}: {exchange.mode}, {status}{problem}</summary>"
        yield f"<pre>{_shown(cut(request_text(exchange), _RAW_CHARS))}</pre>"
        yield f"<pre>{_shown(cut(exchange.text, _RAW_CHARS))}</pre>"
        yield "</details>"


def _shown(text: str) -> str:
    """Return text as HTML, with control characters shown as escapes."""
    return html.escape(harmless(text))

"""The report of a run as a page."""

import html
import json
from collections.abc import Iterator, Sequence

from api.conformance.probe.reports.suite import ProbeSuite, of_one
from api.conformance.probe.reports.text import compared, facts, summary
from api.conformance.probe.values import CheckOutcome, CheckResult, Exchange, Fault, Report
from api.terminal_text import harmless

# A report as one self-contained HTML page: no script, no font, no network.

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .35rem .6rem; text-align: left;
  vertical-align: top; }
.failed { color: #c62828; font-weight: 600; } .held { color: #2e7d32; }
.undecided, .not_asked, .incomplete, .interrupted { color: #9a6700; } .skipped { opacity: .6; }
@media (prefers-color-scheme: dark) { .failed { color: #ff8a80; } .held { color: #81c784; }
  .undecided, .not_asked, .incomplete, .interrupted { color: #ffcc66; } }
.verdict { font-size: 1.1rem; font-weight: 600; }
details { margin: .4rem 0; } summary { cursor: pointer; }
code { background: #8881; border-radius: 4px; padding: 0 .25em; }
pre { background: #8881; border-radius: 6px; overflow-x: auto; padding: .6rem .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem; }
"""
# Shown characters of a raw answer; the JSON report has the whole answer.
_RAW_CHARS = 20_000
_WORDS = {
    CheckOutcome.HELD: "✓ passed",
    CheckOutcome.FAILED: "✗ failed",
    CheckOutcome.UNDECIDED: "? unclear",
    CheckOutcome.SKIPPED: "– skipped",
    CheckOutcome.NOT_ASKED: "? not asked",
}


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
    yield "<dl>"
    for name, text in facts(report):
        yield f"<dt>{_shown(name.capitalize())}</dt><dd>{_shown(text)}</dd>"
    yield "</dl>"
    for result in report.failed:
        yield from _failure(suite, report, result, prefix)
    if report.remarks:
        yield "<h1>Failed, of levels that do not count</h1>"
        for result in report.remarks:
            yield from _failure(suite, report, result, prefix)
    yield "<h1>All checks</h1>"
    yield "<table><thead><tr><th>Check</th><th>Result</th><th>What was seen</th></tr></thead>"
    yield "<tbody>"
    headed = {result.code for result in (*report.failed, *report.remarks)}
    yield from (_row(result, prefix, is_headed=result.code in headed) for result in report.results)
    yield "</tbody></table>"


def _row(result: CheckResult, prefix: str, *, is_headed: bool) -> str:
    title = _shown(result.title)
    if is_headed:
        title = f'<a href="#{_shown(prefix + result.code)}">{title}</a>'
    mark = result.outcome.name.lower()
    seen = f"Follows from {result.cause}." if result.cause else result.sentence
    return (
        f'<tr><td>{title}</td><td class="{mark}">{_WORDS[result.outcome]}</td>'
        f"<td>{_shown(seen)}</td></tr>"
    )


def _failure(suite: ProbeSuite, report: Report, result: CheckResult, prefix: str) -> Iterator[str]:
    yield f'<h2 id="{_shown(prefix + result.code)}">{_shown(result.title)}</h2>'
    known = " (an expected failure)" if suite.is_expected(report, result) else ""
    yield f"<p><code>{_shown(result.code)}</code>{known}</p>"
    if result.rule:
        yield f"<p>{_shown(result.level.capitalize())}: {_shown(result.rule)}</p>"
    reference = result.reference
    if reference is not None:
        address = _shown(reference.address)
        yield f'<p>{_shown(reference.sentence)} <a href="{address}">{address}</a></p>'
    for fault in result.faults:
        yield from _fault(fault)
    folded = report.consequences_of(result.code)
    if folded:
        names = ", ".join(f"<code>{_shown(one.code)}</code>" for one in folded)
        yield f"<p>Checks that fail for the same reason: {names}.</p>"
    yield from _raw(result.exchanges)


def _fault(fault: Fault) -> Iterator[str]:
    mode = f" ({_shown(fault.mode)})" if fault.mode else ""
    yield f"<p><strong>{_shown(fault.code)}</strong>{mode}: {_shown(fault.sentence)}</p>"
    yield "<dl>"
    for name, text in compared(fault):
        yield f"<dt>{_shown(name.capitalize())}</dt><dd><pre>{_shown(repr(text))}</pre></dd>"
    yield "</dl>"
    if fault.curl:
        yield f"<pre>{_shown(fault.curl)}</pre>"


def _raw(exchanges: Sequence[Exchange]) -> Iterator[str]:
    for number, one in enumerate(exchanges, 1):
        status = f"status {one.status}" if one.status else "no status"
        problem = f", {_shown(one.problem)}" if one.problem else ""
        asked = one.body.decode("utf-8", "replace") if isinstance(one.body, bytes) else one.body
        shown = asked if isinstance(asked, str) else json.dumps(asked, ensure_ascii=False)
        yield f"<details><summary>Answer {number}: {one.mode}, {status}{problem}</summary>"
        yield f"<pre>{_shown(shown[:_RAW_CHARS])}</pre>"
        yield f"<pre>{_shown(one.text[:_RAW_CHARS])}</pre>"
        if len(one.text) > _RAW_CHARS:
            yield f"<p>{len(one.text) - _RAW_CHARS:,} more characters are in the JSON report.</p>"
        yield "</details>"


def _shown(text: str) -> str:
    """Return text as HTML, with control characters shown as escapes."""
    return html.escape(harmless(text))

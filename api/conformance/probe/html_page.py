"""Reports as one self-contained HTML page: no script, no font, no network.

Pure; any thread.
"""

import html
from collections.abc import Iterator, Sequence

from api.conformance.probe.suite import (
    OUTCOME_NAMES,
    REMARKS_TITLE,
    ProbeSuite,
    compare_texts,
    exchange_title,
    facts,
    failure_groups,
    group_faults,
    request_text,
    summary,
    table_text,
    without_middle,
)
from api.conformance.probe.values import CheckOutcome, CheckResult, Report
from api.terminal_text import harmless

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
        yield from _report_lines(suite, report, prefix)
    for name, why in suite.problems:
        yield f"<h1>{_shown(name)}</h1><p>{_shown(why)}</p>"
    yield "</body></html>"


def _report_lines(suite: ProbeSuite, report: Report, prefix: str) -> Iterator[str]:
    yield f"<h1>Stops at {_shown(report.url)}</h1>"
    yield f'<p class="verdict {report.verdict}">{_shown(summary(report))}</p>'
    linked: set[str] = set()
    for title, results in (("", report.failed), (REMARKS_TITLE, report.remarks)):
        if title and results:
            yield f"<h1>{title}</h1>"
        for result, similar in failure_groups(results):
            linked.add(result.check_id)
            line = suite.expectation(report, result)
            note = "" if line is None else f" (an expected failure{line.suffix})"
            yield from _failure_lines(result, similar, prefix, note)
    yield "<h1>The server and the probe</h1>"
    yield from _list_lines(facts(report), "{}")
    yield "<h1>All checks</h1>"
    yield "<table><thead><tr><th>Check</th><th>Result</th><th>What was seen</th></tr></thead>"
    yield "<tbody>"
    for result in report.results:
        title = _shown(result.title)
        if result.check_id in linked:
            title = f'<a href="#{_shown(prefix + result.check_id)}">{title}</a>'
        name = f"{_MARKS.get(result.outcome, '?')} {OUTCOME_NAMES[result.outcome].lower()}"
        cell = f'<td class="{result.outcome.name.lower()}">{name}</td>'
        yield f"<tr><td>{title}</td>{cell}<td>{_shown(table_text(result))}</td></tr>"
    yield "</tbody></table>"


def _failure_lines(
    result: CheckResult, similar: Sequence[CheckResult], prefix: str, note: str
) -> Iterator[str]:
    yield f'<h2 id="{_shown(prefix + result.check_id)}">{_shown(result.title)}</h2>'
    yield f"<p><code>{_shown(result.check_id)}</code>{_shown(note)}</p>"
    for fault, modes in group_faults(result):
        mode = f" ({_shown(modes)})" if modes else ""
        yield f"<p><strong>{_shown(fault.code)}</strong>{mode}: {_shown(fault.sentence)}</p>"
        pairs = ((name, repr(text)) for name, text in compare_texts(fault))
        yield from _list_lines(pairs, "<pre>{}</pre>")
        if fault.curl:
            yield f"<pre>{_shown(fault.curl)}</pre>"
    if result.rule:
        yield f"<p>{_shown(result.level.capitalize())}: {_shown(result.rule)}</p>"
    if result.reference is not None:
        address = _shown(result.reference.address)
        link = f'<a href="{address}">{address}</a>'
        yield f"<p>{_shown(result.reference.sentence)} {link}</p>"
    if similar:
        names = ", ".join(f"<code>{_shown(one.check_id)}</code>" for one in similar)
        yield f"<p>Fails in the same way: {names}.</p>"
    for number, exchange in enumerate(result.exchanges, 1):
        yield f"<details><summary>{_shown(exchange_title(number, exchange))}</summary>"
        yield f"<pre>{_shown(without_middle(request_text(exchange), _RAW_CHARS))}</pre>"
        yield f"<pre>{_shown(without_middle(exchange.text, _RAW_CHARS))}</pre></details>"


def _list_lines(pairs: Iterator[tuple[str, str]], form: str) -> Iterator[str]:
    yield "<dl>"
    for name, text in pairs:
        yield f"<dt>{_shown(name.capitalize())}</dt><dd>{form.format(_shown(text))}</dd>"
    yield "</dl>"


def _shown(text: str) -> str:
    """Return text as HTML, with control characters shown as escapes."""
    return html.escape(harmless(text))

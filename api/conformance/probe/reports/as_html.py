"""A report as one HTML page that needs nothing else: no script, no font, no network.

Pure; any thread.
"""

import html
from collections.abc import Iterator

from api.conformance.captures.harmless import harmless
from api.conformance.probe.reports.as_text import summary
from api.conformance.probe.values import CheckOutcome, CheckResult, Fault, Report

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid #8884; padding: .35rem .6rem; text-align: left;
  vertical-align: top; }
.failed { color: #c62828; font-weight: 600; } .held { color: #2e7d32; }
.undecided, .incomplete { color: #9a6700; } .skipped { opacity: .6; }
@media (prefers-color-scheme: dark) { .failed { color: #ff8a80; } .held { color: #81c784; }
  .undecided, .incomplete { color: #ffcc66; } }
pre { background: #8881; border-radius: 6px; overflow-x: auto; padding: .6rem .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere; }
dt { font-weight: 600; } dd { margin: 0 0 .4rem; }
"""
_WORDS = {
    CheckOutcome.HELD: "✓ passed",
    CheckOutcome.FAILED: "✗ failed",
    CheckOutcome.UNDECIDED: "? unclear",
    CheckOutcome.SKIPPED: "– skipped",
    CheckOutcome.NOT_ASKED: "? not asked",
}


def as_html(report: Report) -> str:
    """Return the report as a page."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>Stops at {_shown(report.url)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>Stops at {_shown(report.url)}</h1>"
    yield f'<p class="{report.verdict}">{_shown(summary(report))}</p>'
    facts = {
        "Dialect": report.dialect,
        "Model": report.model,
        "Server": report.server or "does not say",
        "Same answers each time": "yes" if report.is_deterministic else "no",
        "Requests": f"{report.requests} in {report.duration_s:.1f} s",
        "Answers too, not probed": ", ".join(report.other_dialects) or "no other dialect",
    }
    yield "<dl>"
    yield from (f"<dt>{_shown(name)}</dt><dd>{_shown(text)}</dd>" for name, text in facts.items())
    yield "</dl><table><thead><tr><th>Check</th><th>Result</th><th>What was seen</th></tr></thead>"
    yield "<tbody>"
    yield from (_row(result) for result in report.results)
    yield "</tbody></table>"
    for result in report.failed:
        yield f'<h2 id="{_shown(result.code)}">{_shown(result.title)}</h2>'
        for fault in result.faults:
            yield from _fault(fault)
    yield "</body></html>"


def _row(result: CheckResult) -> str:
    title = _shown(result.title)
    if result.outcome is CheckOutcome.FAILED:
        title = f'<a href="#{_shown(result.code)}">{title}</a>'
    mark = result.outcome.name.lower()
    return (
        f'<tr><td>{title}</td><td class="{mark}">{_WORDS[result.outcome]}</td>'
        f"<td>{_shown(result.sentence)}</td></tr>"
    )


def _fault(fault: Fault) -> Iterator[str]:
    mode = f" ({_shown(fault.mode)})" if fault.mode else ""
    yield f"<p><strong>{_shown(fault.code)}</strong>{mode}: {_shown(fault.sentence)}</p>"
    if fault.expected or fault.got:
        yield f"<dl><dt>Expected</dt><dd><pre>{_shown(repr(fault.expected))}</pre></dd>"
        yield f"<dt>Got</dt><dd><pre>{_shown(repr(fault.got))}</pre></dd></dl>"
    if fault.curl:
        yield f"<pre>{_shown(fault.curl)}</pre>"


def _shown(text: str) -> str:
    """Return text as HTML that shows it, what would steer or hide included."""
    return html.escape(harmless(text))

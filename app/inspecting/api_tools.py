"""The inspector's tools, made from the API's parts. Window's loop."""

import json
from collections.abc import Callable, Sequence

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.reports.formats import suite_as_data
from api.conformance.probe.reports.html import as_html
from api.conformance.probe.reports.suite import of_one
from api.conformance.probe.reports.text import as_text, summary
from api.conformance.probe.running import probe
from api.conformance.probe.values import CheckResult, ProbeFailed, ProbeOptions, Progress
from app.inspecting.capture_views import capture_text, read_capture
from app.inspecting.wire_views import wire_views
from app.settings.serve_options import DEFAULT_HOST
from engine import Engine
from ui.inspector.shown_run import (
    CaptureView,
    ProbeFault,
    ProbeOutcome,
    ProbeProblem,
    ProbeProgress,
    ProbeRow,
    ProbeTarget,
    ShownRun,
    WireView,
)
from ui.preferences.groups import DEFAULT_PORT


class ApiTools:
    """Fits ``ui.inspector.shown_run.InspectorTools``.

    Args:
        engine: Renders prompts.
        url: Returns the address of the window's server; empty while it is off.
    """

    def __init__(self, engine: Engine, url: Callable[[], str]) -> None:
        self._engine = engine
        self._url = url

    @property
    def probe_dialects(self) -> Sequence[str]:
        """The dialects that can be probed."""
        return [dialect.value for dialect in DRIVERS]

    async def wire_views(self, shown: ShownRun) -> Sequence[WireView]:
        """Return the messages of each API for a run."""
        base_url = self._url() or f"http://{DEFAULT_HOST}:{DEFAULT_PORT}"
        return await wire_views(self._engine, shown, base_url)

    def capture_text(self, content: bytes) -> str:
        """Return the text of a file with captured answers."""
        return capture_text(content)

    def read_capture(self, text: str, stops: Sequence[str] = ()) -> CaptureView:
        """Read a captured answer."""
        return read_capture(text, stops)

    async def probe(
        self, target: ProbeTarget, on_progress: Callable[[ProbeProgress], None]
    ) -> ProbeOutcome:
        """Probe a server."""
        options = ProbeOptions(
            target.url,
            dialect=WireDialect(target.dialect) if target.dialect else None,
            model=target.model or None,
            api_key=target.api_key or None,
        )

        def tell(progress: Progress) -> None:
            row = None if progress.result is None else _row(progress.result)
            on_progress(ProbeProgress(progress.done, progress.total, progress.title, row))

        try:
            report = await probe(options, tell)
        except ProbeFailed as failed:
            raise ProbeProblem(str(failed)) from failed
        return ProbeOutcome(
            summary=summary(report),
            has_passed=report.has_passed,
            rows=tuple(_row(result) for result in report.results),
            markdown=as_text(report),
            html=as_html(report),
            json=json.dumps(suite_as_data(of_one(report)), ensure_ascii=False, indent=1),
        )


def _row(result: CheckResult) -> ProbeRow:
    faults = []
    for fault in result.faults:
        lines = []
        if fault.expected or fault.got:
            lines += [f"expected: {fault.expected!r}", f"got:      {fault.got!r}"]
        lines += [fault.curl] if fault.curl else []
        faults.append(ProbeFault(fault.sentence, "\n".join(lines)))
    return ProbeRow(result.title, result.outcome.value, result.sentence, tuple(faults))

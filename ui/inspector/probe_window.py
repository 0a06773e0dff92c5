"""A window that finds out what a server does with stops. Main thread."""

import asyncio
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from PySide6.QtWidgets import (
    QLineEdit,
    QPushButton,
    QWidget,
)

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.html_page import as_html
from api.conformance.probe.json_files import suite_as_data
from api.conformance.probe.markdown import as_text
from api.conformance.probe.suite import (
    OUTCOME_NAMES,
    ProbeSuite,
    failure_groups,
    group_faults,
    sort_results,
    summary,
)
from api.conformance.probe.values import (
    COUNTING,
    CheckOutcome,
    CheckResult,
    Fault,
    ProbeFailed,
    ProbeOptions,
    Progress,
    Report,
)
from ui.inspector.pages import ReadingPage
from ui.inspector.shown_run import InspectorTools
from ui.kit.buttons import Choice, push_button
from ui.kit.colors import Colors
from ui.kit.dialogs import choose_target
from ui.kit.html import (
    SPACE,
    Html,
    badge,
    cell,
    code,
    colored,
    joined,
    lines,
    paragraph,
    strong,
    table,
    with_code_spans,
)
from ui.kit.labels import label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, form, row
from ui.kit.menus import copy_from
from ui.kit.tasks import start_task, write_text
from ui.kit.theme import current_theme
from ui.kit.windows import OwnWindow
from ui.models.model_words import duration
from ui.preferences import DEFAULT_PORT
from ui.words import FileRefused

# The outcomes of each group of the list.
_GROUPS = {
    "failed": ("Failed", (CheckOutcome.FAILED,)),
    "silent": (
        "Not Judged",
        (
            *(CheckOutcome.FLAKY, CheckOutcome.UNDECIDED),
            *(CheckOutcome.NOT_RUN, CheckOutcome.SKIPPED),
        ),
    ),
    "held": ("Passed", (CheckOutcome.HELD,)),
}

# The text of an empty list: before a probe, during one, and without results in its group.
_HINTS = {
    "idle": "Enter a server address and click Probe. Each check appears here as it ends, "
    "failures first.",
    "running": "The first checks appear here soon.",
    "failed": "There is nothing to show. Correct what the sentence above says, and press Probe.",
}
_NONE_OF = {
    "failed": "No check has failed.",
    "silent": "Every check that has ended is judged.",
    "held": "No check has passed.",
}

_OPINION = "An opinion, which does not count: no vendor says so, and servers differ."
Stage = Literal["idle", "running", "done", "failed", "cancelled"]


def probe_page(rows: Iterable[CheckResult], colors: Colors, group: str = "") -> Html:
    """Return a table with a row for each check, failures first; ``group`` leaves out others.

    Failures of one kind share a row.
    """
    kept = _GROUPS[group][1] if group else tuple(CheckOutcome)
    tones = {
        CheckOutcome.HELD: (colors.done, colors.done_soft),
        CheckOutcome.FAILED: (colors.fault, colors.fault_soft),
        CheckOutcome.FLAKY: (colors.limit, colors.limit_soft),
        CheckOutcome.UNDECIDED: (colors.limit, colors.limit_soft),
        CheckOutcome.SKIPPED: (colors.quiet, colors.quiet_soft),
        CheckOutcome.NOT_RUN: (colors.limit, colors.limit_soft),
    }
    chosen = [row for row in sort_results(rows) if row.outcome in kept]
    failures = failure_groups([row for row in chosen if row.outcome is CheckOutcome.FAILED])
    # Failures that do not count come last.
    failures.sort(key=lambda failure: failure[0].level not in COUNTING)
    others: list[tuple[CheckResult, list[CheckResult]]] = [
        (row, []) for row in chosen if row.outcome is not CheckOutcome.FAILED
    ]
    return table(
        (
            cell(
                badge(OUTCOME_NAMES[row.outcome], *tones[row.outcome]),
                style="padding:3px 10px 3px 0",
            ),
            cell(
                colored(strong(row.title), colors.text),
                *_evidence(row, under),
                style=f"padding:3px 0 7px 0;color:{colors.muted}",
            ),
        )
        for row, under in (*failures, *others)
    )


def _evidence(row: CheckResult, under: Sequence[CheckResult]) -> list[Html]:
    """Return each sentence once, with its evidence, and the titles of similar failures."""
    if not row.faults:
        return [joined(SPACE, SPACE, with_code_spans(row.sentence))]
    parts = [_fault(fault, modes) for fault, modes in group_faults(row)]
    if row.level not in COUNTING:
        parts.insert(0, paragraph(_OPINION, style="margin:4px 0 0 0"))
    if under:
        titles = "; ".join(other.title for other in under)
        parts.append(paragraph(f"Fails in the same way: {titles}.", style="margin:4px 0 0 0"))
    return parts


def _fault(fault: Fault, modes: str) -> Html:
    """Return a fault above its evidence: expected, got, and the request as a command."""
    sentence = f"{fault.sentence} ({modes})" if modes else fault.sentence
    text = paragraph(with_code_spans(sentence), style="margin:4px 0 0 0")
    parts = [f"expected: {fault.expected!r}", f"got:      {fault.got!r}"]
    evidence = parts if fault.expected or fault.got else []
    evidence += [fault.curl] if fault.curl else []
    if not evidence:
        return text
    shown = paragraph(code(lines("\n".join(evidence))), style="margin:2px 0 0 0")
    return joined(text, shown)


def _now(progress: Progress) -> str:
    """Return which check is running, and how much longer the probe takes."""
    if not progress.total or progress.done >= progress.total:
        return f"{progress.title}…"
    position = f"Check {progress.done + 1} of {progress.total}: {progress.title}"
    if progress.remaining_s is None:
        return position
    return f"{position}, about {duration(progress.remaining_s)} left"


def _sentence(text: str) -> str:
    """Return words as a complete sentence."""
    end = "" if text.endswith((".", "?", "!")) else "."
    begin = text if text.startswith("http") else f"{text[:1].upper()}{text[1:]}"
    return f"{begin}{end}"


class ProbeWindow(OwnWindow):
    """Address, dialect, model and key above; progress and results below."""

    def __init__(self, tools: InspectorTools, parent: QWidget | None = None) -> None:
        super().__init__("Probe a Server", (860, 760), parent)
        self._tools = tools
        self._task: asyncio.Task[None] | None = None
        self.stage: Stage = "idle"
        self._message = ""
        self._done = self._total = 0
        self.results: list[CheckResult] = []
        self._report: Report | None = None
        self.url = QLineEdit(f"http://127.0.0.1:{DEFAULT_PORT}")
        dialects = [(dialect.value, dialect.value) for dialect in DRIVERS]
        self.dialect = Choice("API", [("", "Detect Automatically"), *dialects])
        self.model = QLineEdit()
        self.model.setPlaceholderText("The first model that the server lists")
        self.key = QLineEdit()
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setPlaceholderText("None. Keys are never saved.")
        self.start = push_button("Probe", kind="primary")
        self.start.setDefault(True)
        self.cancel = QPushButton("Cancel")
        self.bar = thin_bar("Progress of the probe")
        self.note = label("", "", 1.0, is_wrapped=True)
        groups = [(name, title) for name, (title, _) in _GROUPS.items()]
        self.group = Choice("Show", [("", "All Checks"), *groups])
        self.page = ReadingPage("Results", _HINTS["idle"])
        self.copy = QPushButton("Copy as Markdown")
        self.save = push_button("Save…", "Save the report as a page or as JSON")
        self._lay_out()
        self.start.clicked.connect(self._start)
        self.url.returnPressed.connect(self._start)
        self.cancel.clicked.connect(self._cancel)
        self.copy.clicked.connect(self._copy)
        self.save.clicked.connect(self._choose_target)
        self.group.currentIndexChanged.connect(self._show_group)
        current_theme().changed.connect(self._refresh)
        self._refresh()
        self.url.setFocus()

    async def finish(self) -> None:
        self._cancel()
        await super().finish()

    def _lay_out(self) -> None:
        fields = {"Address": self.url, "API": self.dialect, "Model": self.model, "Key": self.key}
        for name, field in fields.items():
            field.setAccessibleName(name)
        column(
            label(
                "Sends some two hundred small requests, with and without stops, and compares the "
                "answers.",
                "muted",
                0.97,
                is_wrapped=True,
            ),
            form(
                *((label(name, "muted"), field) for name, field in fields.items()), spacing=(14, 8)
            ),
            row(self.start, self.cancel, STRETCH, self.group, self.copy, self.save, spacing=8),
            self.note,
            self.bar,
            (self.page, 1),
            spacing=12,
            margins=(20, 18, 20, 18),
            on=self,
        )

    def _start(self) -> None:
        if self.stage == "running":
            return
        dialect = str(self.dialect.currentData() or "")
        options = ProbeOptions(
            self.url.text().strip(),
            dialect=WireDialect(dialect) if dialect else None,
            model=self.model.text().strip() or None,
            api_key=self.key.text().strip() or None,
        )
        if not options.url:
            self._end("failed", "Enter a server address, such as http://127.0.0.1:8642.")
            return
        self.stage, self._message = "running", "Detecting the API of the server…"
        self._done = self._total = 0
        self.results, self._report = [], None
        self._refresh()
        self._task = start_task(self, self._probe(options), "probe")

    def _cancel(self) -> None:
        if self._task is not None and self.stage == "running":
            self._task.cancel()

    async def _probe(self, options: ProbeOptions) -> None:
        try:
            report = await self._tools.probe(options, self._take)
        except ProbeFailed as problem:
            self._end("failed", _sentence(str(problem)))
        except asyncio.CancelledError:
            so_far = "The results so far are below." if self.results else "No check had ended yet."
            self._end("cancelled", f"Cancelled. {so_far}")
        except Exception:  # a bug must not leave the window waiting
            self._end("failed", "The probe itself failed. The log has the details.")
            raise
        else:
            self.results, self._report = list(report.results), report
            self._end("done", summary(report))

    def _take(self, progress: Progress) -> None:
        self._done, self._total, self._message = progress.done, progress.total, _now(progress)
        if progress.result is not None:
            self.results.append(progress.result)
            self._refresh()
        else:
            self._refresh_progress()

    def _end(self, stage: Stage, message: str) -> None:
        self.stage, self._message = stage, message
        self._refresh()

    def _refresh_progress(self) -> None:
        is_running = self.stage == "running"
        self.start.setEnabled(not is_running)
        self.cancel.setVisible(is_running)
        self.bar.setVisible(is_running)
        self.bar.setRange(0, self._total)
        self.bar.setValue(self._done)
        show_text(self.note, self._message)
        self.copy.setEnabled(self._report is not None)
        self.save.setEnabled(self._report is not None)

    def _refresh(self) -> None:
        self._refresh_progress()
        group = str(self.group.currentData() or "")
        self.group.setVisible(bool(self.results))
        position = self.page.verticalScrollBar().value()
        shown = probe_page(self.results, current_theme().colors, group)
        self.page.setHtml(shown if "<tr" in shown else "")
        self.page.verticalScrollBar().setValue(position)
        is_begun = bool(self.results)
        hint = _NONE_OF.get(group, "") if is_begun else _HINTS.get(self.stage, _HINTS["idle"])
        self.page.set_hint(hint)

    def _show_group(self) -> None:
        self._refresh()
        self.page.verticalScrollBar().setValue(0)

    def _copy(self) -> None:
        if self._report is not None:
            copy_from(self.copy, as_text(self._report))

    def _choose_target(self) -> None:
        kinds = ["Page (*.html)", "JSON (*.json)"]
        choose_target(self, "Save the Report", self._save, name="probe.html", filters=kinds)

    def _save(self, path: Path) -> None:
        start_task(self, self._write(path), "save a probe's report")

    async def _write(self, path: Path) -> None:
        report = self._report
        if report is None:
            return

        def text() -> str:
            if path.suffix != ".json":
                return as_html(report)
            return json.dumps(
                suite_as_data(ProbeSuite(report.url, (report,))), ensure_ascii=False, indent=1
            )

        try:
            await write_text(path, text)
        except FileRefused as refusal:
            self.note.setText(str(refusal))

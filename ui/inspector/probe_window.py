"""A window that finds out what a server does with stops. Main thread."""

import asyncio
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from PySide6.QtCore import QSignalBlocker, QSizeF, Qt
from PySide6.QtGui import QCloseEvent, QShowEvent
from PySide6.QtWidgets import (
    QCompleter,
    QLineEdit,
    QListWidget,
    QListWidgetItem,
    QPushButton,
    QWidget,
)

from api.conformance.captures.values import WireDialect
from api.conformance.probe.dialects import DRIVERS
from api.conformance.probe.html_page import suite_as_html
from api.conformance.probe.json_files import suite_as_data
from api.conformance.probe.markdown import as_text
from api.conformance.probe.suite import (
    OUTCOME_NAMES,
    ProbeSuite,
    failure_groups,
    group_faults,
    score,
    sort_results,
    summary,
)
from api.conformance.probe.values import (
    COUNTING,
    CheckOutcome,
    CheckResult,
    Fault,
    LocalServer,
    ProbeFailed,
    ProbeOptions,
    Progress,
    Report,
)
from engine.wording import counted, quoted, seconds, visible
from ui.chat.composer.pictures import encode_picture
from ui.inspector.pages import ReadingPage
from ui.inspector.probe_card import probe_card
from ui.inspector.shown_run import InspectorTools
from ui.kit.buttons import Choice, fold_button, push_button
from ui.kit.colors import Colors
from ui.kit.dialogs import choose_target, prompt_text
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
from ui.kit.layouts import STRETCH, Item, card, column, row, scrolling
from ui.kit.menus import copy_from
from ui.kit.rows import RowDelegate
from ui.kit.tasks import start_task, write_file
from ui.kit.theme import current_theme, restyle
from ui.kit.windows import OwnWindow
from ui.models.model_words import duration
from ui.words import FileRefused

Stage = Literal["idle", "running", "done", "failed", "cancelled"]

# Name, meaning, and how the ids of its checks begin.
_SUBJECTS = (
    (
        "Stops",
        "Cut where they begin: whole and streamed, in lists, beyond ASCII",
        ("stop.", "stops."),
    ),
    (
        "Reasons",
        "The answer names why it ended, and which stop ended it",
        ("reason", "form", "stream", "choices", "logprobs"),
    ),
    ("Limits", "Token limits end the answer, and no held text is lost", ("limit",)),
    (
        "Counts",
        "Tokens are counted alike in whole and streamed answers",
        ("usage", "baseline", "answers"),
    ),
    (
        "Tools",
        "Stops leave tool calls, thinking and structured output whole",
        ("tools", "thinking", "structured"),
    ),
    (
        "Recovery",
        "The server goes on after refused and cancelled requests",
        ("server", "request", "errors", "hang_up"),
    ),
)
_BADGE_PX = 76  # the first column of results, also while longer badges come

_HINT = (
    "Choose a server or enter its address, then click Probe. Two hundred small requests are sent, "
    "with and without stops, and their answers compared. Fast models take half a minute, slow ones "
    "up to 15 minutes."
)
_HEADLINES: dict[Stage, str] = {
    "idle": "Check Stop Handling",
    "failed": "Server Not Probed",
    "cancelled": "Cancelled",
}
_REMEDY = "another model above"
# Options of the terminal, and the fields of the window in their place.
_FIELDS = {
    "give --api-key KEY, or --header NAME:VALUE": "enter it in Key",
    "give --model NAME": "enter it in Model",
}
_WITHOUT_RESULT = (CheckOutcome.UNDECIDED, CheckOutcome.NOT_RUN)
_FOLDED = (CheckOutcome.HELD, CheckOutcome.SKIPPED)
_OPINION = "An opinion, which does not count: no vendor says so, and servers differ."


def probe_page(rows: Iterable[CheckResult], colors: Colors) -> Html:
    """Return a table with a row for each check, failures first.

    Failures of one kind share a row.
    """
    tones = {
        CheckOutcome.HELD: (colors.done, colors.done_soft),
        CheckOutcome.FAILED: (colors.fault, colors.fault_soft),
        CheckOutcome.FLAKY: (colors.limit, colors.limit_soft),
        CheckOutcome.UNDECIDED: (colors.limit, colors.limit_soft),
        CheckOutcome.SKIPPED: (colors.quiet, colors.quiet_soft),
        CheckOutcome.NOT_RUN: (colors.limit, colors.limit_soft),
    }
    chosen = sort_results(rows)
    failures = failure_groups([row for row in chosen if row.outcome is CheckOutcome.FAILED])
    # Failures that do not count come last.
    failures.sort(key=lambda failure: failure[0].level not in COUNTING)
    others = _by_cause([row for row in chosen if row.outcome is not CheckOutcome.FAILED])
    return table(
        (
            cell(
                badge(OUTCOME_NAMES[row.outcome], *tones[row.outcome]),
                style="padding:3px 10px 3px 0",
                width=_BADGE_PX,
            ),
            cell(
                colored(strong(row.title), colors.text),
                *_evidence(row, under),
                style=f"padding:3px 0 7px 0;color:{colors.muted}",
            ),
        )
        for row, under in (*failures, *others)
    )


def subjects_page(results: Sequence[CheckResult], colors: Colors) -> Html:
    """Return a table with a row for each subject: its meaning, and how many checks passed."""
    rows = []
    for name, checked, prefixes in _SUBJECTS:
        own = [result.outcome for result in results if result.check_id.startswith(prefixes)]
        if own:
            counts = ((own.count(one), OUTCOME_NAMES[one].lower()) for one in _FOLDED)
            text = " · ".join(f"{count:,} {outcome}" for count, outcome in counts if count)
            rows.append(
                (
                    cell(strong(name), style="padding:4px 0", width=_BADGE_PX),
                    cell(colored(checked, colors.muted), style="padding:4px 24px 4px 0"),
                    cell(text, style="padding:4px 0", align="right"),
                )
            )
    return table(rows, width="100%")


def _by_cause(
    results: Sequence[CheckResult],
) -> list[tuple[CheckResult, list[CheckResult]]]:
    """Return results; three or more undecided ones of the same cause are one row."""
    groups: dict[tuple[str, ...], list[CheckResult]] = {}
    for result in results:
        is_undecided = result.outcome in _WITHOUT_RESULT and not result.faults
        key = (result.sentence,) if is_undecided else (result.sentence, result.check_id)
        groups.setdefault(key, []).append(result)
    shown: list[tuple[CheckResult, list[CheckResult]]] = []
    for group in groups.values():
        if len(group) >= 3:
            shown.append((group[0], group[1:]))
        else:
            shown += [(result, []) for result in group]
    return shown


def _evidence(row: CheckResult, under: Sequence[CheckResult]) -> list[Html]:
    """Return each sentence once, with its evidence, and the titles of similar failures."""
    if not row.faults:
        sentence = joined(SPACE, SPACE, with_code_spans(row.sentence))
        return [sentence, _similar("Also", under)] if under else [sentence]
    parts = [_fault(fault, modes) for fault, modes in group_faults(row)]
    if row.level not in COUNTING:
        parts.insert(0, paragraph(_OPINION, style="margin:4px 0 0 0"))
    if under:
        parts.append(_similar("Fails in the same way", under))
    return parts


def _similar(words: str, results: Sequence[CheckResult]) -> Html:
    titles = "; ".join(result.title for result in results)
    return paragraph(f"{words}: {titles}.", style="margin:4px 0 0 0")


def _fault(fault: Fault, modes: str) -> Html:
    """Return a fault above its evidence: expected, got, and the request as a command."""
    sentence = f"{fault.sentence} ({modes})" if modes else fault.sentence
    text = paragraph(with_code_spans(sentence), style="margin:4px 0 0 0")
    texts = (("Expected", fault.expected), ("Got", fault.got))
    facts = [(name, _spaced(text)) for name, text in texts]
    evidence = facts if fault.expected or fault.got else []
    evidence += [("Request", fault.curl)] if fault.curl else []
    if not evidence:
        return text
    cells = (
        (
            cell(name, style="padding:2px 12px 2px 0"),
            cell(code(lines(value)), style="padding:2px 0"),
        )
        for name, value in evidence
    )
    return joined(text, table(cells, cellspacing=0))


def _spaced(text: str) -> str:
    """Return a text with signs for its white space, but for single spaces between words."""
    return " ".join(map(visible, re.split(r"(?<=\S) (?=\S)", text))) or quoted("")


def _refill(page: ReadingPage, markup: Html) -> None:
    position = page.verticalScrollBar().value()
    page.setHtml(markup)
    page.verticalScrollBar().setValue(position)


def _now(progress: Progress) -> str:
    """Return which check is running, and how much longer the probe takes."""
    if progress.remaining_s is None or progress.done >= progress.total:
        return f"{progress.title}…"
    return f"{progress.title} · about {duration(progress.remaining_s)} left"


def _sentence(text: str) -> str:
    """Return a problem as a complete sentence that names the fields of the window."""
    for option, field in _FIELDS.items():
        text = text.replace(option, field)
    end = "" if text.endswith((".", "?", "!")) else "."
    begin = text if text.startswith("http") else f"{text[:1].upper()}{text[1:]}"
    return f"{begin}{end}"


class ProbeWindow(OwnWindow):
    """Address, dialect, model and key above; the score and the failures below."""

    def __init__(self, tools: InspectorTools, parent: QWidget | None = None) -> None:
        super().__init__("Probe Server", (880, 720), parent)
        self._tools = tools
        self._task: asyncio.Task[None] | None = None
        self.stage: Stage = "idle"
        self._message = _HINT
        self._done = self._total = 0
        self.results: list[CheckResult] = []
        self._report: Report | None = None
        self._found: list[tuple[str, LocalServer]] = []  # name and server on this computer
        self.url = QLineEdit()
        self.url.setPlaceholderText("http://127.0.0.1:1234")
        self.servers = QListWidget()
        self.servers.setProperty("kind", "rows")
        self.servers.setAccessibleName("Servers on this computer")
        self.servers.setItemDelegate(RowDelegate(self.servers))
        self._local, subjects = QWidget(), QWidget()
        self._lay_out_start(subjects)
        inside = column(self._local, subjects, STRETCH, spacing=12)
        self._start_page = scrolling(inside, "Servers and checks", goes_sideways=False)
        self._start_page.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        dialects = [(dialect.value, dialect.value) for dialect in DRIVERS]
        self.dialect = Choice("API", [("", "Detect Automatically"), *dialects])
        self.model = QLineEdit()
        self.model.setPlaceholderText("Default model")
        self.key = QLineEdit()
        self.key.setEchoMode(QLineEdit.EchoMode.Password)
        self.key.setPlaceholderText("None; never saved")
        self.start = push_button("Probe", kind="primary")
        self.cancel = QPushButton("Cancel")
        self.bar = thin_bar("Progress of the probe")
        self.score = label("", "title", 1.5)
        self.note = label("", "muted", 1.0, is_wrapped=True)
        self.page = ReadingPage("Results")
        self.folded = fold_button("Passed")
        self.passed = ReadingPage("Passed and skipped checks")
        self.copy = QPushButton("Copy as Markdown")
        self.picture = push_button("Save as Picture…", "Save the score as a picture")
        self.save = push_button("Save…", "Save the report as a page or as JSON")
        self._lay_out()
        self.start.clicked.connect(self._start)
        self.url.textChanged.connect(self._show_chosen)
        self.servers.currentRowChanged.connect(self._choose)
        for field in (self.url, self.model, self.key):
            field.returnPressed.connect(self._start)
        self.cancel.clicked.connect(self._cancel)
        self.copy.clicked.connect(self._copy)
        self.save.clicked.connect(self._choose_target)
        self.picture.clicked.connect(self._name_picture)
        self.folded.toggled.connect(self._refresh)
        layout = self.page.document().documentLayout()
        layout.documentSizeChanged.connect(self._limit_height)
        current_theme().changed.connect(self._refresh)
        self._refresh()
        self.url.setFocus()

    async def finish(self) -> None:
        self._cancel()
        await super().finish()

    def closeEvent(self, event: QCloseEvent) -> None:
        """Stop the requests: nobody sees their results."""
        self._cancel()
        super().closeEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        start_task(self, self._look_for_servers(), "look for local servers")

    def _lay_out(self) -> None:
        fields = {"Address": self.url, "API": self.dialect, "Model": self.model, "Key": self.key}
        for name, field in fields.items():
            field.setAccessibleName(name)
        names = {name: label(name, "muted") for name in fields}
        names["API"].setMinimumWidth(names["Address"].sizeHint().width())
        column(
            row(names["Address"], 8, (self.url, 1), self.start, self.cancel, spacing=8),
            row(
                *(names["API"], 8, self.dialect, 8),
                *(names["Model"], (self.model, 1), 8),
                *(names["Key"], (self.key, 1)),
                spacing=8,
            ),
            4,
            row((self.score, 1), self.copy, self.picture, self.save, spacing=8),
            self.bar,
            self.note,
            (self._start_page, 1000),
            (self.page, 1000),
            (self.folded, 0, Qt.AlignmentFlag.AlignLeft),
            (self.passed, 1000),
            STRETCH,
            spacing=12,
            margins=16,
            on=self,
        )

    def _lay_out_start(self, subjects: QWidget) -> None:
        heading = label("Running on This Computer", "heading")
        column(heading, self.servers, spacing=8, margins=(0, 8, 0, 0), on=self._local)
        self._local.hide()
        lines: list[Item] = []
        for name, checked, _ in _SUBJECTS:
            subject = label(name)
            subject.setMinimumWidth(80)
            lines.append(row(subject, (label(checked, "muted", is_wrapped=True), 1), spacing=8))
        # At the left as the names of servers in their list.
        checks = card(*lines, spacing=8, margins=(22, 12, 16, 12))
        heading = label("Checks", "heading")
        column(heading, checks, spacing=8, margins=(0, 8, 0, 0), on=subjects)

    async def _look_for_servers(self) -> None:
        """Offer the servers that run on this computer; the first one is the usual address."""
        found = await self._tools.local_servers()
        self._found = list(found.items())
        with QSignalBlocker(self.servers):
            self.servers.clear()
            for name, server in found.items():
                address = server.url.removeprefix("http://")
                title = name.partition(",")[0]  # the address has the port
                models = " · ".join((address, *server.models[:3]))
                self.servers.addItem(QListWidgetItem(f"{title}\n{models}"))
        rows_px = self.servers.sizeHintForRow(0) * len(found)
        self.servers.setFixedHeight(min(rows_px + 10, 240))
        if not self.url.text() and found:
            self.url.setText(self._found[0][1].url)
        self._show_chosen()
        self._refresh_progress()

    def _choose(self, at: int) -> None:
        if at >= 0:
            self.url.setText(self._found[at][1].url)

    def _show_chosen(self) -> None:
        """Select the server whose address is in the field, and offer its models."""
        urls = [server.url for _, server in self._found]
        url = self.url.text().strip().rstrip("/")
        at = urls.index(url) if url in urls else -1
        with QSignalBlocker(self.servers):
            self.servers.setCurrentRow(at)
        models = self._found[at][1].models if at >= 0 else ()
        self.model.setPlaceholderText(models[0] if len(models) == 1 else "Default model")
        completer = QCompleter(models, self.model)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        completer.setFilterMode(Qt.MatchFlag.MatchContains)
        self.model.setCompleter(completer)

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
            self._end("failed", "Enter a server address, such as http://127.0.0.1:1234.")
            return
        self.stage, self._message = "running", "Detecting the API of the server…"
        self._done = self._total = 0
        self.results, self._report = [], None
        self.folded.setChecked(True)  # the results appear as they come
        self._refresh()
        self.cancel.setFocus()
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
            self._end("cancelled", so_far)
        except Exception:  # a bug must not leave the window waiting
            self._end("failed", "The probe itself failed. The log has the details.")
            raise
        else:
            self.results, self._report = list(report.results), report
            self._end("done", self._facts(report))
            # Below failures they are closed; below the subjects they fill the page.
            self.folded.setChecked(all(result.outcome in _FOLDED for result in self.results))

    def _take(self, progress: Progress) -> None:
        self._done, self._total, self._message = progress.done, progress.total, _now(progress)
        if progress.result is not None:
            self.results.append(progress.result)
            self._refresh()
        else:
            self._refresh_progress()

    def _end(self, stage: Stage, message: str) -> None:
        was_at_cancel = self.cancel.hasFocus()
        self.stage, self._message = stage, message
        self._refresh()
        if was_at_cancel:
            self.start.setFocus()

    def _refresh_progress(self) -> None:
        is_running = self.stage == "running"
        self.start.setVisible(not is_running)
        self.cancel.setVisible(is_running)
        for field in (self.url, self.dialect, self.model, self.key):
            field.setEnabled(not is_running)  # they name what the results are of
        report = self._report
        is_judged = report is not None and score(report)[1] > 0
        self.bar.setVisible(is_running or is_judged)
        restyle(self.bar, "kind", "score" if is_judged else "")
        done, total = (self._done, self._total) if report is None else score(report)
        self.bar.setRange(0, total)
        self.bar.setValue(done)
        show_text(self.note, self._message)
        restyle(self.note, "role", "fault" if self.stage == "failed" else "muted")
        headline = _HEADLINES.get(self.stage, f"{done} of {total} passed")
        if report is not None and report.not_run:
            headline += f" · {len(report.not_run):,} not asked"
        if is_running:
            headline = f"Checking… {done} of {total}" if total else "Checking…"
        show_text(self.score, headline)
        self._local.setVisible(bool(self._found) and not is_running)
        self._start_page.setVisible(not self.results and self.stage != "done")
        for button in (self.copy, self.picture, self.save):
            button.setVisible(report is not None)

    def _refresh(self) -> None:
        self._refresh_progress()
        outcomes = [result.outcome for result in self.results]
        counts = ((outcomes.count(one), OUTCOME_NAMES[one]) for one in _FOLDED)
        folded = " · ".join(f"{count:,} {name}" for count, name in counts if count)
        self.folded.setText(folded)
        self.folded.setVisible(bool(folded))
        colors, is_unfolded = current_theme().colors, self.folded.isChecked()
        passed = [result for result in self.results if result.outcome in _FOLDED]
        others = [result for result in self.results if result.outcome not in _FOLDED]
        shown = probe_page(others, colors)
        if self.stage == "done" and not others:
            shown = subjects_page(passed, colors)
        self.page.setVisible("<tr" in shown)  # no empty box
        self.passed.setVisible(bool(passed) and is_unfolded)
        _refill(self.page, shown)
        _refill(self.passed, probe_page(passed, colors) if is_unfolded else Html(""))

    def _limit_height(self, size: QSizeF) -> None:
        """Make a page no higher than its text: the passed checks follow it."""
        height_px = round(size.height()) + 12
        self.page.setMaximumHeight(height_px)
        self.page.setMinimumHeight(min(height_px, 208))  # a short one never scrolls

    def _copy(self) -> None:
        if self._report is not None:
            copy_from(self.copy, as_text(self._report))

    def _choose_target(self) -> None:
        kinds = ["Page (*.html)", "JSON (*.json)"]
        choose_target(self, "Save Report", self._save, name="probe.html", filters=kinds)

    def _name_picture(self) -> None:
        if self._report is not None:
            title, question = "Save as Picture", "Name and version:"
            dialog = prompt_text(self, title, question, self._choose_picture, done="Save…")
            dialog.setTextValue(self._name_of(self._report))

    def _choose_picture(self, name: str) -> None:
        def save(path: Path) -> None:
            start_task(self, self._write(path, name), "save a probe's picture")

        kinds = ["Picture (*.png)"]
        choose_target(self, "Save as Picture", save, name="probe.png", filters=kinds)

    def _save(self, path: Path) -> None:
        start_task(self, self._write(path), "save a probe's report")

    async def _write(self, path: Path, name: str = "") -> None:
        report, colors, font = self._report, current_theme().colors, self.font()
        if report is None:
            return

        def content() -> str | bytes:
            if name:
                return encode_picture(probe_card(report, name, colors, font))
            suite = ProbeSuite(report.url, (report,))
            if path.suffix != ".json":
                return suite_as_html(suite)
            return json.dumps(suite_as_data(suite), ensure_ascii=False, indent=1)

        try:
            await write_file(path, content)
        except FileRefused as refusal:
            self.note.setText(str(refusal))

    def _facts(self, report: Report) -> str:
        """Return the probed server, and the checks that were not judged."""
        requests = f"{counted(report.requests, 'request')} in {seconds(report.duration_s)}"
        facts = (self._name_of(report), report.model, report.dialect.value.capitalize(), requests)
        text = " · ".join(filter(None, facts))
        if report.failed:  # the headline counts them
            return f"{text} · {report.cut_short}" if report.cut_short else text
        return f"{text}\n{summary(report, _REMEDY)}" if report.not_run or report.unjudged else text

    def _name_of(self, report: Report) -> str:
        """Return the name of a known server, or its ``Server`` header, or its address."""
        known = (name for name, one in self._found if report.url.startswith(f"{one.url}/"))
        name, own = next(known, ""), report.server.replace("/", " ", 1)
        is_same = own.casefold().startswith(name.casefold().split(" ")[0])
        return (own if is_same else name) or own or urlsplit(report.url).netloc

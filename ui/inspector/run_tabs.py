"""The tabs of whole runs: where the time went, two runs side by side, and the list of runs.

Main thread. The list is made only while it is visible.
"""

import math
from dataclasses import dataclass

from PySide6.QtCore import (
    QItemSelectionModel,
    QRectF,
    Qt,
    Signal,
)
from PySide6.QtGui import QAction, QColor, QKeyEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QPushButton, QWidget

from engine.values.events import TokenTrace
from engine.values.figures import RunPhase, acceptance, draft_sources, phases
from engine.wording import counted, quoted, seconds
from ui.chat.session.traces import held_text
from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, ReadingPage
from ui.inspector.shown_run import ShownRun, end_label, start_time_text
from ui.kit.buttons import Choice, EmptyState, push_button
from ui.kit.html import Html, cell, code, colored, table, visible_breaks
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.menus import copy_text
from ui.kit.tables import TableColumn, TableModel, TableView
from ui.kit.tasks import start_task
from ui.kit.theme import current_theme
from ui.records.run_report import markdown_report
from ui.records.runs import Run
from ui.words import display_name, draft_summary

_UNKNOWN = "The times of this answer are not known."
_COMMON_CHARS, _DIFFERENT_CHARS = 160, 4_000  # before and after the first difference
_NAMED_CHARS = 24
_BAR_PX, _PHASE_GAP_PX, _AXIS_PX = 10, 8, 4


def _conversation(shown: ShownRun) -> str:
    return shown.name if shown.source == "past" else "This conversation"


def _tokens(shown: ShownRun) -> str:
    finished = shown.run.finished
    return "" if finished is None else f"{finished.usage.output_tokens:,}"


# The columns of the table of runs, after the time.
COLUMNS = (
    TableColumn("Conversation", 20, _conversation, min_chars=12),
    TableColumn("Question", 32, lambda shown: " ".join(shown.question[:200].split()), min_chars=12),
    TableColumn("Model", 16, lambda shown: display_name(shown.run.model_id), min_chars=10),
    TableColumn("Tokens", 9, _tokens, is_number=True),
    TableColumn("Ended", 22, lambda shown: end_label(shown.run), min_chars=16),
)


class TimingTab(InspectorTab):
    """A bar for each phase, the accepted drafts, and how long text was held back."""

    title = "Timing"

    def __init__(self) -> None:
        super().__init__()
        self.note = label("", "", 0.98, is_wrapped=True)
        self.bars = PhaseChart()
        self.drafts = label("", "", 0.95, is_wrapped=True)
        self.waits = label("", "muted", 0.95, is_wrapped=True)
        inside = QWidget()
        inside.setObjectName("scrolled")
        column(self.note, self.bars, self.drafts, self.waits, STRETCH, spacing=8, on=inside)
        area = scrolling(inside, "Where the time went", goes_sideways=False)
        column(area, margins=(0, 12, 0, 0), on=self)

    def refresh(self) -> None:
        shown = self.shown
        finished = None if shown is None else shown.run.finished
        self.bars.show_phases([] if finished is None else phases(finished))
        if finished is not None:
            total_s = finished.timing.total_s
            self.note.setText(f"{_in_unit_of(total_s, total_s)} in all." if total_s else _UNKNOWN)
        elif shown is None:
            self.note.setText("No Answer Selected")
        elif shown.run.is_over:
            self.note.setText(_UNKNOWN)
        else:
            self.note.setText("The times are known when the answer has ended.")
        self.drafts.setText(
            draft_summary(finished.speculation, finished.usage.output_tokens) if finished else ""
        )
        trace = None if shown is None else shown.trace
        self.waits.setText(held_text(tuple(trace.tokens)) if trace and finished else "")


class PhaseChart(QWidget):
    """A bar for each phase on one axis of time, its note below it, its time at the right."""

    def __init__(self) -> None:
        super().__init__()
        self._phases: list[RunPhase] = []

    def show_phases(self, run_phases: list[RunPhase]) -> None:
        self._phases = run_phases
        names = (f"{phase.name} {seconds(phase.took_s)}, {phase.note}" for phase in run_phases)
        self.setAccessibleName("; ".join(names) or "Phases")
        line = self.fontMetrics().lineSpacing()
        self.setFixedHeight(len(run_phases) * (2 * line + _PHASE_GAP_PX) + _AXIS_PX + line)
        self.setVisible(bool(run_phases))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors, metrics = current_theme().colors, self.fontMetrics()
        line, width = metrics.lineSpacing(), metrics.averageCharWidth()
        total_s = max((one.begins_s + one.took_s for one in self._phases), default=0.0) or 1.0
        left, right = 12 * width, self.width() - 12 * width
        px_per_s = (right - left) / total_s
        painter = QPainter(self)
        foot = self.height() - _AXIS_PX - line
        step_s = _step_of(total_s)
        for number in range(int(total_s / step_s) + 1):
            x = round(left + number * step_s * px_per_s)
            painter.setPen(QColor(colors.line))
            painter.drawLine(x, 0, x, foot)
            painter.setPen(QColor(colors.muted))
            value_s = number * step_s
            text = f"{value_s:g} s" if total_s >= 1 else f"{value_s * 1000:g} ms"
            box = QRectF(x - 6 * width, foot + 4, 12 * width, line)
            painter.drawText(box, Qt.AlignmentFlag.AlignHCenter, text)
        fills = (colors.quiet, colors.tool, colors.match, colors.done)
        for number, (phase, fill) in enumerate(zip(self._phases, fills, strict=False)):
            y = number * (2 * line + _PHASE_GAP_PX)
            bar = QRectF(
                left + phase.begins_s * px_per_s,
                y + (line - _BAR_PX) / 2,
                max(1.0, phase.took_s * px_per_s),
                _BAR_PX,
            )
            painter.fillRect(bar, QColor(fill))
            painter.setPen(QColor(colors.text))
            painter.drawText(QRectF(0, y, left, line), Qt.AlignmentFlag.AlignLeft, phase.name)
            time = QRectF(right, y, self.width() - right, line)
            took = _in_unit_of(total_s, phase.took_s)
            painter.drawText(time, Qt.AlignmentFlag.AlignRight, took)
            painter.setPen(QColor(colors.muted))
            painter.drawText(QRectF(left, y + line, self.width() - left, line), 0, phase.note)
        painter.end()


def _step_of(total: float) -> float:
    """Return the distance of an axis's lines, of which it has three to six."""
    power: float = 10 ** math.floor(math.log10(total))
    return next(power * part for part in (0.2, 0.5, 1.0, 2.0) if total / (power * part) < 6)


def _in_unit_of(total_s: float, duration_s: float) -> str:
    """Return a duration in the unit of the whole time, so that durations compare."""
    if total_s < 1:
        return f"{duration_s * 1000:,.0f} ms"
    return f"{duration_s:,.2f} s"


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs have in common, and where they differ."""

    sentence: str
    common: str
    left: str
    right: str
    rows: tuple[tuple[str, str, str], ...]
    token_index: int | None = None


def compare(left: ShownRun, right: ShownRun) -> Comparison:
    """Compare the texts, tokens, settings and ends of two runs."""
    a, b = left.run.thinking + left.run.text, right.run.thinking + right.run.text
    pairs = enumerate(zip(a, b, strict=False))
    position = next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))
    index = _first_token(left, right)
    if a == b:
        sentence = "Both answers are identical."
        if index is not None:
            sentence = f"Both texts are identical; the tokens differ from token {index + 1:,} on."
    elif position == len(a) or position == len(b):
        longer = "the other run" if len(b) > len(a) else "this run"
        shared = counted(position, "character")
        sentence = f"Both are identical for {shared}; then only {longer} continues."
    else:
        at = "" if index is None else f", at token {index + 1:,}"
        sentence = (
            f"They differ after {counted(position, 'character')}{at}: "
            f"{_beginning(a[position:])} in this run, {_beginning(b[position:])} in the other."
        )
    begin = max(0, position - _COMMON_CHARS)
    return Comparison(
        sentence,
        f"{'…' if begin else ''}{a[begin:position]}",
        _shortened(a[position:]),
        _shortened(b[position:]),
        _differing(left, right),
        index,
    )


def _beginning(text: str) -> str:
    """Return the first whole words of a text, in quotes."""
    if len(text) <= _NAMED_CHARS:
        return quoted(text)
    return quoted(f"{text[:_NAMED_CHARS].rpartition(' ')[0] or text[:_NAMED_CHARS]}…")


def _shortened(text: str) -> str:
    return text if len(text) <= _DIFFERENT_CHARS else f"{text[:_DIFFERENT_CHARS]}…"


def _differing(left: ShownRun, right: ShownRun) -> tuple[tuple[str, str, str], ...]:
    pairs = zip(_facts(left), _facts(right), strict=True)
    return tuple((name, fact, other) for (name, fact), (_, other) in pairs if fact != other)


def _facts(shown: ShownRun) -> list[tuple[str, str]]:
    run, finished = shown.run, shown.run.finished
    usage = None if finished is None else finished.usage
    speculation = None if finished is None else finished.speculation
    return [
        ("Model", run.model_id),
        ("Fork of", "" if run.forked_from is None else run.forked_from.sentence),
        ("Stop list", "  ".join(map(quoted, run.stops)) or "none"),
        ("Limit", "none" if run.max_tokens is None else counted(run.max_tokens, "token")),
        ("Reason", end_label(run)),
        ("Tokens", "" if usage is None else f"{usage.output_tokens:,}"),
        ("Draft tokens accepted", "" if speculation is None else acceptance(speculation) or "none"),
        ("Drafted by", "" if speculation is None else draft_sources(speculation)),
        ("Forced tokens", "" if speculation is None else f"{speculation.forced:,}"),
        ("Verification passes", "" if speculation is None else f"{speculation.passes:,}"),
        ("Prompt", "" if usage is None else counted(usage.prompt_tokens, "token")),
        ("Characters", f"{len(run.text) - run.continued_chars:,}"),
    ]


def _first_token(left: ShownRun, right: ShownRun) -> int | None:
    if left.trace is None or right.trace is None:
        return None
    if left.run.model_id != right.run.model_id:
        return None  # another model's ids stand for other tokens
    if not (left.trace.is_whole and right.trace.is_whole):
        return None
    a: list[TokenTrace] = list(left.trace.tokens)
    b: list[TokenTrace] = list(right.trace.tokens)
    for token, other in zip(a, b, strict=False):
        if token.token_id != other.token_id:
            return token.index
    return None if len(a) == len(b) else min(len(a), len(b))


class CompareTab(InspectorTab):
    """The shown run compared with another one of the conversation."""

    title = "Compare"

    runs_requested = Signal()

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._others: list[ShownRun] = []
        self._picked: ShownRun | None = None
        self._looked_for: set[str] = set()
        self.choice = Choice("Run to compare with")
        self.sentence = label("", "title", 1.0, is_wrapped=True)
        self.page = ReadingPage("The two runs from their first difference on")
        self.regenerate = push_button(
            "Regenerate and Compare", "Regenerate the answer, to compare both", kind="primary"
        )
        self.regenerate.clicked.connect(inspector.answer_again)
        runs = push_button("Choose Run…", "Choose a run to compare with")
        runs.clicked.connect(self.runs_requested)
        self._steps = (self.regenerate, runs)
        self.empty = EmptyState(*self._steps)
        self._head = QWidget()
        row(label("Compare with", "muted"), (self.choice, 1), spacing=8, on=self._head)
        column(
            self._head,
            self.sentence,
            (self.page, 1),
            (self.empty, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self.choice.currentIndexChanged.connect(lambda _: self._compare())

    def choose(self, run: Run) -> None:
        """Compare with this run, if it is one of the conversation's others."""
        self.refresh()
        row = next((n for n, other in enumerate(self._others) if other.run is run), -1)
        if row >= 0:
            self.choice.setCurrentIndex(row)

    def choose_shown(self, other: ShownRun) -> None:
        self._picked = other
        self.refresh()
        self.choice.setCurrentIndex(0)

    def refresh(self) -> None:
        before, picked, shown = self._chosen(), self._picked, self._inspector.shown
        self._others = [
            run
            for run in self._inspector.runs_of_conversation()
            if shown is None or run.run is not shown.run
        ]
        if picked is not None and (shown is None or shown.run.id != picked.run.id):
            others = (other for other in self._others if other.run.id != picked.run.id)
            self._others = [picked, *others]
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItems([_named(other) for other in self._others])
        kept = next((n for n, o in enumerate(self._others) if before and o.run is before.run), -1)
        if kept < 0:  # another answer to the same question, if there is one
            same = (n for n, o in enumerate(self._others) if shown and o.question == shown.question)
            kept = next(same, 0)
        self.choice.setCurrentIndex(kept if self._others else -1)
        self.choice.blockSignals(False)
        self._head.setVisible(bool(self._others))
        self._compare()

    def _chosen(self) -> ShownRun | None:
        row = self.choice.currentIndex()
        return self._others[row] if 0 <= row < len(self._others) else None

    def _compare(self) -> None:
        shown, other = self._inspector.shown, self._chosen()
        is_running = any(one is not None and not one.run.is_over for one in (shown, other))
        has_both = shown is not None and other is not None and not is_running
        self.page.setVisible(has_both)
        self.sentence.setVisible(has_both)
        self.empty.setVisible(not has_both)
        for step in self._steps:
            step.setVisible(not is_running)
        if is_running:
            detail = "Both answers are compared when they have ended."
            self.empty.show_text("Still Answering", detail)
            return
        if shown is None or other is None:
            title = "No Answer Selected" if shown is None else "No Other Answer to Compare With"
            self.empty.show_text(title, "Regenerate the answer, or choose another run.")
            self.regenerate.setEnabled(self._inspector.can_answer_again)
            return
        if other.trace is None and other.run.id not in self._looked_for:
            # The trace may be on disk: tokens compare better than texts.
            self._looked_for.add(other.run.id)
            start_task(self, self._look_for_trace(other), "look for the trace of a run")
        comparison = compare(shown, other)
        self.sentence.setText(comparison.sentence)
        self.page.setHtml(self._html(comparison))

    async def _look_for_trace(self, other: ShownRun) -> None:
        traced = await self._inspector.traced(other)
        if traced.trace is None:
            return
        self._others = [
            traced if other.run.id == traced.run.id else other for other in self._others
        ]
        if self._picked is not None and self._picked.run.id == traced.run.id:
            self._picked = traced
        self._compare()

    def _html(self, comparison: Comparison) -> Html:
        colors = current_theme().colors

        def side(text: str, color: str, ground: str) -> Html:
            common = colored(visible_breaks(comparison.common), colors.faint)
            return code(common, colored(visible_breaks(text), color, ground))

        left = side(comparison.left, colors.match, colors.match_soft)
        right = side(comparison.right, colors.limit, colors.limit_soft)
        muted, padding = f"color:{colors.muted}", "padding:4px 24px 4px 0"
        facts = [(name, code(this), code(other)) for name, this, other in comparison.rows]
        heads = ("", *(colored(name, colors.muted) for name in ("This Run", "Other Run")))
        rows = [
            (
                cell(name, style=f"{padding};{muted}", width="16%"),
                cell(this, style=padding, width="42%"),
                cell(other, style=padding, width="42%"),
            )
            for name, this, other in (heads, *facts, ("Text", left, right))
        ]
        # Without facts, only the texts are in the table: they need no names.
        return table(rows if facts else (cells[1:] for cells in rows), width="100%")


def _named(other: ShownRun) -> str:
    """Return a name that distinguishes the run from others of the same question."""
    run, name = other.run, other.name
    if other.source == "past":
        name = f"{display_name(run.model_id) or 'Answer'}, in “{other.name}”"
    return f"{start_time_text(run)} · {end_label(run)} · {name}"


class RunsTab(InspectorTab):
    """A table of runs; Return shows one, Ctrl+Return compares the shown one with it."""

    title = "Runs"

    comparison_requested = Signal(object)  # ShownRun

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self.model = TableModel((TableColumn("When", 18, self._when), *COLUMNS), self)
        self.table = TableView(self.model, "Runs")
        self.table.setSelectionMode(TableView.SelectionMode.SingleSelection)
        self.note = label("", "muted", 0.92)
        self.open = push_button("Inspect", "Inspect the chosen run")
        self.compare = QPushButton("Compare with Shown Run")
        column(
            row((self.note, 1), self.open, self.compare, spacing=8),
            (self.table, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self.open.clicked.connect(self._open)
        self.compare.clicked.connect(self._compare)
        self.table.row_opened.connect(self._open)
        titles = ("Inspect", "Compare with Shown Run")
        self._actions = [QAction(title, self.table) for title in titles]
        for action, button in zip(self._actions, (self.open, self.compare), strict=True):
            action.triggered.connect(button.click)
        copy = QAction("Copy Report", self.table)
        copy.triggered.connect(self._copy_report)
        self.table.insertActions(self.table.actions()[0], [*self._actions, copy])
        self.table.selectionModel().selectionChanged.connect(self._refresh)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        is_return = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_return and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self._compare()
        else:
            super().keyPressEvent(event)

    def refresh(self) -> None:
        start_task(self, self._list(), "list runs")

    async def _list(self) -> None:
        runs = await self._inspector.every_run()
        shown = self._inspector.shown
        target = self._chosen() or shown
        self.model.show_rows(runs)
        ids = [run.run.id for run in runs]
        if target is not None and target.run.id in ids:
            row = ids.index(target.run.id)
            flags = QItemSelectionModel.SelectionFlag
            index = self.model.index(row, 0)
            self.table.selectionModel().setCurrentIndex(index, flags.ClearAndSelect | flags.Rows)
        self._refresh()

    def _when(self, row: ShownRun) -> str:
        shown = self._inspector.shown
        is_shown = shown is not None and row.run.id == shown.run.id
        return f"{'● ' if is_shown else ''}{start_time_text(row.run)}"

    def _chosen(self) -> ShownRun | None:
        rows = self.table.selected_rows()
        return self.model.rows[rows[0]] if rows else None

    def _refresh(self) -> None:
        chosen, shown = self._chosen(), self._inspector.shown
        is_other = chosen is not None and (shown is None or chosen.run.id != shown.run.id)
        self.open.setEnabled(is_other)
        self.compare.setEnabled(is_other and shown is not None)
        for action, button in zip(self._actions, (self.open, self.compare), strict=True):
            action.setEnabled(button.isEnabled())
        count = self.model.rowCount()
        self.note.setText(
            "Answers of this conversation come first, then recent ones of others."
            if count
            else "There are no answers yet."
        )

    def _open(self) -> None:
        if (chosen := self._chosen()) is not None:
            self._inspector.open_run(chosen)

    def _copy_report(self) -> None:
        if (chosen := self._chosen()) is not None:
            copy_text(markdown_report(chosen.run, chosen.question))

    def _compare(self) -> None:
        chosen = self._chosen()
        if chosen is not None and self.compare.isEnabled():
            start_task(self, self._request_comparison(chosen), "compare runs")

    async def _request_comparison(self, chosen: ShownRun) -> None:
        self.comparison_requested.emit(await self._inspector.traced(chosen))

"""The window that answers one question several times and counts how the answers end.

Main thread.
"""

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QCloseEvent
from PySide6.QtWidgets import QCheckBox, QSizePolicy, QTabWidget, QWidget

from engine.recording.ends import SeededAnswer, Side, compare_sides, sides_to_json
from engine.stopping.repetition import DEFAULT_DETECTION
from engine.stopping.rules import StopRules
from engine.values.request import GenerationRequest
from engine.values.verdict import shortest
from engine.wording import counted, percent, quoted
from ui.chat.settings_page import sampling_field, tokens_field
from ui.inspector.ends_plot import EndsPlot
from ui.inspector.inspector import Inspector, listed_rules, stops_of
from ui.inspector.pages import ReadingPage
from ui.inspector.several_answers import SeveralAnswers
from ui.inspector.shown_run import ShownRun, question_text, shown_seeded
from ui.kit.buttons import push_button
from ui.kit.fields import NumberField
from ui.kit.html import Html, cell, colored, joined, paragraph, strong, table
from ui.kit.labels import ElidedLabel, label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, form, row, scrolling
from ui.kit.menus import copy_from
from ui.kit.tables import TableColumn, TableModel, TableView
from ui.kit.tasks import restart_task
from ui.kit.theme import current_theme, restyle
from ui.kit.windows import OwnWindow
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_editor import StopListEditor
from ui.stops.stop_lists import StopLists
from ui.words import display_name, with_escapes_for_hidden

_DEFAULT_COUNT = 20
_HINT = (
    "The question is answered with the seeds 1, 2, 3 and so on, all at the same time. Nothing of "
    "it enters the conversation."
)
_UNKNOWN = (
    "The question of this answer was not recorded. Open its conversation, or record tokens and "
    "ask again."
)
_ALIKE = (
    "Nothing differs. Change a stop, the temperature, top p, the maximum length or repetition at "
    "the right, or clear “Compare”."
)
_EQUAL = "All answers are equal; a higher temperature, such as 1, lets them differ."


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """A row of the table: an answer of a side."""

    side: Side
    answer: SeededAnswer

    @property
    def end(self) -> str:
        if self.answer.is_whole:
            return shortest(self.answer.stop)
        return "" if self.answer.finished is None else "cancelled"

    @property
    def cut(self) -> str:
        dropped = self.answer.stop.dropped if self.answer.is_whole else ""
        return quoted(dropped) if dropped else ""

    @property
    def odds(self) -> str:
        odds = self.answer.eos_probability if self.answer.is_whole else None
        return "" if odds is None else percent(odds)


COLUMNS = (
    TableColumn("Seed", 6, lambda one: f"{one.answer.seed}", is_number=True),
    TableColumn("Stops and Setting", 22, lambda one: one.side.name),
    TableColumn("End", 20, lambda one: one.end),
    TableColumn("Tokens", 8, lambda one: f"{one.answer.output_tokens:,}", is_number=True),
    TableColumn("Cut", 16, lambda one: one.cut),
    TableColumn(
        "EOS Odds",
        10,
        lambda one: one.odds,
        is_number=True,
        tooltip="The model’s probability of an end token in the place of the last token",
    ),
    TableColumn("Answer", 0, lambda one: quoted(one.answer.text, 400) if one.answer.text else ""),
)


class OtherSide(QWidget):
    """The stop list and the setting of the second side; they begin as those of the first."""

    def __init__(self, lists: StopLists) -> None:
        super().__init__()
        self.stops = StopListModel(parent=self)
        self.editor = StopListEditor(lists)
        self.editor.show_model(self.stops)
        self.temperature = sampling_field("temperature")
        self.top_p = sampling_field("top_p")
        self.max_tokens = tokens_field("Maximum length, in tokens")
        self.repetition = QCheckBox("End answers that repeat themselves")
        fields = form(
            (label("Temperature"), self.temperature),
            (label("Top p"), self.top_p),
            (label("Maximum length"), self.max_tokens),
            self.repetition,
            spacing=(14, 9),
            wraps=True,
        )
        heading = label("Setting", "title")
        column(
            label("Compared with", "title"),
            self.editor,
            heading,
            fields,
            STRETCH,
            spacing=8,
            margins=(2, 2, 10, 2),
            on=self,
        )

    def show_request(self, request: GenerationRequest) -> None:
        self.stops.replace_all(stops_of(request.stops), "Use Answer’s List")
        self.stops.undo_stack.clear()
        self.editor.input.clear()
        self.temperature.show_number(request.sampling.temperature)
        self.top_p.show_number(request.sampling.top_p)
        self.max_tokens.show_number(request.max_tokens)
        self.repetition.setChecked(request.stops.repetition is not None)

    def request(self, first: GenerationRequest) -> GenerationRequest:
        """Return the first side's request with what differs here."""
        rules, typed = first.stops, self.editor.input.text()
        if typed or self.stops.entries() != stops_of(rules):
            rules = listed_rules(self.stops, typed, rules)
        if self.repetition.isChecked() != (rules.repetition is not None):
            detection = DEFAULT_DETECTION if self.repetition.isChecked() else None
            rules = replace(rules, repetition=detection)
        limit = self.max_tokens.number
        sampling = replace(
            first.sampling, temperature=self.temperature.number, top_p=self.top_p.number
        )
        return replace(
            first,
            stops=rules,
            sampling=sampling,
            max_tokens=None if limit is None else int(limit),
        )


class EndsWindow(OwnWindow):
    """Question and count above, the plot, the figures and the table below."""

    run_requested = Signal(object)  # ShownRun

    def __init__(self, inspector: Inspector, parent: QWidget | None = None) -> None:
        super().__init__("Several Answers", (1040, 820), parent)
        self._inspector = inspector
        workspace = inspector.workspace
        self.answers = SeveralAnswers(inspector.engine, workspace.library, self)
        self._shown: ShownRun | None = None
        self._request: GenerationRequest | None = None
        self._sides: list[Side] = []
        self._counted = -1
        self.question = ElidedLabel("", "title", 1.05)
        self.setting = ElidedLabel("", "muted")
        self.count = NumberField(
            "Number of answers", "", 2, self.answers.max_answers, 1, is_whole=True
        )
        self.count.setMinimum(2)
        self.count.show_number(min(_DEFAULT_COUNT, self.answers.max_answers))
        self.temperature = sampling_field("temperature")
        self.temperature.setAccessibleName("Temperature of the answers")
        self.compares = QCheckBox("Compare with another list or setting")
        self.start = push_button("Answer", "Answer the question several times", "primary")
        self.stop = push_button("Stop", "Stop the running answers")
        self.copy_table = push_button("Copy as Table", "Copy the answers as tab-separated values")
        self.copy_json = push_button("Copy as JSON", "Copy the figures and answers as JSON")
        self.note = label("", "muted", is_wrapped=True)
        self.bar = thin_bar("Answers that have ended")
        self.sentence = label("", "title", 1.02, is_wrapped=True)
        self.plot = EndsPlot()
        self.described = ElidedLabel("", "muted")
        self.summary = ReadingPage("Counts of the ends", "The figures appear as answers end.")
        self.model = TableModel(COLUMNS, self)
        self.table = TableView(self.model, "Answers")
        self.tabs = QTabWidget()
        self.other = OtherSide(workspace.stop_lists)
        self._lay_out()
        self._connect_signals()
        self._refresh()

    def show_question(self, shown: ShownRun | None, tried: StopRules | None = None) -> None:
        """Take the question of a run, and the stops to compare its own with."""
        restart_task(self, self._take(shown, tried), "question of several answers")

    def closeEvent(self, event: QCloseEvent) -> None:
        self.answers.stop()
        super().closeEvent(event)

    async def finish(self) -> None:
        await self.answers.finish()
        await self.other.editor.menu.finish()
        await super().finish()

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        self.tabs.setDocumentMode(True)
        for part in (self.tabs, self.tabs.tabBar()):
            part.setProperty("kind", "flush")
        self.tabs.setAccessibleName("Figures and answers")
        self.tabs.addTab(self.summary, "Figures")
        self.tabs.addTab(self.table, "Answers")
        self.tabs.setMinimumHeight(150)
        self._side = scrolling(self.other, "", goes_sideways=False)
        self._side.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._side.setFixedWidth(340)
        actions = row(
            label("Answers"),
            self.count,
            label("Temperature"),
            self.temperature,
            self.start,
            self.stop,
            STRETCH,
            spacing=8,
        )
        # Not as narrow as a wrapped line where nothing else is shown yet.
        results = QWidget()
        results.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        column(
            self.note,
            self.bar,
            self.sentence,
            (self.plot, 1),
            row((self.described, 1), self.copy_table, self.copy_json, spacing=8),
            (self.tabs, 1),
            (None, 0),
            spacing=8,
            on=results,
        )
        inside = QWidget()
        inside.setObjectName("scrolled")
        # With large text on a small screen, not all of it fits without scrolling.
        area = scrolling(inside, "", self, goes_sideways=False)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(area, on=self)
        column(
            self.question,
            self.setting,
            actions,
            self.compares,
            (row((results, 1), self._side, spacing=16), 1),
            spacing=10,
            margins=(18, 14, 18, 16),
            on=inside,
        )

    def _connect_signals(self) -> None:
        self.start.clicked.connect(self._start)
        for field in (self.count, self.temperature):
            field.lineEdit().returnPressed.connect(self._start)
        self.temperature.number_edited.connect(self._set_temperature)
        self.stop.clicked.connect(self.answers.stop)
        self.compares.toggled.connect(self._refresh)
        self.copy_table.clicked.connect(self._copy_table)
        self.copy_json.clicked.connect(self._copy_json)
        self.answers.changed.connect(self._refresh)
        self.plot.opened.connect(self._open)
        self.plot.described.connect(self.described.setText)
        self.table.row_opened.connect(self._open_row)
        self.table.add_copy("Copy Rows", lambda rows: self.model.as_tsv(rows or None))
        current_theme().changed.connect(self._show_figures)
        self._inspector.traces.forgotten.connect(self.answers.clear)

    # -- intents ---------------------------------------------------------------------------

    async def _take(self, shown: ShownRun | None, tried: StopRules | None) -> None:
        if shown is not None and shown.trace is None:
            shown = await self._inspector.traced(shown)
        request = None if shown is None else self._inspector.repeated_request(shown)
        before = None if self._shown is None or self._request is None else self._shown.run.id
        self._shown = shown
        if shown is None or shown.run.id != before:
            self.answers.clear()
            self._request = request
            if request is not None:
                self.temperature.show_number(request.sampling.temperature)
                self.other.show_request(request)
        if tried is not None:
            self.other.stops.replace_all(stops_of(tried), "Use Tried List")
            self.compares.setChecked(True)
        self._refresh()

    def _start(self) -> None:
        self.count.interpretText()
        self.temperature.interpretText()
        request = self._request
        if request is None or self.answers.is_running:
            return
        other = self.other.request(request) if self.compares.isChecked() else request
        if self.compares.isChecked() and other == request:
            self._note(_ALIKE, is_fault=True)
            return
        self.answers.start(request, other, int(self.count.number or _DEFAULT_COUNT))

    def _set_temperature(self, temperature: float | None) -> None:
        """Use a temperature for the first side, and for the second one if it has the same."""
        if (request := self._request) is None:
            return
        if self.other.temperature.number == request.sampling.temperature:
            self.other.temperature.show_number(temperature)
        sampling = replace(request.sampling, temperature=temperature)
        self._request = replace(request, sampling=sampling)
        self._refresh()

    def _open_row(self) -> None:
        rows = self.table.selected_rows()
        if rows and (chosen := self.model.rows[rows[0]]).answer.is_whole:
            self._open(chosen.side, chosen.answer)

    def _open(self, side: Side, answer: SeededAnswer) -> None:
        self.run_requested.emit(shown_seeded(side, answer))

    def _copy_table(self) -> None:
        copy_from(self.copy_table, self.model.as_tsv())

    def _copy_json(self) -> None:
        values = sides_to_json(self.answers.sides, is_complete=self.answers.stage == "done")
        text = json.dumps(values, ensure_ascii=False, indent=2)
        copy_from(self.copy_json, with_escapes_for_hidden(text))

    # -- showing ---------------------------------------------------------------------------

    def _refresh(self) -> None:
        answers, request = self.answers, self._request
        sides, is_running = answers.sides, answers.is_running
        self.question.setText(" ".join(question_text(request).split()) if request else "")
        self.setting.setText("" if request is None else _describe(request))
        now, before = (self.stop, self.start) if is_running else (self.start, self.stop)
        now.setEnabled(request is not None)
        if before.hasFocus():
            now.setFocus()  # Qt would move the focus of a disabled button elsewhere
        before.setEnabled(False)
        self._side.setVisible(self.compares.isChecked())
        self.other.setEnabled(request is not None and not is_running)
        is_unknown = self._shown is not None and request is None
        hint = _UNKNOWN if is_unknown else _HINT
        self._note(answers.progress or hint, is_fault=is_unknown or answers.stage == "failed")
        self.bar.setVisible(is_running)
        self.bar.setRange(0, max(1, answers.total))
        self.bar.setValue(answers.ended)
        for button in (self.copy_table, self.copy_json):
            button.setEnabled(answers.ended > 0)
        for part in (self.plot, self.described, self.tabs, self.copy_table, self.copy_json):
            part.setVisible(bool(sides))
        self.plot.show_sides(sides)
        if sides is not self._sides:
            self._sides = sides
            answered = zip(*(side.answers for side in sides), strict=True)
            pairs = (zip(sides, seeded, strict=True) for seeded in answered)
            self.model.show_rows([AnswerRow(*pair) for pair in itertools.chain(*pairs)])
        elif sides:
            last = self.model.index(self.model.rowCount() - 1, len(COLUMNS) - 1)
            self.model.dataChanged.emit(self.model.index(0, 0), last)
        if answers.ended != self._counted or not sides:
            self._show_figures()

    def _note(self, text: str, *, is_fault: bool) -> None:
        restyle(self.note, "role", "fault" if is_fault else "muted")
        self.note.setText(text)

    def _show_figures(self) -> None:
        sides = self.answers.sides
        self._counted = self.answers.ended
        text = compare_sides(*sides) if len(sides) > 1 else ""
        if len(sides) == 1 and sides[0].are_equal:
            text = _EQUAL
        show_text(self.sentence, text)
        position = self.summary.verticalScrollBar().value()
        self.summary.setHtml(joined(*map(_figures, sides)))
        self.summary.verticalScrollBar().setValue(position)


def _describe(request: GenerationRequest) -> str:
    """Return the model, the stops and the setting of a request, in a line."""
    sampling, limit = request.sampling, request.max_tokens
    stops = ", ".join(quoted(stop, 24) for stop in request.stops.strings)
    parts = [display_name(request.model or ""), f"stops {stops}" if stops else "no stops"]
    if sampling.temperature is not None:
        parts.append(f"temperature {sampling.temperature:g}")
    if sampling.top_p is not None:
        parts.append(f"top p {sampling.top_p:g}")
    parts.append("no limit" if limit is None else f"at most {counted(limit, 'token')}")
    return " · ".join(filter(None, parts))


def _figures(side: Side) -> Html:
    """Return the tables of a side: its ends, its stops, and the odds of an end token."""
    colors, counts = current_theme().colors, side.counts
    head = f"{counts.answers:,} of {counted(len(side.answers), 'answer')}"
    title = paragraph(strong(side.name), "  ", colored(head, colors.muted), style="margin:4px 0")
    if counts.lengths is None:
        return title
    ends = [(f"{len(group.seeds):,}", group.label, *group.tokens.cells) for group in counts.ends]
    ends.append((f"{counts.answers:,}", "all", *counts.lengths.cells))
    parts = [
        title,
        _table(("Answers", "End", "Tokens: Min", "¼", "Median", "¾", "Max"), ends),
    ]
    if counts.stops:
        stops = [stop.cells for stop in counts.stops]
        parts.append(_table(("Stop", "Fired", "Cut Behind It"), stops))
    if (odds := counts.eos_odds) is not None:
        text = (
            f"Odds of an end token in the last place: {percent(odds.min)} to {percent(odds.max)}, "
            f"median {percent(odds.median)}"
        )
        parts.append(paragraph(colored(text, colors.muted), style="margin:4px 0 12px 0"))
    return joined(*parts)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Html:
    colors, style = current_theme().colors, "padding:2px 18px 2px 0"
    head = [cell(colored(title, colors.muted), style=style) for title in titles]
    body = ([cell(text, style=style) for text in row] for row in rows)
    return table([head, *body])

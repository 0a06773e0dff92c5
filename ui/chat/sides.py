"""Answers side by side: their columns, and the sheet that chooses what differs.

Main thread.
"""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QCheckBox,
    QDialogButtonBox,
    QFrame,
    QPushButton,
    QWidget,
)

from engine.stopping.record import StopKind
from engine.stopping.rules import Stop
from engine.wording import as_sentence, counted, escaped
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.settings_page import sampling_field, tokens_field
from ui.chat.sidebar_rows import NEEDS_YOU
from ui.differences import Span, differences, without_spaces
from ui.kit.buttons import Choice, push_button
from ui.kit.fields import TextArea
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, form, row, scrolling
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.windows import OwnDialog, fit_to_screen, lay_out_hidden
from ui.records.conversations import ChosenModel
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.records.stop_files import refusal
from ui.records.variants import Variant, describe_difference
from ui.words import display_name, unescaped


class SideColumn(QFrame):
    """Shows one answer."""

    keep_requested = Signal()
    reason_requested = Signal(object)  # Run
    again_requested = Signal()
    view_made = Signal(object)  # AnswerView

    def __init__(self, side: ConversationController, number: int, model: str, detail: str) -> None:
        super().__init__()
        self.setObjectName("card")
        self.side = side
        self.number = number
        self._model = model
        self._reasons = QButtonGroup(self)
        self._reasons.setExclusive(False)
        self.title = label("", "title", is_wrapped=True)
        self.detail = label(detail, "muted", 0.95, is_wrapped=True)
        self.need = label(NEEDS_YOU, "notice", 0.95)
        self.stop = push_button("Stop", f"Stop answer {number}")
        # ``setRetainSizeWhenHidden``: columns keep their width.
        policy = self.stop.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.stop.setSizePolicy(policy)
        self.views: list[AnswerView] = []
        self._parts = column(spacing=8)
        self.cause = label("", "fault", is_wrapped=True)
        self.cause.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.keep = push_button("Keep This One", kind="primary")
        self.keep.setToolTip(
            "The conversation continues with this answer, its model, settings and stops. The "
            "other one stays as a version."
        )
        column(
            row((self.title, 1), self.stop, spacing=8),
            self.detail,
            self.need,
            self._parts,
            self.cause,
            STRETCH,
            self.keep,
            spacing=8,
            margins=(16, 13, 16, 13),
            on=self,
        )
        # Methods, not lambdas: the controller outlives the column if another chat is shown.
        side.text_appended.connect(self._append_text)
        side.thinking_appended.connect(self._append_thinking)
        side.run_changed.connect(self._refresh)
        side.run_finished.connect(self._refresh)
        side.is_running_changed.connect(self._show_running)
        side.message_appended.connect(self._go_on)
        self.stop.clicked.connect(lambda: side.cancel())
        self.keep.clicked.connect(self.keep_requested)

    def show_answer(self) -> None:
        """Show the parts of the answer that are there: one, and one more after calls of tools."""
        message, parts = self.side.last_answer, list[ConversationMessage]()
        while message is not None and message.run is not None:
            parts.insert(0, message)
            message = message.parent
        for part in parts:
            self._add(part)
        self._refresh(self.run)
        self._show_running(self.side.is_running)

    @property
    def run(self) -> Run | None:
        """The answer's run; after calls of tools, that of its last part."""
        answer = self.side.last_answer
        return None if answer is None else answer.run

    @property
    def view(self) -> AnswerView:
        """The last part of the answer, which has the reason why it ended."""
        return self.views[-1]

    @property
    def shown_text(self) -> str:
        return self.view.text_view.toPlainText()

    def show_differences(self, spans: list[Span]) -> None:
        self.view.text_view.show_spans(spans)

    @property
    def has_failed(self) -> bool:
        """Whether there is no whole answer, for a cause that is shown."""
        return bool(_cause(self.run))

    def _add(self, part: ConversationMessage) -> None:
        view = AnswerView(part, self._reasons)
        view.action_row.hide()
        view.regenerate_requested.connect(self.again_requested)
        view.reason.clicked.connect(lambda: self.reason_requested.emit(view.run))
        self.views.append(view)
        self._parts.addWidget(view)
        self.view_made.emit(view)

    def _go_on(self, message: ConversationMessage) -> None:
        if self.views and message.parent is self.view.message:
            self._add(message)

    def _show_running(self, is_running: bool) -> None:
        self.stop.setVisible(is_running)
        for view in self.views:
            view.show_busy(is_running)

    def show_busy(self, is_busy: bool) -> None:
        """Enable keeping the answer once all have ended, unless it was never begun."""
        run = self.run
        self.keep.setEnabled(not is_busy and run is not None and bool(run.text or run.finished))

    def _append_text(self, _run: Run, text: str) -> None:
        self.view.append_text(text)

    def _append_thinking(self, _run: Run, text: str) -> None:
        self.view.append_thinking(text)

    def _refresh(self, run: Run | None) -> None:
        model = display_name(run.model_id) if run is not None and run.model_id else self._model
        self.title.setText(model or f"Answer {self.number}")
        self.keep.setAccessibleName(f"Keep answer {self.number}, {model}")
        for view in self.views:
            view.refresh()
        if run is not None and run.state == "refused":
            # The cause is said below, whole.
            self.view.reason.show_reason("Not sent", (), "fault", "fault")
        self.need.setVisible(run is not None and run.needs_user)
        self.cause.setText(_cause(self.run))
        self.cause.setVisible(self.has_failed)


def _cause(run: Run | None) -> str:
    """Return why an answer failed, as sentences; empty if it did not."""
    if run is None or not run.is_over:
        return ""
    if run.state == "refused":
        return run.refusal
    verdict = run.verdict
    has_failed = run.finished is not None and run.finished.stop.kind is StopKind.ERROR
    return as_sentence(verdict.text.detail) if verdict is not None and has_failed else ""


class SidesPage(QWidget):
    """Shows two answers of the open conversation beside each other."""

    kept = Signal(object)  # ConversationController; None to keep both
    compare_requested = Signal(object, object)  # two runs
    run_requested = Signal(object)  # Run
    view_made = Signal(object, object)  # AnswerView, ConversationController of its side

    def __init__(self) -> None:
        super().__init__()
        self._sides: tuple[ConversationController, ...] = ()
        self._is_at_end = True
        self.columns: list[SideColumn] = []
        heading = label("Side by side", "title")
        self.summary = label("", "muted", is_wrapped=True)
        self.compare = QPushButton("Compare in Inspector")
        self.keep_both = QPushButton("Keep Both as Versions")
        self.keep_both.setToolTip(
            "The conversation continues with the left answer. Its settings stay."
        )
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.setSpacing(8)
        self._head.addLayout(column(heading, self.summary, spacing=2), 1)
        self._head.addLayout(row(self.compare, self.keep_both))
        self.question = label("", "", is_wrapped=True)
        bubble = QFrame()
        bubble.setObjectName("bubble")
        column(self.question, margins=(14, 9, 14, 9), on=bubble)
        self._answers = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._answers.setSpacing(14)
        inside = column(
            self._head, bubble, self._answers, STRETCH, spacing=12, margins=(20, 16, 20, 12)
        )
        self.area = scrolling(inside, "Answers side by side", self, goes_sideways=False)
        column(self.area, on=self)
        bar = self.area.verticalScrollBar()
        bar.valueChanged.connect(self._note_scroll)
        bar.rangeChanged.connect(self._follow_end)
        self.compare.clicked.connect(self._compare)
        self.keep_both.clicked.connect(lambda: self.kept.emit(None))

    def show_sides(self, opened: ConversationController) -> None:
        if opened.sides == self._sides:
            return
        for side in self._sides:
            side.is_running_changed.disconnect(self._refresh)
        for answer in self.columns:
            self._remove(answer)
        self.columns = []
        self._sides = opened.sides
        if not self._sides:
            return
        left_answer = self._sides[0].last_answer
        assert left_answer is not None
        assert left_answer.parent is not None
        names = ", ".join(file.name for file in left_answer.parent.files)
        self.question.setText("\n".join(filter(None, (left_answer.parent.typed, names))))
        first, second = (Variant.of(side.conversation) for side in self._sides)
        detail = describe_difference(second, first) or "the same settings"
        self._add_column(1, self._sides[0], first, "As this conversation")
        self._add_column(2, self._sides[1], second, detail[0].upper() + detail[1:])
        for side in self._sides:
            side.is_running_changed.connect(self._refresh)
        self._is_at_end = True
        self._refresh()

    async def finish(self) -> None:
        await finish_tasks(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        is_narrow = self.width() < 600
        for layout in (self._head, self._answers):
            layout.setDirection(down if is_narrow else across)

    def _add_column(
        self, number: int, side: ConversationController, variant: Variant, detail: str
    ) -> None:
        model = "" if variant.model is None else display_name(variant.model.name)
        column = SideColumn(side, number, model, detail)
        column.keep_requested.connect(partial(self.kept.emit, side))
        column.reason_requested.connect(self.run_requested)
        column.again_requested.connect(lambda: self._retry(column, variant, detail))
        column.view_made.connect(lambda view: self.view_made.emit(view, side))
        column.show_answer()
        self.columns.insert(number - 1, column)
        self._answers.insertWidget(number - 1, column, 1)

    def _remove(self, column: SideColumn) -> None:
        column.hide()
        self._answers.removeWidget(column)
        column.deleteLater()

    def _retry(self, column: SideColumn, variant: Variant, detail: str) -> None:
        """Generate an answer that failed once more, and show it in its column."""
        side, before = column.side, column.side.last_answer
        if before is None or side.regenerate(before) is None:
            return
        self.columns.remove(column)
        self._remove(column)
        self._add_column(column.number, side, variant, detail)
        self._refresh()
        self.run_requested.emit(side.running[0])

    def _refresh(self) -> None:
        running = sum(side.is_running for side in self._sides)
        failed = sum(answer.has_failed for answer in self.columns)
        for answer in self.columns:
            answer.show_busy(bool(running))
        self.compare.setEnabled(not running)
        self.keep_both.setEnabled(not running)
        if running == 2:
            self.summary.setText("Both answers are being written.")
        elif running:
            self.summary.setText("An answer is being written.")
        elif failed:
            self.summary.setText(
                f"{'Both answers' if failed == 2 else 'One of the answers'} failed."
            )
            for answer in self.columns:
                answer.show_differences([])
        elif self._sides:
            start_task(self, self._show_differences(), "compare answers")

    async def _show_differences(self) -> None:
        """Mark the differences, which are computed on another thread."""
        sides, (left, right) = self._sides, self.columns
        texts = left.shown_text, right.shown_text
        pairs = await asyncio.to_thread(lambda: tuple(differences(*texts)))
        if sides is not self._sides:
            return
        mine = without_spaces(texts[0], (one for one, _ in pairs))
        others = without_spaces(texts[1], (other for _, other in pairs))
        left.show_differences(mine)
        right.show_differences(others)
        count = max(len(mine), len(others))
        if not count:
            self.summary.setText("Both answers have the same words.")
        else:
            verb = "is" if count == 1 else "are"
            self.summary.setText(
                f"The answers differ in {counted(count, 'place')}, which {verb} marked."
            )

    def _compare(self) -> None:
        runs = [answer.run for answer in self.columns]
        if None not in runs:
            self.compare_requested.emit(*runs)

    def _note_scroll(self, value: int) -> None:
        self._is_at_end = value >= self.area.verticalScrollBar().maximum() - 12

    def _follow_end(self, _minimum: int, maximum: int) -> None:
        if self._is_at_end and any(side.is_running for side in self._sides):
            self.area.verticalScrollBar().setValue(maximum)


class VariantForm(QWidget):
    """The settings of one more answer."""

    def __init__(self, now: Variant, models: list[tuple[str, Path | None]]) -> None:
        super().__init__()
        self._now = now
        settings = now.settings
        self.model = Choice("Model of this answer")
        for name, folder in models:
            self.model.addItem(name, folder)
        self._shown_stops = "\n".join(
            escaped(entry.stop.text) for entry in now.stops if entry.is_enabled and entry.stop.text
        )
        name = "Stop sequences of this answer, one per line"
        self.stops = TextArea(name, "No stop sequences", 76, self._shown_stops)
        self.temperature = sampling_field("temperature")
        self.max_tokens = tokens_field("Maximum length, in tokens")
        self.seed = sampling_field("seed")
        for field, number in (
            (self.temperature, settings.temperature),
            (self.max_tokens, settings.max_tokens),
            (self.seed, settings.seed),
        ):
            field.show_number(number)
        self.thinking = QCheckBox("Let the model reason first, if it can")
        self.thinking.setChecked(settings.is_thinking)
        self.system_prompt = TextArea(
            "System prompt of this answer", "No system prompt", 76, settings.system_prompt
        )
        hint = label(
            r"One on each line; \n stands for a line break", "faint", 0.92, is_wrapped=True
        )
        lines = form(
            (label("Model"), self.model),
            (label("Stop sequences"), column(self.stops, hint, spacing=4)),
            (label("Temperature"), self.temperature),
            (label("Maximum length"), self.max_tokens),
            (label("Seed"), self.seed),
            (label("Thinking"), self.thinking),
            (label("System prompt"), self.system_prompt),
            spacing=(14, 9),
            wraps=True,
        )
        column(lines, margins=(0, 8, 0, 0), on=self)

    def variant(self) -> Variant:
        """Return the chosen settings; raises ``ValueError`` for a stop that cannot be used."""
        stops = self._stops()
        if problem := refusal(stops):
            raise ValueError(problem)
        settings = replace(
            self._now.settings,
            temperature=self.temperature.number,
            max_tokens=None if (limit := self.max_tokens.number) is None else int(limit),
            seed=None if (seed := self.seed.number) is None else int(seed),
            is_thinking=self.thinking.isChecked(),
            system_prompt=self.system_prompt.text,
        )
        folder = self.model.currentData()
        model = self._now.model
        if isinstance(folder, Path) and (model is None or folder != model.folder):
            model = ChosenModel.of(folder)
        return Variant(settings, stops, model)

    def _stops(self) -> tuple[StopEntry, ...]:
        """Return the stop list; known stops keep their options, and disabled ones stay."""
        typed = self.stops.text
        if typed == self._shown_stops:
            return self._now.stops
        known = {entry.stop.text: entry.stop for entry in self._now.stops}
        texts = dict.fromkeys(unescaped(line) for line in typed.split("\n") if line)
        disabled = [
            entry
            for entry in self._now.stops
            if not (entry.is_enabled and entry.stop.text) and entry.stop.text not in texts
        ]
        return (*(StopEntry(known.get(text, Stop(text))) for text in texts), *disabled)


class CompareDialog(OwnDialog):
    """Asks for the settings of the second answer."""

    submitted = Signal(object)  # Variant

    def __init__(
        self,
        question: str,
        now: Variant,
        models: list[tuple[str, Path | None]],
        parent: QWidget,
    ) -> None:
        super().__init__("Compare Answers", parent)
        self.form = VariantForm(now, models)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        begin = self.buttons.addButton("Answer", QDialogButtonBox.ButtonRole.AcceptRole)
        begin.setProperty("kind", "primary")
        begin.setDefault(True)
        self.buttons.accepted.connect(self._submit)
        self.buttons.rejected.connect(self.reject)
        line = " ".join(question.split())
        shown = line if len(line) <= 300 else f"{line[:299]}…"
        texts = (
            label(f"“{shown}”", "title", is_wrapped=True),
            label(
                "The question is answered twice at the same time: with this conversation’s "
                "settings, and with the changes that you make here.",
                "muted",
                is_wrapped=True,
            ),
        )
        for text in texts:
            text.setMinimumWidth(420)  # its least height is that of its least width
        inner = column(*texts, self.form, STRETCH, spacing=11)
        # On a small screen the form does not fit without scrolling.
        area = scrolling(inner, "")
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column((area, 1), self.problem, self.buttons, spacing=11, margins=(22, 18, 22, 16), on=self)
        lay_out_hidden(self)
        height = inner.sizeHint().height() + self.buttons.sizeHint().height() + 50
        fit_to_screen(self, 500, height)
        self.form.stops.setFocus()

    def show_problem(self, problem: str) -> None:
        self.problem.setText(problem)
        self.problem.show()

    def _submit(self) -> None:
        try:
            variant = self.form.variant()
        except ValueError as error:
            self.show_problem(str(error))
        else:
            self.submitted.emit(variant)

"""Two answers side by side: their columns, and the sheet that chooses what differs.

Main thread.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QWidget,
)

from engine import Stop, StopKind, as_sentence, counted, escaped
from ui.chat.composer.settings_popover import sampling_field
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.open_conversations import OpenConversation
from ui.chat.session.side_by_side import Side, SideBySide
from ui.kit.buttons import CheckBox, Choice
from ui.kit.fields import NumberField, never_sideways
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, form, row, scrolling
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.theme import current_theme
from ui.kit.windows import move_focus
from ui.records.conversations import ChosenModel, StopEntry, Variant, difference_words
from ui.records.runs import Run, RunState
from ui.stops.stop_list import refusal
from ui.words import Spans, differences, unescaped


class SideColumn(QFrame):
    """Shows one answer.

    Signals:
        keep_wanted: A person wants to continue with this answer.
        reason_wanted: A person wants to see why the answer ended; carries its ``Run``.
        again_wanted: A person wants this answer again, because it failed.
    """

    keep_wanted = Signal()
    reason_wanted = Signal(object)
    again_wanted = Signal()

    def __init__(self, side: Side, title: str, detail: str, reasons: QButtonGroup) -> None:
        super().__init__()
        assert side.message is not None
        self.setObjectName("card")
        self.side = side
        self._spans: Spans = []
        self.title = label(title, "title", is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.detail = label(detail, "muted", 0.95, is_wrapped=True)
        self.detail.setVisible(bool(detail))
        self.view = AnswerView(side.message, reasons)
        self.view.action_row.hide()
        self.view.show_busy(True)
        self.cause = label("", "fault", is_wrapped=True)
        self.cause.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.keep = QPushButton("Keep This One")
        self.keep.setProperty("kind", "primary")
        self.keep.setAccessibleName(f"Keep this answer: {title}")
        self.keep.setToolTip(
            "The conversation continues with this answer, its model, settings and stops. The other "
            "one stays as a version."
        )
        column(
            self.title,
            self.detail,
            self.view,
            self.cause,
            STRETCH,
            self.keep,
            spacing=8,
            margins=(16, 13, 16, 13),
            on=self,
        )
        session = side.session
        # Methods, not lambdas: the session outlives the column if another chat is shown.
        session.text_appended.connect(self._append_text)
        session.thinking_appended.connect(self._append_thinking)
        session.run_changed.connect(self._refresh)
        session.run_finished.connect(self._refresh)
        session.is_running_changed.connect(self.view.show_busy)
        self.view.regenerate_wanted.connect(self.again_wanted)
        self.view.reason.clicked.connect(lambda: self.reason_wanted.emit(side.run))
        self.keep.clicked.connect(self.keep_wanted)
        current_theme().changed.connect(self._mark)
        self._refresh(side.run)

    @property
    def shown_text(self) -> str:
        """The text of the answer as it is shown."""
        return self.view.text_view.toPlainText()

    def show_differences(self, spans: Spans) -> None:
        """Mark the parts of the shown text that the other answer does not have."""
        self._spans = spans
        self._mark()

    @property
    def has_failed(self) -> bool:
        """Whether there is no whole answer, for a cause that is shown."""
        return bool(_cause(self.side.run))

    def show_busy(self, is_busy: bool) -> None:
        """Enable keeping the answer once both have ended, unless it was never begun."""
        run = self.side.run
        self.keep.setEnabled(not is_busy and run is not None and bool(run.text or run.finished))

    def _append_text(self, _run: Run, text: str) -> None:
        self.view.append_text(text)

    def _append_thinking(self, _run: Run, text: str) -> None:
        self.view.append_thinking(text)

    def _refresh(self, _run: Run | None) -> None:
        self.view.refresh()
        self.cause.setText(_cause(self.side.run))
        self.cause.setVisible(self.has_failed)

    def _mark(self) -> None:
        colors = current_theme().colors
        self.view.text_view.show_spans(self._spans, colors.found, colors.text)


def _cause(run: Run | None) -> str:
    """Return why an answer failed, as sentences; empty if it did not."""
    if run is None or not run.is_over:
        return ""
    if run.state is RunState.REFUSED:
        return run.refusal
    said = run.verdict
    has_failed = run.finished is not None and run.finished.stop.kind is StopKind.ERROR
    return as_sentence(said.words.detail) if said is not None and has_failed else ""


# The differences are computed on another thread once both answers have ended.

_NARROW_PX, _WIDEST_PX = 620, 1240
_NEAR_END_PX = 12


class SidesPage(QWidget):
    """Shows the two answers of the open conversation.

    Signals:
        kept: A person chose an answer; carries its ``Side``, or None to keep both as versions.
        compare_wanted: A person wants to compare both runs in the inspector; carries them.
        run_wanted: A person wants to see why an answer ended; carries its ``Run``.
    """

    kept = Signal(object)
    compare_wanted = Signal(object, object)
    run_wanted = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        theme = current_theme()
        self._sides: SideBySide | None = None
        self._is_at_end = True
        self.columns: list[SideColumn] = []
        self._reasons = QButtonGroup(self)
        heading = label("Side by side", "title", weight=QFont.Weight.DemiBold)
        self.words = label("", "muted", is_wrapped=True)
        self.compare = QPushButton("Compare in the Inspector")
        self.leave = QPushButton("Keep Both as Versions")
        self.leave.setToolTip("The conversation continues with the left answer. Its settings stay.")
        for button in (self.compare, self.leave):
            button.setAccessibleName(button.text())
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.setSpacing(8)
        self._head.addLayout(column(heading, self.words, spacing=2), 1)
        self._head.addLayout(row(self.compare, self.leave))
        self.question = label("", "", is_wrapped=True)
        bubble = QFrame()
        bubble.setObjectName("bubble")
        column(self.question, margins=(14, 9, 14, 9), on=bubble)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._row.setSpacing(14)
        middle = QWidget()
        theme.follow(middle, lambda: middle.setMaximumWidth(theme.px(_WIDEST_PX)))
        column(
            self._head, bubble, self._row, STRETCH, spacing=12, margins=(20, 16, 20, 12), on=middle
        )
        holder = QWidget()
        holder.setObjectName("scrolled")
        row(STRETCH, (middle, 1000), STRETCH, on=holder)
        self.area = scrolling(holder, "Two answers side by side", self, goes_sideways=False)
        column(self.area, on=self)
        bar = self.area.verticalScrollBar()
        bar.valueChanged.connect(self._notice_place)
        bar.rangeChanged.connect(self._follow_end)
        self.compare.clicked.connect(self._compare)
        self.leave.clicked.connect(lambda: self.kept.emit(None))
        theme.changed.connect(self._arrange)

    def show_sides(self, opened: OpenConversation) -> None:
        """Show the two answers of a conversation, or nothing if it has none."""
        sides = opened.sides
        if sides is self._sides:
            return
        if self._sides is not None:
            self._sides.is_running_changed.disconnect(self._refresh)
        for answer in self.columns:
            answer.hide()
            self._row.removeWidget(answer)
            answer.deleteLater()
        self.columns = []
        self._sides = sides
        if sides is None:
            return
        left, right = sides.sides
        assert sides.question is not None
        self.question.setText(_question(sides))
        others = difference_words(right.variant, left.variant)
        own = "" if left.variant.model is None else left.variant.model.name
        details = (own, others or "The same settings")
        titles = ("As this conversation", "With the changes")
        for side, title, detail in zip(sides.sides, titles, details, strict=True):
            self._add_column(len(self.columns), side, title, detail)
        sides.is_running_changed.connect(self._refresh)
        self._is_at_end = True
        self._arrange()
        self._refresh()

    def _add_column(self, place: int, side: Side, title: str, detail: str) -> None:
        column = SideColumn(side, title, detail, self._reasons)
        column.keep_wanted.connect(partial(self.kept.emit, side))
        column.reason_wanted.connect(self.run_wanted)
        column.again_wanted.connect(lambda: self._answer_again(column))
        self._row.insertWidget(place, column, 1)
        self.columns.insert(place, column)

    def _answer_again(self, column: SideColumn) -> None:
        """Ask for an answer that failed once more, and show it in its column."""
        side = column.side
        if self._sides is None or not self._sides.answer_again(side):
            return
        place = self.columns.index(column)
        self.columns.remove(column)
        self._row.removeWidget(column)
        column.hide()
        column.deleteLater()
        self._add_column(place, side, column.title.text(), column.detail.text())
        self._refresh()
        self.run_wanted.emit(side.run)

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await finish_tasks(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the columns below one another if they would be too narrow side by side."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        is_narrow = self.width() < current_theme().px(_NARROW_PX)
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        for line in (self._row, self._head):
            line.setDirection(down if is_narrow else across)

    def _refresh(self) -> None:
        sides = self._sides
        if sides is None:
            return
        for answer in self.columns:
            answer.show_busy(sides.is_running)
        self.compare.setEnabled(not sides.is_running)
        self.leave.setEnabled(not sides.is_running)
        under_way = [side for side in sides.sides if side.session.is_running]
        failed = [one for one in self.columns if one.has_failed]
        if under_way:
            words = "Both answers are" if len(under_way) > 1 else "An answer is"
            self.words.setText(f"{words} being written.")
        elif failed:
            words = "Both answers" if len(failed) > 1 else "One of the answers"
            self.words.setText(f"{words} failed.")
            for answer in self.columns:
                answer.show_differences([])
        else:
            start_task(self, self._show_differences(sides), "compare two answers")

    async def _show_differences(self, sides: SideBySide) -> None:
        texts = [answer.shown_text for answer in self.columns]
        left, right = await asyncio.to_thread(differences, *texts)
        if sides is not self._sides:
            return
        for answer, spans in zip(self.columns, (left, right), strict=True):
            answer.show_differences(spans)
        count = max(len(left), len(right))
        if not count:
            words = "Both answers have the same words."
        else:
            words = f"The answers differ in {counted(count, 'place')}, which {_are(count)} marked."
        self.words.setText(words)

    def _compare(self) -> None:
        if self._sides is not None and len(runs := self._sides.runs) == 2:
            self.compare_wanted.emit(*runs)

    def _notice_place(self, value: int) -> None:
        self._is_at_end = value >= self.area.verticalScrollBar().maximum() - _NEAR_END_PX

    def _follow_end(self, _least: int, most: int) -> None:
        if self._is_at_end and self._sides is not None and self._sides.is_running:
            self.area.verticalScrollBar().setValue(most)


def _question(sides: SideBySide) -> str:
    asked = sides.question
    assert asked is not None
    names = ", ".join(file.name for file in asked.files)
    return "\n".join(part for part in (asked.typed, names) if part)


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


_WIDTH_PX, _TEXT_PX = 470, 76
_MOST_TOKENS, _SHOWN_CHARS = 1_000_000, 300

_NO_TOOLS = (
    "Tools are not used here: neither answer can call the tools of this conversation. They are "
    "used again in the next answer."
)


class SidesSheet(QDialog):
    """Asks for the settings of the second answer.

    Args:
        question: The question.
        now: The settings of the conversation's own answer.
        models: The models that can be chosen, the conversation's own first.
        answer: Called with the settings of the second answer; returns whether both were begun.
        parent: The window.
        has_tools: Whether the conversation has tools; neither answer can use them.

    Attributes:
        model: The model of the second answer.
        stops: Its stop list, one sequence per line.
        temperature: Its temperature.
        max_tokens: Its limit.
        seed: Its seed.
        thinking: Whether it reasons first.
        system_prompt: Its system prompt.
        no_tools: The note that neither answer can call the conversation's tools.
        problem: Why the question cannot be asked.
        buttons: Answer and Cancel.
    """

    def __init__(
        self,
        question: str,
        now: Variant,
        models: list[tuple[str, Path | None]],
        answer: Callable[[Variant], bool],
        parent: QWidget,
        *,
        has_tools: bool = False,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Answer Side by Side")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._now = now
        self._answer = answer
        settings = now.settings
        self.model = Choice("Model of the second answer")
        for name, folder in models:
            self.model.addItem(name, folder)
        self.stops = QPlainTextEdit()
        self.stops.setAccessibleName("Stop sequences of the second answer, one per line")
        self.stops.setPlaceholderText("No stop sequences")
        self._shown_stops = "\n".join(
            escaped(entry.stop.text) for entry in now.stops if entry.is_enabled and entry.stop.text
        )
        self.stops.setPlainText(self._shown_stops)
        self.temperature = sampling_field("temperature")
        self.max_tokens = NumberField(
            "Longest answer, in tokens", "No limit", 1, _MOST_TOKENS, 64, is_whole=True
        )
        self.seed = sampling_field("seed")
        for field, number in (
            (self.temperature, settings.temperature),
            (self.max_tokens, settings.max_tokens),
            (self.seed, settings.seed),
        ):
            field.show_number(number)
        self.thinking = CheckBox("Let the model reason first, if it can")
        self.thinking.setChecked(settings.is_thinking)
        self.system_prompt = QPlainTextEdit(settings.system_prompt)
        self.system_prompt.setAccessibleName("System prompt of the second answer")
        self.system_prompt.setPlaceholderText("No system prompt")
        for text in (self.stops, self.system_prompt):
            text.setTabChangesFocus(True)
            never_sideways(text)
        self.no_tools = label(_NO_TOOLS, "muted", is_wrapped=True)
        self.no_tools.setVisible(has_tools)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        begin = self.buttons.addButton("Answer", QDialogButtonBox.ButtonRole.AcceptRole)
        begin.setProperty("kind", "primary")
        begin.setDefault(True)
        self.buttons.accepted.connect(self._begin)
        self.buttons.rejected.connect(self.reject)
        self._lay_out(question)
        current_theme().follow(self, self._fit)
        self.stops.setFocus()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _lay_out(self, question: str) -> None:
        line = " ".join(question.split())
        shown = line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
        self._form = form(
            (label("Model"), self.model),
            (label("Stop sequences"), self.stops),
            (label("Temperature"), self.temperature),
            (label("Longest answer"), self.max_tokens),
            (label("Seed"), self.seed),
            (label("Thinking"), self.thinking),
            (label("System prompt"), self.system_prompt),
            spacing=(14, 9),
            wraps=True,
        )
        hint = r"One stop sequence per line; \n stands for a line break."
        inner = QWidget()
        inner.setObjectName("scrolled")
        self._column = column(
            label(f"“{shown}”", "title", is_wrapped=True, weight=QFont.Weight.DemiBold),
            label(
                "The question is answered twice at the same time: with this conversation’s "
                "settings, and with the changes that you make here.",
                "muted",
                is_wrapped=True,
            ),
            self.no_tools,
            self._form,
            label(hint, "faint", 0.92, is_wrapped=True),
            STRETCH,
            spacing=11,
            on=inner,
        )
        for words in inner.findChildren(QLabel):
            words.setMinimumHeight(1)  # Qt's minimum would be the height in a narrower column
        # On a small screen with large text the form does not fit without scrolling.
        self._area = scrolling(inner, "")
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column(
            (self._area, 1),
            self.problem,
            self.buttons,
            spacing=11,
            margins=(22, 18, 22, 16),
            on=self,
        )

    def _fit(self) -> None:
        theme = current_theme()
        room = self.screen().availableGeometry()
        for text in (self.stops, self.system_prompt):
            text.setFixedHeight(theme.px(_TEXT_PX))
        self.setMinimumWidth(min(theme.px(_WIDTH_PX), room.width() - 40))
        width = self.minimumWidth() - 44
        self._form.invalidate()  # a hidden form does not notice changed heights
        self._column.invalidate()
        wanted = self._column.totalHeightForWidth(width)
        self._area.setMinimumHeight(min(wanted, room.height() * 3 // 4))

    def _begin(self) -> None:
        try:
            stops = self._stops()
        except ValueError as error:
            self._say(str(error))
            return
        if problem := refusal(stops):
            self._say(problem)
            return
        settings = replace(
            self._now.settings,
            temperature=self.temperature.number,
            max_tokens=None if (most := self.max_tokens.number) is None else int(most),
            seed=None if (seed := self.seed.number) is None else int(seed),
            is_thinking=self.thinking.isChecked(),
            system_prompt=self.system_prompt.toPlainText(),
        )
        folder = self.model.currentData()
        model = self._now.model
        if isinstance(folder, Path) and (model is None or folder != model.folder):
            model = ChosenModel.of(folder)
        if self._answer(Variant(settings, stops, model)):
            self.accept()
        else:
            self._say("No answer can be started now.")

    def _stops(self) -> tuple[StopEntry, ...]:
        """Return the stop list; those that the conversation has keep their options."""
        typed = self.stops.toPlainText()
        if typed == self._shown_stops:
            return self._now.stops
        known = {entry.stop.text: entry.stop for entry in self._now.stops}
        texts = dict.fromkeys(unescaped(line) for line in typed.split("\n") if line)
        return tuple(StopEntry(known.get(text, Stop(text))) for text in texts)

    def _say(self, words: str) -> None:
        self.problem.setText(words)
        self.problem.show()

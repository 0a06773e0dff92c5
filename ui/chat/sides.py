"""Answers side by side: their columns, and the sheet that chooses what differs.

Main thread.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QFont, QResizeEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QButtonGroup,
    QDialog,
    QDialogButtonBox,
    QFrame,
    QGridLayout,
    QLabel,
    QPlainTextEdit,
    QPushButton,
    QTabWidget,
    QWidget,
)

from engine import Stop, StopKind, as_sentence, counted, escaped
from ui.chat.composer.settings_popover import sampling_field
from ui.chat.messages.answer_view import AnswerView
from ui.chat.session.open_conversations import OpenConversation
from ui.chat.session.side_by_side import MOST_SIDES, Side, SideBySide
from ui.chat.sidebar_rows import NEEDS_YOU
from ui.kit.buttons import CheckBox, Choice
from ui.kit.fields import NumberField, never_sideways
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, form, row, scrolling
from ui.kit.menus import add_entry, empty_menu, literal, passing_menu
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.theme import current_theme
from ui.kit.windows import move_focus
from ui.records.conversations import ChosenModel, StopEntry, Variant, difference_words
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, RunState
from ui.stops.stop_list import refusal
from ui.words import Spans, Tone, differences, unescaped


class SideColumn(QFrame):
    """Shows one answer.

    Signals:
        keep_wanted: A person wants to continue with this answer.
        reason_wanted: A person wants to see why the answer ended; carries its ``Run``.
        again_wanted: A person wants this answer again, because it failed.
        view_made: A part of the answer got a view; carries the ``AnswerView``.
    """

    keep_wanted = Signal()
    reason_wanted = Signal(object)
    again_wanted = Signal()
    view_made = Signal(object)

    def __init__(self, side: Side, number: int, model: str, detail: str) -> None:
        super().__init__()
        self.setObjectName("card")
        self.side = side
        self.number = number
        self._model = model
        self._spans: Spans = []
        self._reasons = QButtonGroup(self)
        self._reasons.setExclusive(False)
        self.title = label("", "title", is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.detail = label(detail, "muted", 0.95, is_wrapped=True)
        self.need = label(NEEDS_YOU, "notice", 0.95)
        self.stop = QPushButton("Stop")
        self.stop.setAccessibleName(f"Stop answer {number}")
        # Its room stays when it goes, so that the answers stay side by side.
        policy = self.stop.sizePolicy()
        policy.setRetainSizeWhenHidden(True)
        self.stop.setSizePolicy(policy)
        self.views: list[AnswerView] = []
        self._parts = column(spacing=8)
        self.cause = label("", "fault", is_wrapped=True)
        self.cause.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.keep = QPushButton("Keep This One")
        self.keep.setProperty("kind", "primary")
        self.keep.setToolTip(
            "The conversation continues with this answer, its model, settings and stops. The "
            "others stay as versions."
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
        session = side.session
        # Methods, not lambdas: the session outlives the column if another chat is shown.
        session.text_appended.connect(self._append_text)
        session.thinking_appended.connect(self._append_thinking)
        session.run_changed.connect(self._refresh)
        session.run_finished.connect(self._refresh)
        session.is_running_changed.connect(self._show_running)
        session.message_appended.connect(self._go_on)
        self.stop.clicked.connect(lambda: side.session.cancel())
        self.keep.clicked.connect(self.keep_wanted)
        current_theme().changed.connect(self._mark)

    def show_answer(self) -> None:
        """Show the parts of the answer that are there: one, and one more after calls of tools."""
        message, parts = self.side.message, list[ConversationMessage]()
        while message is not None and message.run is not None:
            parts.insert(0, message)
            message = message.parent
        for part in parts:
            self._add(part)
        self._refresh(self.side.run)
        self._show_running(self.side.session.is_running)

    @property
    def view(self) -> AnswerView:
        """The last part of the answer, which has the reason why it ended."""
        return self.views[-1]

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

    def _add(self, part: ConversationMessage) -> None:
        view = AnswerView(part, self._reasons)
        view.action_row.hide()
        view.regenerate_wanted.connect(self.again_wanted)
        view.reason.clicked.connect(lambda: self.reason_wanted.emit(view.run))
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
        run = self.side.run
        self.keep.setEnabled(not is_busy and run is not None and bool(run.text or run.finished))

    def _append_text(self, _run: Run, text: str) -> None:
        self.view.append_text(text)

    def _append_thinking(self, _run: Run, text: str) -> None:
        self.view.append_thinking(text)

    def _refresh(self, run: Run | None) -> None:
        model = (run.model_id if run is not None else "") or self._model
        self.title.setText(model or f"Answer {self.number}")
        self.keep.setAccessibleName(f"Keep answer {self.number}, {model}")
        for view in self.views:
            view.refresh()
        if run is not None and run.state is RunState.REFUSED:
            # The cause is said below, whole.
            self.view.reason.show_reason("", "Not sent", [], "fault", Tone.FAULT)
        self.need.setVisible(run is not None and run.needs_person)
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


# The differences are computed on another thread once all answers have ended.

_LEAST_PX, _WIDEST_PX = 300, 620
_NEAR_END_PX = 12


class SidesPage(QWidget):
    """Shows the answers of the open conversation.

    Signals:
        kept: A person chose an answer; carries its ``Side``, or None to keep all as versions.
        compare_wanted: A person wants to compare two runs in the inspector; carries them.
        run_wanted: A person wants to see why an answer ended; carries its ``Run``.
        view_made: A part of an answer got a view; carries the ``AnswerView`` and the
            ``ConversationSession`` of its side.
    """

    kept = Signal(object)
    compare_wanted = Signal(object, object)
    run_wanted = Signal(object)
    view_made = Signal(object, object)

    def __init__(self) -> None:
        super().__init__()
        theme = current_theme()
        self._sides: SideBySide | None = None
        self._is_at_end = True
        self.columns: list[SideColumn] = []
        heading = label("Side by side", "title", weight=QFont.Weight.DemiBold)
        self.words = label("", "muted", is_wrapped=True)
        self.compare = QPushButton("Compare in the Inspector")
        self.leave = QPushButton("Keep Both as Versions")
        self.leave.setToolTip("The conversation continues with the left answer. Its settings stay.")
        self.compare.setAccessibleName(self.compare.text())
        self._head = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._head.setSpacing(8)
        self._head.addLayout(column(heading, self.words, spacing=2), 1)
        self._head.addLayout(row(self.compare, self.leave))
        self.question = label("", "", is_wrapped=True)
        bubble = QFrame()
        bubble.setObjectName("bubble")
        column(self.question, margins=(14, 9, 14, 9), on=bubble)
        self._grid = QGridLayout()
        self._grid.setSpacing(14)
        self._middle = QWidget()
        column(
            self._head,
            bubble,
            self._grid,
            STRETCH,
            spacing=12,
            margins=(20, 16, 20, 12),
            on=self._middle,
        )
        holder = QWidget()
        holder.setObjectName("scrolled")
        row(STRETCH, (self._middle, 1000), STRETCH, on=holder)
        self.area = scrolling(holder, "Answers side by side", self, goes_sideways=False)
        column(self.area, on=self)
        bar = self.area.verticalScrollBar()
        bar.valueChanged.connect(self._notice_place)
        bar.rangeChanged.connect(self._follow_end)
        self.compare.clicked.connect(self._compare)
        self.leave.clicked.connect(lambda: self.kept.emit(None))
        theme.changed.connect(self._arrange)

    def show_sides(self, opened: OpenConversation) -> None:
        """Show the answers of a conversation, or nothing if it has none."""
        sides = opened.sides
        if sides is self._sides:
            return
        if self._sides is not None:
            self._sides.is_running_changed.disconnect(self._refresh)
        for answer in self.columns:
            answer.hide()
            self._grid.removeWidget(answer)
            answer.deleteLater()
        self.columns = []
        self._sides = sides
        if sides is None:
            return
        assert sides.question is not None
        self.question.setText(_question(sides))
        first = sides.sides[0].variant
        for number, side in enumerate(sides.sides, 1):
            model = side.variant.model or first.model
            detail = difference_words(side.variant, first) or "the same settings"
            self._add_column(
                number,
                side,
                "" if model is None else model.name,
                "As this conversation" if number == 1 else detail[0].upper() + detail[1:],
            )
        all_ = "Both" if len(self.columns) == 2 else "All"
        self.leave.setText(f"Keep {all_} as Versions")
        self.leave.setAccessibleName(self.leave.text())
        sides.is_running_changed.connect(self._refresh)
        self._is_at_end = True
        self._arrange()
        self._refresh()

    def _add_column(self, number: int, side: Side, model: str, detail: str) -> None:
        column = SideColumn(side, number, model, detail)
        column.keep_wanted.connect(partial(self.kept.emit, side))
        column.reason_wanted.connect(self.run_wanted)
        column.again_wanted.connect(lambda: self._answer_again(column))
        column.view_made.connect(lambda view: self.view_made.emit(view, side.session))
        column.show_answer()
        self.columns.insert(number - 1, column)
        self._arrange()

    def _answer_again(self, column: SideColumn) -> None:
        """Ask for an answer that failed once more, and show it in its column."""
        side = column.side
        if self._sides is None or not self._sides.answer_again(side):
            return
        self.columns.remove(column)
        self._grid.removeWidget(column)
        column.hide()
        column.deleteLater()
        self._add_column(column.number, side, column.title.text(), column.detail.text())
        self._refresh()
        self.run_wanted.emit(side.run)

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await finish_tasks(self)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put columns below one another that would be too narrow side by side."""
        super().resizeEvent(event)
        self._arrange()

    def _arrange(self) -> None:
        theme, count = current_theme(), max(len(self.columns), 1)
        self._middle.setMaximumWidth(theme.px(_WIDEST_PX) * max(count, 2))
        abreast = min(count, max(1, self.width() // theme.px(_LEAST_PX)))
        if count == 4 and abreast == 3:
            abreast = 2  # three and one would look as if the last were another thing
        down, across = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._head.setDirection(down if abreast == 1 else across)
        for place, answer in enumerate(self.columns):
            self._grid.addWidget(answer, place // abreast, place % abreast)
        for place in range(MOST_SIDES):
            self._grid.setColumnStretch(place, int(place < abreast))

    def _refresh(self) -> None:
        sides = self._sides
        if sides is None:
            return
        for answer in self.columns:
            answer.show_busy(sides.is_running)
        self.compare.setEnabled(not sides.is_running)
        self.leave.setEnabled(not sides.is_running)
        under_way = [side for side in sides.sides if side.session.is_running]
        failed = [answer for answer in self.columns if answer.has_failed]
        if under_way:
            verb = "is" if len(under_way) == 1 else "are"
            self.words.setText(f"{self._some(len(under_way), 'An answer')} {verb} being written.")
        elif failed:
            self.words.setText(f"{self._some(len(failed), 'One of the answers')} failed.")
            for answer in self.columns:
                answer.show_differences([])
        else:
            start_task(self, self._show_differences(sides), "compare answers")

    def _some(self, count: int, single: str) -> str:
        """Return words for so many of the answers."""
        if count == 1:
            return single
        if count < len(self.columns):
            return f"{count} of {counted(len(self.columns), 'answer')}"
        return "Both answers" if count == 2 else f"All {counted(count, 'answer')}"

    async def _show_differences(self, sides: SideBySide) -> None:
        first, *others = [answer.shown_text for answer in self.columns]
        pairs = [await asyncio.to_thread(differences, first, other) for other in others]
        if sides is not self._sides:
            return
        # Of several, each is compared with the first one, which has marks only beside a single one.
        self.columns[0].show_differences(pairs[0][0] if len(pairs) == 1 else [])
        for answer, (_, spans) in zip(self.columns[1:], pairs, strict=True):
            answer.show_differences(spans)
        counts = [max(len(left), len(right)) for left, right in pairs]
        if not any(counts):
            words = f"{self._some(len(self.columns), '')} have the same words."
        elif len(counts) == 1:
            places = counted(counts[0], "place")
            words = f"The answers differ in {places}, which {_are(counts[0])} marked."
        else:
            words = "Marked is where the answers differ from the first one."
        self.words.setText(words)

    def _compare(self) -> None:
        """Compare two runs; of more, a person says with which one the first is compared."""
        runs = [] if self._sides is None else self._sides.runs
        if len(runs) == 2:
            self.compare_wanted.emit(*runs)
        elif len(runs) == len(self.columns):
            menu = passing_menu(self, "Compare the first answer with")
            empty_menu(menu)
            for answer, run in zip(self.columns[1:], runs[1:], strict=True):
                words = f"Answers 1 and {answer.number}: {answer.title.text()}"
                add_entry(menu, literal(words), partial(self.compare_wanted.emit, runs[0], run))
            menu.popup(self.compare.mapToGlobal(QPoint(0, self.compare.height())))

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


class VariantForm(QWidget):
    """The settings of one more answer.

    Args:
        now: The settings of the conversation's own answer.
        models: The models that can be chosen, the conversation's own first.

    Attributes:
        model: The model of the answer.
        stops: Its stop list, one sequence per line.
        temperature: Its temperature.
        max_tokens: Its limit.
        seed: Its seed.
        thinking: Whether it reasons first.
        system_prompt: Its system prompt.
    """

    def __init__(self, now: Variant, models: list[tuple[str, Path | None]]) -> None:
        super().__init__()
        self._now = now
        settings = now.settings
        self.model = Choice("Model of this answer")
        for name, folder in models:
            self.model.addItem(name, folder)
        self.stops = QPlainTextEdit()
        self.stops.setAccessibleName("Stop sequences of this answer, one per line")
        self.stops.setPlaceholderText("No stop sequences")
        self._shown_stops = "\n".join(
            escaped(entry.stop.text) for entry in now.stops if entry.is_enabled and entry.stop.text
        )
        self.stops.setPlainText(self._shown_stops)
        self.temperature = sampling_field("temperature")
        self.max_tokens = NumberField(
            "Maximum length, in tokens", "No limit", 1, _MOST_TOKENS, 64, is_whole=True
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
        self.system_prompt.setAccessibleName("System prompt of this answer")
        self.system_prompt.setPlaceholderText("No system prompt")
        for text in (self.stops, self.system_prompt):
            text.setTabChangesFocus(True)
            never_sideways(text)
        hint = label(
            r"One on each line; \n stands for a line break", "faint", 0.92, is_wrapped=True
        )
        self.lines = form(
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
        self.column = column(self.lines, margins=(0, 8, 0, 0), on=self)

    def variant(self) -> Variant:
        """Return the chosen settings; raises ``ValueError`` for a stop that cannot be used."""
        stops = self._stops()
        if problem := refusal(stops):
            raise ValueError(problem)
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
        return Variant(settings, stops, model)

    def _stops(self) -> tuple[StopEntry, ...]:
        """Return the stop list; those that the conversation has keep their options."""
        typed = self.stops.toPlainText()
        if typed == self._shown_stops:
            return self._now.stops
        known = {entry.stop.text: entry.stop for entry in self._now.stops}
        texts = dict.fromkeys(unescaped(line) for line in typed.split("\n") if line)
        return tuple(StopEntry(known.get(text, Stop(text))) for text in texts)


_WIDTH_PX, _TEXT_PX = 470, 76
_MOST_TOKENS, _SHOWN_CHARS = 1_000_000, 300


class SidesSheet(QDialog):
    """Asks for the settings of the other answers, up to three.

    Args:
        question: The question.
        now: The settings of the conversation's own answer.
        models: The models that can be chosen, the conversation's own first.
        answer: Called with the settings of the other answers; returns whether all were begun.
        parent: The window.

    Attributes:
        forms: The settings of each other answer.
        tabs: One tab for each of them.
        more: Adds another answer.
        fewer: Takes the shown answer away.
        problem: Why the question cannot be asked.
        buttons: Answer and Cancel.
    """

    def __init__(
        self,
        question: str,
        now: Variant,
        models: list[tuple[str, Path | None]],
        answer: Callable[[tuple[Variant, ...]], bool],
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self.setWindowTitle("Compare Answers")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._now, self._models = now, models
        self._answer = answer
        self.forms: list[VariantForm] = []
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        self.tabs.setAccessibleName("The other answers")
        self.tabs.tabBar().setAutoHide(True)
        self.more = QPushButton("Add Another Answer")
        self.fewer = QPushButton("Remove This Answer")
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        begin = self.buttons.addButton("Answer", QDialogButtonBox.ButtonRole.AcceptRole)
        begin.setProperty("kind", "primary")
        begin.setDefault(True)
        for button in (self.more, self.fewer):
            button.setAutoDefault(False)
        self.more.clicked.connect(self._add)
        self.fewer.clicked.connect(self._take_away)
        self.buttons.accepted.connect(self._begin)
        self.buttons.rejected.connect(self.reject)
        self._lay_out(question)
        self._add()
        current_theme().follow(self, self._fit)

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _add(self) -> None:
        """Add the settings of another answer; it begins with the next model that is there."""
        variant = VariantForm(self._now, self._models)
        place = len(self.forms)
        if 0 < place < variant.model.count():
            variant.model.setCurrentIndex(place)
        self.forms.append(variant)
        self.tabs.addTab(variant, f"Answer {place + 2}")
        self.tabs.setCurrentWidget(variant)
        variant.stops.setFocus()  # a button that hid with the focus ended the program
        self._show_count()

    def _take_away(self) -> None:
        variant = self.forms.pop(self.tabs.currentIndex())
        self.tabs.removeTab(self.tabs.indexOf(variant))
        variant.deleteLater()
        for place in range(self.tabs.count()):
            self.tabs.setTabText(place, f"Answer {place + 2}")
        self.forms[self.tabs.currentIndex()].stops.setFocus()
        self._show_count()

    def _show_count(self) -> None:
        count = len(self.forms)
        self.more.setVisible(count + 1 < MOST_SIDES)
        self.fewer.setVisible(count > 1)
        times = {1: "twice", 2: "three times", 3: "four times"}[count]
        others = "the changes" if count == 1 else "each set of changes"
        self._words.setText(
            f"The question is answered {times} at the same time: with this conversation’s "
            f"settings, and with {others} that you make here."
        )
        self._fit()

    def _lay_out(self, question: str) -> None:
        line = " ".join(question.split())
        shown = line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
        self._words = label("", "muted", is_wrapped=True)
        inner = QWidget()
        inner.setObjectName("scrolled")
        self._column = column(
            label(f"“{shown}”", "title", is_wrapped=True, weight=QFont.Weight.DemiBold),
            self._words,
            self.tabs,
            row(self.more, self.fewer, STRETCH),
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
        self.setMinimumWidth(min(theme.px(_WIDTH_PX), room.width() - 40))
        width = self.minimumWidth() - 44
        for variant in self.forms:
            for text in (variant.stops, variant.system_prompt):
                text.setFixedHeight(theme.px(_TEXT_PX))
            variant.lines.invalidate()  # a hidden form does not notice changed heights
            variant.column.invalidate()
        if self.forms:
            # All have the same fields; one that was never shown does not know its height yet.
            height = self.forms[0].column.totalHeightForWidth(width)
            has_tabs = len(self.forms) > 1
            bar = self.tabs.tabBar().sizeHint().height() if has_tabs else 0
            # Qt's own figure for a width is that of pages below one another.
            self.tabs.setFixedHeight(height + bar)
        self._column.invalidate()
        wanted = self._column.totalHeightForWidth(width)
        self._area.setMinimumHeight(min(wanted, room.height() * 3 // 4))

    def _begin(self) -> None:
        variants: list[Variant] = []
        for asked in self.forms:
            try:
                variants.append(asked.variant())
            except ValueError as error:
                self.tabs.setCurrentWidget(asked)
                self._say(str(error))
                return
        if self._answer(tuple(variants)):
            self.accept()
        else:
            self._say("No answer can be started now.")

    def _say(self, words: str) -> None:
        self.problem.setText(words)
        self.problem.show()

"""The sheet with the settings of the second of two answers to a question. Main thread."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QFrame,
    QLabel,
    QPlainTextEdit,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine import escaped
from ui.chat.composing.sampling_fields import sampling_field
from ui.kit.controls.check_box import CheckBox
from ui.kit.controls.choice import Choice
from ui.kit.controls.growing_input import never_sideways
from ui.kit.controls.number_field import NumberField
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.conversations import ChosenModel, StopEntry, Variant
from ui.stops.stop_input import refusal
from ui.words.visible import unescaped

_WIDTH_PX, _TEXT_PX = 470, 76
_MOST_TOKENS, _SHOWN_CHARS = 1_000_000, 300

_NO_TOOLS = (
    "Tools are not used here: neither answer can call the tools of this conversation. They are "
    "used again in the next answer."
)


class SidesSheet(QDialog):
    """Asks for the settings of the second answer.

    Args:
        theme: The look.
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
        theme: Theme,
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
        self.model = Choice(theme, "Model of the second answer")
        for name, folder in models:
            self.model.addItem(name, folder)
        self.stops = QPlainTextEdit()
        self.stops.setAccessibleName("Stop sequences of the second answer, one per line")
        self.stops.setPlaceholderText("No stop sequences")
        self._shown_stops = "\n".join(
            escaped(stop.sequence) for stop in now.stops if stop.is_enabled and stop.sequence
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
        self.thinking = CheckBox(theme, "Let the model reason first, if it can")
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
        theme.follow(self, lambda: self._fit(theme))
        self.stops.setFocus()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _lay_out(self, question: str) -> None:
        line = " ".join(question.split())
        shown = line if len(line) <= _SHOWN_CHARS else line[: _SHOWN_CHARS - 1] + "…"
        form = self._form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.AllNonFixedFieldsGrow)
        form.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        form.setHorizontalSpacing(14)
        form.setVerticalSpacing(9)
        form.addRow(label("Model"), self.model)
        form.addRow(label("Stop sequences"), self.stops)
        form.addRow(label("Temperature"), self.temperature)
        form.addRow(label("Longest answer"), self.max_tokens)
        form.addRow(label("Seed"), self.seed)
        form.addRow(label("Thinking"), self.thinking)
        form.addRow(label("System prompt"), self.system_prompt)
        hint = r"One stop sequence per line; \n stands for a line break."
        inner = QWidget()
        inner.setObjectName("scrolled")
        column = self._column = QVBoxLayout(inner)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(11)
        column.addWidget(
            label(f"“{shown}”", "title", is_wrapped=True, weight=QFont.Weight.DemiBold)
        )
        column.addWidget(
            label(
                "The question is answered twice at the same time: with this conversation’s "
                "settings, and with the changes that you make here.",
                "muted",
                is_wrapped=True,
            )
        )
        column.addWidget(self.no_tools)
        column.addLayout(form)
        column.addWidget(label(hint, "faint", 0.92, is_wrapped=True))
        column.addStretch(1)
        for words in inner.findChildren(QLabel):
            words.setMinimumHeight(1)  # Qt's minimum would be the height in a narrower column
        # On a small screen with large text the form does not fit without scrolling.
        self._area = QScrollArea()
        self._area.setWidgetResizable(True)
        self._area.setFrameShape(QFrame.Shape.NoFrame)
        self._area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._area.setWidget(inner)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(22, 18, 22, 16)
        layout.setSpacing(11)
        layout.addWidget(self._area, 1)
        layout.addWidget(self.problem)
        layout.addWidget(self.buttons)

    def _fit(self, theme: Theme) -> None:
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
        """Return the stop list; sequences that the conversation has keep their scope."""
        typed = self.stops.toPlainText()
        if typed == self._shown_stops:
            return self._now.stops
        known = {stop.sequence: stop for stop in self._now.stops}
        sequences = [unescaped(line) for line in typed.split("\n") if line]
        return tuple(
            replace(known[one], is_enabled=True) if one in known else StopEntry(one)
            for one in dict.fromkeys(sequences)
        )

    def _say(self, words: str) -> None:
        self.problem.setText(words)
        self.problem.show()

"""The form with which a tool server asks the person something during a call. Main thread."""

import math
import re
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QDate, QDateTime, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QLineEdit, QPushButton, QWidget

from ui.kit.buttons import CheckBox, Choice
from ui.kit.labels import label
from ui.kit.layouts import FlowLayout, column, form
from ui.kit.theme import restyle
from ui.records.tools import QuestionField, QuestionReply, ServerQuestion

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_EXAMPLES = {
    "email": "name@example.org",
    "uri": "https://example.org",
    "date": "2026-12-31",
    "date-time": "2026-12-31T18:00:00Z",
}


class FieldRefused(ValueError):
    """A value cannot be sent; the message says why, as a sentence."""


class QuestionForm(QWidget):
    """What a server asks, with the fields that it wants, or the address that it wants visited.

    Signals:
        replied: The person answered or refused; carries the ``QuestionReply``.

    Attributes:
        question: What is asked.
        fields: The widget of each field, by its name.
        send: Sends the answer, or opens the address.
        decline: Refuses.
        problem: What is wrong with a value.
    """

    replied = Signal(object)

    def __init__(self, question: ServerQuestion) -> None:
        super().__init__()
        self.question = question
        self.fields: dict[str, QWidget] = {}
        self._values: dict[str, Callable[[], Any]] = {}
        self._is_replied = False
        asked = label(f"The tool server “{question.server}” asks:", "muted", 0.95)
        self.words = label(question.message, is_wrapped=True)
        self.words.setTextFormat(Qt.TextFormat.PlainText)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.send = QPushButton("Open in Browser" if question.url else "Send")
        self.send.setProperty("kind", "primary")
        says = "Open the address" if question.url else "Send the answer"
        self.send.setAccessibleName(f"{says} to {question.server}")
        self.decline = QPushButton("Decline")
        self.decline.setAccessibleName(f"Do not answer {question.server}")
        buttons = QWidget()
        flow = FlowLayout(buttons)
        for button in (self.send, self.decline):
            button.setAutoDefault(False)
            flow.addWidget(button)
        self.send.clicked.connect(self._send)
        self.decline.clicked.connect(lambda: self._reply(QuestionReply("decline")))
        lines = [self._line(field) for field in question.fields]
        address = label(question.url, "", 0.95, is_wrapped=True)
        address.setTextFormat(Qt.TextFormat.PlainText)
        address.setVisible(bool(question.url))
        column(
            asked,
            self.words,
            address,
            form(*lines, spacing=(12, 7), wraps=True),
            self.problem,
            buttons,
            spacing=7,
            margins=(0, 2, 0, 0),
            on=self,
        )

    def _line(self, field: QuestionField) -> tuple[QWidget, QWidget] | QWidget:
        made = self._made(field)
        self.fields[field.name] = made
        title = field.title if field.is_required else f"{field.title} (optional)"
        below = [label(field.says, "faint", 0.9, is_wrapped=True)] if field.says else []
        holder = QWidget()
        column(made, *below, spacing=3, on=holder)
        return holder if field.kind == "yes" else (label(title, is_wrapped=True), holder)

    def _made(self, field: QuestionField) -> QWidget:
        match field.kind:
            case "yes":
                box = CheckBox(field.title)
                box.setChecked(field.default is True)
                self._values[field.name] = box.isChecked
                return box
            case "choice":
                unset = [] if field.is_required else [("", "None")]
                choice = Choice(field.title, [*unset, *field.choices])
                if field.default in dict(field.choices):
                    choice.choose(field.default)
                self._values[field.name] = choice.currentData
                return choice
            case "choices":
                return self._boxes(field)
            case _:
                line = QLineEdit("" if field.default is None else str(field.default))
                line.setAccessibleName(field.title)
                line.setAccessibleDescription(field.says)
                line.setPlaceholderText(_EXAMPLES.get(field.form, ""))
                line.returnPressed.connect(self._send)
                self._values[field.name] = line.text
                return line

    def _boxes(self, field: QuestionField) -> QWidget:
        chosen = field.default if isinstance(field.default, list) else []
        boxes = {value: CheckBox(words) for value, words in field.choices}
        for value, box in boxes.items():
            box.setAccessibleName(f"{field.title}: {box.text()}")
            box.setChecked(value in chosen)
        self._values[field.name] = lambda: [key for key, box in boxes.items() if box.isChecked()]
        holder = QWidget()
        column(*boxes.values(), spacing=4, on=holder)
        return holder

    def _send(self) -> None:
        values: dict[str, Any] = {}
        for field in self.question.fields:
            try:
                value = sent_value(field, self._values[field.name]())
            except FieldRefused as refused:
                self._refuse(field, str(refused))
                return
            if value is not None:
                values[field.name] = value
        if self.question.url:
            QDesktopServices.openUrl(QUrl(self.question.url))
        self._reply(QuestionReply("accept", values))

    def _refuse(self, field: QuestionField, why: str) -> None:
        self.problem.setText(f"{field.title}: {why}")
        self.problem.show()
        for name, widget in self.fields.items():
            restyle(widget, "invalid", name == field.name)
        self.fields[field.name].setFocus()

    def _reply(self, reply: QuestionReply) -> None:
        if not self._is_replied:
            self._is_replied = True
            self.replied.emit(reply)


def sent_value(field: QuestionField, value: Any) -> Any:
    """Return the value of a field as the server wants it; None for one that is left out.

    Raises:
        FieldRefused: The server would not take it.
    """
    if field.kind == "yes":
        return value
    if field.kind == "choices":
        _check_count(field, len(value), "choose", "")
        return value
    text = str(value or "").strip()
    if not text:
        if field.is_required:
            raise FieldRefused("this is needed.")
        return None
    if field.kind in ("number", "whole"):
        return _number(field, text)
    if field.kind == "text":
        _check_count(field, len(text), "write", " characters")
        _check_form(field.form, text)
    return text


def _number(field: QuestionField, text: str) -> float:
    try:
        number = int(text) if field.kind == "whole" else float(text)
    except ValueError:
        kind = "a whole number" if field.kind == "whole" else "a number"
        raise FieldRefused(f"write {kind}.") from None
    if not math.isfinite(number):
        raise FieldRefused("write a number.")
    if field.least is not None and number < field.least:
        raise FieldRefused(f"write at least {field.least:g}.")
    if field.most is not None and number > field.most:
        raise FieldRefused(f"write at most {field.most:g}.")
    return number


def _check_count(field: QuestionField, count: int, verb: str, unit: str) -> None:
    if field.least is not None and count < field.least:
        raise FieldRefused(f"{verb} at least {field.least:g}{unit}.")
    if field.most is not None and count > field.most:
        raise FieldRefused(f"{verb} at most {field.most:g}{unit}.")


def _check_form(form: str, text: str) -> None:
    if form and not _FORMS[form](text):
        raise FieldRefused(f"write it like {_EXAMPLES[form]}.")


def _is_moment(text: str) -> bool:
    return "T" in text and QDateTime.fromString(text, Qt.DateFormat.ISODate).isValid()


_FORMS: dict[str, Callable[[str], bool]] = {
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uri": lambda text: bool(QUrl(text, QUrl.ParsingMode.StrictMode).scheme()),
    "date": lambda text: QDate.fromString(text, Qt.DateFormat.ISODate).isValid(),
    "date-time": _is_moment,
}

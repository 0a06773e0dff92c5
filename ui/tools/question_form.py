"""The form in which the user answers an MCP server's question (elicitation). Main thread."""

import math
import re
from collections.abc import Callable
from typing import Any

from PySide6.QtCore import QDate, QDateTime, Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QCheckBox, QLineEdit, QWidget

from ui.kit.buttons import Choice, push_button
from ui.kit.labels import label
from ui.kit.layouts import FlowLayout, column, form
from ui.kit.theme import restyle
from ui.records.tool_servers import QuestionField, QuestionReply, ServerQuestion

_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_EXAMPLES = {
    "email": "name@example.org",
    "uri": "https://example.org",
    "date": "2026-12-31",
    "date-time": "2026-12-31T18:00:00Z",
}


class QuestionForm(QWidget):
    """The question of a server, with the fields of its form, or the address to visit."""

    replied = Signal(object)  # QuestionReply

    def __init__(self, question: ServerQuestion) -> None:
        super().__init__()
        self.question = question
        self.fields: dict[str, QWidget] = {}
        self._getters: dict[str, Callable[[], Any]] = {}
        self._is_replied = False
        self.message = label(question.message, is_wrapped=True)
        self.message.setTextFormat(Qt.TextFormat.PlainText)
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.problem.hide()
        self.send = push_button("Open in Browser" if question.url else "Send", kind="primary")
        action = "Open the address" if question.url else "Send the answer"
        self.send.setAccessibleName(f"{action} to {question.server}")
        self.decline = push_button("Decline", f"Do not answer {question.server}")
        buttons = QWidget()
        flow = FlowLayout(buttons)
        flow.setSpacing(8)
        for button in (self.send, self.decline):
            button.setAutoDefault(False)
            flow.addWidget(button)
        self.send.clicked.connect(self._send)
        self.decline.clicked.connect(lambda: self._reply(QuestionReply("decline")))
        rows = [self._build_row(field) for field in question.fields]
        address = label(question.url, "", 0.95, is_wrapped=True)
        address.setTextFormat(Qt.TextFormat.PlainText)
        address.setVisible(bool(question.url))
        column(
            label(f"The MCP server “{question.server}” asks:", "muted", 0.95),
            self.message,
            address,
            form(*rows, spacing=(12, 8), wraps=True),
            self.problem,
            buttons,
            spacing=8,
            margins=(0, 4, 0, 4),
            on=self,
        )

    def _build_row(self, field: QuestionField) -> tuple[QWidget, QWidget] | QWidget:
        widget = self.fields[field.name] = self._build_widget(field)
        title = field.title if field.is_required else f"{field.title} (optional)"
        hint = [label(field.description, "faint", 0.9, is_wrapped=True)]
        holder = QWidget()
        column(widget, *(hint if field.description else []), spacing=3, on=holder)
        return holder if field.kind == "boolean" else (label(title, is_wrapped=True), holder)

    def _build_widget(self, field: QuestionField) -> QWidget:
        match field.kind:
            case "boolean":
                box = QCheckBox(field.title)
                box.setChecked(field.default is True)
                self._getters[field.name] = box.isChecked
                return box
            case "choice":
                unset = [] if field.is_required else [("", "None")]
                choice = Choice(field.title, [*unset, *field.choices])
                if field.default in dict(field.choices):
                    choice.choose(field.default)
                self._getters[field.name] = choice.currentData
                return choice
            case "choices":
                return self._build_check_boxes(field)
            case _:
                line = QLineEdit("" if field.default is None else str(field.default))
                line.setAccessibleName(field.title)
                line.setAccessibleDescription(field.description)
                line.setPlaceholderText(_EXAMPLES.get(field.format, ""))
                line.returnPressed.connect(self._send)
                self._getters[field.name] = line.text
                return line

    def _build_check_boxes(self, field: QuestionField) -> QWidget:
        checked = field.default if isinstance(field.default, list) else []
        boxes = {value: QCheckBox(label) for value, label in field.choices}
        for value, box in boxes.items():
            box.setAccessibleName(f"{field.title}: {box.text()}")
            box.setChecked(value in checked)
        self._getters[field.name] = lambda: [key for key, box in boxes.items() if box.isChecked()]
        holder = QWidget()
        column(*boxes.values(), spacing=4, on=holder)
        return holder

    def _send(self) -> None:
        values: dict[str, Any] = {}
        for field in self.question.fields:
            try:
                value = parse_value(field, self._getters[field.name]())
            except ValueError as error:
                self._show_problem(field, str(error))
                return
            if value is not None:
                values[field.name] = value
        if self.question.url:
            QDesktopServices.openUrl(QUrl(self.question.url))
        self._reply(QuestionReply("accept", values))

    def _show_problem(self, field: QuestionField, problem: str) -> None:
        self.problem.setText(f"{field.title}: {problem}")
        self.problem.show()
        for name, widget in self.fields.items():
            restyle(widget, "invalid", name == field.name)
        self.fields[field.name].setFocus()

    def _reply(self, reply: QuestionReply) -> None:
        if not self._is_replied:
            self._is_replied = True
            self.replied.emit(reply)


def parse_value(field: QuestionField, value: Any) -> Any:
    """Return the value of a field for the server, or raise ``ValueError``; None for none."""
    if field.kind == "boolean":
        return value
    if field.kind == "choices":
        _check_bounds(field, len(value), "choose", "")
        return value
    text = str(value or "").strip()
    if not text:
        if field.is_required:
            raise ValueError("this is needed.")
        return None
    if field.kind in ("number", "integer"):
        return _parse_number(field, text)
    if field.kind == "text":
        _check_bounds(field, len(text), "write", " characters")
        if field.format and not _has_format(field.format, text):
            raise ValueError(f"write it like {_EXAMPLES[field.format]}.")
    return text


def _parse_number(field: QuestionField, text: str) -> float:
    try:
        number = int(text) if field.kind == "integer" else float(text)
        is_finite = math.isfinite(number)
    except (ValueError, OverflowError):  # an integer beyond the range of floats
        is_finite = False
    if not is_finite:
        kind = "a whole number" if field.kind == "integer" else "a number"
        raise ValueError(f"write {kind}.")
    _check_bounds(field, number, "write", "")
    return number


def _check_bounds(field: QuestionField, value: float, verb: str, unit: str) -> None:
    if field.minimum is not None and value < field.minimum:
        raise ValueError(f"{verb} at least {field.minimum:g}{unit}.")
    if field.maximum is not None and value > field.maximum:
        raise ValueError(f"{verb} at most {field.maximum:g}{unit}.")


def _has_format(name: str, text: str) -> bool:
    match name:
        case "email":
            return _EMAIL.fullmatch(text) is not None
        case "uri":
            return bool(QUrl(text, QUrl.ParsingMode.StrictMode).scheme())
        case "date":
            return QDate.fromString(text, Qt.DateFormat.ISODate).isValid()
        case _:
            return "T" in text and QDateTime.fromString(text, Qt.DateFormat.ISODate).isValid()

"""The form of an MCP server's question: values are validated and sent in their types."""

import re
from typing import Any

import pytest
from PySide6.QtWidgets import QComboBox, QLineEdit
from pytestqt.qtbot import QtBot

from ui.kit.theme import Theme
from ui.records.tool_servers import QuestionField, QuestionReply, ServerQuestion
from ui.tools.question_form import QuestionForm, parse_value

NUMBER = QuestionField("n", "Number", "", "integer", True, minimum=1, maximum=9)
CHOICES = (("x", "X!"), ("y", "Y!"))


@pytest.mark.parametrize(
    ("field", "typed", "sent"),
    [
        (NUMBER, " 7 ", 7),
        (QuestionField("n", "Number", "", "number"), "", None),
        (QuestionField("t", "Text", format="date"), "2026-02-28", "2026-02-28"),
        (QuestionField("c", "Choice", "", "choice", choices=CHOICES), "y", "y"),
        (QuestionField("c", "Choices", "", "choices", choices=CHOICES), ["x"], ["x"]),
        (QuestionField("y", "Yes", "", "boolean"), False, False),
    ],
)
def test_form_value_is_sent_in_its_schema_type(field: QuestionField, typed: Any, sent: Any) -> None:
    assert parse_value(field, typed) == (typed if field.format == "date-time" else sent)


@pytest.mark.parametrize(
    ("field", "typed", "why"),
    [
        (NUMBER, "", "this is needed."),
        (NUMBER, "2.5", "write a whole number."),
        (NUMBER, "10", "write at most 9."),
        (QuestionField("n", "Number", "", "number"), "nan", "write a number."),
        (QuestionField("t", "Text", minimum=3), "ab", "write at least 3 characters."),
        (QuestionField("t", "Text", format="date"), "2026-02-30", "write it like 2026-12-31."),
        (QuestionField("c", "C", "", "choices", minimum=1), [], "choose at least 1."),
    ],
)
def test_invalid_form_value_is_refused_with_remedy(
    field: QuestionField, typed: Any, why: str
) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(why)}$"):
        parse_value(field, typed)


def test_form_with_invalid_value_is_not_sent(theme: Theme, qtbot: QtBot) -> None:
    choice = QuestionField("c", "Choice", "", "choice", choices=CHOICES, default="y")
    form = QuestionForm(ServerQuestion("s", "How many?", (NUMBER, choice)))
    qtbot.addWidget(form)
    replied: list[QuestionReply] = []
    form.replied.connect(replied.append)
    form.send.click()
    assert form.problem.text() == "Number: this is needed."
    line, chosen = form.fields["n"], form.fields["c"]
    assert isinstance(line, QLineEdit)
    assert isinstance(chosen, QComboBox)
    assert [chosen.itemText(n) for n in range(3)] == ["None", "X!", "Y!"]
    line.setText("3")
    form.send.click()
    form.send.click()
    assert replied == [QuestionReply("accept", {"n": 3, "c": "y"})]


def test_a_question_is_declined_with_its_button(theme: Theme, qtbot: QtBot) -> None:
    form = QuestionForm(ServerQuestion("s", "How many?", (NUMBER,)))
    qtbot.addWidget(form)
    replied: list[QuestionReply] = []
    form.replied.connect(replied.append)
    form.decline.click()
    assert replied == [QuestionReply("decline")]


def test_elicitation_address_is_shown_before_it_is_opened(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(
        "ui.tools.question_form.QDesktopServices.openUrl", lambda url: opened.append(url.toString())
    )
    form = QuestionForm(ServerQuestion("s", "Sign in.", url="https://e.org/in?a=1"))
    qtbot.addWidget(form)
    replied: list[QuestionReply] = []
    form.replied.connect(replied.append)
    assert opened == []
    assert form.send.text() == "Open in Browser"
    form.send.click()
    assert (opened, replied) == (["https://e.org/in?a=1"], [QuestionReply("accept")])

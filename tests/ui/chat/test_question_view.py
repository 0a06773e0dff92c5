import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ui.chat.composer.attachments import AttachedFile
from ui.chat.messages.question_view import PlainBubble, QuestionView
from ui.kit.theme import Theme
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage
from ui.records.runs import LeftOut


@pytest.fixture
def view(theme: Theme, qtbot: QtBot) -> QuestionView:
    view = QuestionView(ConversationMessage("user", "Why?"))
    qtbot.addWidget(view)
    view.show()
    return view


def test_an_unchanged_question_is_not_asked_again(view: QuestionView, qtbot: QtBot) -> None:
    view.begin_editing()
    assert view.editor is not None
    with qtbot.assertNotEmitted(view.edited):
        view.editor.send.click()
    assert view.editor is None


def test_an_edited_question_is_sent_and_an_empty_one_is_not(
    view: QuestionView, qtbot: QtBot
) -> None:
    view.begin_editing()
    assert view.editor is not None
    view.editor.input.setPlainText("  ")
    with qtbot.assertNotEmitted(view.edited):
        view.editor.send.click()
    view.editor.input.setPlainText("How?")
    with qtbot.waitSignal(view.edited) as sent:
        view.editor.send.click()
    assert sent.args == ["How?", ()]


def test_unchanged_summary_closes_its_editor(theme: Theme, qtbot: QtBot) -> None:
    view = QuestionView(ConversationMessage("user", "Why?", summary="They counted."))
    qtbot.addWidget(view)
    view.show()
    left_out = LeftOut(2, 2, 1_000, is_summarized=True)
    view.summary_edited.connect(lambda _: view.show_prompt_line(left_out))
    view.show_prompt_line(left_out)
    line = view.prompt_line
    assert line is not None
    line.begin_editing()
    assert line.editor is not None
    line.editor.send.click()
    assert line.editor is None


def test_buttons_stand_beside_the_last_line(theme: Theme, qapp: QApplication) -> None:
    for text in ("one line", "two\nlines"):
        view = QuestionView(ConversationMessage("user", text))
        view.show()
        for _ in range(2):  # the width decides the height
            view.resize(600, view.sizeHint().height())
            qapp.processEvents()
        lines = view.text_view.document().lastBlock().layout()
        line = lines.lineAt(0)
        middle = round(lines.position().y() + line.y() + line.height() / 2)
        wanted = view.text_view.mapTo(view, QPoint(0, middle)).y()
        button = view.edit.mapTo(view, view.edit.rect().center()).y()
        assert abs(button - wanted) <= 2


def test_bubble_is_as_wide_as_its_longest_wrapped_line(theme: Theme, qapp: QApplication) -> None:
    view = QuestionView(ConversationMessage("user", ("n" * 24 + " ") * 6))
    view.show()
    view.resize(500, 400)
    qapp.processEvents()
    lines = view.text_view.document().begin().layout()
    assert lines.lineCount() > 2
    longest = max(lines.lineAt(n).naturalTextWidth() for n in range(lines.lineCount()))
    assert longest <= view.text_view.width() <= longest + 16 < view.bubble.width() * 0.7


def test_fenced_code_of_question_has_the_look_of_code(theme: Theme, qtbot: QtBot) -> None:
    typed = "Why?\n\n```python\nx = 1\n```\nThanks"
    view = QuestionView(ConversationMessage("user", typed))
    qtbot.addWidget(view)
    document = view.text_view.document()
    heights = {
        block.text(): document.documentLayout().blockBoundingRect(block).height()
        for block in map(document.findBlockByNumber, range(document.blockCount()))
    }
    assert heights["```python"] == heights["```"] < heights["Thanks"] / 2
    font = document.findBlockByNumber(3).begin().fragment().charFormat().font()
    assert font.family() == theme.code_font().family()
    assert view.text_view.toPlainText() == typed


def test_chips_of_files_end_at_one_edge(theme: Theme, qtbot: QtBot) -> None:
    names = ("a.txt", "a-longer-name.txt")
    files = [AttachedFile(Attachment(name, "text\n" * len(name))) for name in names]
    bubble = PlainBubble("Read these", files, QWidget())
    qtbot.addWidget(bubble)
    bubble.resize(700, 300)
    bubble.show()
    qtbot.waitUntil(lambda: len({file.chip.width() for file in files}) == 1)

"""Files that were sent with a question: chips in its bubble, and kept with it."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ui.chat.messages.question_view import QuestionView
from ui.kit.theme import Theme
from ui.records.attachments import (
    Attachment,
    PageRange,
    attached_chars,
    taken_apart,
    with_attachments,
)
from ui.records.messages import ConversationMessage, question

NOTES = Attachment("notes.txt", "one\ntwo\n")
PAGES = Attachment("r.pdf", "[Page 3]\nx\n", PageRange(3, 3, 20))
FENCED = Attachment("a: b.md", "```\ncode\n```\n\nnext.txt:\n```\nno file\n```\n")


@pytest.mark.parametrize("files", [(NOTES,), (FENCED,), (NOTES, PAGES, FENCED, NOTES)])
@pytest.mark.parametrize("typed", ["Look", "", "notes.txt:\n```\none\n```\n\nLook", "a\n\nb\n"])
def test_files_and_typed_text_are_separated_again(
    files: tuple[Attachment, ...], typed: str
) -> None:
    message = with_attachments(typed, files)
    assert taken_apart(message, attached_chars(typed, files)) == (files, typed)


def shown(theme: Theme, qtbot: QtBot, message: ConversationMessage) -> QuestionView:
    view = QuestionView(message)
    qtbot.addWidget(view)
    view.resize(600, 300)
    view.show()
    return view


def test_a_sent_file_is_a_chip_that_unfolds_its_text(theme: Theme, qtbot: QtBot) -> None:
    view = shown(theme, qtbot, question("Look", [NOTES]))
    assert view.text_view.toPlainText() == "Look"
    (file,) = view.bubble.files
    assert file.chip.accessibleName() == "File notes.txt, 7 characters"
    assert not file.is_unfolded
    file.chip.button.click()
    assert file.text_view is not None
    assert file.text_view.isVisible()
    assert file.text_view.toPlainText() == "one\ntwo"
    assert file.chip.button.accessibleName() == "Hide the text of notes.txt"
    QTest.mouseClick(file.chip, Qt.MouseButton.LeftButton)
    assert not file.text_view.isVisible()


def test_editing_a_question_leaves_its_files_until_they_are_removed(
    theme: Theme, qtbot: QtBot
) -> None:
    view = shown(theme, qtbot, question("Look", [NOTES, FENCED]))
    view.begin_editing()
    assert view.editor is not None
    assert view.editor.input.toPlainText() == "Look"
    assert view.editor.attachments.files == (NOTES, FENCED)
    view.editor.attachments.show_files([FENCED])
    QTest.keyClicks(view.editor.input, " again")
    with qtbot.waitSignal(view.edited) as asked:
        view.editor.send.click()
    assert asked.args == ["Look again", (FENCED,)]

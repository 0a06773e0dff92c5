"""Find in the conversation: the bar, its count, the marks, and the keys."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor
from PySide6.QtTest import QTest

from engine.values.request import ToolCall
from tests.support.answers.said import finished_run
from tests.ui.driving import eventually, found_texts
from tests.ui.keyboard import keyboard
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, question
from ui.records.tool_calls import CallResult
from ui.window.main_window import MainWindow

RICH = """A **need**le in bold, one in `a needle` of code.

```python
needle = "NEEDLE"
```

| head | needle |
| --- | --- |
| x | y |

<details>

A folded needle.

</details>
"""
PLACES = 7  # across bold, in code, twice in the block, in the table, folded, in the question


def rich_conversation() -> Conversation:
    run = finished_run(RICH, thinking="", thinking_s=None, tool_calls=[])
    messages = [ConversationMessage("user", "Where is the needle?")]
    return Conversation("Rich", [*messages, ConversationMessage("assistant", RICH, run)])


async def looking(window: MainWindow, text: str) -> None:
    """Open the bar with its key and type; wait until all is counted."""
    QTest.keyClick(window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    bar = window.chat.find_bar
    await eventually(bar.field.hasFocus)
    QTest.keyClicks(keyboard(), text)
    await eventually(lambda: not window.chat.find_bar.finder.is_counting)


def answer(window: MainWindow) -> AnswerView:
    run = window.workspace.current.conversation.messages[-1].run
    assert run is not None
    view = window.chat.column.answer_view(run)
    assert view is not None
    return view


async def test_places_in_text_code_and_tables_are_counted_and_marked(window: MainWindow) -> None:
    window.workspace.take_in(rich_conversation())
    await looking(window, "needle")
    bar = window.chat.find_bar
    assert bar.count.text() == f"1 of {PLACES}"
    assert len(found_texts(answer(window).text_view)) == PLACES - 1
    QTest.keyClick(keyboard(), Qt.Key.Key_Return)
    assert bar.count.text() == f"2 of {PLACES}"
    marks = answer(window).text_view.extraSelections()
    accent = QColor(window.theme.colors.accent)
    assert [mark.format.background().color() == accent for mark in marks] == [
        True, False, False, False, False, False,
    ]  # fmt: skip
    shift = Qt.KeyboardModifier.ShiftModifier
    for number in (1, PLACES):
        QTest.keyClick(keyboard(), Qt.Key.Key_Return, shift)
        assert bar.count.text() == f"{number} of {PLACES}", "behind the first comes the last"
    QTest.mouseClick(bar.case, Qt.MouseButton.LeftButton)
    await eventually(lambda: bar.count.text() == f"1 of {PLACES - 1}")
    QTest.keyClick(bar.field, Qt.Key.Key_Escape)
    assert not bar.isVisible()
    assert found_texts(answer(window).text_view) == []
    assert keyboard() is window.chat.composer.input
    bar.begin("needle")
    await eventually(lambda: bar.count.text() == f"1 of {PLACES - 1}")


def folded_conversation() -> Conversation:
    """Return one whose only question and answer have a needle in each folded part."""
    long = "\n".join([*(f"line {n}" for n in range(30)), "a needle far down"])
    run = finished_run(
        "The needle was found.",
        thinking="Hm, a needle.\nThen nothing.",
        tool_calls=[ToolCall("c1", "needle_search", '{"for": "needle"}')],
        results=[CallResult("c1", "done", long, "hay", "needle_search", 0.1)],
    )
    asked = question("Which needle?", [Attachment("needles.txt", "one\nneedle\n")])
    return Conversation("Folded", [asked, ConversationMessage("assistant", "", run)])


async def test_folded_thinking_results_and_files_are_searched_and_unfolded(
    window: MainWindow,
) -> None:
    window.workspace.take_in(folded_conversation())
    await looking(window, "needle")
    count = window.chat.find_bar.count
    asked, shown = window.chat.column.views
    assert isinstance(asked, QuestionView)
    assert isinstance(shown, AnswerView)
    (file,), (card,) = asked.bubble.files, shown.calls.cards.values()
    # The name of the file, its text, the question, the thinking, the answer, and of the call
    # the name, the argument and the result.
    assert count.text() == "1 of 8"
    assert any(file.chip.name._found)
    assert not file.is_unfolded
    QTest.keyClick(keyboard(), Qt.Key.Key_Return)
    assert file.is_unfolded
    assert file.text_view is not None
    assert found_texts(file.text_view) == ["needle"]
    assert not shown.thinking.head.isChecked()
    for _ in range(2):
        QTest.keyClick(keyboard(), Qt.Key.Key_Return)
    assert count.text() == "4 of 8"
    assert shown.thinking.text_view.isVisible()
    assert found_texts(shown.thinking.text_view) == ["needle"]
    for _ in range(3):
        QTest.keyClick(keyboard(), Qt.Key.Key_Return)
    assert card.arguments is not None
    assert found_texts(card.arguments) == ["needle"]
    assert not card.fold.isChecked()
    QTest.keyClick(keyboard(), Qt.Key.Key_Return)
    assert count.text() == "8 of 8"
    assert found_texts(card.result) == ["needle"]
    QTest.keyClick(keyboard(), Qt.Key.Key_Escape)
    assert found_texts(card.result) == []
    assert not any(file.chip.name._found)
    assert shown.thinking.head.isChecked(), "what was opened stays open to be read"

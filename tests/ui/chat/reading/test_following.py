"""While an answer streams: its rate, the last line of its thinking, and the way back to its end."""

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.values.events import TextDelta, ThinkingDelta
from tests.support.answers.said import finished_run
from tests.ui.chat.reading.conversations import END, long_conversation
from tests.ui.driving import ScriptedEngine, eventually
from ui.chat.messages.answer_view import AnswerView
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.tool_calls import CallProgress, CallResult, CallState
from ui.window.main_window import MainWindow


def running(window: MainWindow) -> Run:
    run = window.workspace.current.run
    assert run is not None
    return run


def view_of(window: MainWindow) -> AnswerView:
    view = window.chat.column.answer_view(running(window))
    assert view is not None
    return view


async def asked(window: MainWindow, scripted: ScriptedEngine) -> None:
    count = len(scripted.generations)
    assert window.workspace.send("Go")
    await eventually(lambda: len(scripted.generations) > count)


async def test_a_streaming_answer_shows_its_rate_and_tokens_until_it_ends(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await asked(window, scripted)
    view = view_of(window)
    assert not view.pace.isVisible()
    scripted.generations[-1].written_tokens = 3
    scripted.say(TextDelta("1 2 3"))
    await eventually(lambda: view.pace.text().endswith("3 tokens"))
    scripted.generations[-1].written_tokens = 12
    await eventually(lambda: view.pace.text().endswith("tok/s · 12 tokens"))
    assert view.pace.isVisible()
    scripted.say(END)
    await eventually(lambda: view.reason.isVisible())
    assert not view.pace.isVisible()


async def test_folded_thinking_shows_its_last_line(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await asked(window, scripted)
    preview = view_of(window).thinking.preview
    scripted.say(ThinkingDelta("First of all.\nThen I cou"))
    await eventually(lambda: preview.text() == "Then I cou")
    scripted.say(ThinkingDelta("nt.\n\n"))
    await eventually(lambda: preview.text() == "Then I count.")
    assert preview.isVisible()
    head = view_of(window).thinking.head
    width = head.width()
    QTest.mouseClick(head, Qt.MouseButton.LeftButton)
    assert not preview.isVisible()
    head.parentWidget().layout().activate()  # type: ignore[union-attr]
    assert head.width() == width, "the heading stays where it is"
    QTest.mouseClick(head, Qt.MouseButton.LeftButton)
    assert preview.isVisible()
    scripted.say(END)
    await eventually(lambda: not window.workspace.current.is_running)


async def test_a_reader_further_up_gets_a_button_to_the_latest_text(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.workspace.take_in(long_conversation())
    column = window.chat.column
    bar, jump = column.verticalScrollBar(), column.jump
    await eventually(lambda: bar.maximum() > 2_000 and bar.value() == bar.maximum())
    assert not jump.isVisible()
    await asked(window, scripted)
    scripted.say(TextDelta("So far.\n\n"))
    await eventually(lambda: view_of(window).run.text != "")
    bar.setValue(bar.maximum() // 2)
    assert jump.isVisible()
    assert not jump.has_news
    scripted.say(TextDelta("And on it goes.\n\n" * 9))
    await eventually(lambda: jump.has_news)
    assert jump.accessibleName().startswith("New text below")
    assert bar.value() < bar.maximum() - 500, "nobody who reads is moved"
    QTest.mouseClick(jump, Qt.MouseButton.LeftButton)
    await eventually(lambda: bar.value() == bar.maximum() and not jump.isVisible())
    scripted.say(TextDelta("And on.\n\n" * 40))
    await eventually(lambda: "And on.\n\n" * 40 in view_of(window).run.text)
    await eventually(lambda: bar.value() == bar.maximum())
    assert not jump.isVisible(), "the reader is at the end again, and stays there"
    assert not jump.has_news
    scripted.say(END)
    await eventually(lambda: not window.workspace.current.is_running)


async def test_the_reader_stays_at_the_end_while_a_call_is_allowed_there(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    conversation = long_conversation()
    run = finished_run("I add them.", is_calling=True)
    (call,) = run.tool_calls
    run.progress[call.id] = CallProgress("sums", "add", needs_user=True)
    conversation.add(ConversationMessage("assistant", run=run))
    window.workspace.take_in(conversation)
    column = window.chat.column
    bar = column.verticalScrollBar()
    await eventually(lambda: bar.maximum() > 0 and bar.value() == bar.maximum())
    await eventually(lambda: column.answer_view(run) is not None)
    view = column.answer_view(run)
    assert view is not None
    permission = view.calls.cards[call.id].permission
    assert permission is not None
    button = permission.buttons["once"]
    await eventually(button.isVisible)
    button.setFocus()
    QTest.mouseClick(button, Qt.MouseButton.LeftButton)
    run.progress.clear()
    run.results.append(CallResult(call.id, CallState.DONE, "5", "sums", "add", 0.1))
    window.workspace.current.run_changed.emit(run)
    assert view.calls.cards[call.id].permission is None
    assert window.chat.composer.input.hasFocus()
    await eventually(lambda: bar.value() == bar.maximum())

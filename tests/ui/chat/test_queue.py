"""What is sent while an answer runs waits above the composer, and is sent in its order."""

from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.store.conversation_store import open_store
from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, TextDelta, Timing, Usage
from tests.ui.driving import END, ScriptedEngine, begun, ended, eventually
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversations_from_json, conversations_json
from ui.window.main_window import MainWindow

STOPPED = Finished(StopInfo(StopKind.CANCELLED), Usage(7, 0, 3), Timing())
NOTES = Attachment("notes.txt", "one\n")


def send(window: MainWindow, text: str) -> None:
    window.chat.composer.set_text(text)
    QTest.keyClick(window.chat.composer.input, Qt.Key.Key_Return)


def asked(scripted: ScriptedEngine) -> list[str]:
    return [request.messages[-1].content for request in scripted.requests]


def waiting(window: MainWindow) -> list[str]:
    return [card.message[0] for card in window.chat.queue.cards]


async def test_queued_messages_are_sent_in_order(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    composer, here = window.chat.composer, window.workspace.current.conversation
    await begun(window, scripted)
    send(window, "And then?")
    assert composer.text == here.draft == ""
    send(window, "And after that?")
    assert waiting(window) == ["And then?", "And after that?"]
    assert window.chat.queue.isVisible()
    assert window.chat.queue.cards[0].accessibleName() == "Next: And then?"
    for number in (2, 3):
        scripted.say(TextDelta("1"), END)
        await eventually(lambda number=number: len(scripted.generations) == number)
    assert asked(scripted) == ["Go", "And then?", "And after that?"]
    assert here.queue == ()
    assert not window.chat.queue.isVisible()


async def test_a_message_that_waits_is_sent_in_its_own_conversation(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    composer, asked_in = window.chat.composer, window.workspace.current.conversation
    await begun(window, scripted)
    send(window, "And then?")
    window.chat.new_conversation()
    assert waiting(window) == []
    composer.set_text("Something else")
    scripted.say(TextDelta("1"), END)
    await eventually(lambda: len(scripted.generations) == 2)
    assert asked(scripted)[-1] == "And then?"
    assert composer.text == "Something else"
    assert len(asked_in.messages) == 4


async def test_a_message_that_waits_is_edited_and_removed(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await begun(window, scripted)
    send(window, "And then?")
    send(window, "Never mind")
    window.chat.queue.cards[0].edit.click()
    editor = window.chat.queue.cards[0].editor
    assert editor is not None
    QTest.keyClicks(editor.input, " Tell me.")
    QTest.keyClick(editor.input, Qt.Key.Key_Return)
    assert waiting(window) == ["And then? Tell me.", "Never mind"]
    assert window.chat.composer.input.hasFocus()
    window.chat.queue.cards[1].remove.click()
    assert waiting(window) == ["And then? Tell me."]
    scripted.say(TextDelta("1"), END)
    await eventually(lambda: len(scripted.generations) == 2)
    assert asked(scripted)[-1] == "And then? Tell me."


async def test_edited_queued_message_waits_for_its_editor(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await begun(window, scripted)
    send(window, "And then?")
    window.chat.queue.cards[0].edit.click()
    editor = window.chat.queue.cards[0].editor
    assert editor is not None
    QTest.keyClicks(editor.input, " Tell me.")
    send(window, "And after that?")
    scripted.say(TextDelta("1"), END)
    await ended(window)
    assert window.chat.queue.cards[0].editor is editor
    assert waiting(window) == ["And then?", "And after that?"]
    QTest.keyClick(editor.input, Qt.Key.Key_Return)
    await eventually(lambda: len(scripted.generations) == 2)
    assert asked(scripted)[-1] == "And then? Tell me."
    assert waiting(window) == ["And after that?"]


async def test_send_now_stops_the_answer_and_sends_that_message_first(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    await begun(window, scripted)
    send(window, "Later")
    send(window, "Now")
    window.chat.queue.cards[1].send.click()
    await eventually(lambda: bool(scripted.cancelled))
    scripted.say(STOPPED)
    await eventually(lambda: len(scripted.generations) == 2)
    assert asked(scripted)[-1] == "Now"
    assert waiting(window) == ["Later"]


async def test_after_a_stop_the_messages_wait_until_return_is_pressed(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    session, composer = window.workspace.current, window.chat.composer
    await begun(window, scripted)
    send(window, "And then?")
    session.cancel()
    scripted.say(STOPPED)
    await ended(session)
    assert waiting(window) == ["And then?"]
    assert "not sent yet" in window.chat.queue.notice.text()
    assert len(scripted.generations) == 1
    assert composer.action.isEnabled()
    QTest.keyClick(composer.input, Qt.Key.Key_Return)
    await eventually(lambda: len(scripted.generations) == 2)
    assert asked(scripted)[-1] == "And then?"


async def test_messages_that_wait_are_kept_with_their_files(tmp_path: Path) -> None:
    conversation = Conversation("Talk")
    conversation.queue = (("And then?", (NOTES,)), ("", (NOTES,)))
    conversation.attachments = (NOTES,)
    store = await open_store(tmp_path / "conversations.db")
    store.save(conversation)
    await store.aclose()
    store = await open_store(tmp_path / "conversations.db")
    [again] = store.conversations()
    assert (again.queue, again.attachments) == (conversation.queue, (NOTES,))
    again.queue = ()
    store.save(again)
    await store.aclose()
    store = await open_store(tmp_path / "conversations.db")
    [last] = store.conversations()
    await store.aclose()
    assert (last.queue, last.attachments) == ((), (NOTES,))
    [exchanged] = conversations_from_json(conversations_json([conversation]))
    assert exchanged.queue == conversation.queue

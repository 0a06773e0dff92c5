"""Conversations are there after a restart, with reasons, drafts and versions."""

from pathlib import Path

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.store.conversation_store import open_store
from engine.stopping.rules import StopRules
from tests.ui.driving import ended, entry, eventually, facts_text, found_texts, press
from tests.ui.window.kept.driving_kept import COUNT, Start, ask, views
from ui.chat.messages.message_foot import ReasonLine
from ui.records.attachments import Attachment, PageRange
from ui.records.conversations import Conversation
from ui.records.exchange.archive import conversations_from_json, conversations_json
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.window.main_window import MainWindow


async def test_a_conversation_its_reason_and_its_draft_are_there_after_a_restart(
    start: Start,
) -> None:
    async with start() as window:
        window.workspace.current.stops.add("6")
        await ask(window, COUNT)
        window.chat.composer.set_text("to be asked la")
    async with start() as window:
        (view,) = views(window)
        assert view.text_view.toPlainText().rstrip() == "1\n2\n3\n4\n5"
        assert window.chat.composer.text == "to be asked la"
        panel = window.stop_panel.verdict
        assert panel.sentence.text() == "Stopped by “6”"
        assert "then cut off: 6" in panel.tail.accessibleName()
        assert "Stop list: “6”" in facts_text(panel)
        assert window.workspace.current.stops.entries() == [StopEntry.of("6")]
        await ask(window, "What is a stop sequence?")
        assert len(views(window)) == 2


async def test_an_older_conversation_is_loaded_when_it_is_chosen(start: Start) -> None:
    async with start() as window:
        await ask(window, COUNT)
        window.workspace.new_conversation()
        await ask(window, "What is a stop sequence?")
    async with start() as window:
        conversations = window.workspace.conversations
        assert not conversations.every()[1].is_loaded
        older = window.sidebar.rows.index_of(conversations.every()[1])
        window.sidebar.list.setCurrentIndex(older)
        await eventually(lambda: window.workspace.current.conversation is conversations.every()[1])
        await eventually(lambda: bool(views(window)))
        assert views(window)[0].run.text.startswith("1\n2")


async def test_a_search_opens_the_conversation_at_the_message_in_its_hidden_version(
    window: MainWindow, qtbot: QtBot
) -> None:
    await ask(window, COUNT)
    first = window.workspace.current.conversation
    window.workspace.ask(
        lambda current: current.edit(first.messages[0], "What is a stop sequence?")
    )
    await ended(window)
    window.workspace.new_conversation()
    entry(window, "Search Conversations").trigger()
    qtbot.keyClicks(window.sidebar.search_field, '"one number"')
    await eventually(lambda: window.workspace.search.rowCount() > 0)
    assert window.sidebar.results.isVisible()
    assert not window.sidebar.list.isVisible()
    search = window.workspace.search
    hits = [search.hit_at(n) for n in range(search.rowCount())]
    row = next(n for n, hit in enumerate(hits) if hit is not None and hit.role == "user")
    results = window.sidebar.results
    place = results.list.visualRect(window.workspace.search.index(row)).center()
    qtbot.mouseClick(results.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    await eventually(lambda: window.workspace.current.conversation is first)
    await eventually(lambda: first.messages[0].text == COUNT and bool(views(window)))
    assert views(window)[0].run.text.startswith("1\n2")
    question = window.chat.column.question_view(first.messages[0])
    assert question is not None
    assert found_texts(question.text_view) == ["one number"]
    qtbot.keyClick(window.sidebar.search_field, Qt.Key.Key_Escape)
    assert window.sidebar.list.isVisible()
    assert found_texts(question.text_view) == []


async def test_an_interrupted_answer_says_so_and_can_be_continued(
    start: Start, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    conversation = Conversation("Cut off", [ConversationMessage("user", COUNT)])
    streaming = Run(rules=StopRules.of("6"), state="streaming", text="1\n2\n", model_id="m")
    conversation.add(ConversationMessage("assistant", run=streaming))
    store.save(conversation)
    store.save_messages(conversation, list(conversation.tree))
    await store.aclose()
    async with start() as window:
        (view,) = views(window)
        (line,) = view.findChildren(ReasonLine)
        assert line.text() == "Interrupted · m"
        panel = window.stop_panel.verdict
        assert panel.sentence.text() == "This answer was interrupted"
        assert "at most the last half second is missing" in panel.detail.text()
        assert "Stop list: “6”" in facts_text(panel)
        await eventually(lambda: window.workspace.models.stage == "ready")
        press(view, "Continue this answer")
        await ended(window)
        assert views(window)[0].run.text.startswith("1\n2\n3\n")


async def test_unsent_files_survive_a_restart(start: Start, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\ntwo\n")
    pages = ("first", "second", "third")
    report = Attachment("r.pdf", "", PageRange(1, 3, 3), pages, "One page has no text.")

    async with start() as window:
        row = window.chat.composer.attachments
        row.attach([notes])
        await eventually(lambda: bool(row.files) and not row.is_reading)
        row.show_files((*row.files, report.with_pages(2, 3)), row.owner)
    async with start() as window:
        row = window.chat.composer.attachments
        text, kept = row.files
        assert text == Attachment("notes.txt", "one\ntwo\n")
        assert kept == report.with_pages(2, 3)
        assert (kept.all_pages, kept.remark) == (pages, report.remark)
        (copy,) = conversations_from_json(
            conversations_json([window.workspace.current.conversation])
        )
        assert copy.attachments == row.files, "an export carries them too"
        row.clear()
    async with start() as window:
        assert window.chat.composer.attachments.files == ()

"""The window on a real store and the real engine, over several starts of the program."""

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QFileDialog,
    QMessageBox,
    QWidget,
)
from pytestqt.qtbot import QtBot

from app.store import saving
from app.store.conversation_store import open_store
from engine.scheduling.service import Engine
from tests.support.said import sentence_of_stop
from tests.support.shown import Use, main_window, shown
from tests.ui.driving import RunOnLoop, eventually
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.reason_line import ReasonLine
from ui.kit.look.theme import Theme
from ui.records.archive import conversations_from_json
from ui.records.conversations import Conversation, StopEntry
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, RunState
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"


@pytest.fixture
def use(run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path) -> Use:
    """Show a window on the same file each time it is called."""

    def use_window(steps: Callable[[MainWindow], Coroutine[Any, Any, None]]) -> None:
        async def whole() -> None:
            store = await open_store(tmp_path / "conversations.db")
            try:
                async with shown(main_window(engine, theme, store=store)) as window:
                    await steps(window)
            finally:
                await store.close()

        run(whole())

    return use_window


async def ask(window: MainWindow, question: str) -> None:
    assert window.workspace.send(question)
    await answered(window)


async def answered(window: MainWindow) -> None:
    await eventually(lambda: not window.workspace.current.session.is_running)


def limit(window: MainWindow, max_tokens: int | None) -> None:
    settings = window.workspace.current.conversation.settings
    window.workspace.change_settings(replace(settings, max_tokens=max_tokens))


def views(window: MainWindow) -> list[AnswerView]:
    return [view for view in window.findChildren(AnswerView) if view.isVisibleTo(window)]


def action(window: MainWindow, words: str) -> QAction:
    return next(
        a for a in window.findChildren(QAction) if a.text().replace("&", "").startswith(words)
    )


def press(widget: QWidget, name: str) -> None:
    """Press a button by the name that a screen reader says."""
    button = next(
        b for b in widget.findChildren(QAbstractButton) if b.accessibleName().startswith(name)
    )
    assert button.isEnabled()
    button.click()


def test_a_conversation_its_reason_and_its_draft_are_there_after_a_restart(use: Use) -> None:
    async def first(window: MainWindow) -> None:
        window.workspace.current.stops.add("6")
        await ask(window, COUNT)
        window.chat.composer.set_text("to be asked la")

    async def second(window: MainWindow) -> None:
        (view,) = views(window)
        assert view.text_view.toPlainText().rstrip() == "1\n2\n3\n4\n5"
        assert window.chat.composer.text == "to be asked la"
        panel = window.stop_panel.verdict
        assert panel.sentence.text() == sentence_of_stop("6")
        assert "Dropped: 6" in panel.facts_text()
        assert "Stop list: 6" in panel.facts_text()
        assert window.workspace.current.stops.entries() == [StopEntry("6")]
        await ask(window, "What is a stop sequence?")
        assert len(views(window)) == 2

    use(first)
    use(second)


def test_an_older_conversation_is_loaded_when_it_is_chosen(use: Use) -> None:
    async def first(window: MainWindow) -> None:
        await ask(window, COUNT)
        window.workspace.new_conversation()
        await ask(window, "What is a stop sequence?")

    async def second(window: MainWindow) -> None:
        conversations = window.workspace.conversations
        assert not conversations.at(1).is_loaded
        window.sidebar.list.setCurrentIndex(conversations.index(1))
        await eventually(lambda: window.workspace.current.conversation is conversations.at(1))
        assert views(window)[0].run.text.startswith("1\n2")

    use(first)
    use(second)


def test_a_search_opens_the_conversation_at_the_message_in_its_hidden_version(
    use: Use, qtbot: QtBot
) -> None:
    async def steps(window: MainWindow) -> None:
        await ask(window, COUNT)
        first = window.workspace.current.conversation
        window.workspace.edit(first.messages[0], "What is a stop sequence?")
        await answered(window)
        window.workspace.new_conversation()
        action(window, "Search Conversations").trigger()
        qtbot.keyClicks(window.sidebar.search_field, '"one number"')
        await eventually(lambda: window.workspace.search.rowCount() > 0)
        assert window.sidebar.results.isVisible()
        assert not window.sidebar.list.isVisible()
        hits = [window.workspace.search.at(n) for n in range(window.workspace.search.rowCount())]
        row = next(n for n, hit in enumerate(hits) if hit.role == "user")
        results = window.sidebar.results
        place = results.list.visualRect(window.workspace.search.index(row)).center()
        qtbot.mouseClick(results.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
        await eventually(lambda: window.workspace.current.conversation is first)
        await eventually(lambda: first.messages[0].text == COUNT)
        assert views(window)[0].run.text.startswith("1\n2")
        question = window.chat.column.question_view(first.messages[0])
        assert question is not None
        assert question.text_view.found_texts == ["one number"]
        qtbot.keyClick(window.sidebar.search_field, Qt.Key.Key_Escape)
        assert window.sidebar.list.isVisible()
        assert question.text_view.found_texts == []

    use(steps)


def test_a_search_without_a_result_says_so(use: Use, qtbot: QtBot) -> None:
    async def steps(window: MainWindow) -> None:
        window.sidebar.search()
        qtbot.keyClicks(window.sidebar.search_field, "xyzzy")
        await eventually(lambda: "for “xyzzy”" in window.sidebar.results.count.text())

    use(steps)


def test_an_answer_is_continued_regenerated_and_switched_with_buttons(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        limit(window, 6)
        await ask(window, COUNT)
        limit(window, None)
        (view,) = views(window)
        short = view.run.text
        press(view, "Continue this answer")
        await answered(window)
        (view,) = views(window)
        assert view.run.text.startswith(short)
        assert view.run.text.rstrip().endswith("10")
        assert view.action_row.place.text() == "2/2"
        press(view, "Regenerate")
        await answered(window)
        assert views(window)[0].action_row.place.text() == "3/3"
        for place in ("2/3", "1/3"):
            press(views(window)[0], "Earlier version")
            await eventually(lambda: bool(views(window)))
            assert views(window)[0].action_row.place.text() == place
        (view,) = views(window)
        assert view.run.text == short
        assert view.action_row.place.accessibleName() == "Version 1 of 3"
        assert window.stop_panel.verdict.run is view.run

    use(steps)


def test_versions_are_there_after_a_restart_and_so_is_the_choice(use: Use) -> None:
    async def first(window: MainWindow) -> None:
        await ask(window, COUNT)
        question = window.workspace.current.conversation.messages[0]
        window.workspace.edit(question, "What is a stop sequence?")
        await answered(window)
        action(window, "Earlier Version").trigger()
        assert window.workspace.current.conversation.messages[0].text == COUNT

    async def second(window: MainWindow) -> None:
        shown = window.workspace.current.conversation.messages
        assert shown[0].text == COUNT
        assert len(window.workspace.current.conversation.tree.versions(shown[0])) == 2

    use(first)
    use(second)


def test_a_question_is_edited_in_its_place_with_the_keyboard(use: Use, qtbot: QtBot) -> None:
    async def steps(window: MainWindow) -> None:
        window.activateWindow()
        await ask(window, COUNT)
        action(window, "Edit the Last Question").trigger()
        question = window.workspace.current.conversation.messages[0]
        view = window.chat.column.question_view(question)
        assert view is not None
        assert view.editor is not None
        qtbot.keyClick(view.editor.input, Qt.Key.Key_Escape)
        assert view.editor is None
        action(window, "Edit the Last Question").trigger()
        assert view.editor is not None
        view.editor.input.setPlainText("What is a stop sequence?")
        qtbot.keyClick(view.editor.input, Qt.Key.Key_Return)
        await answered(window)
        shown = window.workspace.current.conversation.messages
        assert shown[0].text == "What is a stop sequence?"
        assert window.workspace.current.conversation.tree.versions(shown[0])[0] is question

    use(steps)


def test_a_preset_brings_settings_and_stops_and_can_be_undone(use: Use) -> None:
    async def first(window: MainWindow) -> None:
        limit(window, 9)
        window.workspace.current.stops.add("END")
        window.chat.settings.presets.save_wanted.emit("Short")

    async def second(window: MainWindow) -> None:
        window.workspace.new_conversation()
        limit(window, None)
        window.workspace.current.stops.remove([0])
        window.chat.show_settings()
        button = window.chat.settings.presets
        button.menu_of_presets.aboutToShow.emit()
        chosen = button.menu_of_presets.actions()[0]
        assert chosen.text() == "Short"
        chosen.trigger()
        window.chat.settings.hide()
        conversation = window.workspace.current.conversation
        assert conversation.settings.max_tokens == 9
        assert conversation.stops == [StopEntry("END")]
        window.workspace.current.stops.undo_stack.undo()
        assert conversation.stops == []

    use(first)
    use(second)


def test_sampling_is_set_in_the_card_and_reaches_the_request(use: Use) -> None:
    from ui.records.asking import request_for

    async def steps(window: MainWindow) -> None:
        window.chat.show_settings()
        card = window.chat.settings
        card.top_p.setValue(0.9)
        card.top_k.setValue(40)
        card.seed.setValue(7)
        card.hide()
        conversation = window.workspace.current.conversation
        await ask(window, COUNT)
        request = request_for(conversation, window.workspace.model.info, conversation.messages[0])
        sampling = request.sampling
        assert (sampling.top_p, sampling.top_k, sampling.seed) == (0.9, 40, 7)
        assert (sampling.min_p, sampling.repetition_penalty) == (None, None)
        window.chat.show_settings()
        assert (card.top_p.value(), card.top_k.value(), card.seed.value()) == (0.9, 40, 7)
        card.hide()

    use(steps)


def test_a_deleted_conversation_comes_back_from_the_menu(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        restore = action(window, "Undo Delete Conversation")
        assert not restore.isEnabled()
        await ask(window, COUNT)
        window.sidebar.delete_current()
        assert restore.isEnabled()
        restore.trigger()
        assert len(views(window)) == 1
        assert not restore.isEnabled()

    use(steps)


def test_pinning_and_duplicating_work_from_the_menu(use: Use) -> None:
    async def steps(window: MainWindow) -> None:
        await ask(window, COUNT)
        action(window, "Pin or Unpin").trigger()
        assert window.workspace.current.conversation.is_pinned
        action(window, "Duplicate").trigger()
        await eventually(lambda: window.workspace.current.conversation.title.endswith("(copy)"))
        assert len(views(window)) == 1

    use(steps)


def test_a_damaged_file_is_told_above_the_chat(use: Use, tmp_path: Path) -> None:
    (tmp_path / "conversations.db").write_bytes(b"no database at all " * 400)

    async def steps(window: MainWindow) -> None:
        bar = window.chat.problem
        assert bar.isVisible()
        assert bar.sentence.text() == "Your earlier conversations could not be read."
        assert "set-aside" in bar.detail.text()
        press(bar, "Dismiss this message")
        assert not bar.isVisible()

    async def later(window: MainWindow) -> None:
        assert not window.chat.problem.isVisible()

    use(steps)
    use(later)


def test_conversations_of_a_damaged_file_come_back_at_the_press_of_a_button(
    use: Use, tmp_path: Path
) -> None:
    async def first(window: MainWindow) -> None:
        await ask(window, COUNT)

    use(first)
    with closing(sqlite3.connect(tmp_path / "conversations.db", isolation_level=None)) as broken:
        broken.execute("PRAGMA writable_schema = ON")
        broken.execute("UPDATE sqlite_master SET sql = 'x' WHERE name = 'presets'")

    async def steps(window: MainWindow) -> None:
        bar = window.chat.problem
        assert bar.isVisible()
        rows = window.workspace.conversations.rowCount()
        press(bar, "Recover what can be read of the damaged file")
        await eventually(lambda: "recovered" in bar.sentence.text())
        assert bar.sentence.text() == "1 conversation with 2 messages recovered."
        assert bar.detail.text().startswith(
            "Everything in the file could be read. The damaged file "
        )
        assert not bar.recover.isVisible()
        assert window.workspace.conversations.rowCount() == rows + 1
        hits = await window.workspace.store.search("Count from")
        assert sorted(hit.role for hit in hits) == ["title", "user"]

    async def later(window: MainWindow) -> None:
        assert not window.chat.problem.isVisible()
        assert len(await window.workspace.store.search("Count from")) == 2

    use(steps)
    use(later)


def test_every_shortcut_means_one_thing(use: Use, qapp: QApplication) -> None:
    async def steps(window: MainWindow) -> None:
        seen: dict[str, str] = {}
        for found in window.findChildren(QAction):
            for keys in found.shortcuts():
                name = keys.toString()
                assert name not in seen, f"{name}: {seen[name]} and {found.text()}"
                seen[name] = found.text()
        assert len(seen) > 15

    use(steps)


def test_a_conversation_is_exported_and_imported_through_the_menu(use: Use, tmp_path: Path) -> None:
    async def steps(window: MainWindow) -> None:
        await ask(window, COUNT)
        action(window, "Export This Conversation").trigger()
        (dialog,) = window.findChildren(QFileDialog)
        assert dialog.selectedFiles()[0].endswith("Count from 1 to 10 one number per line.json")
        dialog.selectFile(str(tmp_path / "out.json"))
        dialog.accept()
        await eventually((tmp_path / "out.json").exists)
        await window.workspace.files.finish()
        window.workspace.files.import_from(tmp_path / "out.json")
        await window.workspace.files.finish()
        assert window.workspace.conversations.rowCount() == 2
        assert len(views(window)) == 1

    use(steps)


def test_a_file_that_can_not_be_imported_is_told(use: Use, tmp_path: Path) -> None:
    (tmp_path / "no.json").write_text("{}")

    async def steps(window: MainWindow) -> None:
        window.workspace.files.import_from(tmp_path / "no.json")
        await window.workspace.files.finish()
        (box,) = window.findChildren(QMessageBox)
        assert "no.json is not a file of conversations" in box.text()
        box.close()

    use(steps)


def test_an_interrupted_answer_says_so_and_can_be_continued(
    use: Use, run: RunOnLoop, tmp_path: Path
) -> None:
    async def cut_off() -> None:
        store = await open_store(tmp_path / "conversations.db")
        conversation = Conversation("Cut off", [ConversationMessage("user", COUNT)])
        streaming = Run(stops=("6",), state=RunState.STREAMING, text="1\n2\n", model_id="m")
        conversation.add(ConversationMessage("assistant", run=streaming))
        store.save(conversation)
        store.save_messages(conversation, list(conversation.tree))
        await store.close()

    async def steps(window: MainWindow) -> None:
        (view,) = views(window)
        (line,) = view.findChildren(ReasonLine)
        assert line.text() == "Interrupted"
        panel = window.stop_panel.verdict
        assert panel.sentence.text() == "This answer was interrupted."
        assert "at most the last half second is missing" in panel.detail.text()
        assert "Stop list: 6" in panel.facts_text()
        await eventually(lambda: window.workspace.model.stage == "ready")
        press(view, "Continue this answer")
        await answered(window)
        assert views(window)[0].run.text.startswith("1\n2\n3\n")

    run(cut_off())
    use(steps)


def button(box: QMessageBox, words: str) -> QAbstractButton:
    return next(one for one in box.buttons() if one.text() == words)


def test_closing_over_unsaved_text_asks_and_export_or_leaving_is_a_choice(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    async def steps() -> None:
        store = await open_store(tmp_path / "conversations.db")
        try:
            async with shown(main_window(engine, theme, store=store)) as window:
                gone: list[bool] = []
                window.closed.connect(lambda: gone.append(True))
                # SQLite's own limit raises what a full disk raises.
                pragma = store._read(lambda database: database.execute("PRAGMA max_page_count=1"))
                await asyncio.wrap_future(pragma)
                window.chat.composer.set_text("x" * 50_000)
                window.workspace.keep_draft()
                await eventually(lambda: store.has_unsaved)
                assert window.chat.problem.isVisible()
                assert "the disk is full" in window.chat.problem.detail.text()
                window.quit()
                (box,) = window.findChildren(QMessageBox)
                assert (window.isVisible(), gone) == (True, [])
                QTest.keyClick(box, Qt.Key.Key_Escape)
                assert window.isVisible()

                await asyncio.sleep(0)
                window.close()
                (box,) = [b for b in window.findChildren(QMessageBox) if b.isVisible()]
                button(box, "Export…").click()
                (dialog,) = window.findChildren(QFileDialog)
                dialog.filesSelected.emit([str(tmp_path / "rescued.json")])
                dialog.close()
                await eventually((tmp_path / "rescued.json").exists)
                (rescued,) = conversations_from_json((tmp_path / "rescued.json").read_text())
                assert rescued.draft == "x" * 50_000

                window.close()
                (box,) = [b for b in window.findChildren(QMessageBox) if b.isVisible()]
                button(box, "Quit Without Saving").click()
                assert (window.isVisible(), gone) == (False, [True])
        finally:
            await store.close()

    run(steps())


def test_closing_waits_until_text_is_saved_asks_where_that_fails_and_closes_once_it_works(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saving, "PATIENT_MS", 100)
    path = tmp_path / "conversations.db"

    async def steps() -> None:
        store = await open_store(path)
        try:
            async with shown(main_window(engine, theme, store=store)) as window:
                await store.settled()
                with closing(sqlite3.connect(path, isolation_level=None)) as other:
                    other.execute("BEGIN EXCLUSIVE")
                    window.chat.composer.set_text("a thought")
                    window.quit()
                    assert window.isVisible()
                    await eventually(lambda: bool(window.findChildren(QMessageBox)))
                    (box,) = window.findChildren(QMessageBox)
                    assert "another program has locked the file" in box.informativeText()
                    other.execute("ROLLBACK")
                await eventually(lambda: not window.isVisible())
        finally:
            await store.close()
        with closing(sqlite3.connect(path)) as reader:
            assert reader.execute("SELECT draft FROM conversations").fetchall() == [("a thought",)]

    run(steps())


def test_closing_asks_nothing_once_everything_could_be_saved_after_all(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    async def steps() -> None:
        store = await open_store(tmp_path / "conversations.db")

        async def limit(pages: int) -> None:
            text = f"PRAGMA max_page_count={pages}"
            await asyncio.wrap_future(store._read(lambda database: database.execute(text)))

        try:
            async with shown(main_window(engine, theme, store=store)) as window:
                await limit(1)
                window.chat.composer.set_text("x" * 50_000)
                window.workspace.keep_draft()
                await eventually(lambda: store.has_unsaved)
                await limit(1 << 20)
                await eventually(lambda: not store.has_unsaved)
                assert not window.chat.problem.isVisible()
                window.close()
                assert not window.isVisible()
        finally:
            await store.close()

    run(steps())

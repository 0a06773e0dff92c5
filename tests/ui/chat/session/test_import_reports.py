"""An import tells what it kept of each conversation, at its end and later."""

import json
import threading
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from app.store.conversation_store import SqliteConversationStore, open_store
from engine.scheduling.service import Engine
from tests.support.outside import exports
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.chat.conversation_menu import ImportReportDialog
from ui.chat.session.workspace import Workspace
from ui.kit.theme import Theme
from ui.records.import_report import ImportReport, report_json
from ui.window.main_window import MainWindow


def many(path: Path, count: int) -> Path:
    listed = [exports.chatgpt() | {"conversation_id": f"c-{number}"} for number in range(count)]
    path.write_text(json.dumps(listed), encoding="utf-8")
    return path


async def test_the_report_is_kept_with_the_import(
    workspace: Workspace, store: SqliteConversationStore, tmp_path: Path
) -> None:
    workspace.files.import_from(many(tmp_path / "conversations.json", 3))
    await workspace.files.finish()
    await store.settled()
    again = await open_store(tmp_path / "conversations.db")
    (report,) = await again.reports()
    await again.close()
    assert report == workspace.files.transfers.report
    assert (report.program, report.name) == ("ChatGPT", "conversations.json")
    assert len(report.conversations) == 3
    told = report.conversations[0]
    assert told.kept["message"] == 5
    assert told.left_out["reasoning recap"] == 1
    assert workspace.conversations.with_id(told.conversation_id) is not None


async def test_a_report_is_written_out_on_the_thread_of_the_store(
    workspace: Workspace,
    store: SqliteConversationStore,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads: list[threading.Thread] = []

    def noted(report: ImportReport) -> str:
        threads.append(threading.current_thread())
        return report_json(report)

    monkeypatch.setattr("app.store.rows.report_json", noted)
    workspace.files.import_from(many(tmp_path / "conversations.json", 1))
    await workspace.files.finish()
    await store.settled()
    assert threads
    assert threading.main_thread() not in threads


async def test_a_cancelled_import_leaves_whole_conversations_and_tells_of_them(
    workspace: Workspace, store: SqliteConversationStore, tmp_path: Path
) -> None:
    transfers = workspace.files.transfers
    before = workspace.conversations.rowCount()

    def cancel() -> None:
        if transfers.now is not None and transfers.now.done == 2:
            transfers.cancel()

    transfers.changed.connect(cancel)
    workspace.files.import_from(many(tmp_path / "conversations.json", 30))
    await workspace.files.finish()
    report = transfers.report
    assert report is not None
    count = workspace.conversations.rowCount() - before
    assert len(report.conversations) == count
    assert 2 <= count < 30
    for told in report.conversations:
        conversation = workspace.conversations.with_id(told.conversation_id)
        assert conversation is not None
        messages = await store.read(conversation)
        assert messages is not None
        assert len(messages) == told.kept["message"] + told.kept["alternative message"]


async def test_an_import_that_the_end_of_the_window_cuts_short_leaves_what_its_report_tells(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    async with shown(main_window(engine, theme, store=store), quits=True) as window:
        transfers = window.workspace.files.transfers
        window.workspace.files.import_from(many(tmp_path / "many.json", 300))
        await eventually(lambda: transfers.now is not None and transfers.now.total > 0)
        await eventually(lambda: transfers.now is not None and transfers.now.done > 2)
    await store.close()
    again = await open_store(tmp_path / "conversations.db")
    (report,) = await again.reports()
    here = {one.id: one for one in again.load_all() if one.origin}
    assert {told.conversation_id for told in report.conversations} == set(here)
    assert 2 < len(here) < 300, "nobody waits for the rest of it"
    for told in report.conversations:
        messages = await again.read(here[told.conversation_id])
        assert messages is not None
        assert len(messages) == told.kept["message"] + told.kept["alternative message"]
    await again.close()


def dialogs(window: MainWindow) -> list[ImportReportDialog]:
    return window.findChildren(ImportReportDialog)


async def test_the_report_opens_from_the_bar_the_menu_and_the_conversation(
    engine: Engine, theme: Theme, qtbot: QtBot, tmp_path: Path
) -> None:
    async with shown(main_window(engine, theme)) as window:
        window.workspace.files.import_from(many(tmp_path / "conversations.json", 4))
        await window.workspace.files.finish()
        await eventually(lambda: window.transfer_bar.report.isVisible())
        window.transfer_bar.report.click()
        await eventually(lambda: len(dialogs(window)) == 1)
        (dialog,) = dialogs(window)
        assert "4 conversations from ChatGPT" in dialog.words.text()
        first = str(dialog.rows.index(0).data())
        assert "Kept: 5 messages" in first
        assert "reasoning recap" in first
        assert "marks that only that program needs" not in first, "nobody misses them"
        assert "conversation_id" not in first
        assert "4 sources" in first
        assert "mapping." not in first, "it is the name of a field"
        assert "content_references" in dialog.report.text()
        assert "conversation_id" in dialog.rows.index(0).data(Qt.ItemDataRole.ToolTipRole)
        assert "conversation_id" in dialog.report.text()
        assert dialog.rows.rowCount() == 4
        dialog.resize(500, 300)  # not all of them fit
        await eventually(lambda: dialog.list.verticalScrollBar().maximum() > 0)
        assert dialog.list.horizontalScrollBar().maximum() == 0
        told = dialog.rows.at(2)
        dialog.list.setCurrentIndex(dialog.rows.index(2))
        qtbot.keyClick(dialog.list, Qt.Key.Key_Return)
        await eventually(lambda: window.workspace.current.conversation.id == told.conversation_id)
        window.sidebar.report_wanted.emit(told.conversation_id)
        await eventually(lambda: any(one.isVisible() for one in dialogs(window)))
        (dialog,) = [one for one in dialogs(window) if one.isVisible()]
        assert dialog.list.currentIndex().row() == 2
        dialog.reject()

"""Damaged files are told and recovered, and no unsaved text is lost by closing the window."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QFileDialog,
    QMessageBox,
)

from app.store import database
from app.store.conversation_store import open_store
from engine.engine import Engine
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually, press
from tests.ui.window.kept.driving_kept import COUNT, Start, ask, button
from ui.kit.theme import Theme
from ui.records.exchange.archive import conversations_from_json


async def test_a_damaged_file_is_reported_above_the_chat(start: Start, tmp_path: Path) -> None:
    (tmp_path / "conversations.db").write_bytes(b"no database at all " * 400)

    async with start() as window:
        bar = window.chat.problem
        assert bar.isVisible()
        assert bar.sentence.text() == "Your earlier conversations could not be read."
        assert "set-aside" in bar.detail.text()
        press(bar, "Dismiss this message")
        assert not bar.isVisible()
    async with start() as window:
        assert not window.chat.problem.isVisible()


async def test_conversations_of_a_damaged_file_come_back_at_the_press_of_a_button(
    start: Start, tmp_path: Path
) -> None:
    async with start() as window:
        await ask(window, COUNT)
    with closing(sqlite3.connect(tmp_path / "conversations.db", isolation_level=None)) as broken:
        broken.execute("PRAGMA writable_schema = ON")
        broken.execute("UPDATE sqlite_master SET sql = 'x' WHERE name = 'presets'")

    async with start() as window:
        bar = window.chat.problem
        assert bar.isVisible()
        rows = len(window.workspace.conversations.every())
        assert bar.restore.isVisible() == (tmp_path / "backups").is_dir()
        press(bar, "Recover the readable part of the damaged file")
        await eventually(lambda: "recovered" in bar.sentence.text())
        assert bar.sentence.text() == "1 conversation with 2 messages recovered."
        assert bar.detail.text().startswith("Everything in the file could be read. The file ")
        assert "recorded tokens of deleted conversations are kept" in bar.detail.text()
        assert not bar.recover.isVisible()
        assert len(window.workspace.conversations.every()) == rows + 1
        hits = await window.workspace.store.search("Count from")
        assert sorted(hit.role for hit in hits) == ["title", "user"]
    async with start() as window:
        assert not window.chat.problem.isVisible()
        assert len(await window.workspace.store.search("Count from")) == 2


async def test_restore_backup_adds_the_conversations_of_a_file(
    start: Start, tmp_path: Path
) -> None:
    async with start() as window:
        await ask(window, COUNT)
    async with start() as window:
        pass
    [backup] = (tmp_path / "backups").iterdir()
    (tmp_path / "conversations.db").write_bytes(b"no database at all " * 400)
    async with start() as window:
        window.files.restore_backup()
        [dialog] = window.findChildren(QFileDialog)
        assert Path(dialog.directory().path()) == backup.parent
        dialog.filesSelected.emit([str(backup)])
        dialog.close()
        bar = window.chat.problem
        await eventually(lambda: "recovered" in bar.sentence.text())
        assert bar.sentence.text() == "1 conversation with 2 messages recovered."


async def test_closing_over_unsaved_text_asks_and_export_or_leaving_is_a_choice(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "conversations.db")
    try:
        async with shown(main_window(engine, theme, store=store)) as window:
            gone: list[bool] = []
            window.closed.connect(lambda: gone.append(True))
            # SQLite's own limit raises what a full disk raises.
            await store._read(lambda file: file.execute("PRAGMA max_page_count=1"), None)
            window.chat.composer.set_text("x" * 50_000)
            window.workspace.save_draft()
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
            await eventually(lambda: bool(window.findChildren(QFileDialog)))
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
        await store.aclose()


async def test_closing_waits_until_text_is_saved(
    engine: Engine, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_TIMEOUT_S", 0.1)
    path = tmp_path / "conversations.db"
    store = await open_store(path)
    try:
        async with shown(main_window(engine, theme, store=store)) as window:
            await store.flush()
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
        await store.aclose()
    with closing(sqlite3.connect(path)) as reader:
        assert reader.execute("SELECT draft FROM conversations").fetchall() == [("a thought",)]

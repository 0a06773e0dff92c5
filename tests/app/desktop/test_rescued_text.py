"""Text that a signal left unsaved is written where there is room, and offered at the next start."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import qasync
from PySide6.QtWidgets import QApplication, QMessageBox

from app.desktop import window as desktop_window
from app.desktop.window import RescuedText, rescue, rescued_files
from engine.scheduling.service import Engine
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.store import MemoryConversationStore, StoreProblem
from ui.window.main_window import MainWindow

PROBLEM = StoreProblem("Your conversations are not being saved.", "The disk is full.")


@pytest.fixture
def folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Path]:
    """The folders in which text is kept, the preferred one first."""
    found = [tmp_path / name for name in ("data", "config", "logs")]
    monkeypatch.setattr(desktop_window, "_folders", lambda: iter(found))
    return found


def said(words: str) -> Conversation:
    conversation = Conversation(title="A talk")
    conversation.tree.fill([ConversationMessage("user", words)])
    return conversation


def test_text_that_only_memory_held_is_written_to_a_private_file(folders: list[Path]) -> None:
    store = MemoryConversationStore(PROBLEM)
    path = rescue(store, [Conversation(), said("My words")])

    assert path is not None
    assert path.parent == folders[0]
    assert path.stat().st_mode & 0o077 == 0
    assert "My words" in path.read_text()
    assert rescued_files() == [path]


def test_without_unsaved_text_there_is_no_file(folders: list[Path]) -> None:
    assert rescue(MemoryConversationStore(PROBLEM), [Conversation()]) is None
    assert rescued_files() == []


def test_a_folder_that_cannot_be_written_is_skipped(folders: list[Path]) -> None:
    folders[0].write_text("a file in the folder's place")
    path = rescue(MemoryConversationStore(PROBLEM), [said("My words")])

    assert path is not None
    assert path.parent == folders[1]
    assert rescued_files() == [path]


def test_links_are_never_offered(folders: list[Path], tmp_path: Path) -> None:
    folders[0].mkdir()
    (tmp_path / "theirs.json").write_text("{}")
    (folders[0] / "conversations-rescued-1.json").symlink_to(tmp_path / "theirs.json")
    assert rescued_files() == []


Steps = Callable[[MainWindow, MemoryConversationStore], Awaitable[None]]


@pytest.fixture
def use(qapp: QApplication) -> Callable[[Steps], None]:
    """Show a window on a store of its own."""

    def run(steps: Steps) -> None:
        async def whole() -> None:
            store = MemoryConversationStore()
            window = main_window(Engine(), Theme(qapp, "light"), store=store)
            try:
                await steps(window, store)
            finally:
                window.close()
                await window.finish()
                window.deleteLater()

        qapp.setQuitOnLastWindowClosed(False)
        with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(qapp)) as runner:
            runner.run(asyncio.wait_for(whole(), 60))

    return run


def box_of(window: MainWindow) -> QMessageBox | None:
    return next((one for one in window.findChildren(QMessageBox) if one.isVisible()), None)


def test_import_adds_the_rescued_text_once(
    folders: list[Path], use: Callable[[Steps], None]
) -> None:
    path = rescue(MemoryConversationStore(PROBLEM), [said("My words")])
    assert path is not None

    async def steps(window: MainWindow, store: MemoryConversationStore) -> None:
        rescued = RescuedText(window, store)
        rescued.offer()
        box = box_of(window)
        assert box is not None
        assert path.name in box.informativeText()
        next(one for one in box.buttons() if one.text() == "Import").click()
        await eventually(lambda: not rescued_files())
        await rescued.finish()
        listed = window.workspace.conversations
        titles = [listed.at(row).title for row in range(listed.rowCount())]
        assert titles.count("A talk") == 1
        assert path.with_name(path.name.replace("rescued", "imported")).exists()
        await asyncio.sleep(0)
        RescuedText(window, store).offer()
        assert box_of(window) is None

    use(steps)


def test_rescued_text_that_is_not_imported_is_offered_again(
    folders: list[Path], use: Callable[[Steps], None]
) -> None:
    path = rescue(MemoryConversationStore(PROBLEM), [said("My words")])
    assert path is not None
    before = path.read_bytes()

    async def steps(window: MainWindow, store: MemoryConversationStore) -> None:
        RescuedText(window, store).offer()
        box = box_of(window)
        assert box is not None
        box.reject()
        assert path.read_bytes() == before
        assert rescued_files() == [path]

    use(steps)


def test_a_damaged_file_is_refused_in_words_and_stays(
    folders: list[Path], use: Callable[[Steps], None]
) -> None:
    folders[0].mkdir()
    path = folders[0] / "conversations-rescued-1.json"
    path.write_text("{}")

    async def steps(window: MainWindow, store: MemoryConversationStore) -> None:
        rescued = RescuedText(window, store)
        rescued.offer()
        box = box_of(window)
        assert box is not None
        next(one for one in box.buttons() if one.text() == "Import").click()
        await rescued.finish()
        assert rescued_files() == [path]

    use(steps)

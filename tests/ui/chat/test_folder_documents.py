"""Documents of a folder are added, searched for its conversations, and removed."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from PySide6.QtWidgets import QWidget

from app.store.conversation_store import SqliteConversationStore, open_store
from app.store.recovery import readable_rows
from tests.support.outside.documents import pdf
from tests.ui.driving import eventually
from ui.chat.folder_documents import FolderDocumentsDialog
from ui.kit.theme import Theme
from ui.records.attachments import Attachment
from ui.records.conversations import ConversationFolder
from ui.records.passages import Document, PassageSearch


def listed(dialog: FolderDocumentsDialog) -> list[str]:
    return [dialog.rows.index(row, 0).data() for row in range(dialog.rows.rowCount())]


async def find(store: SqliteConversationStore, folder: ConversationFolder, text: str) -> list[str]:
    found = await store.find_passages(PassageSearch([], [text], "c", folder.id))
    return [f"{passage.page}: {passage.text}" for _, passage in found.ranked]


async def test_documents_are_added_searched_and_removed(
    theme: Theme, qapp: object, tmp_path: Path
) -> None:
    store = await open_store(tmp_path / "c.db")
    folder = ConversationFolder("Law")
    store.save_folder(folder)
    parent = QWidget()
    dialog = FolderDocumentsDialog(folder, store, parent)
    words = ["an apple grows", "the quince is yellow", "a pear falls"]
    fruit = pdf(tmp_path / "fruit.pdf", [f"{text} {'and so on ' * 200}" for text in words])
    notes = tmp_path / "notes.md"
    notes.write_text("# Notes\n\nThe quinces were sold.\n")
    dialog.add_files([fruit, notes, tmp_path / "missing.pdf"])
    assert dialog.empty.isHidden()
    assert not dialog.add.isEnabled()
    await eventually(dialog.add.isEnabled)
    assert [row.partition(",")[0] for row in listed(dialog)] == ["fruit.pdf", "notes.md"]
    assert "missing.pdf" in dialog.problem.text()
    hits = await find(store, folder, "Which colour has a quince?")
    assert any(hit.startswith("2: the quince is yellow") for hit in hits)
    assert any("quinces were sold" in hit for hit in hits)
    assert await find(store, ConversationFolder("Other"), "quince") == []
    assert await find(store, folder, "xyzzy") == [], "documents of a folder do not go unasked"
    attached = Document.of(Attachment("notes.md", notes.read_text()))
    found = await store.find_passages(
        PassageSearch([attached], ["Were quinces sold?"], "c", folder.id)
    )
    numbers = [(document, passage.number) for document, passage in found.ranked]
    assert len(numbers) == len(set(numbers)), "a file that is in both is searched once"
    dialog.list.selectAll()
    dialog.remove.click()
    await eventually(lambda: listed(dialog) == [])
    assert await find(store, folder, "quince") == []
    assert dialog.undo_bar.message.text() == "2 documents removed"
    dialog.undo_bar.button.click()
    await eventually(lambda: len(listed(dialog)) == 2)
    assert await find(store, folder, "quince")
    await store.aclose()


async def test_removed_document_stays_removed(tmp_path: Path) -> None:
    path, folder = tmp_path / "c.db", ConversationFolder("Law")
    document = Document("x.txt", "A quince.")
    store = await open_store(path)
    store.save_folder(folder)
    for _ in range(2):  # adding it again shows it again
        await store.add_document(folder.id, document, "", lambda _: None)
        assert await find(store, folder, "quince")
        assert await store.show_document(folder.id, document.id, is_shown=False)
        assert await store.passages_without_vector("", folder.id, "model", 9) == []
    await store.aclose()
    assert readable_rows(path)[0].documents == []
    store = await open_store(path)
    assert not await store.show_document(folder.id, document.id, is_shown=True), "it is gone"
    await store.aclose()


async def test_document_stays_when_its_second_reading_is_stopped(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "c.db")
    folder = ConversationFolder("Law")
    store.save_folder(folder)
    document = Document("x.txt", "A quince.")
    await store.add_document(folder.id, document, "", lambda _: None)
    adding = asyncio.ensure_future(store.add_document(folder.id, document, "", lambda _: None))
    await asyncio.sleep(0)
    adding.cancel()
    await asyncio.wait([adding])
    assert await find(store, folder, "quince")
    await store.aclose()


async def test_documents_go_with_their_folder_and_come_back_with_undo(tmp_path: Path) -> None:
    path = tmp_path / "c.db"
    folders = ConversationFolder("Law"), ConversationFolder("Gone")
    store = await open_store(path)
    for folder in folders:
        store.save_folder(folder)
        document = Document("x.txt", "A quince.")
        await store.add_document(folder.id, document, "a remark", lambda _: None)
        store.delete_folder(folder.id)
    store.save_folder(folders[0])
    assert await find(store, folders[0], "quince")
    await store.aclose()
    store = await open_store(path)
    [kept] = await store.folder_documents(folders[0].id)
    assert (kept.name, kept.passages, kept.remark) == ("x.txt", 1, "a remark")
    assert await store.folder_documents(folders[1].id) == []
    assert await find(store, folders[0], "quince")
    await store.aclose()


async def test_stopped_reading_leaves_no_part_of_a_document(tmp_path: Path) -> None:
    store = await open_store(tmp_path / "c.db")
    folder = ConversationFolder("Law")
    store.save_folder(folder)
    document = Document("x.txt", "\n\n".join(f"# {n}\n\n{'word ' * 250}" for n in range(2_000)))
    added: list[int] = []
    adding = asyncio.ensure_future(store.add_document(folder.id, document, "", added.append))
    await eventually(lambda: bool(added))
    adding.cancel()
    await asyncio.wait([adding])
    assert await find(store, folder, "word") == []
    assert added[-1] < 2_000
    await store.aclose()
    with closing(sqlite3.connect(tmp_path / "c.db")) as opened:
        assert opened.execute("SELECT count(*) FROM passages").fetchone() == (0,)

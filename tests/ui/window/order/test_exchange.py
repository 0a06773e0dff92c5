"""Export of chosen conversations, and import that adds none twice, in the window."""

import json
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMessageBox

from tests.ui.driving import eventually
from tests.ui.window.order.four_conversations import NAMES, listed, one, open_folder
from ui.chat.file_dialogs import file_name
from ui.chat.import_dialog import ImportDialog
from ui.records.conversations import Placement
from ui.window.main_window import MainWindow


async def test_selection_is_exported_with_its_folder_and_imported_once(
    window: MainWindow, tmp_path: Path
) -> None:
    path = tmp_path / "chosen.json"
    sidebar, workspace = window.sidebar, window.workspace
    folder = workspace.conversations.folders.create("Fruit")
    chosen = [one(window, "Bananas"), one(window, "Dates")]
    sidebar.conversation_actions.move(chosen, folder)
    workspace.files.export_to(path, *chosen)
    await workspace.files.finish()
    previews: list[Any] = []
    workspace.files.imports.looked.connect(previews.append)
    workspace.files.imports.look_into(path)
    await workspace.files.finish()
    assert [c.title for c in previews[0].here] == ["Bananas", "Dates"]
    assert previews[0].new == []
    workspace.delete(*chosen)
    workspace.conversations.delete_folder(folder)
    workspace.files.imports.look_into(path)
    await workspace.files.finish()
    workspace.files.imports.take(previews[1], previews[1].new)
    await workspace.files.finish()
    await eventually(lambda: listed(window)[0] == "[Fruit]")
    open_folder(window, "Fruit")
    assert sorted(listed(window)) == sorted(["[Fruit]", *NAMES])
    assert one(window, "Dates").placement == Placement(folder.id)


async def test_an_import_lists_its_conversations_and_adds_none_twice(
    window: MainWindow, tmp_path: Path
) -> None:
    nodes = {
        "q": {"id": "q", "parent": None, "message": said_to_chatgpt("user", "Hello?")},
        "a": {"id": "a", "parent": "q", "message": said_to_chatgpt("assistant", "Hi.")},
        "b": {"id": "b", "parent": "q", "message": said_to_chatgpt("user", "See")},
    }
    listed_there: list[dict[str, Any]] = [
        {"title": "First", "id": "1", "current_node": "a", "mapping": nodes},
        {"title": "Broken", "id": "2", "mapping": []},
        {"title": "Second", "id": "3", "current_node": "a", "mapping": nodes},
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(listed_there))

    async def look() -> ImportDialog:
        window.workspace.files.imports.look_into(path)
        await window.workspace.files.finish()
        return [one for one in window.findChildren(ImportDialog) if one.isVisible()][-1]

    before = set(NAMES)
    dialog = await look()
    assert dialog.heading.text() == "2 Conversations from ChatGPT"
    assert dialog.summary.text() == "conversations.json"
    assert "conversations[1].mapping: must be an object" in dialog.damage.text()
    assert dialog.left_out.text() == "Left out: 2 pictures."
    assert not dialog.copies.isVisible()
    assert dialog.every.isChecked()
    dialog.every.click()
    assert dialog.checked() == []
    assert not dialog.accept_button.isEnabled()
    dialog.every.click()
    assert dialog.accept_button.text() == "Import 2 Conversations"
    dialog.rows.item(1).setCheckState(Qt.CheckState.Unchecked)
    assert dialog.accept_button.text() == "Import 1 Conversation"
    assert not dialog.every.isChecked()
    dialog.folder.setChecked(True)
    dialog.accept()
    await window.workspace.files.finish()
    open_folder(window, "ChatGPT")
    assert set(listed(window)) - before == {"[ChatGPT]", "First"}
    assert [m.content for m in one(window, "First").messages] == ["Hello?", "Hi."]
    bar = window.chat.transfer_bar
    assert bar.isVisible()
    assert bar.caption.text() == (
        "Imported 1 conversation from ChatGPT. Left out: 1 picture. "
        "Damaged and left out: conversations[1].mapping: must be an object."
    )
    assert not bar.cancel.isVisible()
    assert [button.text() for button in bar.buttons] == ["Undo", "Show"]
    bar.buttons[0].click()
    assert set(listed(window)) == before
    window.workspace.conversations.undo_last()
    again = await look()
    assert again.summary.text() == "conversations.json · 1 new, 1 already here"
    assert again.rows.rowCount() == 1
    again.copies.setChecked(True)
    assert again.rows.rowCount() == 2
    again.copies.setChecked(False)
    again.accept()
    await window.workspace.files.finish()
    assert sorted(set(listed(window)) - before) == ["First", "Second", "[ChatGPT]"]
    assert window.workspace.conversations.undo_verb == "Import"
    window.workspace.conversations.undo_last()
    assert "Second" not in listed(window)
    window.workspace.conversations.undo_last()
    last = await look()
    assert not last.accept_button.isEnabled()
    assert last.summary.text() == "conversations.json · all already here"
    assert last.list.isHidden()
    last.copies.setChecked(True)
    assert not last.list.isHidden()
    last.reject()


def said_to_chatgpt(role: str, text: str) -> dict[str, Any]:
    picture = [{"content_type": "image_asset_pointer"}] if text == "See" else []
    content = {"content_type": "text", "parts": [text, *picture]}
    return {"author": {"role": role}, "content": content, "create_time": 1_700_000_000}


async def test_failed_export_offers_another_place(window: MainWindow, tmp_path: Path) -> None:
    window.files.export([one(window, "Bananas")], "JSON")
    window.findChild(QFileDialog).close()
    target = tmp_path / "gone" / "one.json"
    window.workspace.files.export_to(target, one(window, "Bananas"))
    await window.workspace.files.finish()
    (box,) = window.findChildren(QMessageBox)
    assert box.text() == "“one.json” could not be written."
    next(each for each in box.buttons() if each.text() == "Save Elsewhere…").click()
    await eventually(lambda: any(each.isVisible() for each in window.findChildren(QFileDialog)))
    for dialog in window.findChildren(QFileDialog):
        dialog.close()


def test_file_name_keeps_dates_and_drops_forbidden_characters() -> None:
    assert file_name("Meeting 29.11.2026: a/b?") == "Meeting 29.11.2026 a b"
    assert file_name("../..") == "conversation"

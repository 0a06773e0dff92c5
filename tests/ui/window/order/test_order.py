"""Conversations in order: folders, tags, archive, several at once, each undone in one step."""

import json
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMenu

from engine.scheduling.service import Engine
from tests.support.answers.said import conversation
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop, eventually
from ui.chat.columns.folder_dialog import FolderDialog
from ui.chat.columns.import_dialog import ImportDialog
from ui.chat.history.sidebar_rows import FolderHead
from ui.chat.storage.transfer_bar import TransferBar
from ui.kit.look.theme import Theme
from ui.records.conversations import Conversation, ConversationFolder, StopEntry
from ui.records.placement import ListOrder, Placement
from ui.records.storing import MemoryConversationStore
from ui.window.main_window import MainWindow

NAMES = ("Apples", "Bananas", "Cherries", "Dates")


def used(run: RunOnLoop, engine: Engine, theme: Theme, steps: Callable[..., Any]) -> None:
    async def whole() -> None:
        store = MemoryConversationStore()
        for number, name in enumerate(NAMES):
            one = conversation(f"What are {name}?")
            one.title, one.updated_at, one.created_at = name, 1e9 - number, 1e9 + number
            store.save(one)
        async with shown(main_window(engine, theme, store=store)) as window:
            steps_done: Coroutine[Any, Any, None] = steps(window)
            await steps_done

    run(whole())


def listed(window: MainWindow) -> list[str]:
    rows = window.sidebar.rows
    return [
        f"[{row.folder.name}]" if isinstance(row, FolderHead) else row.title
        for row in map(rows.at, range(rows.rowCount()))
    ]


def one(window: MainWindow, title: str) -> Conversation:
    return next(c for c in window.workspace.conversations.every() if c.title == title)


def click(window: MainWindow, title: str, keys: Qt.KeyboardModifier) -> None:
    view = window.sidebar.list
    place = view.visualRect(window.sidebar.rows.index_of(one(window, title))).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, keys, place)


def drop(window: MainWindow, data: QMimeData, place: QPoint) -> None:
    event = QDropEvent(
        QPointF(place),
        Qt.DropAction.MoveAction,
        data,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    window.sidebar.list.dropEvent(event)


def entry(menu: QMenu, *path: str) -> None:
    """Trigger an entry of a menu, or of the menus within."""
    for name in path[:-1]:
        menu = next(a.menu() for a in menu.actions() if a.text().replace("&", "") == name)
    next(a for a in menu.actions() if a.text().replace("&", "") == path[-1]).trigger()


def test_several_are_chosen_with_keys_and_deleted_and_restored_in_one_step(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        control, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
        opened = window.workspace.current.conversation
        assert opened.title == "Apples"
        click(window, "Bananas", Qt.KeyboardModifier.NoModifier)
        click(window, "Dates", control)
        assert [c.title for c in window.sidebar.list.chosen()] == ["Bananas", "Dates"]
        assert window.workspace.current.conversation.title == "Bananas"
        click(window, "Bananas", Qt.KeyboardModifier.NoModifier)
        click(window, "Dates", shift)
        assert [c.title for c in window.sidebar.chosen()] == ["Bananas", "Cherries", "Dates"]
        window.sidebar.delete_current()
        assert listed(window) == ["Apples"]
        assert window.workspace.current.conversation.title == "Apples"
        assert window.sidebar.undo_bar.isVisible()
        window.sidebar.undo_bar.button.click()
        assert listed(window) == list(NAMES)
        assert not window.sidebar.undo_bar.isVisible()

    used(run, engine, theme, steps)


def test_conversations_are_dragged_into_a_folder_and_out_of_it(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        sidebar, conversations = window.sidebar, window.workspace.conversations
        conversations.folders.create("Fruit")
        assert listed(window) == ["[Fruit]", *NAMES]
        chosen = [one(window, "Bananas"), one(window, "Dates")]
        head = sidebar.list.visualRect(sidebar.rows.index(0)).center()
        drop(window, sidebar.rows.carried(chosen), head)
        assert listed(window) == ["[Fruit]", "Bananas", "Dates", "Apples", "Cherries"]
        conversations.undo_last()
        assert listed(window) == ["[Fruit]", *NAMES]
        drop(window, sidebar.rows.carried(chosen), head)
        # A conversation of the folder takes what is dropped on it into the folder, too.
        inside = sidebar.list.visualRect(sidebar.rows.index(1)).center()
        drop(window, sidebar.rows.carried([one(window, "Apples")]), inside)
        assert listed(window) == ["[Fruit]", "Apples", "Bananas", "Dates", "Cherries"]
        below = QPoint(20, sidebar.list.viewport().height() - 2)
        drop(window, sidebar.rows.carried(chosen), below)
        assert listed(window) == ["[Fruit]", "Apples", "Bananas", "Cherries", "Dates"]
        (tags,) = [conversations.tags()]
        assert tags == []
        sidebar.list.setFocus()
        sidebar.list.setCurrentIndex(sidebar.rows.index(0))
        QTest.keyClick(sidebar.list, Qt.Key.Key_Left)
        assert listed(window) == ["[Fruit]", "Bananas", "Cherries", "Dates"]
        QTest.keyClick(sidebar.list, Qt.Key.Key_Right)
        assert len(listed(window)) == 5
        QTest.keyClick(sidebar.list, Qt.Key.Key_Delete)
        assert listed(window) == list(NAMES)
        conversations.undo_last()
        assert listed(window) == ["[Fruit]", "Apples", "Bananas", "Cherries", "Dates"]

    used(run, engine, theme, steps)


def test_the_menu_moves_tags_and_archives_what_is_chosen(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        sidebar, conversations = window.sidebar, window.workspace.conversations
        conversations.folders.create("Fruit")
        menu = QMenu(window)
        chosen = [one(window, "Bananas"), one(window, "Cherries")]

        def do(*path: str) -> None:
            menu.clear()
            sidebar.ordering.fill(menu, chosen)
            entry(menu, *path)

        do("Move to Folder", "Fruit")
        assert listed(window) == ["[Fruit]", "Bananas", "Cherries", "Apples", "Dates"]
        sidebar.ordering.tag(chosen[:1], "ripe", "yellow")
        sidebar.ordering.tag([one(window, "Dates")], "ripe")
        assert [b.text() for b in sidebar.tags.buttons()] == ["#ripe", "#yellow"]
        sidebar.tags.buttons()[0].click()
        assert listed(window) == ["[Fruit]", "Bananas", "Dates"]
        do("Tags", "#yellow")
        assert one(window, "Cherries").placement.tags == ("yellow",)
        do("Tags", "#yellow")
        assert not any("yellow" in c.placement.tags for c in chosen)
        conversations.undo_last()
        assert all("yellow" in c.placement.tags for c in chosen)
        sidebar.tags.buttons()[0].click()
        do("Archive")
        assert listed(window) == ["[Fruit]", "Apples", "Dates"]
        sidebar.rows.show_archive(True)
        assert sidebar.archive.isVisible()
        assert listed(window) == ["[Fruit]", "Bananas", "Cherries"]
        do("Unarchive")
        sidebar.archive.leave.click()
        assert listed(window) == ["[Fruit]", "Bananas", "Cherries", "Apples", "Dates"]
        (hit,) = await window.workspace.store.search("rip yel")
        assert (hit.title, hit.role) == ("Bananas", "tag")
        menu.deleteLater()

    used(run, engine, theme, steps)


def test_the_list_is_sorted_in_each_order_and_keeps_pinned_ones_on_top(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        window.workspace.conversations.pin(one(window, "Cherries"), True)
        found = {}
        for order in ListOrder:
            window.preferences.change(list_order=order.value)
            found[order] = listed(window)
        assert found == {
            ListOrder.RECENT: ["Cherries", "Apples", "Bananas", "Dates"],
            ListOrder.CREATED: ["Cherries", "Dates", "Bananas", "Apples"],
            ListOrder.OLDEST: ["Cherries", "Apples", "Bananas", "Dates"],
            ListOrder.TITLE: ["Cherries", "Apples", "Bananas", "Dates"],
        }
        window.workspace.conversations.rename(one(window, "Apples"), "Zucchini")
        assert listed(window) == ["Cherries", "Bananas", "Dates", "Zucchini"]
        assert window.sidebar.list.currentIndex().row() == 3, "the open one stays marked"

    used(run, engine, theme, steps)


def test_a_new_conversation_begins_with_its_folders_prompt_and_stops_and_says_so(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        folders = window.workspace.conversations.folders
        folder = ConversationFolder("Work")
        folders.keep(folder)
        # One without the settings that the folder is about to get.
        window.workspace.new_conversation(folder)
        window.sidebar.edit_folder(folder)
        (dialog,) = window.findChildren(FolderDialog)
        dialog.name.setText("Office")
        dialog.prompt.setPlainText("Be formal.")
        dialog.editor.input.setText("\\n")
        QTest.keyClick(dialog.editor.input, Qt.Key.Key_Return)
        assert dialog.isVisible(), "Return adds, and does not save yet"
        dialog.editor.input.setText("END")
        dialog.accept()
        assert folders.all() == [
            replace(
                folder,
                name="Office",
                system_prompt="Be formal.",
                stops=(StopEntry("\n"), StopEntry("END")),
            )
        ]
        window.workspace.new_conversation(folders.all()[0])
        made = window.workspace.current.conversation
        window.workspace.new_conversation(folders.all()[0])
        assert window.workspace.current.conversation is made, "it is not used yet"
        assert made.settings.system_prompt == "Be formal."
        assert made.placement == Placement(folder.id)
        assert window.workspace.current.stops.entries() == [StopEntry("\n"), StopEntry("END")]
        source = window.stop_panel.source
        assert source.isVisible()
        assert source.text() == "From the folder “Office”"
        window.workspace.current.stops.add("MORE")
        assert source.text() == "From the folder “Office”, changed here"
        window.workspace.new_conversation()
        assert window.workspace.current.conversation is not made
        assert window.workspace.current.conversation.stops == []
        assert not source.isVisible()

    used(run, engine, theme, steps)


def test_the_keyboard_stays_in_the_hits_of_a_search_until_one_is_chosen(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        sidebar, field = window.sidebar, window.sidebar.search_field
        one(window, "Bananas").draft = "not to be sent"
        window.activateWindow()
        await eventually(window.isActiveWindow)
        field.setFocus()
        QTest.keyClicks(field, "Bananas")
        await eventually(lambda: sidebar.results.list.model().rowCount() > 0)
        QTest.keyClick(field, Qt.Key.Key_Down)
        await eventually(lambda: window.workspace.current.conversation is one(window, "Bananas"))
        assert sidebar.results.list.hasFocus()
        QTest.keyClick(sidebar.results.list, Qt.Key.Key_Return)
        assert window.chat.composer.input.hasFocus(), "whoever has chosen writes there"
        assert not window.workspace.current.is_running

    used(run, engine, theme, steps)


def test_what_is_chosen_is_exported_with_its_folder_and_opens_again_without_doubles(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    path = tmp_path / "chosen.json"

    async def steps(window: MainWindow) -> None:
        sidebar, workspace = window.sidebar, window.workspace
        folder = workspace.conversations.folders.create("Fruit")
        chosen = [one(window, "Bananas"), one(window, "Dates")]
        sidebar.ordering.move(chosen, folder)
        sidebar.ordering.tag(chosen, "ripe")
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
        assert sorted(listed(window)) == sorted(["[Fruit]", *NAMES])
        assert one(window, "Dates").placement == Placement(folder.id, ("ripe",))

    used(run, engine, theme, steps)


def test_an_import_lists_its_conversations_and_adds_none_twice(
    run: RunOnLoop, engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    nodes = {
        "q": {"id": "q", "parent": None, "message": said_to_chatgpt("user", "Hello?")},
        "a": {"id": "a", "parent": "q", "message": said_to_chatgpt("assistant", "Hi.")},
    }
    listed_there: list[dict[str, Any]] = [
        {"title": "First", "id": "1", "current_node": "a", "mapping": nodes},
        {"title": "Broken", "id": "2", "mapping": []},
        {"title": "Second", "id": "3", "current_node": "a", "mapping": nodes},
    ]
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(listed_there))

    async def look(window: MainWindow) -> ImportDialog:
        window.workspace.files.imports.look_into(path)
        await window.workspace.files.finish()
        return [one for one in window.findChildren(ImportDialog) if one.isVisible()][-1]

    async def steps(window: MainWindow) -> None:
        before = set(NAMES)
        dialog = await look(window)
        assert dialog.words.text() == "conversations.json holds 2 conversations from ChatGPT."
        assert "conversations[1].mapping: must be an object" in dialog.damage.text()
        assert not dialog.copies.isVisible()
        dialog.list.item(1).setCheckState(Qt.CheckState.Unchecked)
        assert dialog.accept_button.text() == "Import 1 conversation"
        dialog.folder.setChecked(True)
        dialog.accept()
        await window.workspace.files.finish()
        assert set(listed(window)) - before == {"[ChatGPT]", "First"}
        assert [m.said for m in one(window, "First").messages] == ["Hello?", "Hi."]
        bar = window.statusBar()
        assert isinstance(bar, TransferBar)
        assert bar.isVisible()
        assert bar.words.text() == "Imported 1 conversation from ChatGPT."
        assert not bar.cancel.isVisible()
        again = await look(window)
        assert "1 of them is here already." in again.words.text()
        assert again.list.count() == 1
        again.copies.setChecked(True)
        assert again.list.count() == 2
        again.copies.setChecked(False)
        again.accept()
        await window.workspace.files.finish()
        assert sorted(set(listed(window)) - before) == ["First", "Second", "[ChatGPT]"]
        last = await look(window)
        assert not last.accept_button.isEnabled()
        last.reject()

    used(run, engine, theme, steps)


def said_to_chatgpt(role: str, text: str) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    return {"author": {"role": role}, "content": content, "create_time": 1_700_000_000}


def test_a_conversation_made_with_ctrl_held_is_the_chosen_one(
    run: RunOnLoop, engine: Engine, theme: Theme
) -> None:
    async def steps(window: MainWindow) -> None:
        window.workspace.open(one(window, "Bananas"))
        field = window.chat.composer.input
        QTest.keyPress(field, Qt.Key.Key_Control, Qt.KeyboardModifier.ControlModifier)
        window.workspace.new_conversation()
        made = window.workspace.current.conversation
        chosen = window.sidebar.list.chosen()
        QTest.keyRelease(field, Qt.Key.Key_Control, Qt.KeyboardModifier.NoModifier)
        assert not made.has_messages
        assert chosen == [made]

    used(run, engine, theme, steps)

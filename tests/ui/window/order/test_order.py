"""Conversations in order: folders, archive, several at once, each undone in one step."""

from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, QRect, Qt
from PySide6.QtGui import QAction, QColor, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QLineEdit, QMenu

from tests.ui.driving import eventually
from tests.ui.window.order.four_conversations import NAMES, listed, one, open_folder
from ui.chat.sidebar import FolderDialog
from ui.kit.buttons import IconButton
from ui.kit.commands import fill_menu
from ui.records.conversations import Conversation, ConversationFolder, ListOrder, Placement
from ui.records.stop_entries import StopEntry
from ui.window.main_window import MainWindow


def click(window: MainWindow, title: str, keys: Qt.KeyboardModifier) -> None:
    view = window.sidebar.list
    place = view.visualRect(window.sidebar.rows.index_of(one(window, title))).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, keys, place)


def carried(window: MainWindow, chosen: list[Conversation]) -> QMimeData:
    rows = window.sidebar.rows
    return rows.mimeData([rows.index_of(conversation) for conversation in chosen])


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
    """Trigger an entry of an open menu, or of the menus within."""
    menu.aboutToShow.emit()
    for name in path[:-1]:
        menu = next(a.menu() for a in menu.actions() if a.text().replace("&", "") == name)
    next(a for a in menu.actions() if a.text().replace("&", "") == path[-1]).trigger()


async def test_several_are_chosen_with_keys_and_deleted_and_restored_in_one_step(
    window: MainWindow,
) -> None:
    control, shift = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier
    opened = window.workspace.current.conversation
    assert opened.title == "Apples"
    click(window, "Bananas", Qt.KeyboardModifier.NoModifier)
    click(window, "Dates", control)
    assert [c.title for c in window.sidebar.list.chosen()] == ["Bananas", "Dates"]
    assert window.workspace.current.conversation.title == "Bananas"
    click(window, "Bananas", control)
    assert window.workspace.current.conversation.title == "Dates", "the only one left is opened"
    click(window, "Bananas", Qt.KeyboardModifier.NoModifier)
    click(window, "Dates", shift)
    assert [c.title for c in window.sidebar.chosen()] == ["Bananas", "Cherries", "Dates"]
    window.workspace.delete(*window.sidebar.chosen())
    assert listed(window) == ["Apples"]
    assert window.workspace.current.conversation.title == "Apples"
    assert window.sidebar.undo_bar.isVisible()
    window.sidebar.undo_bar.button.click()
    assert listed(window) == list(NAMES)
    assert not window.sidebar.undo_bar.isVisible()


async def test_deletion_opens_no_conversation_of_a_closed_folder(window: MainWindow) -> None:
    workspace = window.workspace
    folder = ConversationFolder("Recipes")
    workspace.conversations.folders.keep(folder)
    inside = [one(window, name) for name in ("Bananas", "Cherries")]
    placed = [(each, Placement(folder.id)) for each in inside]
    workspace.conversations.change_placement(placed, "Moved")
    opened = workspace.current.conversation
    assert opened.title == "Apples"
    workspace.delete(opened)
    await eventually(lambda: workspace.current.conversation.title == "Dates")


async def test_of_several_chosen_ones_all_are_pinned_and_none_is_duplicated(
    window: MainWindow,
) -> None:
    def command(name: str) -> QAction:
        for menu in window.menuBar().findChildren(QMenu):
            menu.aboutToShow.emit()
        actions = window.findChildren(QAction)
        return next(a for a in actions if a.text().replace("&", "").rstrip("…") == name)

    click(window, "Bananas", Qt.KeyboardModifier.NoModifier)
    assert command("Duplicate").isEnabled()
    click(window, "Dates", Qt.KeyboardModifier.ControlModifier)
    assert not command("Duplicate").isEnabled()
    command("Pin 2").trigger()
    assert [c.title for c in window.workspace.conversations.every() if c.is_pinned] == [
        "Bananas",
        "Dates",
    ]
    command("JSON").trigger()
    dialog = window.findChild(QFileDialog)
    assert Path(dialog.selectedFiles()[0]).name.startswith("Conversations ")
    dialog.close()
    command("Unpin 2").trigger()
    assert not any(c.is_pinned for c in window.workspace.conversations.every())


async def test_conversations_are_dragged_into_a_folder_and_out_of_it(window: MainWindow) -> None:
    sidebar, conversations = window.sidebar, window.workspace.conversations
    open_folder(window, "Fruit")
    assert listed(window) == ["[Fruit]", *NAMES]
    chosen = [one(window, "Bananas"), one(window, "Dates")]
    head = sidebar.list.visualRect(sidebar.rows.index(0)).center()
    drop(window, carried(window, chosen), head)
    assert listed(window) == ["[Fruit]", "Bananas", "Dates", "Apples", "Cherries"]
    conversations.undo_last()
    assert listed(window) == ["[Fruit]", *NAMES]
    drop(window, carried(window, chosen), head)
    # A conversation of the folder takes what is dropped on it into the folder, too.
    inside = sidebar.list.visualRect(sidebar.rows.index(1)).center()
    drop(window, carried(window, [one(window, "Apples")]), inside)
    assert listed(window) == ["[Fruit]", "Apples", "Bananas", "Dates", "Cherries"]
    below = QPoint(20, sidebar.list.viewport().height() - 2)
    drop(window, carried(window, chosen), below)
    assert listed(window) == ["[Fruit]", "Apples", "Bananas", "Cherries", "Dates"]
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
    assert conversations.folders.of(one(window, "Apples")) is not None


async def test_dragging_frames_the_folder_that_takes_the_row(window: MainWindow) -> None:
    open_folder(window, "Fruit")
    view, rows = window.sidebar.list, window.sidebar.rows
    head = view.visualRect(rows.index(0)).center()
    drop(window, carried(window, [one(window, "Bananas")]), head)
    data = carried(window, [one(window, "Apples")])

    def framed(place: QPoint) -> QImage:
        drag = Qt.DropAction.MoveAction, data, Qt.MouseButton.LeftButton
        view.dragMoveEvent(QDragMoveEvent(place, *drag, Qt.KeyboardModifier.NoModifier))
        return view.viewport().grab().toImage()

    def has_frame(image: QImage, top: QRect, bottom: QRect) -> bool:
        accent = QColor(window.theme.colors.accent)
        edges = QPoint(top.center().x(), top.top() + 2), QPoint(top.left() + 9, bottom.center().y())
        return all(image.pixelColor(edge) == accent for edge in edges)

    folder, inside = (view.visualRect(rows.index(row)) for row in (0, 1))
    loose = view.visualRect(rows.index_of(one(window, "Cherries")))
    for place in (folder.center(), inside.center()):
        assert has_frame(framed(place), folder, inside)
    assert not has_frame(framed(loose.center()), folder, inside)
    view.dragLeaveEvent(QDragLeaveEvent())
    assert not view._drop_area.isValid()


async def test_closed_folder_is_highlighted_for_the_open_conversation_in_it(
    window: MainWindow,
) -> None:
    sidebar, folders = window.sidebar, window.workspace.conversations.folders
    open_folder(window, "Fruit")
    window.workspace.open(one(window, "Bananas"))

    def ground() -> QColor:
        row = sidebar.list.visualRect(sidebar.rows.index(0))
        return (
            sidebar.list.viewport().grab().toImage().pixelColor(row.right() - 40, row.center().y())
        )

    plain = ground()
    head = sidebar.list.visualRect(sidebar.rows.index(0)).center()
    drop(window, carried(window, [one(window, "Bananas")]), head)
    assert ground() == plain
    sidebar.rows.toggle(folders.all()[0])
    assert ground() != plain
    spoken = sidebar.rows.index(0).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Folder Fruit, 1 conversation, closed, with the current conversation"
    window.workspace.open(one(window, "Dates"))
    assert ground() == plain


async def test_the_menu_moves_and_archives_what_is_chosen(window: MainWindow) -> None:
    sidebar = window.sidebar
    open_folder(window, "Fruit")
    chosen = [one(window, "Bananas"), one(window, "Cherries")]

    def do(*path: str) -> None:
        menu = QMenu(window)
        fill_menu(menu, sidebar.conversation_actions.entries(lambda: chosen))
        entry(menu, *path)

    do("Move to Folder", "Fruit")
    assert listed(window) == ["[Fruit]", "Bananas", "Cherries", "Apples", "Dates"]
    do("Archive 2")
    edit = next(a.menu() for a in window.menuBar().actions() if a.text() == "&Edit")
    edit.aboutToShow.emit()
    assert edit.actions()[0].text() == "&Undo Archive"
    assert listed(window) == ["[Fruit]", "Apples", "Dates"]
    sidebar.rows.show_archive(True)
    assert sidebar.archive.isVisible()
    assert listed(window) == ["[Fruit]", "Bananas", "Cherries"]
    do("Unarchive 2")
    sidebar.archive.findChild(IconButton).click()
    assert listed(window) == ["[Fruit]", "Bananas", "Cherries", "Apples", "Dates"]


async def test_new_folder_is_named_in_its_row(window: MainWindow) -> None:
    sidebar = window.sidebar
    sidebar.conversation_actions.new_folder([one(window, "Bananas")])
    assert listed(window)[0] == "[New Folder]"
    field = sidebar.list.findChild(QLineEdit)
    QTest.keyClicks(field, "Fruit")
    QTest.keyClick(field, Qt.Key.Key_Return)
    await eventually(lambda: listed(window)[0] == "[Fruit]")
    open_folder(window, "Fruit")
    assert listed(window)[:2] == ["[Fruit]", "Bananas"]
    assert sidebar.undo_bar.message.text() == "Moved “Bananas” to a new folder"


async def test_naming_a_folder_leaves_open_ones_open(window: MainWindow) -> None:
    sidebar = window.sidebar
    open_folder(window, "Work")
    sidebar.conversation_actions.move(
        [one(window, "Cherries")], window.workspace.conversations.folders.all()[0]
    )
    sidebar.rows.toggle(window.workspace.conversations.folders.all()[0])
    place = sidebar.list.visualRect(sidebar.rows.index(0)).center()
    QTest.mouseClick(sidebar.list.viewport(), Qt.MouseButton.LeftButton, pos=place)
    window.workspace.new_conversation()
    assert listed(window)[:2] == ["[Work]", "Cherries"]
    sidebar.conversation_actions.new_folder()
    field = sidebar.list.findChild(QLineEdit)
    QTest.keyClicks(field, "Fruit")
    QTest.keyClick(field, Qt.Key.Key_Return)
    await eventually(lambda: "[Fruit]" in listed(window))
    assert "Cherries" in listed(window)


async def test_button_of_a_row_opens_its_menu(window: MainWindow) -> None:
    view, rows = window.sidebar.list, window.sidebar.rows
    before = window.workspace.selected
    area = view.visualRect(rows.index_of(one(window, "Dates")))
    place = view.itemDelegate().more_area(area).center()
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=place)
    [menu] = [one for one in window.sidebar.findChildren(QMenu) if one.isVisible()]
    assert menu.actions()[0].text() == "Re&name"
    assert window.workspace.selected is before
    menu.close()


async def test_blank_chat_of_a_folder_is_listed_while_it_is_open(window: MainWindow) -> None:
    open_folder(window, "Work")
    folder = window.workspace.conversations.folders.all()[0]
    window.sidebar._begin_in(folder)
    assert listed(window)[:2] == ["[Work]", "New Chat"]
    window.workspace.open(one(window, "Dates"))
    assert "New Chat" not in listed(window)
    assert window.sidebar.rows.count_in(folder) == 0
    window.sidebar._begin_in(folder)
    assert listed(window).count("New Chat") == 1


async def test_archiving_the_open_chat_opens_the_next(window: MainWindow) -> None:
    assert window.workspace.selected.title == "Apples"
    window.sidebar.conversation_actions.toggle_archived([one(window, "Apples")])
    assert window.workspace.selected.title == "Bananas"
    assert window.sidebar.list.chosen() == [one(window, "Bananas")]


async def test_blank_chat_has_no_commands_without_effect(window: MainWindow) -> None:
    window.workspace.new_conversation()
    menu = next(a.menu() for a in window.menuBar().actions() if a.text() == "&Conversation")
    menu.aboutToShow.emit()
    enabled = {a.text().replace("&", ""): a.isEnabled() for a in menu.actions()}
    names = ("Rename", "Pin", "Duplicate", "Archive", "Delete")
    assert [enabled[name] for name in names] == [False] * 5
    assert enabled["Move to Folder"], "a new chat may begin in a folder"


async def test_dragged_row_shows_a_name_beside_the_pointer(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    drags = []
    monkeypatch.setattr("ui.chat.sidebar.QDrag.exec", lambda drag, _actions: drags.append(drag))
    click(window, "Bananas", Qt.KeyboardModifier.NoModifier)
    window.sidebar.list.startDrag(Qt.DropAction.MoveAction)
    [drag] = drags
    assert drag.hotSpot().x() < 0
    assert drag.pixmap().deviceIndependentSize().width() < window.sidebar.list.width() / 2 + 30
    assert window.sidebar.rows.canDropMimeData(
        drag.mimeData(), Qt.DropAction.MoveAction, -1, -1, window.sidebar.rows.index(0)
    )


async def test_the_list_is_sorted_in_each_order_and_keeps_pinned_ones_on_top(
    window: MainWindow,
) -> None:
    window.workspace.conversations.pin(one(window, "Cherries"), True)
    found = {}
    for order in get_args(ListOrder):
        window.preferences.change(list_order=order)
        found[order] = listed(window)
    assert found == {
        "recent": ["Cherries", "Apples", "Bananas", "Dates"],
        "created": ["Cherries", "Dates", "Bananas", "Apples"],
        "oldest": ["Cherries", "Apples", "Bananas", "Dates"],
        "title": ["Cherries", "Apples", "Bananas", "Dates"],
    }
    window.workspace.conversations.rename(one(window, "Apples"), "Zucchini")
    assert listed(window) == ["Cherries", "Bananas", "Dates", "Zucchini"]
    assert window.sidebar.list.currentIndex() == window.sidebar.rows.index_of(
        one(window, "Zucchini")
    ), "the open one stays marked"


async def test_new_conversation_takes_prompt_and_stops_of_its_folder(
    window: MainWindow,
) -> None:
    folders = window.workspace.conversations.folders
    folder = ConversationFolder("Work")
    folders.keep(folder)
    window.pane.open(window.stop_panel)
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
            stops=(StopEntry.of("\n"), StopEntry.of("END")),
        )
    ]
    window.workspace.new_conversation(folders.all()[0])
    made = window.workspace.current.conversation
    window.workspace.new_conversation(folders.all()[0])
    assert window.workspace.current.conversation is made, "it is not used yet"
    assert made.settings.system_prompt == "Be formal."
    assert made.placement == Placement(folder.id)
    assert window.workspace.current.stops.entries() == [StopEntry.of("\n"), StopEntry.of("END")]
    source = window.stop_panel.source
    assert source.isVisible()
    assert source.text() == "From the folder “Office”"
    window.workspace.current.stops.add("MORE")
    assert source.text() == "From the folder “Office”, changed here"
    window.workspace.new_conversation()
    assert window.workspace.current.conversation is not made
    assert window.workspace.current.conversation.stops == []
    assert not source.isVisible()


async def test_blank_chat_is_listed_once_something_is_drafted(window: MainWindow) -> None:
    window.workspace.new_conversation()
    blank, rows = window.workspace.selected, window.sidebar.rows
    assert listed(window) == list(NAMES)
    assert not window.sidebar.list.selectionModel().hasSelection()
    QTest.keyClicks(window.chat.composer.input, "Hello")
    window.workspace.save_draft()
    assert listed(window)[0] == blank.title
    tooltip = rows.index_of(blank).data(Qt.ItemDataRole.ToolTipRole)
    assert "Draft" in tooltip
    assert window.sidebar.list.currentIndex() == rows.index_of(blank)


async def test_chat_with_an_attached_file_is_marked_as_a_draft(
    window: MainWindow, tmp_path: Path
) -> None:
    note = tmp_path / "note.txt"
    note.write_text("Hello")
    window.workspace.new_conversation()
    window.chat.composer.attachments.attach([note])
    await eventually(lambda: listed(window)[0] == window.workspace.selected.title)
    assert window.workspace.selected.has_draft


async def test_menu_of_a_row_leaves_the_focus(window: MainWindow) -> None:
    window.workspace.new_conversation()
    rows, field = window.sidebar.list, window.chat.composer.input
    field.setFocus()
    place = rows.visualRect(rows.model().index(1, 0)).center()
    below = rows.viewport().rect().bottomLeft() + QPoint(5, -5)
    QTest.mouseClick(rows.viewport(), Qt.MouseButton.RightButton, pos=place)
    assert window.focusWidget() is field
    QTest.mouseClick(rows.viewport(), Qt.MouseButton.LeftButton, pos=below)
    assert window.focusWidget() is rows


async def test_notice_of_long_names_takes_two_lines(window: MainWindow) -> None:
    sidebar, moved = window.sidebar, one(window, "Bananas")
    conversations = window.workspace.conversations
    conversations.rename(moved, "Rust borrow checker error E0502 in a loop of my parser")
    folder = conversations.folders.create("A folder with a name that is long, too")
    sidebar.conversation_actions.move([moved], folder)
    message = sidebar.undo_bar.message
    assert message.text() == "Moved “Rust borro…” to “A folder with…”"
    assert message.height() <= 2 * message.fontMetrics().lineSpacing() + 1

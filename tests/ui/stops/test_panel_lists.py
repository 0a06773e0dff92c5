"""The stop panel's menu: the lists that new conversations begin with, and their sources."""

from PySide6.QtGui import QAction

from ui.records.stop_entries import StopEntry
from ui.stops.stop_lists import DEFAULT_LIST, named_list
from ui.stops.stop_rows import StopColumn
from ui.window.main_window import MainWindow

END = (StopEntry.of("END"),)


def entry(window: MainWindow, words: str) -> QAction:
    menu = window.stop_panel.editor.menu
    menu.aboutToShow.emit()
    return next(action for action in menu.actions() if action.text() == words)


async def test_list_for_the_model_comes_before_the_default_one(window: MainWindow) -> None:
    workspace, panel = window.workspace, window.stop_panel
    panel.show()
    name = workspace.model_selection.state.name
    own = f"Use for New Chats with {name}"
    workspace.current.stops.add_sequence("usual")
    entry(window, "Use for New Chats").trigger()
    workspace.current.stops.replace_all(END, "")
    assert not entry(window, f"Remove List for {name}").isVisible()
    entry(window, own).trigger()
    assert panel.editor.undo_bar.message.text() == (
        f"New chats with {name} begin with this list of 1 sequence"
    )
    assert entry(window, own).isChecked()
    assert not entry(window, "Use for New Chats").isChecked()
    workspace.current.conversation.draft = "used"
    workspace.new_conversation()
    assert tuple(workspace.current.stops.entries()) == END
    assert panel.source.text() == f"From the list for {name}"
    entry(window, f"Remove List for {name}").trigger()
    assert workspace.current.stops.entries() == [StopEntry.of("usual")]
    assert panel.source.text() == "From the default list"
    panel.editor.undo_bar.button.click()
    assert tuple(workspace.current.stops.entries()) == END


async def test_panel_names_a_saved_list_and_the_list_of_the_model(window: MainWindow) -> None:
    workspace, panel = window.workspace, window.stop_panel
    panel.show()
    workspace.current.stops.add_sequence("own")
    workspace.stop_lists.keep(named_list("Agents"), END)
    workspace.use_stop_list(named_list("Agents"))
    assert panel.source.text() == "From the list “Agents”"
    workspace.current.stops.add_sequence("more")
    assert panel.source.text() == "From the list “Agents”, changed here"
    workspace.stop_lists.keep(named_list("Agents"), None)
    assert not panel.source.isVisible()
    assert workspace.stop_lists.get(DEFAULT_LIST) is None


async def test_removed_stop_is_offered_back_until_the_next_change(window: MainWindow) -> None:
    stops, editor = window.workspace.current.stops, window.stop_panel.editor
    window.stop_panel.show()
    stops.replace_all([StopEntry.of("one"), StopEntry.of("two")], "")
    editor.table.setCurrentIndex(stops.index(0, 1))
    editor.table.remove_requested.emit()
    assert editor.undo_bar.message.text() == "Removed “one”"
    editor.undo_bar.button.click()
    assert [entry.stop.text for entry in stops.entries()] == ["one", "two"]
    stops.remove([1])
    assert not editor.undo_bar.isHidden()
    stops.add_sequence("three")
    assert editor.undo_bar.isHidden()


async def test_row_without_remarks_leaves_no_empty_column(window: MainWindow) -> None:
    stops, table = window.workspace.current.stops, window.stop_panel.editor.table
    window.stop_panel.show()
    stops.replace_all([StopEntry.of("one")], "")
    assert table.isColumnHidden(StopColumn.REMARK)
    stops.add_sequence(" two")  # a remark, but no problem
    assert table.isColumnHidden(StopColumn.REMARK)
    stops.add_sequence("a\\nb")
    assert not table.isColumnHidden(StopColumn.REMARK)
    right = [table.visualRect(stops.index(row, StopColumn.SEQUENCE)).right() for row in (0, 2)]
    assert right[0] > right[1], "a row without an icon leaves no place for one"

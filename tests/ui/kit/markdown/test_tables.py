"""Tables of rendered Markdown: their cells, their lines, and what a copy of them has."""

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication

from tests.support.looks.rich_text import (
    table_frames,
    tables,
)
from tests.ui.kit.markdown.views import GRID, shown
from ui.kit.theme import Theme


def test_rows_with_fewer_or_more_cells_than_the_head_lose_nothing(
    theme: Theme, qapp: QApplication
) -> None:
    for before, after in (("", ""), ("> ", "> "), ("- ", "  ")):
        text = f"{before}|a|b|\n{after}|-|-|\n{after}|1|\n{after}|1|2|surplus|\n"
        cells = tables(shown(theme, qapp, text).document())
        assert cells == [[["a", "b", ""], ["1", "", ""], ["1", "2", "surplus"]]]


def test_a_table_is_copied_as_lines_with_tabs_and_as_a_real_table(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, qapp, f"before\n\n{GRID}\nafter $x$\n")
    view.selectAll()
    view.copy()
    copied = qapp.clipboard().mimeData()
    assert copied.text() == "before\na\tb\n1\t22\n3\t4\nafter $x$"
    assert copied.html().count("<td") + copied.html().count("<th>") == 6
    assert "<table" in copied.html()
    assert "formula:" not in copied.html()
    assert "$x$" in copied.html()


def test_only_selected_cells_are_copied(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, "|a|b|c|\n|-|-|-|\n|1|2|3|\n|4|5|6|\n")
    table = table_frames(view.document())[0]
    cursor = table.cellAt(1, 1).firstCursorPosition()
    there = table.cellAt(2, 2).lastCursorPosition().position()
    cursor.setPosition(there, QTextCursor.MoveMode.KeepAnchor)
    view.setTextCursor(cursor)
    copied = view.createMimeDataFromSelection()
    assert copied.text() == "2\t3\n5\t6"
    assert "<table" in copied.html()

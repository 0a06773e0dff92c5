"""Tables of rendered Markdown: their cells, their lines, and what a copy of them has."""

from PySide6.QtGui import QTextCursor
from PySide6.QtWidgets import QApplication

from tests.support.looks.rich_text import (
    table_frames,
    tables,
)
from tests.ui.kit.markdown.views import GRID, shown, sideways_bars
from ui.kit.markdown.view import MarkdownView
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


def _base_line(view: MarkdownView, row: int, column: int) -> float:
    block = table_frames(view.document())[0].cellAt(row, column).firstCursorPosition().block()
    line = block.layout().lineAt(0)
    top = view.document().documentLayout().blockBoundingRect(block).top()
    return top + line.y() + line.ascent()


def test_formula_and_text_of_row_share_base_line(theme: Theme, qapp: QApplication) -> None:
    rows = ("$x = -2$|two", "$\\frac{a}{b}$|half", "$\\sqrt{x}$ and text|root", "text|$e$")
    view = shown(theme, qapp, "|a|b|\n|-|-|\n" + "".join(f"|{row}|\n" for row in rows))
    for row in range(1, 5):
        assert abs(_base_line(view, row, 0) - _base_line(view, row, 1)) <= 0.5


def test_formula_counts_as_wide_as_it_is_drawn(theme: Theme, qapp: QApplication) -> None:
    source = "$\\frac{\\partial f}{\\partial x}$"
    view = shown(theme, qapp, f"|{'|'.join([source] * 6)}|\n|{'-|' * 6}\n", width=360)
    assert not sideways_bars(view)


def test_scrolling_table_has_columns_as_wide_as_their_text(
    theme: Theme, qapp: QApplication
) -> None:
    cell = "words that are wider"
    view = shown(theme, qapp, f"|{'|'.join([cell] * 6)}|\n|{'-|' * 6}\n", width=300)
    for column in range(6):
        block = table_frames(view.document())[0].cellAt(0, column).firstCursorPosition().block()
        assert block.layout().lineCount() == 1


def test_table_of_long_text_ends_at_the_edge(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, qapp, f"|a|b|\n|-|-|\n|{'word ' * 30}|{'word ' * 30}|\n")
    image, [table] = view.grab().toImage(), view.decorations
    middle, last = round(view.area(table).center().y()), view.viewport().width() - 1
    inks = [image.pixelColor(x, middle).name() for x in (0, last)]
    assert inks == [theme.colors.line] * 2


def test_words_of_scrolling_table_head_stay_whole(theme: Theme, qapp: QApplication) -> None:
    months = "|January|February|March|April|May|June|July|August|September|October|November|"
    view = shown(theme, qapp, f"{months}\n{'|-' * 11}|\n{'|52 mm' * 11}|\n", width=300)
    assert sideways_bars(view)
    table = table_frames(view.document())[0]
    heads = (table.cellAt(0, at).firstCursorPosition().block().layout() for at in range(11))
    assert [head.lineCount() for head in heads] == [1] * 11

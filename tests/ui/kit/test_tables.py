"""The widths of a table's columns."""

from pytestqt.qtbot import QtBot

from ui.kit.tables import TableColumn, TableModel, TableView
from ui.kit.theme import Theme


def test_width_of_a_dragged_column_is_kept(theme: Theme, qtbot: QtBot) -> None:
    columns = (
        TableColumn("Client", 20, str, min_chars=8),
        TableColumn("Model", 30, str, min_chars=8),
        TableColumn("Tokens", 9, str, is_number=True),
    )
    model = TableModel(columns)
    view = TableView(model, "Requests", hides_empty=True)
    qtbot.addWidget(view)
    view.resize(300, 300)
    view.show()
    model.append_rows(["a"])
    shrunk_px = view.columnWidth(0)
    view.horizontalHeader().resizeSection(0, 150)
    model.append_rows(["b"])
    view.resize(320, 300)
    assert view.columnWidth(0) == 150 != shrunk_px
    view.resize(900, 300)
    view.resize(320, 300)
    assert view.columnWidth(0) == 150
    assert view.columnWidth(1) < 300

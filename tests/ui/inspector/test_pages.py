"""What a probe and a capture say as pages: quoted stops are code, and nothing is markup."""

import pytest
from PySide6.QtGui import QStandardItemModel
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot

from api.conformance.captures.values import (
    Capture,
    CapturedEvent,
    Finding,
    Severity,
    WireDialect,
)
from ui.inspector.capture_window import (
    FIRST_EVENTS,
    LAST_EVENTS,
    MAX_FINDINGS,
    MAX_SHOWN_CHARS,
    CapturedAnswers,
    capture_page,
)
from ui.kit.colors import LIGHT
from ui.kit.rows import RowsView
from ui.kit.theme import Theme


def test_a_finding_shows_the_stop_that_it_names_as_code() -> None:
    said = "The stop 'END' stands in the text."
    finding = Finding("x", Severity.ERROR, said, event_index=2, excerpt="abc END")
    page = capture_page(CapturedAnswers(Capture(WireDialect.CHAT), findings=(finding,)), LIGHT)
    assert "The stop <code>END</code> stands in the text. (event 3)" in page
    assert "<code>abc·END</code>" in page


def test_an_answer_without_findings_is_called_correct() -> None:
    page = capture_page(CapturedAnswers(Capture(WireDialect.CHAT, text="a\nb")), LIGHT)
    assert "No problems found." in page
    assert "<code>a⏎<br>b</code>" in page


def test_a_long_answer_shows_both_ends_and_says_what_is_left_out() -> None:
    events = tuple(CapturedEvent(n, "delta", f"event-{n}") for n in range(500))
    finding = Finding("x", Severity.ERROR, "Out of order.", event_index=250)
    capture = Capture(WireDialect.CHAT, text="y" * 9_000, events=events)
    view = CapturedAnswers(capture, findings=(finding,) * (MAX_FINDINGS + 3))
    page = capture_page(view, LIGHT)
    assert "3 more findings; the report has them all" in page
    assert f"{9_000 - MAX_SHOWN_CHARS:,} more characters" in page
    for shown in (0, FIRST_EVENTS - 1, 250, 500 - LAST_EVENTS, 499):
        assert f"<code>event-{shown}</code>" in page
    assert f"… {250 - FIRST_EVENTS:,} events" in page
    assert "<code>event-100</code>" not in page


def test_the_columns_of_a_table_are_chosen_in_the_menu_of_its_rows_too(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "columns", ())
    model = QStandardItemModel(1, 3)
    model.setHorizontalHeaderLabels(["When", "Model", "Tokens"])
    table = RowsView(model, "Rows", widths=(10, 60, 10))
    qtbot.addWidget(table)
    table.show()
    copy = table.add_copy("Copy Rows", str)
    assert table.actions()[0] is copy
    (columns,) = [menu for action in table.actions() if isinstance(menu := action.menu(), QMenu)]
    columns.aboutToShow.emit()
    next(entry for entry in columns.actions() if entry.text() == "Model").trigger()
    assert [table.isColumnHidden(column) for column in range(3)] == [False, True, False]
    assert theme.columns == (("Rows", "When"), ("Rows", "Tokens"))

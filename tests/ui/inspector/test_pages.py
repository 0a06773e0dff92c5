"""What a probe and a capture say as pages: quoted stops are code, and nothing is markup."""

from functools import partial

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
from api.conformance.probe.values import CheckOutcome, CheckResult, Fault, Level
from ui.inspector.capture_window import (
    FIRST_EVENTS,
    LAST_EVENTS,
    MAX_FINDINGS,
    MAX_SHOWN_CHARS,
    CapturedAnswers,
    capture_page,
)
from ui.inspector.pages import ReadingPage
from ui.inspector.probe_window import probe_page
from ui.kit.colors import LIGHT
from ui.kit.rows import RowsView
from ui.kit.theme import Theme


def test_a_fault_of_a_probe_is_a_sentence_with_code_spans_above_its_evidence() -> None:
    fault = Fault("x", "The stop '</s>' was ignored.", expected="a", got="b")
    row = CheckResult("x", "One stop", CheckOutcome.FAILED, "It went on.", (fault,))
    page = probe_page([row], LIGHT)
    assert "The stop <code>&lt;/s&gt;</code> was ignored." in page
    assert "<code>expected: &#x27;a&#x27;<br>got:      &#x27;b&#x27;</code>" in page
    assert "<b>One stop</b>" in page
    assert "Failed" in page


def test_failures_of_one_kind_share_a_row_and_an_opinion_is_called_one() -> None:
    fault = Fault("x", "The stop was ignored.")
    failed = partial(CheckResult, outcome=CheckOutcome.FAILED, faults=(fault,))
    rows = [
        failed("a", "Two that overlap", level=Level.OPINION),
        failed("b", "One stop"),
        failed("c", "A stop late in an answer", cause="b"),
        CheckResult("d", "A limit", CheckOutcome.HELD, "5 tokens"),
    ]
    page = probe_page(rows, LIGHT)
    assert page.count("<tr>") == 3
    assert "Fails in the same way: A stop late in an answer." in page
    assert page.index("One stop") < page.index("Two that overlap") < page.index("A limit")
    assert page.count("An opinion, which does not count") == 1
    assert probe_page(rows, LIGHT, "held").count("<tr>") == 1


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


def test_a_hint_of_several_lines_is_drawn_whole(theme: Theme, qtbot: QtBot) -> None:
    page = ReadingPage("Results", "What the answer says appears here. " * 8)
    qtbot.addWidget(page)
    page.resize(300, 300)
    page.show()
    drawn = page.viewport().grab().toImage()
    ground = drawn.pixelColor(drawn.width() - 1, drawn.height() - 1)
    lines = [
        y
        for y in range(drawn.height())
        if any(drawn.pixelColor(x, y) != ground for x in range(0, drawn.width(), 2))
    ]
    assert max(lines) - min(lines) > 4 * page.fontMetrics().height() * drawn.devicePixelRatio()

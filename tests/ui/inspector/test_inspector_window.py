"""The inspector's window on the real engine and the demo model."""

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QPalette
from PySide6.QtTest import QTest

from tests.support.answers.said import sentence_of_stop
from tests.ui.driving import eventually
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.inspecting import COUNT, ask, run_entry, tape_text
from tests.ui.walks import settled
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.request_tabs import ApiTab
from ui.inspector.stop_tabs import WhatIfTab
from ui.inspector.tokens_tab import TokensTab
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


async def test_answer_shows_verdict_tape_and_tokens(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    assert inspector.head.sentence.text() == sentence_of_stop("6")
    assert "Complete with token 11" in inspector.head.steps.text()
    assert tape_text(inspector).replace("\u2028", "\n").startswith("1⏎\n2⏎\n3⏎")
    assert inspector.tokens.model.rowCount() == 11
    assert inspector.tokens.table.isVisible()
    assert inspector.tokens.table.horizontalScrollBar().maximum() == 0
    inspector.bar.copy.click()
    assert "### Why the answer stopped" in QGuiApplication.clipboard().text()
    QTest.keyClick(inspector.tape, Qt.Key.Key_Home)
    assert inspector.token.text().startswith("Token 1 ·")
    QTest.keyClick(inspector.tape, Qt.Key.Key_Right)
    assert inspector.token.text().startswith("Token 2 ·")
    assert inspector.legend.text().startswith("Likeliest here: ")
    assert inspector.tokens.table.currentIndex().row() == 1
    inspector.ending.curve.token_chosen.emit(2)
    assert inspector.token.text().startswith("Token 3 ·")


async def test_hidden_inspector_reads_no_tokens_while_models_load(
    window: MainWindow, inspector: InspectorWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    await ask(window, COUNT, "6")
    read: list[object] = []
    monkeypatch.setattr("ui.inspector.inspector_window.Tape", read.append)
    window.workspace.models.changed.emit()
    inspector.hide()
    window.workspace.models.changed.emit()
    assert read == []


async def test_a_running_answer_grows_in_the_inspector(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await eventually(lambda: window.workspace.models.stage == "ready")
    window.workspace.send("Count from 1 to 40, one number per line")
    rows = inspector.tokens.model.rowCount
    await eventually(lambda: 0 < rows() < 100)
    assert window.workspace.current.is_running
    assert "Watching" in inspector.head.steps.text() or "stop" in inspector.head.steps.text()
    await eventually(lambda: not window.workspace.current.is_running)
    assert rows() == 111


async def test_another_list_is_tried_as_it_is_typed(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.tab(WhatIfTab))
    words = inspector.tab(WhatIfTab).sentence.text
    await eventually(lambda: words().startswith("Would stop at token 11 by “6”"))
    inspector.tab(WhatIfTab).editor.input.setText("3")
    await eventually(lambda: "by the sequence being typed" in words())
    assert words() == "Would stop at token 5 by the sequence being typed, keeping 4 characters."
    assert "2⏎\n ✂ What If ends here 3" in tape_text(inspector)
    inspector.tabs.setCurrentWidget(inspector.tokens)
    assert "✂" not in inspector.tape.toPlainText()


async def test_forgetting_all_leaves_the_reason(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    window.workspace.traces.forget_all()
    assert inspector.head.sentence.text() == sentence_of_stop("6")
    assert "forgotten" in inspector.tape.placeholderText()
    assert inspector.tape.toPlainText() == ""
    assert not run_entry(inspector, "Save Run").isEnabled()


async def test_a_deleted_recording_is_restored_by_undo(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    tape = inspector.tape.toPlainText()
    run_entry(inspector, "Delete Recording").trigger()
    assert inspector.tape.toPlainText() == ""
    assert not run_entry(inspector, "Delete Recording").isEnabled()
    inspector.bar.undo_bar.button.click()
    assert inspector.tape.toPlainText() == tape
    assert inspector.head.sentence.text() == sentence_of_stop("6")


async def test_splitter_stays_where_it_is_in_every_tab(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    bar, places = inspector.tabs.tabBar(), set()
    for number in range(inspector.tabs.count()):
        inspector.tabs.setCurrentIndex(number)
        for place in (-1, 0, 10):
            inspector.tape.choose(place)
            await settled()
            places.add(bar.mapTo(inspector, bar.rect().topLeft()).y())
    assert len(places) == 1
    assert inspector.tape.height() >= 90


def test_columns_without_a_text_are_hidden(record: Record, theme: Theme) -> None:
    tab = TokensTab()
    tab.show_run(record(["a", "b"]))
    titles = [column.title for column in tab.model.columns]
    shown = [t for n, t in enumerate(titles) if not tab.table.isColumnHidden(n)]
    assert shown == ["Token", "Id", "Text", "Part", "Time", "Released"]
    tab.show_run(record(["a", "b E", "x"], "END"))
    assert not tab.table.isColumnHidden(titles.index("Held Back"))


async def test_empty_inspector_offers_the_next_steps(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    assert inspector.empty.isVisible()
    assert not inspector.tape.isVisible()
    inspector.past_runs.click()
    assert inspector.tabs.currentWidget() is inspector.runs
    assert not inspector.tape.isVisible()
    await ask(window, COUNT, "6")
    assert inspector.tape.isVisible()
    assert not inspector.empty.isVisible()


async def test_compare_without_a_second_run_regenerates(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.compare)
    assert inspector.compare.empty.isVisible()
    inspector.compare.regenerate.click()
    await settled()
    await eventually(lambda: inspector.compare.page.isVisible())


async def test_compare_waits_for_the_end_of_an_answer(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.compare)
    window.workspace.send("Count from 1 to 40, one number per line")
    await eventually(lambda: inspector.compare.empty.title.text() == "Still Answering")
    assert not inspector.compare.page.isVisible()
    assert inspector.head.stop.isVisible()
    await eventually(lambda: inspector.compare.page.isVisible())


async def test_special_token_is_never_broken_across_lines(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT)
    tape = inspector.tape
    assert "|\u2060i\u2060m" in tape.toPlainText()
    tape.selectAll()
    assert "<|im_end|>" in tape.createMimeDataFromSelection().text()


async def test_short_tokens_are_close_to_their_figures(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    table = inspector.tokens.table
    table.selectRow(0)
    shown = table.viewport().grab().toImage()
    right, middle = table.viewport().width() - 4, table.rowHeight(0) // 2
    assert table.horizontalHeader().length() < right
    assert shown.pixelColor(right, middle) == table.palette().color(QPalette.ColorRole.Highlight)


async def test_tokens_of_an_ended_answer_begin_at_the_top(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, "Count from 1 to 40, one number per line")
    table, shown = inspector.tokens.table, inspector.inspector.shown
    table.scrollToBottom()
    assert table.verticalScrollBar().value()
    inspector.tokens.show_run(shown)
    assert not table.verticalScrollBar().value()


async def test_api_of_another_app_is_shown_first(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    api, shown = inspector.tab(ApiTab), inspector.inspector.shown
    assert shown is not None
    inspector.tabs.setCurrentWidget(api)
    await eventually(lambda: bool(api.page.toPlainText()))
    api.api.setCurrentText("OpenAI Responses")
    api.api.activated.emit(api.api.currentIndex())
    for path, name in (("/api/chat", "Ollama"), ("", "OpenAI Responses")):
        inspector.inspector.show(replace(shown, api_path=path))
        await eventually(lambda name=name: api.api.currentText() == name)

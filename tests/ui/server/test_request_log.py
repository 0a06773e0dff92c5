import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from engine.values.request import PICTURE_MARK, GenerationRequest, Message, Picture
from ui.kit.theme import Theme
from ui.server.request_log import COLUMNS, RequestColumn, RequestLogPanel, RequestTable
from ui.server.requests import (
    RequestAnswer,
    RequestBody,
    RequestEntry,
    RequestLog,
    as_curl,
    as_jsonl,
    error_message,
    example_curl,
    usage_texts,
)

STOP = StopInfo(StopKind.STOP_STRING, "END\n", rule_index=0)
TIMING = Timing(first_token_s=0.125, decode_s=0.5, total_s=0.75)
END = Finished(STOP, Usage(1_200, 1_000, 6), TIMING)
ANSWER = RequestAnswer(GenerationRequest(), END)


def began(number: int, **more: Any) -> RequestEntry:
    values: dict[str, Any] = {
        "id": f"req_{number}",
        "began_at": 1_000.0 + number,
        "client": "127.0.0.1",
        "agent": "Anthropic/Python 2.11.0",
        "method": "POST",
        "path": "/v1/messages",
        "dialect": "Messages",
    }
    return RequestEntry(**values | more)


def ended(entry: RequestEntry, **more: Any) -> RequestEntry:
    values: dict[str, Any] = {
        "status": 200,
        "took_s": 1.5,
        "is_stream": True,
        "model": "demo-model",
        "answers": (ANSWER,),
    }
    return replace(entry, **values | more)


def ids(log: RequestLog) -> list[str]:
    return [entry.id for entry in log]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (RequestColumn.CLIENT, "Anthropic/Python"),
        (RequestColumn.STREAM, "yes"),
        (RequestColumn.STOP, "stop “END⏎”"),
        (RequestColumn.TOKENS, "1,200 → 6"),
        (RequestColumn.CACHED, "1,000"),
        (RequestColumn.FIRST_TOKEN, "0.12 s"),
        (RequestColumn.SPEED, "10"),
    ],
)
def test_each_column_shows_its_value(column: RequestColumn, words: str) -> None:
    assert COLUMNS[column].text(ended(began(1))) == words


class Running:
    """An answer that is being generated."""

    def __init__(self) -> None:
        self.request = GenerationRequest(prompt="Hi")
        self.prompt_tokens, self.written_tokens, self.first_token_s = 20, 7, 0.25
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


def test_a_request_that_is_being_answered_has_its_model_its_tokens_and_a_stop(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = 0.0
    monkeypatch.setattr("ui.server.requests.time.monotonic", lambda: now_s)
    running = Running()
    entry = began(1, model="smol", running=(running,))
    log = RequestLog()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.show()
    log.take([entry])
    panel.table.refresh()

    def shown(column: RequestColumn) -> str:
        return str(panel.table.index(0, column).data())

    assert shown(RequestColumn.MODEL) == "smol"
    assert shown(RequestColumn.TOKENS) == "20 → 7"
    assert shown(RequestColumn.FIRST_TOKEN) == "0.25 s"
    assert shown(RequestColumn.SPEED) == "–"
    assert shown(RequestColumn.TOTAL) == "Stop"
    running.written_tokens, now_s = 27, 2.0
    panel.table._tick()
    assert shown(RequestColumn.TOKENS) == "20 → 27"
    assert shown(RequestColumn.SPEED) == "10"
    panel.view.clicked.emit(panel.table.index(0, RequestColumn.MODEL))
    assert not running.is_cancelled
    panel.view.clicked.emit(panel.table.index(0, RequestColumn.TOTAL))
    assert running.is_cancelled
    log.take([ended(began(1))])
    panel.table.refresh()
    assert shown(RequestColumn.TOTAL) == "1.50 s"
    assert log.open == []


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('{"type": "error", "error": {"type": "x", "message": "too long"}}', "too long"),
        ('{"error": "no such model"}', "no such model"),
        ('{"error": {"message": 5}}', ""),
        ("<html>", ""),
    ],
)
def test_what_was_wrong_is_read_from_the_answer(body: str, message: str) -> None:
    answered = RequestBody(body, len(body))
    assert error_message(ended(began(1), status=400, answers=(), response_body=answered)) == message
    assert error_message(ended(began(1), response_body=answered)) == ""


def test_while_paused_new_requests_are_ignored_and_open_ones_still_end() -> None:
    log = RequestLog()
    log.take([began(1)])
    log.set_paused(True)
    log.take([began(2), ended(began(1)), ended(began(2))])
    assert ids(log) == ["req_1"]
    assert next(iter(log)).status == 200
    log.set_paused(False)
    log.take([began(3)])
    assert ids(log) == ["req_1", "req_3"]


def test_rows_leave_and_come_without_losing_the_selected_one(qtbot: QtBot) -> None:
    log = RequestLog(max_entries=3)
    table = RequestTable(log)
    table.set_shown(True)
    log.take([began(1), began(2), began(3)])
    table.refresh()
    resets: list[int] = []
    table.modelReset.connect(lambda: resets.append(1))
    kept = table.index(2, 0)
    assert kept.isValid()
    log.take([began(4), ended(began(3))])
    table.refresh()
    assert [entry.id for entry in table.rows] == ["req_2", "req_3", "req_4"]
    assert resets == []
    assert table.data(table.index(1, RequestColumn.STATUS)) == "200"


def test_filter_that_removes_the_chosen_request_chooses_no_other(
    theme: Theme, qtbot: QtBot
) -> None:
    log = RequestLog()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.show()
    log.take([began(1), began(2, dialect="Chat Completions"), began(3)])
    panel.table.refresh()
    chosen: list[str] = []
    changed: list[RequestEntry | None] = []
    panel.entry_chosen.connect(lambda entry: chosen.append(entry.id))
    panel.entry_changed.connect(changed.append)
    panel.view.selectRow(0)
    QTest.keyClick(panel.view, Qt.Key.Key_Return)
    panel.table.filter(dialect="Chat Completions")
    assert (chosen, changed) == (["req_1", "req_1"], [None])
    assert not panel.view.currentIndex().isValid()


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        ({"text": "ANTHROPIC"}, ["req_1"]),
        ({"text": "end\\n"}, ["req_1"]),
        ({"text": "404"}, ["req_2"]),
        ({"dialect": "Chat Completions"}, ["req_3"]),
        ({"errors_only": True, "dialect": "Messages"}, []),
    ],
)
def test_filters_leave_what_they_match(how: dict[str, Any], shown: list[str], qtbot: QtBot) -> None:
    log = RequestLog()
    one = ended(began(1))
    two = ended(began(2, agent="curl/8", dialect="", path="/no"), status=404, answers=())
    three = began(3, agent="OpenAI/Python 3", dialect="Chat Completions")
    log.take([began(1), began(2), began(3), one, two, three])
    table = RequestTable(log)
    table.set_shown(True)
    table.filter(**how)
    assert [entry.id for entry in table.rows] == shown


def test_curl_command_has_the_body_and_no_key() -> None:
    body = """{"text": "it's $HOME \\n"}"""
    entry = began(
        1,
        headers=(
            ("Host", "127.0.0.1:1"),
            ("X-Api-Key", "[hidden]"),
            ("Content-Type", "application/json"),
            ("Content-Length", "5"),
        ),
        request_body=RequestBody(body, len(body)),
    )
    command = as_curl(entry, "http://127.0.0.1:8642")
    words = shlex.split(command.replace("\\\n", ""))
    assert words == [
        "curl",
        "http://127.0.0.1:8642/v1/messages",
        "-H",
        "X-Api-Key: $FULLSTOP_API_KEY",
        "-H",
        "Content-Type: application/json",
        "--data-raw",
        body,
    ]
    assert '"X-Api-Key: $FULLSTOP_API_KEY"' in command


def test_each_request_is_one_line_of_json() -> None:
    text = as_jsonl([ended(began(1), response_body=RequestBody("é\n\u2028", 6)), began(2)])
    first, second = (json.loads(line) for line in text.split("\n")[:-1])
    assert first["answers"][0]["stop"] == {"kind": "stop_string", "value": "END\n"}
    assert first["response"]["body"] == "é\n\u2028"
    assert first["time"] == "1970-01-01T00:16:41.000+00:00"
    assert (second["status"], second["answers"]) == (None, [])


def column_entries(panel: RequestLogPanel) -> dict[str, QAction]:
    """Return the entries of the menu at the heads of the columns, by their words."""
    head = panel.view.horizontalHeader()
    head.customContextMenuRequested.emit(head.rect().center())
    menu = panel.view.findChildren(QMenu)[-1]
    menu.close()
    return {action.text(): action for action in menu.actions() if action.text()}


def shown_columns(panel: RequestLogPanel) -> list[RequestColumn]:
    return [column for column in RequestColumn if not panel.view.isColumnHidden(column)]


def filled_panel(qtbot: QtBot) -> RequestLogPanel:
    """Return a wide log with a request that has a value for each column."""
    log = RequestLog()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.resize(1_600, 400)
    panel.show()
    log.take([began(1), ended(began(1))])
    panel.table.refresh()
    qtbot.waitUntil(lambda: panel.view.viewport().width() > 1_400)
    return panel


def test_columns_are_chosen_at_the_heads_and_kept_for_each_table(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(theme, "columns", ())
    theme.choose_columns("Runs", ["When"])
    panel = filled_panel(qtbot)
    column_entries(panel)["Client"].trigger()
    wanted = [column for column in RequestColumn if column is not RequestColumn.CLIENT]
    assert shown_columns(panel) == wanted
    assert ("Runs", "When") in theme.columns
    later = filled_panel(qtbot)
    assert shown_columns(later) == wanted
    column_entries(later)["All Columns"].trigger()
    assert shown_columns(later) == list(RequestColumn)
    assert theme.columns == (("Runs", "When"),)


def test_oldest_pictures_leave_a_full_log_before_any_request() -> None:
    def pictured(number: int) -> RequestEntry:
        shown = Picture(bytes([number]) * 600_000)
        asked = GenerationRequest(messages=(Message("user", PICTURE_MARK, pictures=(shown,)),))
        return ended(began(number), answers=(RequestAnswer(asked, END),))

    log = RequestLog(max_bytes=1 << 20)
    for number in range(1, 4):
        log.take([began(number)])
        log.take([pictured(number)])
    pictures = [entry.answers[0].request.messages[0].pictures[0] for entry in log]
    assert [len(picture.data) for picture in pictures] == [0, 0, 600_000]
    assert [bool(picture.field) for picture in pictures] == [True, True, False]


def test_several_choices_of_one_prompt_count_it_once() -> None:
    one, other = (GenerationRequest(messages=(Message("user", "Hi"),)) for _ in range(2))
    cached = Finished(STOP, Usage(1_200, 1_199, 5), TIMING)
    answers = (
        RequestAnswer(one, END),
        RequestAnswer(replace(one, max_tokens=5), cached),
        RequestAnswer(other, END),
    )
    entry = ended(began(1), answers=answers)
    assert COLUMNS[RequestColumn.TOKENS].text(entry) == "2,400 → 17"
    assert COLUMNS[RequestColumn.CACHED].text(entry) == "2,000"
    running = (Running(), Running())
    running[1].request = running[0].request
    assert COLUMNS[RequestColumn.TOKENS].text(began(1, running=running)) == "20 → 14"


def test_tooltip_of_a_cell_shows_markup_of_a_client_as_text(qapp: QApplication) -> None:
    log = RequestLog()
    table = RequestTable(log)
    table.set_shown(True)
    log.take([replace(began(1), agent="<img src='x'>")])
    table.refresh()
    tooltip = table.index(0, RequestColumn.CLIENT).data(Qt.ItemDataRole.ToolTipRole)
    assert "&lt;img" in tooltip
    assert "<img" not in tooltip
    table.set_shown(False)


def test_request_columns_fit_the_width(theme: Theme, qtbot: QtBot) -> None:
    panel = filled_panel(qtbot)
    view, widths = panel.view, list[list[int]]()
    for width in (1_700, 1_400, 950):
        panel.resize(width, 400)
        QApplication.processEvents()
        widths.append([view.columnWidth(column) for column in RequestColumn])
        assert sum(widths[-1]) <= view.viewport().width()
        assert not view.horizontalScrollBar().maximum()
    grown = [column for column in RequestColumn if widths[0][column] > widths[1][column]]
    assert grown == [RequestColumn.MODEL]  # free width is not before the last number


def test_request_column_appears_with_its_first_value(theme: Theme, qtbot: QtBot) -> None:
    log = RequestLog()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.show()
    panel.resize(1_400, 400)
    log.take([began(1)])
    panel.table.refresh()
    assert panel.view.isColumnHidden(RequestColumn.CACHED)
    before = set(RequestColumn) - {*shown_columns(panel)}
    assert before <= {RequestColumn.STREAM, RequestColumn.CACHED}  # others would be pushed aside
    log.take([ended(began(1))])
    panel.table.refresh()
    assert not panel.view.isColumnHidden(RequestColumn.CACHED)


def test_filter_without_matches_can_be_cleared(theme: Theme, qtbot: QtBot) -> None:
    panel = filled_panel(qtbot)
    panel.search.setText("no such request")
    panel.errors_only.setChecked(True)
    assert not panel.view.isVisible()
    panel.show_all.click()
    assert panel.view.isVisible()
    assert panel.search.text() == ""


def test_empty_request_log_offers_the_next_step(theme: Theme, qtbot: QtBot) -> None:
    log = RequestLog()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.show()
    panel.show_next_step("Turn it on.", is_off=True)
    assert panel.start.isVisible()
    assert not panel.command.isVisible()
    panel.show_next_step("Try it:", example_curl("http://127.0.0.1:1", needs_key=True))
    assert not panel.start.isVisible()
    assert shlex.split(panel.command.text().replace("\\\n", ""))[:2] == [
        "curl",
        "http://127.0.0.1:1/v1/chat/completions",
    ]
    assert "Authorization: Bearer $" in panel.command.text()
    log.take([began(1)])
    panel.table.refresh()
    assert panel.view.isVisible()
    assert not panel.command.isVisible()


def test_cleared_requests_come_back_and_running_ones_stay(theme: Theme, qtbot: QtBot) -> None:
    log, running = RequestLog(), Running()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.show()
    log.take([began(1), began(2, running=(running,)), began(3)])
    log.take([ended(began(1)), ended(began(3))])
    panel.table.refresh()
    panel.clear.click()
    assert ids(log) == ["req_2"]
    assert panel.table.index(0, RequestColumn.TOTAL).data() == "Stop"
    assert not panel.clear.isEnabled()
    assert panel.undo_bar.message.text() == "Cleared 2 requests"
    log.take([ended(began(2))])
    assert ids(log) == ["req_2"], "it was never cleared"
    panel.activateWindow()
    qtbot.waitUntil(panel.isActiveWindow)
    QTest.keySequence(panel.view, QKeySequence(QKeySequence.StandardKey.Undo))
    assert ids(log) == ["req_1", "req_2", "req_3"]
    assert not panel.undo_bar.isVisible()
    assert log.open == []


def test_row_of_an_error_is_red_at_its_status_alone(theme: Theme, qtbot: QtBot) -> None:
    table = RequestTable(RequestLog())
    entry = ended(began(1), status=404, answers=())
    colors = {column: table.color(entry, column) for column in RequestColumn}
    assert [column for column, color in colors.items() if color == "fault"] == [
        RequestColumn.STATUS
    ]


def test_usage_is_brief_beside_its_sentence() -> None:
    one = began(1, model="makers/small", agent="claude-cli/2.1")
    assert usage_texts([one]) == ("claude-code", "claude-code is using Small")
    both = "claude-code and Probe are using Small"
    assert usage_texts([one, replace(one, agent="fullstop-probe")]) == ("2 apps", both)
    assert usage_texts([ended(one)]) == ("", "")

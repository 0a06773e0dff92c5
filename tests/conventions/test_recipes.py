"""The smaller recipes of HOW_TO_ADD: each is applied in this process, and acts."""

from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Signal
from PySide6.QtGui import QKeySequence
from PySide6.QtWidgets import QFileDialog, QLabel, QMenu
from pytestqt.qtbot import QtBot

from api.dialects.openai.completions import COMPLETIONS, CompletionParams
from api.dialects.shared.parameters import ReadContext
from engine import Engine
from engine.values.events import TextDelta
from engine.values.request import GenerationRequest
from engine.wording import counted
from tests.api.conftest import serving
from tests.support.answers.said import conversation
from tests.support.answers.watched import watched
from tests.support.shown import main_window
from tests.ui.conftest import run, shared_theme, theme
from tests.ui.driving import END, RunOnLoop, ScriptedEngine, eventually, opened
from ui.chat.file_dialogs import FileDialogs
from ui.chat.session import open_conversations
from ui.chat.session.conversation_controller import ConversationController
from ui.inspector import inspector_window
from ui.inspector.pages import InspectorTab
from ui.inspector.shown_run import ShownRun
from ui.kit.commands import Command, Entry
from ui.kit.following import Following
from ui.kit.tables import TableColumn
from ui.kit.theme import Theme
from ui.records.conversations import Conversation
from ui.records.exchange import exported_file
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.server import request_log
from ui.server.request_log import RequestLogPanel
from ui.server.requests import RequestEntry, RequestLog
from ui.stops import stop_rows
from ui.stops.stop_list import StopListModel
from ui.stops.stop_rows import CheckedStop, Remark, StopColumn
from ui.window.main_menus import MainMenus

__all__ = ["run", "shared_theme", "theme"]

pytestmark = pytest.mark.qt_log_ignore("This plugin does not support", extend=True)


def test_column_of_a_table_is_shown_and_can_be_hidden(
    theme: Theme, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    column = TableColumn("Method", 8, lambda entry: entry.method)
    monkeypatch.setattr(request_log, "COLUMNS", (*request_log.COLUMNS, column))
    log = RequestLog()
    panel = RequestLogPanel(log)
    qtbot.addWidget(panel)
    panel.show()
    log.take([RequestEntry("req_1", 1_000.0, "127.0.0.1", "", "POST", "/v1/messages")])
    panel.table.refresh()
    last = len(request_log.COLUMNS) - 1
    assert panel.table.index(0, last).data() == "POST"
    assert "Method" in [entry.label for entry in panel.view.column_entries() if entry]


def test_stop_remark_is_shown_with_its_fix(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    def in_capitals(checked: CheckedStop) -> Remark | None:
        if not checked.text.isupper():
            return None
        return Remark("Models rarely write capitals.", "Lower Case", checked.text.lower())

    monkeypatch.setattr(stop_rows, "REMARKS", (*stop_rows.REMARKS, in_capitals))
    model = StopListModel([StopEntry.of("END"), StopEntry.of("stop")])
    cells = [model.index(row, StopColumn.REMARK).data() for row in (0, 1)]
    assert cells == ["Models rarely write capitals.", None]
    model.fix(0)
    assert [entry.stop.text for entry in model.entries()] == ["end", "stop"]


def test_export_format_is_offered_and_written(
    run: RunOnLoop, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def as_lines(written: Conversation) -> str:
        return "".join(f"{message.role}: {message.text}\n" for message in written.messages)

    monkeypatch.setitem(exported_file.TEXT_FORMATS, "Lines", ((".lines",), as_lines))

    async def steps() -> None:
        async with opened(main_window(ScriptedEngine(), theme), quits=True) as window:
            FileDialogs(window.workspace, window).export([conversation()], "Lines")
            (dialog,) = window.findChildren(QFileDialog)
            assert "Lines (*.lines)" in dialog.nameFilters()
            dialog.reject()
            window.workspace.files.export_to(tmp_path / "c.lines", conversation("Count to 3"))
            await window.workspace.files.finish()

    run(steps())
    text = (tmp_path / "c.lines").read_text(encoding="utf-8")
    assert text.startswith("user: Count to 3\nassistant: ")


def test_tab_of_the_inspector_shows_the_run(
    run: RunOnLoop, theme: Theme, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CountTab(InspectorTab):
        title = "Count"
        shown_text = ""

        def show_run(self, shown: ShownRun | None) -> None:
            self.shown_text = "" if shown is None else counted(len(shown.run.text.split()), "word")

    make = inspector_window.make_tabs
    monkeypatch.setattr(inspector_window, "make_tabs", lambda *args: [*make(*args), CountTab()])

    async def steps() -> None:
        engine = ScriptedEngine()
        async with opened(main_window(engine, theme), quits=True) as window:
            assert window.workspace.send("Count")
            await eventually(lambda: bool(engine.generations))
            engine.say(TextDelta("one two three"), END)
            await eventually(lambda: not window.workspace.current.is_running)
            window.others.show_inspector()
            inspector = window.others.inspector
            last = inspector.tabs.count() - 1
            assert inspector.tabs.tabText(last) == "Count"
            inspector.tabs.setCurrentIndex(last)
            await eventually(lambda: inspector.tab(CountTab).shown_text == "3 words")

    run(steps())


def test_menu_entry_has_its_shortcut_and_acts_while_it_is_enabled(
    run: RunOnLoop, theme: Theme, monkeypatch: pytest.MonkeyPatch
) -> None:
    greeted: list[str] = []
    entries = MainMenus._conversation

    def with_greeting(menus: MainMenus) -> list[Entry]:
        greeting = Command(
            "&Greet", lambda: greeted.append("Hello"), ("Ctrl+Alt+9",), lambda: not greeted
        )
        return [*entries(menus), greeting]

    monkeypatch.setattr(MainMenus, "_conversation", with_greeting)

    async def steps() -> None:
        async with opened(main_window(ScriptedEngine(), theme), quits=True) as window:
            titles = {menu.title(): menu for menu in window.menuBar().findChildren(QMenu)}
            menu = titles["&Conversation"]
            entry = next(action for action in menu.actions() if action.text() == "&Greet")
            assert entry.shortcuts() == [QKeySequence("Ctrl+Alt+9")]
            menu.aboutToShow.emit()
            assert entry.isEnabled()
            entry.trigger()
            menu.aboutToShow.emit()
            assert not entry.isEnabled()
            menu.aboutToHide.emit()
            entry.trigger()

    run(steps())
    assert greeted == ["Hello"]


def test_signal_of_the_conversation_controller_reaches_a_widget(
    run: RunOnLoop, theme: Theme, monkeypatch: pytest.MonkeyPatch
) -> None:
    class CountingController(ConversationController):
        words_counted = Signal(int)

        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.run_finished.connect(self._count)

        def _count(self, run: Run) -> None:
            self.words_counted.emit(len(run.text.split()))

    monkeypatch.setattr(open_conversations, "ConversationController", CountingController)

    async def steps() -> None:
        engine = ScriptedEngine()
        async with opened(main_window(engine, theme), quits=True) as window:
            current = window.workspace.current
            assert isinstance(current, CountingController)
            shown, following = QLabel(window), Following()
            following.follow((current.words_counted, shown.setNum))
            current.send("Count")
            await eventually(lambda: bool(engine.generations))
            engine.say(TextDelta("one two three"), END)
            await eventually(lambda: not current.is_running)
            assert shown.text() == "3"

    run(steps())


def test_field_of_a_dialect_reaches_the_request(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    class LongerParams(CompletionParams):
        answer_limit: int | None = None

    route = COMPLETIONS.answers[0]
    read = route.read

    def read_limit(params: LongerParams, context: ReadContext) -> list[GenerationRequest]:
        limit = params.max_tokens if params.answer_limit is None else params.answer_limit
        return read(params.model_copy(update={"max_tokens": limit}), context)

    monkeypatch.setitem(vars(route), "request", LongerParams)
    monkeypatch.setitem(vars(route), "read", read_limit)
    with serving(engine) as site:
        requests = watched(site, monkeypatch)
        body = {"prompt": "Count", "answer_limit": 3}
        assert site.send("POST", "/v1/completions", body).status == 200
        assert requests[0].max_tokens == 3
        refused = site.send("POST", "/v1/completions", {**body, "answer_limit": "few"})
    assert refused.status == 400
    assert refused.json["error"]["param"] == "answer_limit"

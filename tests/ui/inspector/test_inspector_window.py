"""The inspector's window on the real engine and the demo model."""

import asyncio
import json
import threading
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLineEdit, QTextEdit, QWidget
from pytestqt.qtbot import QtBot

from app.cli import main
from engine.scheduling.service import Engine
from engine.values.request import TraceLevel
from tests.support.said import sentence_of_stop
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop, eventually
from tests.ui.inspector.conftest import Record
from ui.inspector.ending import matcher_tab
from ui.inspector.ending.near_misses import RuleReport
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.tape.tape import Tape
from ui.inspector.tape.tape_view import TapeView
from ui.kit.look.theme import Theme
from ui.records.conversations import StopEntry
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"
Steps = Callable[[MainWindow, InspectorWindow], Coroutine[Any, Any, None]]
Use = Callable[[Steps], None]


@pytest.fixture
def use(run: RunOnLoop, engine: Engine, theme: Theme) -> Use:
    """Show the window and the inspector on the real engine, use them, and see them end."""

    def use_inspector(steps: Steps) -> None:
        async def whole() -> None:
            window = main_window(engine, theme)
            window.workspace.traces.level = TraceLevel.FULL
            async with shown(window):
                window.others.show_inspector()
                assert window.others.inspector is not None
                await steps(window, window.others.inspector)

        run(whole())

    return use_inspector


async def ask(window: MainWindow, question: str, *stops: str) -> None:
    for stop in stops:
        window.workspace.current.stops.ensure(stop)
    await eventually(lambda: window.workspace.model.stage == "ready")
    assert window.workspace.send(question)
    await eventually(lambda: not window.workspace.current.session.is_running)


def test_before_any_run_it_says_what_to_do(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        assert inspector.head.sentence.text() == "No run is shown"
        assert not inspector.copy.isEnabled()
        for number in range(inspector.tabs.count()):
            inspector.tabs.setCurrentIndex(number)

    use(steps)


def test_an_answer_shows_its_verdict_tape_and_tokens(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        assert inspector.head.sentence.text() == sentence_of_stop("6")
        assert "It was complete with token 11" in inspector.head.steps.text()
        assert inspector.tape.toPlainText().replace("\u2028", "\n").startswith("1⏎\n2⏎\n3⏎")
        assert inspector.tokens.model.rowCount() == 11

    use(steps)


def test_a_running_answer_grows_in_the_inspector(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await eventually(lambda: window.workspace.model.stage == "ready")
        window.workspace.send("Count from 1 to 100, one number per line")
        rows = inspector.tokens.model.rowCount
        await eventually(lambda: 0 < rows() < 280)
        assert window.workspace.current.session.is_running
        assert "Watching" in inspector.head.steps.text() or "stop" in inspector.head.steps.text()
        await eventually(lambda: not window.workspace.current.session.is_running)
        assert rows() == 292

    use(steps)


def test_the_arrow_keys_go_from_token_to_token(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        QTest.keyClick(inspector.tape, Qt.Key.Key_Home)
        assert inspector.token.text().startswith("Token 1  ·")
        QTest.keyClick(inspector.tape, Qt.Key.Key_Right)
        assert inspector.token.text().startswith("Token 2  ·")
        assert inspector.others.text().startswith("Likeliest here: ")
        assert inspector.tokens.table.currentIndex().row() == 1

    use(steps)


def test_another_list_is_tried_as_it_is_typed(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.tabs.setCurrentWidget(inspector.what_if)
        words = inspector.what_if.sentence.text
        await eventually(lambda: words().startswith("Would stop at token 11 by #1"))
        inspector.what_if.editor.input.setText("3")
        await eventually(lambda: "by the sequence being typed" in words())
        assert words() == "Would stop at token 5 by the sequence being typed, keeping 4 characters."
        assert inspector.what_if.kept.toPlainText() == "1\n2\n3"

    use(steps)


def test_a_case_that_was_saved_is_played_by_the_command_line(
    use: Use, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "case.json"

    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.tabs.setCurrentWidget(inspector.what_if)
        inspector.what_if.editor.input.setText("4")
        outcome = lambda: inspector.inspector.what_if.outcome  # noqa: E731
        await eventually(lambda: (found := outcome()) is not None and "4" in found.strings)
        inspector.inspector.save_case(path)
        await eventually(path.exists)

    use(steps)
    assert json.loads(path.read_text())["rules"]["strings"] == ["6", "4"]
    assert main(["replay", str(path)]) == 0
    assert capsys.readouterr().out.startswith("1\n2\n3\n")


def test_a_saved_run_is_opened_and_the_way_back_is_there(use: Use, tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.inspector.save_run(path)
        await eventually(path.exists)
        window.workspace.new_conversation()
        assert inspector.head.sentence.text() == "No run is shown"
        inspector.inspector.open_file(path)
        await eventually(lambda: inspector.back.isVisible())
        assert inspector.source.text() == "From a saved run: run.json"
        assert inspector.head.sentence.text() == sentence_of_stop("6")
        inspector.back.click()
        assert inspector.head.sentence.text() == "No run is shown"

    use(steps)


@pytest.mark.parametrize("content", ["{", '{"fullstop_run": 99}', "[]", "\x00"])
def test_a_file_that_is_no_saved_run_is_said(use: Use, tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)

    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        inspector.inspector.open_file(path)
        await eventually(lambda: "other.json is not a saved run" in inspector.source.text())

    use(steps)


def test_continuing_past_a_stop_counts_once_and_leaves_the_list_as_it_is(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.head.past.click()
        await eventually(lambda: not window.workspace.current.session.is_running)
        assert window.workspace.current.conversation.enabled_stops() == ("6",)
        assert window.workspace.current.stops.entries() == [StopEntry("6")]
        shown = window.workspace.current.shown_run
        assert shown is not None
        assert shown.text == "1\n2\n3\n4\n5\n6\n7\n8\n9\n10"

    use(steps)


def test_answering_without_a_stop_keeps_list_and_follow_up_questions(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        workspace = window.workspace
        await ask(window, COUNT, "6")
        first = workspace.current.shown_run
        await ask(window, "What is a stop sequence?")
        workspace.show_run(first)
        inspector.head.without.click()
        await eventually(lambda: not workspace.current.session.is_running)
        assert workspace.current.stops.entries() == [StopEntry("6")]
        texts = [message.said for message in workspace.current.conversation.messages]
        assert texts[1].endswith("9\n10")
        assert texts[2] == "What is a stop sequence?"
        assert len(texts) == 4

    use(steps)


def test_what_can_be_done_fits_the_kind_of_end(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        head = inspector.head
        await ask(window, COUNT)
        assert not any(action.isVisible() for action in head._actions)
        window.workspace.change_settings(
            window.workspace.current.conversation.settings.__class__(max_tokens=5)
        )
        await ask(window, COUNT)
        assert [a.text() for a in head._actions if a.isVisible()] == [
            "Raise the limit and continue"
        ]
        head.raise_limit.click()
        await eventually(lambda: not window.workspace.current.session.is_running)
        assert window.workspace.current.conversation.settings.max_tokens == 10

    use(steps)


def test_the_prompt_is_shown_with_what_the_cache_gave(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.tabs.setCurrentWidget(inspector.prompt)
        await eventually(lambda: COUNT in inspector.prompt.page.toPlainText())
        assert inspector.prompt.page.toPlainText().startswith("<|im_start|>user")
        assert "tokens" in inspector.prompt.note.text()
        await ask(window, COUNT, "6")
        run = window.workspace.current.conversation.messages[-1].run
        assert run.finished.usage.cached_tokens > 0
        await eventually(lambda: "came from the cache" in inspector.prompt.note.text())
        for from_disk, place in ((0, "in memory"), (run.finished.usage.cached_tokens, "on disk")):
            usage = replace(run.finished.usage, disk_tokens=from_disk)
            run.finished = replace(run.finished, usage=usage)
            inspector.prompt._fill()
            said = inspector.prompt.note.text()
            assert f"the first {usage.cached_tokens} came from the cache {place}." in said

    use(steps)


def test_two_answers_are_compared(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        await ask(window, "Count from 1 to 10, one number per line", "3")
        inspector.tabs.setCurrentWidget(inspector.compare)
        assert inspector.compare.choice.count() == 1
        assert inspector.compare.sentence.text() == (
            "Both are identical for 4 characters; then only the second continues."
        )

    use(steps)


def test_forgetting_all_leaves_the_reason(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.forget.click()
        assert inspector.head.sentence.text() == sentence_of_stop("6")
        assert "forgotten" in inspector.head.steps.text()
        assert inspector.tape.toPlainText() == ""
        assert not inspector.save.isEnabled()

    use(steps)


def test_without_recording_only_the_reason_is_known(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        inspector.level.setCurrentIndex(0)
        await ask(window, COUNT, "6")
        assert inspector.tokens.model.rowCount() == 0
        assert "not recorded" in inspector.head.steps.text()

    use(steps)


def test_the_report_is_copied_as_markdown(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.copy.click()
        assert "### Why the answer stopped" in QGuiApplication.clipboard().text()

    use(steps)


def test_every_control_has_a_name(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        for number in range(inspector.tabs.count()):
            inspector.tabs.setCurrentIndex(number)
        kinds = (QAbstractButton, QComboBox, QLineEdit, QTextEdit)
        nameless = [
            widget
            for kind in kinds
            for widget in inspector.findChildren(kind)
            if widget.isVisible()
            and not (widget.accessibleName() or getattr(widget, "text", str)())
        ]
        assert [type(widget).__name__ for widget in nameless] == []

    use(steps)


def test_everything_begins_at_one_left_edge(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        corner = inspector.mapFromGlobal
        bar = inspector.tabs.tabBar()

        def left(part: QWidget) -> int:
            return corner(part.mapToGlobal(QPoint(0, 0))).x()

        edges = {
            left(part)
            for part in (
                inspector.source,
                inspector.head.steps,
                inspector.head.figures,
                inspector.head.past,
                inspector.tape,
                inspector.token,
                inspector.others,
                bar,
            )
        }
        first = bar.tabRect(0)
        words = bar.fontMetrics().horizontalAdvance(bar.tabText(0))
        assert abs(first.width() - 22 - words) <= 4, "a tab begins with its words"
        texts: set[int] = set()
        for number in range(inspector.tabs.count()):
            inspector.tabs.setCurrentIndex(number)
            await asyncio.sleep(0)
            part = inspector.tabs.widget(number)
            assert part.layout() is not None
            edges.add(left(part) + part.layout().contentsMargins().left())
            for page in part.findChildren(QTextEdit):
                if page.isVisible() and page is not inspector.what_if.kept:
                    edges.add(left(page))
                    margin = page.document().documentMargin()
                    texts.add(left(page.viewport()) + round(margin))
        assert len(edges) == 1
        texts.add(
            left(inspector.tape.viewport()) + round(inspector.tape.document().documentMargin())
        )
        assert len(texts) == 1, "the texts in frames begin at one edge too"

    use(steps)


def test_hatching_lies_below_the_letters_of_what_was_held(
    theme: Theme, record: Record, qtbot: QtBot
) -> None:
    shown_run = record(["one", " EN", "x"], "END")
    view = TapeView(theme)
    qtbot.addWidget(view)
    view.resize(500, 200)
    view.show()
    view.show_trace(shown_run.trace)
    plain = TapeView(theme)
    qtbot.addWidget(plain)
    plain.resize(500, 200)
    plain.show()
    bare = record(["one", " EN", "x"]).trace
    plain.show_trace(bare)
    marked, unmarked = (_picture(one) for one in (view, plain))
    cursor = view.textCursor()
    cursor.setPosition(view.toPlainText().index("EN"))
    box = view.cursorRect(cursor)
    line = cursor.block().layout().lineAt(0)
    above = view.document().documentLayout().blockBoundingRect(cursor.block()).top() + line.y()
    letters = range(round(above), round(above + line.ascent() + line.descent()))
    columns = range(box.left() + 1, box.left() + 2 * view.fontMetrics().averageCharWidth())
    changed = [
        (x, y)
        for x in columns
        for y in range(marked.height())
        if marked.pixel(x, y) != unmarked.pixel(x, y)
    ]
    assert changed
    assert not [place for place in changed if place[1] in letters]
    assert min(y for _, y in changed) >= letters.stop


def _picture(view: TapeView) -> QImage:
    return view.viewport().grab().toImage().convertToFormat(QImage.Format.Format_RGB32)


def test_near_misses_of_a_long_run_are_looked_for_on_another_thread(
    run: RunOnLoop, theme: Theme, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    real = matcher_tab.rule_reports

    def reports(tape: Tape) -> list[RuleReport]:
        threads.append(threading.get_ident())
        return real(tape)

    monkeypatch.setattr(matcher_tab, "rule_reports", reports)
    stops = [f"EN{number}" for number in range(60)]
    shown_run = record(["EN ", "x"] * 300, *stops)

    async def steps() -> None:
        tab = matcher_tab.MatcherTab(theme)
        tab.show()
        tab.show_run(shown_run)
        assert tab.note.text() == "Searching 601 tokens…"
        await tab.finish()
        assert threads
        assert threading.get_ident() not in threads
        assert "2 of 3 characters, 300 times" in tab.page.toPlainText()
        tab.deleteLater()

    run(steps())


def test_the_chosen_token_stays_chosen_when_the_colors_change(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        await eventually(lambda: inspector.tape.tape is not None)
        inspector.tape.choose(4)
        said = inspector.token.text()
        assert said.startswith("Token 5")
        window.theme.set_mode("dark")
        try:
            assert (inspector.tape.chosen, inspector.token.text()) == (4, said)
        finally:
            window.theme.set_mode("light")

    use(steps)


def test_without_another_answer_the_comparison_says_so_at_its_top(use: Use) -> None:
    async def steps(window: MainWindow, inspector: InspectorWindow) -> None:
        await ask(window, COUNT, "6")
        inspector.tabs.setCurrentWidget(inspector.compare)
        await eventually(inspector.compare.isVisible)
        assert "no other answer" in inspector.compare.sentence.text()
        for _ in range(5):
            await asyncio.sleep(0)  # the layout takes a turn or two
        sentence, line = inspector.compare.sentence, inspector.fontMetrics().height()
        assert sentence.y() + sentence.height() < 4 * line

    use(steps)

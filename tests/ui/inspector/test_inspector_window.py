"""The inspector's window on the real engine and the demo model."""

import asyncio
import threading

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox, QTextEdit, QWidget

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import Finished, Timing, Usage
from tests.support.answers.said import sentence_of_stop
from tests.ui.driving import confirm_deletion, eventually
from tests.ui.inspector.conftest import Record
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.inspector_window import TABS, InspectorWindow
from ui.inspector.pages import InspectorTab
from ui.inspector.shown_run import ShownRun, Tape
from ui.inspector.stop_tabs import MatcherTab, RuleReport, WhatIfTab, rule_reports
from ui.kit.theme import Theme
from ui.records.runs import Run
from ui.window.main_window import MainWindow


async def test_before_any_run_it_says_what_to_do(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    assert inspector.head.sentence.text() == "No Answer Selected"
    assert not inspector.bar.copy.isEnabled()
    for number in range(inspector.tabs.count()):
        inspector.tabs.setCurrentIndex(number)


class LengthTab(InspectorTab):
    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[int] = []

    def show_run(self, shown: ShownRun | None) -> None:
        self.lengths.append(0 if shown is None else len(shown.run.text))


@pytest.fixture
def with_another_tab(monkeypatch: pytest.MonkeyPatch) -> None:
    tab = TABS[0]._replace(title="Length", make=lambda *_: LengthTab(), without_trace="")
    monkeypatch.setattr("ui.inspector.inspector_window.TABS", (*TABS, tab))


async def test_a_tab_of_the_tuple_is_in_the_window_and_is_shown_the_run(
    with_another_tab: None, window: MainWindow, inspector: InspectorWindow
) -> None:
    assert inspector.tabs.tabText(len(TABS)).replace("&", "") == "Length"
    await ask(window, COUNT, "6")
    assert inspector.tab(LengthTab).lengths[-1] == len("1\n2\n3\n4\n5\n")


async def test_an_answer_shows_its_verdict_tape_and_tokens_which_the_arrow_keys_go_through(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    assert inspector.head.sentence.text() == sentence_of_stop("6")
    assert "It was complete with token 11" in inspector.head.steps.text()
    assert inspector.tape.toPlainText().replace("\u2028", "\n").startswith("1⏎\n2⏎\n3⏎")
    assert inspector.tokens.model.rowCount() == 11
    assert inspector.tokens.table.isVisible()
    assert inspector.tokens.table.horizontalScrollBar().maximum() == 0
    inspector.bar.copy.click()
    assert "### Why the answer stopped" in QGuiApplication.clipboard().text()
    QTest.keyClick(inspector.tape, Qt.Key.Key_Home)
    assert inspector.token.text().startswith("Token 1  ·")
    QTest.keyClick(inspector.tape, Qt.Key.Key_Right)
    assert inspector.token.text().startswith("Token 2  ·")
    assert inspector.others.text().startswith("Likeliest here: ")
    assert inspector.tokens.table.currentIndex().row() == 1


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
    assert inspector.tab(WhatIfTab).kept.toPlainText() == "1\n2\n3"


async def test_two_answers_are_compared_and_of_one_that_is_alone_it_says_so_at_its_top(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.compare)
    await eventually(inspector.compare.isVisible)
    assert inspector.compare.sentence.text().startswith("No other answer yet.")
    for _ in range(5):
        await asyncio.sleep(0)  # the layout takes a turn or two
    sentence, line = inspector.compare.sentence, inspector.fontMetrics().height()
    assert sentence.y() + sentence.height() < 4 * line
    assert sentence.height() < 2 * line, "one line"
    assert not sentence.fontInfo().bold()
    await ask(window, "Count from 1 to 10, one number per line", "3")
    inspector.tabs.setCurrentWidget(inspector.compare)
    assert inspector.compare.choice.count() == 1
    assert inspector.compare.sentence.text() == (
        "Both are identical for 4 characters; then only the second continues."
    )
    assert inspector.compare.sentence.fontInfo().bold()


async def test_forgetting_all_leaves_the_reason(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.bar.forget.click()
    await eventually(lambda: bool(inspector.findChildren(QMessageBox)))
    assert inspector.bar.save.isEnabled(), "nothing is deleted before it is confirmed"
    await confirm_deletion(inspector)
    assert inspector.head.sentence.text() == sentence_of_stop("6")
    assert "forgotten" in inspector.head.steps.text()
    assert inspector.tape.toPlainText() == ""
    assert not inspector.bar.save.isEnabled()


async def test_a_message_that_never_reached_the_model_has_no_tokens_to_forget(
    inspector: InspectorWindow,
) -> None:
    run = Run()
    run.apply(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))
    inspector.head.show_run(ShownRun(run))
    assert inspector.head.sentence.text() == "You stopped this answer."
    assert "forgotten" not in inspector.head.steps.text()


async def test_without_recording_only_the_reason_is_known(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    inspector.bar.level.setCurrentIndex(0)
    await ask(window, COUNT, "6")
    assert inspector.tokens.model.rowCount() == 0
    assert "not recorded" in inspector.head.steps.text()


async def test_everything_begins_at_one_left_edge(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    corner = inspector.mapFromGlobal
    bar = inspector.tabs.tabBar()

    def left(part: QWidget) -> int:
        return corner(part.mapToGlobal(QPoint(0, 0))).x()

    edges = {
        left(part)
        for part in (
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
            if page.isVisible() and page is not inspector.tab(WhatIfTab).kept:
                edges.add(left(page))
                margin = page.document().documentMargin()
                texts.add(left(page.viewport()) + round(margin))
    assert len(edges) == 1
    texts.add(left(inspector.tape.viewport()) + round(inspector.tape.document().documentMargin()))
    assert len(texts) == 1, "the texts in frames begin at one edge too"


async def test_the_tape_is_no_higher_than_its_tokens_and_the_tabs_have_the_rest(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    inspector.resize(1080, 900)
    await ask(window, COUNT, "3")
    tape = inspector.tape
    text_px = round(tape.document().size().height())
    await eventually(lambda: tape.height() <= text_px + 2 * tape.frameWidth() + 2)
    assert tape.verticalScrollBar().maximum() == 0
    assert inspector.tabs.height() > 2 * tape.height()


async def test_a_tab_that_is_chosen_comes_into_view_where_not_all_fits(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    inspector.resize(900, 420)
    await eventually(lambda: inspector.tabs.visibleRegion().boundingRect().height() < 150)
    inspector.tabs.setCurrentIndex(1)
    await eventually(lambda: inspector.tabs.visibleRegion().boundingRect().height() > 200)
    assert not inspector.tabs.tabBar().visibleRegion().isEmpty()


async def test_near_misses_of_a_long_run_are_looked_for_on_another_thread(
    theme: Theme, record: Record, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[int] = []
    real = rule_reports

    def reports(tape: Tape) -> list[RuleReport]:
        threads.append(threading.get_ident())
        return real(tape)

    monkeypatch.setattr("ui.inspector.stop_tabs.rule_reports", reports)
    stops = [f"EN{number}" for number in range(60)]
    shown_run = await asyncio.to_thread(record, ["EN ", "x"] * 300, *stops)
    tab = MatcherTab()
    tab.show()
    tab.show_run(shown_run)
    assert tab.note.text() == "Searching 601 tokens…"
    await tab.finish()
    assert threads
    assert threading.get_ident() not in threads
    assert "2 of 3 characters, 300 times" in tab.page.toPlainText()
    tab.deleteLater()


async def test_the_chosen_token_stays_chosen_when_the_colors_change(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    await eventually(lambda: inspector.tape.tape is not None)
    inspector.tape.choose(4)
    said = inspector.token.text()
    assert said.startswith("Token 5")
    window.theme.set_mode("dark")
    assert (inspector.tape.chosen, inspector.token.text()) == (4, said)

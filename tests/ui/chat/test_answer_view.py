"""An answer's progress, its tool calls and its raw text."""

import time
from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, Qt, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QButtonGroup, QLabel, QLineEdit, QToolButton
from pytestqt.qtbot import QtBot

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    PromptProgress,
    TextDelta,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
)
from engine.values.request import ToolCall
from tests.support.answers.said import FINISHED, finished_run
from ui.chat.messages.answer_view import AnswerView, PromptProgressBar
from ui.chat.messages.tool_cards import GrowingCard, pretty
from ui.kit.flow_text import FlowText
from ui.kit.theme import Theme
from ui.kit.windows import in_reading_order
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, RunState, progress_words


def shown(theme: Theme, run: Run) -> AnswerView:
    view = AnswerView(ConversationMessage("assistant", run.text, run), QButtonGroup())
    view.show()
    return view


def test_the_switch_of_versions_stays_together_while_the_text_streams(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, Run(text="One", state=RunState.STREAMING))
    view.resize(700, 100)
    view.action_row.show_versions(2, 3)
    qapp.processEvents()
    row = view.action_row
    assert row.place.geometry().left() - row.earlier.geometry().right() <= 4
    assert row.later.geometry().left() - row.place.geometry().right() <= 4
    assert row.place.width() <= row.place.sizeHint().width()


def test_each_call_has_a_card_with_its_arguments_line_by_line(
    theme: Theme, qapp: QApplication
) -> None:
    calls = [ToolCall("1", "add", '{"a": 1, "b": [2]}'), ToolCall("2", "now", "{}")]
    view = shown(theme, finished_run(tool_calls=calls))
    words = view.calls.text()
    assert view.calls.isVisible()
    assert '"a": 1,\n' in words
    assert "no arguments" in words
    assert [name for name in ("add", "now") if name in words] == ["add", "now"]
    copy = view.calls.findChild(QToolButton)
    assert isinstance(copy, QToolButton)
    copy.click()
    assert QGuiApplication.clipboard().text() == pretty(calls[0].arguments)


def test_the_card_of_a_call_grows_while_the_model_writes_it(
    theme: Theme, qapp: QApplication
) -> None:
    run = Run()
    view = shown(theme, run)
    call = ToolCall("1", "add", '{"a": 1}')
    for event, growing, complete in (
        (ToolCallStarted(0, "1", "add"), [""], []),
        (ToolCallArguments("1", '{"a": '), ['{"a": '], []),
        (ToolCallArguments("1", "1"), ['{"a": 1'], []),
        (ToolCallCompleted(0, call), [], ["1"]),
        (ToolCallStarted(1, "2", "now"), [""], ["1"]),
        (ToolCallAbandoned("2"), [], ["1"]),
    ):
        run.apply(event)
        view.refresh()
        QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        cards = view.calls.findChildren(GrowingCard)
        assert [card.findChildren(FlowText)[0].toPlainText() for card in cards] == growing
        assert list(view.calls.cards) == complete
        for card in cards:
            assert all(label.width() > 0 for label in card.findChildren(QLabel))
        assert view.calls.isVisible()


def test_a_call_that_was_cut_short_is_shown_as_such(theme: Theme, qapp: QApplication) -> None:
    cut = replace(FINISHED, unfinished_tool_call='{"name": "add", "argu')
    view = shown(theme, finished_run(tool_calls=[], finished=cut))
    assert "cut short" in view.calls.text()
    assert '{"name": "add", "argu' in view.calls.text()


def test_an_answer_without_calls_has_no_cards(theme: Theme, qapp: QApplication) -> None:
    assert not shown(theme, finished_run(tool_calls=[])).calls.isVisible()


@pytest.mark.parametrize("text", ["{", "plain words"])
def test_arguments_that_are_not_json_are_shown_unchanged(text: str) -> None:
    assert pretty(text) == text


def test_the_raw_text_shows_every_sign_and_what_was_cut(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, finished_run("a **b**\tc\n\x07", thinking=""))
    assert not view.raw_view.isVisible()
    view.raw.click()
    assert view.raw_view.isVisible()
    assert not view.text_view.isVisible()
    raw = view.raw_view.toPlainText().replace("\u2028", "\n")
    assert raw == "a·**b**⇥c⏎\n␇⏎\n6·"
    view.raw.click()
    assert view.text_view.isVisible()


def test_the_raw_text_ends_with_the_models_end_token(theme: Theme, qapp: QApplication) -> None:
    ended = replace(FINISHED, stop=StopInfo(StopKind.EOS, None, 2, "<|im_end|>"))
    view = shown(theme, finished_run("a", thinking="hm", finished=ended))
    view.raw.click()
    assert view.raw_view.toPlainText() == "hm\na<|im_end|>"


def test_reading_a_prompt_shows_its_progress_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = Run()
    run.apply(PromptProgress(100, 1100, 100))
    assert progress_words(run) == "Reading the prompt: 100 of 1,100 tokens"
    now[0] = 12.0
    run.apply(PromptProgress(600, 1100, 100))
    assert progress_words(run) == "Reading the prompt: 600 of 1,100 tokens, 250 tok/s"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (RunState.QUEUED, "Waiting for the model…"),
        (RunState.PREFILL, "Reading the prompt: 100 of 1,100 tokens"),
    ],
)
def test_an_answer_that_waits_says_every_second_for_how_long(
    theme: Theme, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, state: RunState, words: str
) -> None:
    now = [1000.0]
    monkeypatch.setattr(time, "time", lambda: now[0])
    run = Run(state=state, started_at=1000.0, prompt_processed=100, prompt_total=1100)
    view = shown(theme, run)
    bar = view.findChild(PromptProgressBar)
    assert isinstance(bar, PromptProgressBar)
    text, ticks = bar.findChild(QLabel), bar.findChild(QTimer)
    assert isinstance(text, QLabel)
    assert isinstance(ticks, QTimer)
    assert text.text() == words
    assert ticks.isActive()
    assert ticks.interval() <= 1000
    for later, told in ((1001.2, "1 s"), (1002.1, "2 s"), (1075.0, "1 min 15 s")):
        now[0] = later
        ticks.timeout.emit()  # the model has sent nothing new
        assert text.text() == f"{words}  ·  {told}"
    run.apply(TextDelta("Hi"))
    view.refresh()
    assert not ticks.isActive()
    assert bar.isHidden()


def test_an_imported_answer_names_the_model_of_its_file(theme: Theme, qapp: QApplication) -> None:
    told = Run(state=RunState.UNRECORDED, text="Hi", model_id="gpt-4o", is_imported=True)
    ended = finished_run(model_id="qwen-7b", is_imported=True)
    own = finished_run(model_id="scripted")
    assert shown(theme, told).reason.text() == "gpt-4o"
    assert shown(theme, ended).reason.text().startswith("qwen-7b · ")
    assert shown(theme, own).reason.text().startswith("scripted · ")


def test_an_imported_answer_without_a_reason_shows_none(theme: Theme, qapp: QApplication) -> None:
    told = Run(state=RunState.UNRECORDED, text="Hi", model_id="gpt-4o", is_imported=True)
    nameless = Run(state=RunState.UNRECORDED, text="Hi", is_imported=True)
    view = shown(theme, told)
    assert view.reason.isVisible()
    assert not view.reason.isEnabled()
    assert "stopped" not in view.reason.accessibleName()
    assert shown(theme, nameless).reason.isHidden()


def test_figures_are_shown_while_the_keyboard_is_in_the_answer(theme: Theme, qtbot: QtBot) -> None:
    view = shown(theme, finished_run(model_id="org/scripted"))
    field = QLineEdit()
    for widget in (view, field):
        qtbot.addWidget(widget)
    field.show()
    field.activateWindow()
    field.setFocus()
    qtbot.waitUntil(field.hasFocus)
    view.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, False)  # where the pointer is at first
    assert not view.reason.shows_figures
    view.activateWindow()
    view.reason.setFocus()
    qtbot.waitUntil(view.reason.hasFocus)
    assert view.reason.shows_figures
    assert view.reason.text().startswith("scripted · ")


def test_an_answer_is_named_by_its_model_and_its_first_words(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, finished_run(text="One two\nthree", model_id="org/scripted"))
    assert view.text_view.accessibleName() == "Answer of scripted: One two three"


def test_an_answer_has_at_most_three_stops_of_tab_and_keys_reach_its_buttons(
    theme: Theme, qtbot: QtBot
) -> None:
    text = "One\n\n```py\nx = 1\n```\n"
    run = finished_run(text=text, thinking="Hm.", model_id="scripted", tool_calls=[])
    view = shown(theme, run)
    qtbot.addWidget(view)
    view.action_row.show_versions(2, 3)
    view.activateWindow()
    stops = in_reading_order(view)
    assert [type(one).__name__ for one in stops] == ["QPushButton", "MarkdownView", "ReasonLine"]
    assert stops[-1] is view.reason
    view.reason.setFocus()
    qtbot.waitUntil(view.reason.hasFocus)
    seen = []
    for _ in range(20):
        QTest.keyClick(QApplication.focusWidget(), Qt.Key.Key_Right)
        focused = QApplication.focusWidget()
        assert focused is not None
        assert in_reading_order(view)[-1] is focused
        seen.append(focused.accessibleName())
        if focused is view.reason:
            break
    assert seen[0] == "Copy this answer as Markdown"
    assert {"Regenerate", "Earlier version", "Later version"} < set(seen)

"""An answer's progress, its tool calls and its raw text."""

import itertools
import time
from dataclasses import replace

import pytest
from PySide6.QtCore import QEvent, QPoint, Qt
from PySide6.QtGui import QGuiApplication, QImage, QTextOption
from PySide6.QtWidgets import QApplication, QButtonGroup, QLabel, QToolButton

from engine.stopping.record import StopInfo, StopKind
from engine.values.events import (
    Finished,
    PromptProgress,
    Timing,
    ToolCallAbandoned,
    ToolCallArguments,
    ToolCallCompleted,
    ToolCallStarted,
    Usage,
)
from engine.values.request import ToolCall
from tests.support.answers.said import finished_run
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.tool_cards import GrowingCard, pretty
from ui.kit.flow_text import FlowText
from ui.kit.theme import Theme
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, progress_label
from ui.records.tool_calls import CallResult


def shown(theme: Theme, run: Run) -> AnswerView:
    view = AnswerView(ConversationMessage("assistant", run.text, run), QButtonGroup())
    view.show()
    return view


def test_each_call_has_a_card_with_its_arguments_line_by_line(
    theme: Theme, qapp: QApplication
) -> None:
    calls = [ToolCall("1", "add", '{"a": 1, "b": [2]}'), ToolCall("2", "now", "{}")]
    view = shown(theme, finished_run(tool_calls=calls))
    labels = [label.text() for label in view.calls.findChildren(QLabel)]
    words = "\n".join([*labels, *(t.toPlainText() for t in view.calls.findChildren(FlowText))])
    assert view.calls.isVisible()
    assert '"a": 1,\n' in words
    assert "No arguments" in words
    assert [name for name in ("add", "now") if name in words] == ["add", "now"]
    buttons = view.calls.findChildren(QToolButton)
    copy = next(one for one in buttons if one.accessibleName() == "Copy the arguments of add")
    copy.click()
    assert QGuiApplication.clipboard().text() == pretty(calls[0].arguments)


def test_call_that_cannot_be_read_is_named_and_folded(theme: Theme, qapp: QApplication) -> None:
    broken = '{"name": "get_wea", "arguments": {"wait_s": , "b": "Paris"}}'
    end = Finished(StopInfo(StopKind.EOS), Usage(), Timing())
    view = shown(theme, finished_run(broken, tool_calls=[], finished=end))
    assert view.call_head.isVisible()
    assert "could not be read" in view.call_head.text()
    assert not view.text_view.isVisible()
    view.call_head.click()
    assert view.text_view.isVisible()
    assert "get_wea" in view.text_view.toPlainText()
    for text in ("Say {", '{"name": "Ann", "arguments": {}}'):
        run = finished_run(text, tool_calls=[], finished=end)
        assert shown(theme, run).text_view.isVisible()


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


def test_the_raw_text_shows_every_sign_and_what_was_cut(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, finished_run("a **b**\tc\n\x07", thinking=""))
    assert not view.raw_view.isVisible()
    view.raw.click()
    assert view.raw_view.isVisible()
    assert not view.text_view.isVisible()
    raw = view.raw_view.toPlainText().replace("\u2028", "\n")
    assert raw == "a **b**⇥c⏎\n␇⏎\n6 "
    spaces = view.raw_view.document().defaultTextOption().flags()
    assert QTextOption.Flag.ShowTabsAndSpaces in spaces
    view.raw.click()
    assert view.text_view.isVisible()


def test_reading_a_prompt_shows_its_progress_and_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [10.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    run = Run()
    run.started_at -= 5
    run.apply(PromptProgress(100, 1100, 100))
    assert progress_label(run) == "Reading the prompt: 100 of 1,100 tokens"
    now[0] = 12.0
    run.apply(PromptProgress(600, 1100, 100))
    assert progress_label(run) == "Reading the prompt: 600 of 1,100 tokens, 250 tok/s"


def test_an_imported_answer_names_the_model_of_its_file(theme: Theme, qapp: QApplication) -> None:
    told = Run(state="unrecorded", text="Hi", model_id="gpt-4o", is_imported=True)
    ended = finished_run(model_id="qwen-7b", is_imported=True)
    own = finished_run(model_id="scripted")
    assert shown(theme, told).reason.text() == "gpt-4o"
    assert shown(theme, ended).reason.text().startswith("Stopped by “⏎6” · Qwen 7B · ")
    assert shown(theme, own).reason.text().startswith("Stopped by “⏎6” · scripted · ")


def test_cut_text_is_shown_after_the_answer_and_is_no_part_of_it(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, finished_run())
    assert view.run.cut_text
    assert view.text_view.accessibleName().endswith(f"then cut off: {view.run.cut_text}")
    assert view.run.cut_text not in view.text_view.shown_text()
    height = view.text_view.minimumHeight()
    view.text_view.show_cut("x" * 500)  # too long for the last line
    assert view.text_view.minimumHeight() > height
    usual = finished_run()
    assert usual.finished is not None
    end = replace(usual.finished.stop, kind=StopKind.EOS, value=None, dropped="")
    usual.finished = replace(usual.finished, stop=end)
    quiet = shown(theme, usual)
    assert "Ended" not in quiet.reason.text()
    assert not usual.cut_text


def test_cut_text_after_a_line_break_stands_on_a_line_of_its_own(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, finished_run())
    heights = []
    for text in ("4\n5", "4\n5\n"):
        view.text_view.show_cut("")
        view.text_view.set_markdown(text)
        view.text_view.finish()
        height = view.text_view.minimumHeight()
        view.text_view.show_cut("6")
        heights.append(view.text_view.minimumHeight() - height)
    assert heights[0] == 0 < heights[1]


def test_reason_is_whole_in_a_narrow_chat_and_its_link_below_it(
    theme: Theme, qapp: QApplication
) -> None:
    view = shown(theme, finished_run())
    reason, link = view.reason, view.proceed
    link.show()
    places = []
    for width in (600, 300, 200, 600):
        for _ in range(2):  # the width decides the layout, which decides the height
            view.resize(width, view.heightForWidth(width))
            qapp.processEvents()
        metrics = reason.fontMetrics()
        assert metrics.horizontalAdvance(reason.text().split(" · ")[0]) < reason.width() - 21
        assert reason.rect().contains(link.geometry())
        are_below = view.action_row.mapTo(view, QPoint()).y() > reason.y()
        places.append((link.y() >= reason.height() // 2, are_below))
    assert places == [(False, False), (False, True), (True, True), (False, False)]


def test_reason_is_on_one_line_above_its_buttons(theme: Theme, qapp: QApplication) -> None:
    run = finished_run()
    assert run.finished is not None
    end = replace(run.finished.stop, kind=StopKind.CANCELLED, value=None, dropped="")
    run.finished = replace(run.finished, stop=end)
    view = shown(theme, run)
    reason, places = view.reason, []
    reason.link.hide()
    word_px = reason.reason_px
    for width in (600, word_px + 60, 600):
        for _ in range(2):  # the width decides the layout, which decides the height
            view.resize(width, view.heightForWidth(width))
            qapp.processEvents()
        assert reason.width() >= word_px
        assert reason.height() < 2 * reason.fontMetrics().height() + 10
        places.append(view.action_row.mapTo(view, QPoint()).y() >= reason.geometry().bottom())
    assert places == [False, True, False]


def test_short_reading_has_no_figures(
    theme: Theme, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run()
    run.apply(PromptProgress(0, 42, 0))
    view = shown(theme, run)

    def words() -> str:
        view.refresh()
        return " ".join(part.text() for part in view.findChildren(QLabel) if part.isVisible())

    assert words() == "Reading…"
    run.apply(PromptProgress(0, 9_000, 0))
    assert words().startswith("Reading the prompt: 0 of 9,000 tokens")
    run.apply(PromptProgress(0, 42, 0))
    run.started_at -= 5
    assert words().startswith("Reading the prompt: 0 of 42 tokens · 5 s")


def test_reason_without_room_wraps(theme: Theme, qapp: QApplication) -> None:
    reason = shown(theme, finished_run()).reason
    reason.link.hide()
    line_px = reason.fontMetrics().lineSpacing()
    assert reason.heightForWidth(90) >= reason.heightForWidth(600) + line_px
    reason.resize(90, reason.heightForWidth(90))
    inked = reason.grab().toImage()
    assert not is_blank(inked.copy(21, inked.height() - line_px, 60, line_px - 5))


def test_version_switch_is_drawn_with_the_buttons(theme: Theme, qapp: QApplication) -> None:
    view = shown(theme, finished_run())
    view.action_row.show_versions(2, 3)
    qapp.processEvents()
    view.setAttribute(Qt.WidgetAttribute.WA_UnderMouse, on=False)
    if focused := qapp.focusWidget():
        focused.clearFocus()
    view.mark_last(True)
    assert not is_blank(view.action_row.grab().toImage())
    view.mark_last(False)
    assert is_blank(view.action_row.grab().toImage())


def is_blank(image: QImage) -> bool:
    plain = image.pixel(0, 0)
    places = itertools.product(range(image.width()), range(image.height()))
    return all(image.pixel(x, y) == plain for x, y in places)


def test_turn_with_calls_has_one_foot(theme: Theme, qapp: QApplication) -> None:
    result = CallResult("c1", "done", "3", "sums", "add")
    view = shown(theme, finished_run(results=[result]))
    assert view.is_step
    assert not view.reason.isVisible()
    assert not view.more.isVisible()
    view.mark_last(is_last=True)  # no answer followed
    assert view.reason.isVisible()
    assert view.more.isVisible()


def test_cut_text_keeps_the_space_before_it(theme: Theme, qapp: QApplication) -> None:
    lefts = []
    for text in ("a fox and a", "a fox and a "):
        run = finished_run(text, tool_calls=[])
        lefts.append(shown(theme, run).text_view._cut_area.left())
    assert lefts[0] < lefts[1]


def test_continued_answer_counts_what_it_added(theme: Theme, qapp: QApplication) -> None:
    run = finished_run(thinking="", tool_calls=[])
    assert run.finished is not None
    run.continued_chars = 3
    shown_figures = shown(theme, run).reason.text()
    count = run.finished.usage.output_tokens
    assert f"{count} more tokens" in shown_figures
    run.continued_chars = 0
    assert f"{count} tokens" in shown(theme, run).reason.text()

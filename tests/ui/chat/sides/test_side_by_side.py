"""One question with two answers: asked, shown, compared, and one of them kept."""

from dataclasses import replace
from pathlib import Path

import pytest

from engine.scheduling.service import Engine
from tests.support.kept import preferences_state
from tests.support.outside.tool_hosts import ADD, SUMS, DictatedHost
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.sides import SideColumn, SidesSheet
from ui.kit.theme import Theme
from ui.preferences import Preferences, ToolPreferences
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run, RunState
from ui.records.tools import ToolsInUse
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme), quits=True, is_ready=True))


def sheet_of(window: MainWindow) -> SidesSheet:
    window.twice.ask()
    assert window.twice.sheet is not None
    return window.twice.sheet


def columns(window: MainWindow) -> list[SideColumn]:
    return window.chat.sides.columns


async def ended(window: MainWindow) -> None:
    await eventually(lambda: not window.workspace.current.is_running)
    await eventually(
        lambda: (
            "differ" in window.chat.sides.words.text()
            or "same words" in window.chat.sides.words.text()
        )
    )


async def ask(window: MainWindow, stops: str = "6", question: str = COUNT) -> None:
    window.chat.composer.set_text(question)
    sheet = sheet_of(window)
    sheet.forms[0].stops.setPlainText(stops)
    sheet.buttons.accepted.emit()
    await ended(window)


async def test_a_question_is_answered_by_two_stop_lists_with_verdicts_and_marks_where_they_differ(
    window: MainWindow,
) -> None:
    await ask(window)
    left, right = columns(window)
    assert left.shown_text.split() == [str(number) for number in range(1, 11)]
    assert right.shown_text.split() == ["1", "2", "3", "4", "5"]
    assert "Stopped by" not in left.view.reason.text()
    assert "Stopped by “6”" in right.view.reason.text()
    assert window.chat.composer.text == ""
    assert "Stops at" in right.detail.text()
    assert " ".join(left.view.text_view.found_texts).split() == ["6", "7", "8", "9", "10"]
    assert right.view.text_view.found_texts == []
    assert window.chat.sides.words.text() == "The answers differ in 1 place, which is marked."


async def test_the_stop_panel_tells_the_chosen_answers_verdict_and_the_inspector_compares_both(
    window: MainWindow,
) -> None:
    await ask(window)
    left, right = columns(window)
    verdict = window.stop_panel.verdict
    assert verdict.sentence.text() == "The model finished its answer by itself."
    right.view.reason.click()
    assert "6" in verdict.sentence.text()
    window.chat.sides.compare.click()
    inspector, shown_run = window.others.inspector, window.inspector.shown
    assert inspector is not None
    assert inspector.tabs.currentWidget() is inspector.compare
    assert shown_run is not None
    assert shown_run.run is left.side.run
    assert inspector.compare.sentence.text().startswith("Both are identical for")
    assert "Stopped by “6”" in inspector.compare.page.toPlainText()


async def test_both_answers_are_running_at_the_same_time_and_one_stop_ends_both(
    window: MainWindow,
) -> None:
    window.chat.composer.set_text("Output the whole alphabet from A to Z, then stop")
    sheet = sheet_of(window)
    sheet.buttons.accepted.emit()
    sides = window.workspace.current.sides
    assert sides is not None
    assert [side.session.is_running for side in sides.sides] == [True, True]
    assert not columns(window)[0].keep.isEnabled()
    window.chat.stop_answer()
    await ended(window)
    assert all(run.is_over for run in sides.runs)


def test_the_list_says_answering_while_either_answer_is_written() -> None:
    conversation = Conversation("T", [ConversationMessage("user", "q")])
    question = conversation.messages[0]
    running = ConversationMessage("assistant", run=Run(state=RunState.STREAMING))
    ended = ConversationMessage("assistant", run=Run(state=RunState.UNRECORDED))
    conversation.tree.add(running, question)
    conversation.tree.add(ended, question)
    assert conversation.messages[-1] is ended
    assert conversation.is_running


async def test_the_kept_answer_goes_on_with_its_stops_and_the_other_stays_as_a_version(
    window: MainWindow,
) -> None:
    await ask(window)
    left, right = columns(window)
    kept = right.side.message
    right.keep.click()
    conversation = window.workspace.current.conversation
    assert window.workspace.current.sides is None
    assert conversation.messages[-1] is kept
    assert len(conversation.tree.versions(conversation.messages[-1])) == 2
    assert conversation.enabled_stops() == ("6",)
    assert window.chat.column.isVisible()
    assert window.workspace.send("Count from 1 to 7")
    await eventually(lambda: not window.workspace.current.session.is_running)
    run = conversation.messages[-1].run
    assert run is not None
    assert run.stops == ("6",)
    del left


async def test_keeping_both_goes_on_with_the_left_answer_and_changes_no_setting(
    window: MainWindow,
) -> None:
    await ask(window)
    left, _ = columns(window)
    wanted = left.side.message
    window.chat.sides.leave.click()
    conversation = window.workspace.current.conversation
    assert conversation.messages[-1] is wanted
    assert conversation.enabled_stops() == ()
    assert len(conversation.tree.versions(conversation.messages[-1])) == 2


async def test_the_last_question_is_answered_again_where_nothing_is_written(
    window: MainWindow,
) -> None:
    assert window.workspace.send(COUNT)
    await eventually(lambda: not window.workspace.current.session.is_running)
    await ask(window, question="")
    conversation = window.workspace.current.conversation
    columns(window)[1].keep.click()
    assert len(conversation.messages) == 2
    assert len(conversation.tree.versions(conversation.messages[-1])) == 3


async def test_a_changed_setting_affects_only_the_second_answer(window: MainWindow) -> None:
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.forms[0].max_tokens.setValue(3)
    sheet.buttons.accepted.emit()
    await ended(window)
    left, right = columns(window)
    assert left.side.run is not None
    assert right.side.run is not None
    assert (left.side.run.max_tokens, right.side.run.max_tokens) == (None, 3)
    assert right.side.run.finished is not None
    assert right.side.run.finished.stop.kind == "max_tokens"
    assert right.detail.text() == "At most 3 tokens"
    assert window.workspace.current.conversation.settings.max_tokens is None


async def test_the_sheet_needs_a_question_and_reports_an_invalid_stop(window: MainWindow) -> None:
    window.twice.ask()
    assert window.twice.sheet is None
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.forms[0].stops.setPlainText("\\q")
    sheet.buttons.accepted.emit()
    assert sheet.isVisible()
    assert "\\q" in sheet.problem.text()
    assert window.workspace.current.sides is None
    sheet.reject()


async def test_while_two_answers_wait_to_be_kept_nothing_else_is_sent(window: MainWindow) -> None:
    await ask(window)
    composer = window.chat.composer
    composer.set_text("another question")
    assert not composer.action.isEnabled()
    assert not window.workspace.send("another question")
    assert composer.input.placeholderText() == "Choose an answer to continue"
    columns(window)[0].keep.click()
    assert composer.action.isEnabled()


async def test_another_conversation_may_be_shown_meanwhile(window: MainWindow) -> None:
    window.chat.composer.set_text(COUNT)
    sheet_of(window).buttons.accepted.emit()
    first = window.workspace.current
    window.workspace.new_conversation()
    assert not window.chat.sides.isVisible()
    await eventually(lambda: not first.is_running)
    window.workspace.open(first.conversation)
    assert window.chat.sides.isVisible()
    assert [column.shown_text.split()[0] for column in columns(window)] == ["1", "1"]
    assert first.sides is not None
    assert all(run.state is RunState.FINISHED for run in first.sides.runs)


async def test_columns_that_would_be_too_narrow_stand_below_one_another(
    window: MainWindow,
) -> None:
    page = window.chat.sides
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.more.click()
    sheet.more.click()
    assert not sheet.more.isVisible()
    sheet.buttons.accepted.emit()
    await ended(window)

    def places() -> list[tuple[int, int]]:
        grid = page._grid
        found = [grid.getItemPosition(grid.indexOf(answer)) for answer in columns(window)]
        return [(row, column) for row, column, *_ in found]

    page.resize(1400, 700)
    assert places() == [(0, 0), (0, 1), (0, 2), (0, 3)]
    page.resize(1000, 700)
    assert places() == [(0, 0), (0, 1), (1, 0), (1, 1)]
    page.resize(500, 700)
    assert places() == [(0, 0), (1, 0), (2, 0), (3, 0)]


async def test_a_system_prompt_of_the_second_answer_is_not_the_conversations(
    window: MainWindow,
) -> None:
    settings = window.workspace.current.conversation.settings
    window.workspace.settings.change(replace(settings, system_prompt="Be short."))
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.forms[0].system_prompt.setPlainText("Be long.")
    sheet.buttons.accepted.emit()
    await ended(window)
    assert window.workspace.current.conversation.settings.system_prompt == "Be short."
    assert columns(window)[1].detail.text() == "Another system prompt"
    columns(window)[1].keep.click()
    assert window.workspace.current.conversation.settings.system_prompt == "Be long."


async def test_a_question_is_answered_four_times_and_each_answer_has_its_own_stop(
    window: MainWindow,
) -> None:
    window.chat.composer.set_text("Output the whole alphabet from A to Z, then stop")
    sheet = sheet_of(window)
    assert not sheet.fewer.isVisible()
    for stop in ("E", "J"):
        sheet.forms[-1].stops.setPlainText(stop)
        sheet.more.click()
    sheet.buttons.accepted.emit()
    answers = columns(window)
    assert [answer.stop.accessibleName() for answer in answers] == [
        f"Stop answer {number}" for number in (1, 2, 3, 4)
    ]
    assert not any(answer.stop.isHidden() for answer in answers)
    last = answers[-1]
    last.stop.setFocus()
    last.stop.click()
    await eventually(lambda: not last.side.session.is_running)
    assert last.stop.isHidden()
    assert last.side.run is not None
    assert last.side.run.finished is not None
    assert last.side.run.finished.stop.kind == "cancelled"
    await ended(window)
    reasons = [answer.view.reason.text() for answer in answers]
    assert "Stopped by “E”" in reasons[1]
    assert "Stopped by “J”" in reasons[2]
    assert {answer.title.text() for answer in answers} == {window.workspace.answering.name}
    assert window.chat.sides.words.text() == (
        "Marked is where the answers differ from the first one."
    )
    assert window.chat.sides.leave.text() == "Keep All as Versions"
    answers[2].keep.click()
    conversation = window.workspace.current.conversation
    assert len(conversation.tree.versions(conversation.messages[-1])) == 4
    assert conversation.enabled_stops() == ("J",)


async def test_the_sheet_does_not_grow_with_each_answer(window: MainWindow) -> None:
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    await eventually(sheet.isVisible)
    heights = []
    for _ in range(2):
        sheet.more.click()
        await eventually(lambda: sheet.forms[-1].isVisible())
        heights.append(sheet._area.minimumHeight())
    single = sheet.forms[0].column.totalHeightForWidth(sheet.minimumWidth() - 44)
    assert heights[0] == heights[1]
    assert heights[0] < 2 * single
    sheet.reject()


async def test_the_button_that_leaves_with_the_last_answer_takes_no_focus_with_it(
    window: MainWindow,
) -> None:
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.activateWindow()
    await eventually(sheet.isActiveWindow)
    for _ in range(2):
        sheet.more.setFocus()
        await eventually(sheet.more.hasFocus)
        sheet.more.click()
    assert sheet.more.isHidden()
    await eventually(sheet.forms[-1].stops.hasFocus)
    for _ in range(2):
        sheet.fewer.setFocus()
        await eventually(sheet.fewer.hasFocus)
        sheet.fewer.click()
    assert sheet.fewer.isHidden()
    await eventually(sheet.forms[0].stops.hasFocus)
    sheet.reject()


async def test_an_answer_is_added_while_a_field_of_the_one_before_has_the_focus(
    window: MainWindow,
) -> None:
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.activateWindow()
    await eventually(sheet.isActiveWindow)
    sheet.forms[0].stops.setFocus()
    await eventually(sheet.forms[0].stops.hasFocus)
    sheet.more.click()  # on a Mac, a click leaves the focus where it is
    await eventually(sheet.forms[1].stops.hasFocus)
    sheet.reject()


async def test_an_answer_can_be_taken_out_of_the_sheet_again(window: MainWindow) -> None:
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.forms[0].stops.setPlainText("4")
    sheet.more.click()
    sheet.forms[1].stops.setPlainText("5")
    sheet.tabs.setCurrentIndex(0)
    sheet.fewer.click()
    assert [sheet.tabs.tabText(place) for place in range(sheet.tabs.count())] == ["Answer 2"]
    sheet.buttons.accepted.emit()
    await ended(window)
    assert [answer.shown_text.split()[-1] for answer in columns(window)] == ["10", "4"]


async def test_answers_side_by_side_call_the_tools_of_the_conversation(
    theme: Theme, engine: Engine
) -> None:
    class Weather(DictatedHost):
        """Has the one tool that the demo model can call."""

        def __init__(self) -> None:
            tool = replace(
                ADD, name="get_weather", title="get_weather", parameters=_WEATHER, fingerprint="w"
            )
            super().__init__(replace(SUMS, tools=(tool,)))
            self.text = "It is 18 degrees and sunny."

    host = Weather()
    preferences = preferences_state(
        Preferences(tools=ToolPreferences(allowed=(("sums", "get_weather", "w"),)))
    )
    made = main_window(engine, theme, tool_host=host, preferences=preferences)
    async with opened(made, quits=True, is_ready=True) as window:
        window.workspace.settings.change_tools(ToolsInUse(("sums",)))
        window.chat.composer.set_text("What is the weather in Paris?")
        sheet_of(window).buttons.accepted.emit()
        await ended(window)
        assert len(host.calls) == 2
        for answer in columns(window):
            assert len(answer.views) == 2
            assert len(answer.views[0].calls.cards) == 1
            assert answer.shown_text
        columns(window)[1].keep.click()
        messages = window.workspace.current.conversation.messages
        assert [one.role for one in messages] == ["user", "assistant", "assistant"]


_WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


async def test_a_refused_answer_says_its_cause_once(window: MainWindow, tmp_path: Path) -> None:
    window.chat.composer.set_text(COUNT)
    sheet = sheet_of(window)
    sheet.forms[0].model.addItem("gone", tmp_path / "gone")
    sheet.forms[0].model.setCurrentIndex(sheet.forms[0].model.count() - 1)
    sheet.buttons.accepted.emit()
    await eventually(lambda: bool(columns(window)) and columns(window)[1].has_failed)
    refused = columns(window)[1]
    assert refused.cause.text()
    assert refused.view.reason.text() == "Not sent"

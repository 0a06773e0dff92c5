"""One question with two answers: begun, shown, compared, and one of them kept."""

import asyncio
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from engine.stopping.rules import Stop
from tests.support.kept import preferences_state
from tests.support.outside.tool_hosts import ADD, SUMS, DictatedHost
from tests.support.shown import main_window
from tests.ui.driving import (
    END,
    Enter,
    Living,
    ScriptedEngine,
    ended,
    eventually,
    found_texts,
    opened,
    push,
    session,
)
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.sides import CompareDialog, SideColumn, VariantForm
from ui.kit.theme import Theme
from ui.preferences import Preferences, ToolPreferences
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.stop_entries import StopEntry
from ui.records.tool_choice import ToolsInUse
from ui.records.variants import Variant
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"
_WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


def variant(chat: ConversationController, stop: str = "6", **settings: object) -> Variant:
    own = Variant.of(chat.conversation)
    return replace(own, stops=(StopEntry(Stop(stop)),), settings=replace(own.settings, **settings))


async def finish_all(chat: ConversationController, engine: ScriptedEngine, count: int = 2) -> None:
    await eventually(lambda: len(engine.generations) >= count)
    for generation in engine.generations:
        push(generation, [END])
    await ended(chat)


async def test_comparison_generates_both_answers_at_the_same_time() -> None:
    engine = ScriptedEngine()
    chat = session(engine)
    assert chat.compare(variant(chat, max_tokens=3), COUNT)
    assert [side.is_running for side in chat.sides] == [True, True]
    assert chat.is_running
    assert not chat.is_answering
    assert not chat.compare(variant(chat), COUNT)
    await finish_all(chat, engine)
    assert [request.max_tokens for request in engine.requests] == [None, 3]
    assert [request.stops.strings for request in engine.requests] == [(), ("6",)]
    assert chat.conversation.settings.max_tokens is None


@pytest.mark.parametrize("keeps_right", [True, False])
async def test_comparison_keeps_one_answer_and_the_other_as_version(keeps_right: bool) -> None:
    engine = ScriptedEngine()
    chat = session(engine)
    chat.compare(variant(chat), COUNT)
    await finish_all(chat, engine)
    assert chat.is_busy
    kept = chat.sides[int(keeps_right)]
    answer = kept.last_answer
    chat.end_comparison(kept)
    assert not chat.is_busy
    assert chat.conversation.messages[-1] is answer
    assert len(chat.conversation.tree.versions(chat.conversation.messages[-1])) == 2


async def test_comparison_answers_the_last_question_again() -> None:
    engine = ScriptedEngine()
    chat = session(engine)
    assert not chat.compare(variant(chat))
    chat.send(COUNT)
    await finish_all(chat, engine, 1)
    assert chat.compare(variant(chat))
    await finish_all(chat, engine, 3)
    chat.end_comparison(chat.sides[1])
    assert len(chat.conversation.messages) == 2
    assert len(chat.conversation.tree.versions(chat.conversation.messages[-1])) == 3


async def test_comparison_cancel_ends_both_answers() -> None:
    engine = ScriptedEngine()
    chat = session(engine)
    chat.compare(variant(chat), COUNT)
    await eventually(lambda: len(engine.generations) == 2)
    chat.cancel()
    assert len(engine.cancelled) == 2
    await finish_all(chat, engine)


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme), quits=True, is_ready=True))


def dialog_of(window: MainWindow, question: str = COUNT) -> CompareDialog:
    window.chat.composer.set_text(question)
    window.comparing.ask()
    assert window.comparing.dialog is not None
    return window.comparing.dialog


def columns(window: MainWindow) -> list[SideColumn]:
    return window.chat.sides.columns


async def compare(window: MainWindow, stops: str = "6") -> tuple[SideColumn, SideColumn]:
    dialog = dialog_of(window)
    dialog.form.stops.setPlainText(stops)
    dialog.form.system_prompt.setPlainText("Be long.")
    dialog.buttons.accepted.emit()
    summary = window.chat.sides.summary
    await eventually(lambda: "differ" in summary.text() or "same words" in summary.text())
    left, right = columns(window)
    return left, right


async def test_comparison_page_shows_verdicts_and_differences(window: MainWindow) -> None:
    left, right = await compare(window)
    assert left.shown_text.split() == [str(number) for number in range(1, 11)]
    assert right.shown_text.split() == ["1", "2", "3", "4", "5"]
    assert "Stopped by “6”" in right.view.reason.text()
    assert " ".join(found_texts(left.view.text_view)).split() == ["6", "7", "8", "9", "10"]
    window.theme.set_mode("dark")
    assert " ".join(found_texts(left.view.text_view)).split() == ["6", "7", "8", "9", "10"]
    assert found_texts(right.view.text_view) == []
    assert window.chat.composer.text == ""
    assert not window.workspace.send("another question")
    right.view.reason.click()
    assert "6" in window.stop_panel.verdict.sentence.text()
    window.chat.sides.compare.click()
    inspector, shown_run = window.others.inspector, window.inspector.shown
    assert shown_run is not None
    assert inspector.tabs.currentWidget() is inspector.compare
    assert shown_run.run is left.run


async def test_compared_answers_are_reported_once_when_both_have_ended(window: MainWindow) -> None:
    told: list[Conversation] = []
    window.workspace.in_memory.answer_ended.connect(lambda one, _run: told.append(one))
    await compare(window)
    assert told == [window.workspace.current.conversation]


async def test_compared_answers_to_files_alone_give_the_conversation_their_names(
    window: MainWindow,
) -> None:
    current = window.workspace.current
    assert window.workspace.compare(variant(current), "", [Attachment("notes.txt", "Some words")])
    assert current.conversation.title == "notes.txt"
    await eventually(lambda: not current.is_running)


async def test_while_answers_are_compared_no_other_version_is_shown(window: MainWindow) -> None:
    left, right = await compare(window)
    conversation = window.workspace.current.conversation
    answers = [left.side.last_answer, right.side.last_answer]
    before = conversation.messages
    for answer in answers:
        assert answer is not None
        window.workspace.open_at(conversation.id, answer.id)
        await asyncio.sleep(0.05)
        assert conversation.messages == before


async def test_comparison_keeps_settings_of_the_chosen_answer(window: MainWindow) -> None:
    _, right = await compare(window)
    right.keep.click()
    conversation = window.workspace.current.conversation
    assert conversation.enabled_stops() == ("6",)
    assert conversation.settings.system_prompt == "Be long."
    window.workspace.current.undo_stack.undo()
    assert (conversation.enabled_stops(), conversation.settings.system_prompt) == ((), "")
    window.workspace.current.undo_stack.redo()
    assert window.chat.column.isVisible()
    assert window.workspace.send("Count from 1 to 7")
    await ended(window)
    run = conversation.messages[-1].run
    assert run is not None
    assert run.stops == ("6",)


async def test_compare_dialog_reports_missing_question_and_invalid_stop(
    window: MainWindow,
) -> None:
    window.comparing.ask()
    assert window.comparing.dialog is None
    dialog = dialog_of(window)
    dialog.form.stops.setPlainText("\\q")
    dialog.buttons.accepted.emit()
    assert dialog.isVisible()
    assert "\\q" in dialog.problem.text()
    assert not window.workspace.current.sides
    dialog.reject()


async def test_comparison_calls_tools_of_the_conversation(theme: Theme, engine: Engine) -> None:
    tool = replace(
        ADD, name="get_weather", title="get_weather", parameters=_WEATHER, fingerprint="w"
    )
    host = DictatedHost(replace(SUMS, tools=(tool,)))
    host.text = "It is 18 degrees and sunny."
    preferences = preferences_state(
        Preferences(tools=ToolPreferences(allowed=(("sums", "get_weather", "w"),)))
    )
    made = main_window(engine, theme, tool_host=host, preferences=preferences)
    async with opened(made, quits=True, is_ready=True) as window:
        window.workspace.change_tools(ToolsInUse(("sums",)))
        dialog_of(window, "What is the weather in Paris?").buttons.accepted.emit()
        await ended(window)
        assert len(host.calls) == 2
        for answer in columns(window):
            assert len(answer.views) == 2
            assert len(answer.views[0].calls.cards) == 1
        columns(window)[1].keep.click()
        messages = window.workspace.current.conversation.messages
        assert [one.role for one in messages] == ["user", "assistant", "assistant"]


def test_edited_stops_of_a_variant_keep_disabled_ones(theme: Theme, qtbot: QtBot) -> None:
    off = StopEntry(Stop("OFF"), is_enabled=False)
    now = Variant(ConversationSettings(), (StopEntry(Stop("END")), off))
    form = VariantForm(now, [])
    qtbot.addWidget(form)
    form.stops.setPlainText("END\nNEW")
    assert form.variant().stops == (StopEntry(Stop("END")), StopEntry(Stop("NEW")), off)

"""One question answered with several seeds: its plot, its figures, and the runs that it opens."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication

from engine.values.request import TraceLevel
from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.ends_window import EndsWindow
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.shown_run import ShownRun
from ui.inspector.stop_tabs import WhatIfTab
from ui.records.runs import Run
from ui.window.main_window import MainWindow
from ui.words import THIS_COMPUTER


async def several(window: MainWindow, *stops: str) -> EndsWindow:
    """Return the window about the last answer, before anything was started."""
    await ask(window, COUNT, *stops)
    run = window.workspace.current.latest_run
    assert run is not None
    window.others.answer_several(run)
    ends = window.others.ends
    await ends.finish()
    ends.count.show_number(3)
    return ends


async def done(ends: EndsWindow) -> None:
    ends.start.click()
    await eventually(lambda: ends.answers.stage not in ("idle", "running"))


async def test_answers_are_counted_and_nothing_enters_the_conversation(window: MainWindow) -> None:
    ends = await several(window, "6")
    conversation = window.workspace.current.conversation
    before = len(conversation.tree), len(window.workspace.traces)
    await done(ends)
    assert ends.note.text() == "3 of 3 answers ended."
    assert "stop “6”" in ends.summary.toPlainText()
    assert [ends.model.text(row, 2) for row in ends.model.rows] == ["stop “6”"] * 3
    assert (len(conversation.tree), len(window.workspace.traces)) == before
    ends.copy_json.click()
    values = json.loads(QApplication.clipboard().text())
    assert [one["seed"] for one in values["each"]] == [1, 2, 3]
    assert values["stops"] == [{"text": "6", "fired": 3, "cuts": []}]
    assert values["is_complete"]
    ends.copy_table.click()
    assert QApplication.clipboard().text().startswith("Seed\tStops and Setting\tEnd\t")


async def test_another_list_is_compared_on_the_same_seeds(window: MainWindow) -> None:
    ends = await several(window, "6")
    ends.compares.setChecked(True)
    ends.start.click()
    assert ends.note.text().startswith("Nothing differs.")
    ends.other.stops.remove([0])
    ends.other.editor.input.setText("4")  # counts without Add
    await done(ends)
    assert ends.sentence.text() == (
        "3 of 3 stopped by “6”, 0 with the other list; 3 seeds end differently, "
        "median length 11 and 7 tokens."
    )
    assert [row.answer.seed for row in ends.model.rows] == [1, 1, 2, 2, 3, 3]


async def test_mark_opens_its_run_by_click_and_by_key(window: MainWindow) -> None:
    ends = await several(window, "6")
    await done(ends)
    QTest.mouseClick(ends.plot, Qt.MouseButton.LeftButton, pos=ends.plot.mark_at(0, 1).toPoint())
    shown = window.inspector.shown
    assert shown is not None
    assert (shown.source, shown.name) == ("several", "seed 2, “6”")
    assert shown.can_be_replayed
    assert shown.request is not None
    assert shown.request.sampling.seed == 2
    ends.plot.setFocus()
    QTest.keyClick(ends.plot, Qt.Key.Key_Down)
    assert ends.plot.accessibleDescription().startswith("Seed 3")
    QTest.keyClick(ends.plot, Qt.Key.Key_Return)
    shown = window.inspector.shown
    assert shown is not None
    assert shown.name == "seed 3, “6”"


async def test_closing_ends_answers_and_ended_ones_count(window: MainWindow) -> None:
    ends = await several(window)
    ends.start.click()
    await eventually(lambda: any(row.answer.output_tokens for row in ends.model.rows))
    ends.close()
    assert ends.answers.stage == "stopped"
    engine = window.inspector.engine
    await eventually(lambda: engine.status.running == 0)
    assert ends.note.text() == "Stopped: 0 of 3 answers ended; the others do not count."


async def test_model_that_is_gone_is_named_with_remedy(window: MainWindow) -> None:
    ends = await several(window)
    assert ends._request is not None
    ends._request = type(ends._request)(messages=ends._request.messages, model="gone")
    await done(ends)
    assert ends.note.text() == f"The model gone is not on {THIS_COMPUTER}; download it in Models."


async def test_chat_answers_while_several_answers_run(window: MainWindow) -> None:
    ends = await several(window)
    ends.count.show_number(ends.answers.max_answers)
    ends.temperature.setValue(2)
    ends.start.click()
    await eventually(lambda: any(row.answer.output_tokens for row in ends.model.rows))
    await ask(window, COUNT, "3")
    assert ends.answers.is_running
    run = window.workspace.current.latest_run
    assert run is not None
    assert run.stopped_by == "3"


async def test_temperature_is_that_of_both_sides_until_one_differs(window: MainWindow) -> None:
    ends = await several(window, "6")
    ends.compares.setChecked(True)
    ends.temperature.setValue(1)
    assert ends.other.temperature.number == 1
    ends.other.temperature.setValue(0.5)
    ends.temperature.setValue(2)
    await done(ends)
    temperatures = [side.request.sampling.temperature for side in ends.answers.sides]
    assert temperatures == [2, 0.5]
    assert [side.name for side in ends.answers.sides] == [
        "“6”, temperature 2",
        "“6”, temperature 0.5",
    ]


async def test_list_tried_in_what_if_is_compared(
    window: MainWindow, inspector: InspectorWindow
) -> None:
    await ask(window, COUNT, "6")
    what_if = inspector.tab(WhatIfTab)
    inspector.tabs.setCurrentWidget(what_if)
    what_if.editor.input.setText("4")
    await eventually(lambda: inspector.inspector.what_if.rules.strings == ("6", "4"))
    what_if.several.trigger()
    ends = window.others.ends
    await ends.finish()
    ends.count.show_number(2)
    await done(ends)
    assert [side.name for side in ends.answers.sides] == ["“6”", "“6”, “4”"]


async def test_figures_are_those_of_ask(window: MainWindow) -> None:
    ends = await several(window, "6")
    await done(ends)
    ends.copy_json.click()
    command = ["-m", "app", "ask", COUNT, "--times", "3", "--stop", "6", "--json"]
    asked = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    out, _ = await asked.communicate()
    shown, printed = json.loads(QApplication.clipboard().text()), json.loads(out)
    for values in (shown, printed):
        for one in values["each"]:
            assert one.pop("eos_probability") < 0.01
        assert values.pop("eos_odds")["max"] < 0.01
    assert shown == printed


async def test_answer_without_recording_is_asked_as_its_conversation_would(
    window: MainWindow,
) -> None:
    window.workspace.traces.record(TraceLevel.OFF)
    ends = await several(window, "6")
    await done(ends)
    assert ends.answers.sides[0].counts.stops[0].fired == 3


async def test_question_is_known_once_its_conversation_is_open(window: MainWindow) -> None:
    window.workspace.traces.record(TraceLevel.OFF)
    await ask(window, COUNT)
    workspace, ends = window.workspace, window.others.ends
    conversation, shown = workspace.current.conversation, window.inspector.shown
    workspace.new_conversation()
    ends.show_question(shown)
    await ends.finish()
    assert ends.note.text().startswith("The question of this answer was not recorded.")
    workspace.open(conversation)
    ends.show_question(shown)
    await ends.finish()
    assert ends.question.text() == COUNT


async def test_newer_question_replaces_one_that_is_being_read(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch
) -> None:
    ends, inspector = await several(window), window.inspector
    assert inspector.shown is not None
    slow, found = ShownRun(Run(model_id="slow")), asyncio.Event()

    async def find(_: str) -> None:
        await found.wait()

    monkeypatch.setattr(inspector.traces, "find", find)
    ends.show_question(slow)
    await asyncio.sleep(0)
    ends.show_question(inspector.shown)
    found.set()
    await ends.finish()
    assert ends.question.text() == COUNT


async def test_deleted_recordings_take_several_answers_with_them(window: MainWindow) -> None:
    ends = await several(window, "6")
    await done(ends)
    QTest.mouseClick(ends.plot, Qt.MouseButton.LeftButton, pos=ends.plot.mark_at(0, 1).toPoint())
    window.workspace.traces.forget_all()
    assert ends.model.rows == []
    assert not ends.plot.isVisible()
    assert window.inspector.shown is not None
    assert window.inspector.shown.trace is None


@pytest.mark.parametrize(("rows", "count"), [(6, 4), (2, 2)])
async def test_count_leaves_rows_of_the_batch_to_the_chat(
    window: MainWindow, monkeypatch: pytest.MonkeyPatch, rows: int, count: int
) -> None:
    engine = window.inspector.engine
    monkeypatch.setattr(engine, "limits", replace(engine.limits, max_rows=rows))
    ends = window.others.ends
    assert (ends.count.number, ends.count.maximum()) == (count, count)

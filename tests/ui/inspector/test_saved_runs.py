"""Runs and cases that are saved from the inspector and opened again."""

import asyncio
import json
from pathlib import Path

import pytest

from app.cli import main
from tests.support.answers.said import sentence_of_stop
from tests.ui.driving import eventually
from tests.ui.inspector.inspecting import COUNT, ask
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.stop_tabs import WhatIfTab
from ui.window.main_window import MainWindow


async def test_a_case_that_was_saved_is_played_by_the_command_line(
    window: MainWindow,
    inspector: InspectorWindow,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "case.json"
    await ask(window, COUNT, "6")
    inspector.tabs.setCurrentWidget(inspector.tab(WhatIfTab))
    inspector.tab(WhatIfTab).editor.input.setText("4")
    await eventually(lambda: "4" in inspector.inspector.what_if.rules.strings)
    inspector.inspector.save_case(path)
    await eventually(path.exists)
    rules = json.loads(path.read_text())["rules"]
    assert [stop["text"] for stop in rules["stops"]] == ["6", "4"]
    assert await asyncio.to_thread(main, ["replay", str(path)]) == 0
    assert capsys.readouterr().out.startswith("1\n2\n3\n")


async def test_a_saved_run_is_opened_and_the_way_back_is_there(
    window: MainWindow, inspector: InspectorWindow, tmp_path: Path
) -> None:
    path = tmp_path / "run.json"
    await ask(window, COUNT, "6")
    inspector.inspector.save_run(path)
    await eventually(path.exists)
    window.workspace.new_conversation()
    assert inspector.head.sentence.text() == "No answer yet"
    inspector.inspector.open_file(path)
    await eventually(lambda: inspector.bar.back.isVisible())
    assert inspector.head.source.text() == "From a saved run: run.json"
    assert inspector.head.sentence.text() == sentence_of_stop("6")
    window.workspace.show_run(None)
    assert inspector.head.sentence.text() == sentence_of_stop("6")
    inspector.bar.back.click()
    assert inspector.head.sentence.text() == "No answer yet"


@pytest.mark.parametrize("content", ["{", '{"fullstop_run": 99}', "[]", "\x00"])
async def test_a_file_that_is_not_a_saved_run_is_reported(
    window: MainWindow, inspector: InspectorWindow, tmp_path: Path, content: str
) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)
    inspector.inspector.open_file(path)
    await eventually(lambda: "other.json is not a saved run" in inspector.head.source.text())

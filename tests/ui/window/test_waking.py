"""Stop and Quit while a model that rested is read again: both act at once."""

import time
from pathlib import Path
from typing import Any

from PySide6.QtTest import QTest

from engine.engine import Engine
from engine.inference.backend import LoadProgress, OnLoadProgress
from engine.stopping.record import StopKind
from tests.support.scripted import Stage
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.kit.theme import Theme


class NeverAgain:
    """Loads a stage's model once; the next time it reads and reads."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.loads = 0
        self.was_broken_off = False

    def __call__(self, folder: Path, *, on_progress: OnLoadProgress, **options: Any) -> Any:
        self.loads += 1
        try:
            deadline_s = time.monotonic() + 60
            while self.loads > 1 and time.monotonic() < deadline_s:
                on_progress(LoadProgress("weights", 1, 100))
                time.sleep(0.005)
        except BaseException:
            self.was_broken_off = True
            raise
        return self._stage.load(folder, **options)


async def test_stop_and_quit_act_at_once_while_a_model_is_read_again(
    theme: Theme, tmp_path: Path
) -> None:
    loader = NeverAgain(Stage(tmp_path, {"Go": ["yes"]}))
    engine = Engine(loader=loader)
    await engine.load(tmp_path)
    engine.unload_after(0.01)
    await eventually(lambda: engine.status.is_unloaded)
    window = main_window(engine, theme)
    window.pane.open(window.stop_panel)
    async with shown(window, quits=True):
        workspace, composer = window.workspace, window.chat.composer
        QTest.keyClicks(composer.input, "Go")
        composer.action.click()
        answer = workspace.current.run
        assert answer is not None
        await eventually(lambda: loader.loads == 2)
        composer.action.click()
        await eventually(lambda: not workspace.current.is_running)
        assert loader.loads == 2
        assert not loader.was_broken_off
        assert answer.finished is not None
        assert answer.finished.stop.kind is StopKind.CANCELLED
        assert "Stopped by you" in window.stop_panel.verdict.sentence.text()
        # Another question waits for the model; Quit does not.
        workspace.current.send("Go")
        assert workspace.current.is_running
    await engine.aclose()
    assert loader.was_broken_off

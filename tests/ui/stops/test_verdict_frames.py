"""No frame shows the verdict cut off, also while all text grows."""

import pytest
from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QLabel
from pytestqt.qtbot import QtBot

from tests.support.answers.said import conversation, finished_run
from tests.support.shown import main_window, shown
from tests.ui.driving import RunOnLoop, ScriptedEngine, eventually
from ui.kit.look.theme import Theme
from ui.kit.text.facts import FactTable
from ui.models.model_state import ModelState
from ui.records.runs import Run, RunState
from ui.records.tooling.calls import CallProgress
from ui.stops.verdict_view import VerdictView


class CutFrames(QObject):
    """Notes each time a label is painted in a place that is too low for its text."""

    def __init__(self, label: QLabel) -> None:
        super().__init__(label)
        self._label = label
        self.painted = 0
        self.cut: list[tuple[int, int]] = []
        label.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() == QEvent.Type.Paint:
            self.painted += 1
            needed = self._label.heightForWidth(self._label.width())
            if self._label.height() < needed - 2:
                self.cut.append((self._label.height(), needed))
        return False


@pytest.mark.parametrize("percents", [(150, 200), (125, 175, 100, 200)])
def test_no_frame_cuts_the_verdict_off_while_text_grows(
    run: RunOnLoop,
    scripted: ScriptedEngine,
    theme: Theme,
    qapp: QApplication,
    percents: tuple[int, ...],
) -> None:
    async def steps() -> None:
        window = main_window(scripted, theme)  # type: ignore[arg-type]
        window.resize(1280, 820)
        async with shown(window, quits=True):
            window.workspace.take_in(conversation())
            verdict = window.stop_panel.verdict
            seen = [CutFrames(verdict.sentence), CutFrames(verdict.detail)]
            await eventually(lambda: all(one.painted for one in seen))
            for percent in percents:
                window.preferences.change(text_percent=percent)
                await eventually(window.updatesEnabled)
                window.stop_panel.repaint()
            assert [one.cut for one in seen] == [[], []]

    try:
        run(steps())
    finally:
        theme.set_text_size(100)


def test_the_facts_of_an_ended_answer_are_not_built_anew_while_its_calls_go_on(
    qtbot: QtBot, theme: Theme, scripted: ScriptedEngine
) -> None:
    verdict = VerdictView(theme, ModelState(scripted))
    qtbot.addWidget(verdict)
    run = finished_run("I add them.", is_calling=True)
    verdict.show_run(run)
    shown_facts = verdict.findChildren(FactTable)
    run.progress["c1"] = CallProgress("sums", "add", running_s=0.5)
    verdict.follow()
    assert verdict.findChildren(FactTable) == shown_facts
    running = Run(state=RunState.STREAMING, text="1 2")
    verdict.show_run(running)
    running.text += " 3"
    verdict.follow()
    assert verdict.detail.text().startswith("5 characters so far")

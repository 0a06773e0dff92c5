"""No frame shows the verdict cut off, also while all text grows."""

import asyncio
import itertools

from PySide6.QtCore import QEvent, QObject, QPoint
from PySide6.QtWidgets import QLabel, QWidget
from pytestqt.qtbot import QtBot

from tests.support.answers.said import conversation, finished_run
from tests.support.shown import main_window, shown
from tests.ui.driving import MODEL, ScriptedEngine, eventually
from ui.chat.stop_panel import VerdictView
from ui.kit.labels import FactTable
from ui.kit.theme import Theme
from ui.models.models import Models
from ui.records.conversations import ChosenModel, StopEntry
from ui.records.runs import Run, RunState
from ui.records.tool_calls import CallProgress


def test_a_hidden_verdict_takes_other_colors_when_it_is_seen_again(
    qtbot: QtBot, theme: Theme, scripted: ScriptedEngine
) -> None:
    verdict = VerdictView(Models(scripted))
    qtbot.addWidget(verdict)
    verdict.show_run(finished_run("I add them."))
    shown_facts = verdict.findChildren(FactTable)
    theme.set_mode("dark")
    assert verdict.findChildren(FactTable) == shown_facts
    verdict.show()
    assert verdict.findChildren(FactTable) != shown_facts


def test_the_facts_of_an_ended_answer_are_not_built_anew_while_its_calls_go_on(
    qtbot: QtBot, theme: Theme, scripted: ScriptedEngine
) -> None:
    verdict = VerdictView(Models(scripted))
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


STOPS = ("\n6", "END", "<|im_end|>", "\n\nUser:", "###", "Observation:", "</answer>")


def names(widget: QWidget) -> list[str]:
    return [one.accessibleName() for one in widget.findChildren(QWidget) if one.isVisible()]


def name_of(widget: QWidget) -> str:
    return f"{type(widget).__name__} {widget.property('text') or widget.accessibleName()}"


class Frames(QObject):
    """Notes in each frame where the parts of a column are, which overlap, and what is cut off."""

    def __init__(self, column: QWidget) -> None:
        super().__init__(column)
        self.places: dict[QWidget, set[tuple[int, ...]]] = {}
        self.faults: list[str] = []
        self._column = column
        column.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        if event.type() == QEvent.Type.Paint:
            self.look()
        return False

    def look(self) -> None:
        parts = [one for one in self._column.findChildren(QWidget) if one.isVisible()]
        for part in parts:
            corner, size = part.mapTo(self._column, QPoint()), part.size()
            place = corner.x(), corner.y(), size.width(), size.height()
            self.places.setdefault(part, set()).add(place)
            wraps = isinstance(part, QLabel) and part.wordWrap()
            needed = part.heightForWidth(size.width()) if wraps else part.minimumSizeHint().height()
            if isinstance(part, QLabel) and size.height() < needed - 1:
                self.faults.append(f"{part.text()} has {size.height()} of {needed} pixels")
        for one, other in itertools.combinations(parts, 2):
            is_beside = one.parentWidget() is other.parentWidget()
            if is_beside and one.geometry().intersects(other.geometry()):
                self.faults.append(f"{one} overlaps {other}")


async def test_the_panel_is_laid_out_once_at_the_start_and_stays_so_when_its_model_is_loaded(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    scripted.model = None
    window = main_window(scripted, theme)
    window.stop_panel.show()
    seven = conversation()
    seven.model = ChosenModel(MODEL.id, MODEL.path)
    seven.stops = [StopEntry.of(stop) for stop in STOPS]
    window.workspace.take_in(seven)
    panel = window.stop_panel
    column = panel.editor.parentWidget()
    frames = Frames(column)
    window.resize(1800, 820)
    async with shown(window, quits=True):
        await eventually(lambda: bool(frames.places))
        scripted.model = MODEL
        model = window.workspace.models
        model.stage, model.name = "ready", MODEL.id
        model.changed.emit()
        tokens = panel.editor.end_tokens
        await eventually(
            lambda: "End token <|im_end|>, token 2, named by the tokenizer" in names(tokens)
        )
        await eventually(lambda: column.height() >= column.minimumSizeHint().height())
        await eventually(lambda: tokens.height() >= tokens.sizeHint().height())
        frames.look()
        assert panel.editor.table in frames.places
        moved = {name_of(one): places for one, places in frames.places.items() if len(places) > 1}
        assert moved == {}
        assert frames.faults == []


async def test_what_replaces_facts_and_end_tokens_is_in_the_next_frame(
    scripted: ScriptedEngine, theme: Theme
) -> None:
    window = main_window(scripted, theme)
    window.stop_panel.show()
    window.resize(1800, 820)
    async with shown(window, quits=True):
        window.workspace.take_in(conversation())
        panel = window.stop_panel
        frames = Frames(panel.editor.parentWidget())
        await eventually(lambda: bool(frames.places))
        tokens = panel.editor.end_tokens
        for change in (
            lambda: panel.verdict.show_run(finished_run("I add them. " * 30)),
            lambda: tokens.show_tokens(MODEL, (5,), MODEL.id),
        ):
            frames.places.clear()
            change()
            window.repaint()
            drawn = set(frames.places)
            assert drawn
            for _ in range(5):
                await asyncio.sleep(0.02)
            frames.look()
            assert {name_of(one) for one in set(frames.places) - drawn} == set()

"""Answers that repeat themselves in the window: ended, explained, and continued on request."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication

from engine.files.json_fields import Fields
from engine.stopping.record import StopKind
from engine.stopping.repetition import Repetition
from engine.stopping.rules import StopRules
from tests.support.asking import loaded_engine
from tests.support.scripted import Stage
from tests.support.shown import main_window
from tests.ui.driving import eventually, facts_text, opened
from ui.chat.messages.answer_view import AnswerView
from ui.inspector.inspector_window import InspectorWindow
from ui.kit.theme import Theme
from ui.records.codec import run_from, run_values
from ui.records.run_report import markdown_report
from ui.records.runs import Run
from ui.window.main_window import MainWindow

BEGINNING = ["Once ", "there ", "was "]
COPY = [f"w{number} " for number in range(70)]
AFTER = [*COPY, *COPY, "The end."]
STORY = [*BEGINNING, *COPY * 4, *AFTER]
CYCLE = Repetition(70, 4, 3)


@asynccontextmanager
async def window_of(
    theme: Theme, folder: Path, question: str, script: list[str], **stage: Any
) -> AsyncIterator[MainWindow]:
    """A window whose model answers a question with a script."""
    loader = Stage(folder, {question: script}, **stage).load
    async with loaded_engine(folder, loader=loader) as engine:
        window = main_window(engine, theme)
        window.pane.open(window.stop_panel)
        async with opened(window, quits=True, is_ready=True):
            yield window


async def ended(window: MainWindow) -> tuple[AnswerView, Run]:
    await eventually(lambda: not window.workspace.current.is_running)
    view = window.chat.column.views[-1]
    assert isinstance(view, AnswerView)
    return view, view.run


def inspector_of(window: MainWindow) -> InspectorWindow:
    window.others.show_inspector()
    window.others.inspector.resize(1080, 820)
    return window.others.inspector


async def test_an_answer_that_repeats_itself_ends_and_is_continued_past_it_once(
    theme: Theme, tmp_path: Path
) -> None:
    async with window_of(theme, tmp_path, "Tell me a story", STORY) as window:
        assert window.workspace.send("Tell me a story")
        view, run = await ended(window)
        assert run.finished is not None
        assert run.finished.stop.kind is StopKind.REPETITION
        assert run.finished.details.repetition == CYCLE
        assert run.text == "".join([*BEGINNING, *COPY * 4])
        assert "Repeated itself" in view.reason.text()
        assert view.proceed.isVisible()
        verdict = window.stop_panel.verdict
        assert verdict.sentence.text() == "The answer repeated itself"
        assert "4 copies of the same 70" in verdict.detail.text()
        assert "4 × 70 tokens, from token 4" in facts_text(verdict)
        verdict.copy_report.click()
        report = QApplication.clipboard().text()
        assert "| Repetition | 4 × 70 tokens, from token 4 |" in report
        assert "| Reason | `repetition` |" in report
        inspector = inspector_of(window)
        assert inspector.head.past.isVisible()
        assert inspector.head.past.text() == "Continue Past It"
        assert inspector.head.steps.text().startswith("The first copy began with token 4.")
        inspector.close()
        view.proceed.click()
        view, longer = await ended(window)
        assert longer is not run
        assert longer.rules.repetition is None
        assert longer.text == "".join(STORY)
        assert longer.finished is not None
        assert longer.finished.stop.kind is StopKind.EOS
        # The next question is watched again.
        assert window.workspace.send("Tell me a story")
        _, again = await ended(window)
        assert again.finished is not None
        assert again.finished.stop.kind is StopKind.REPETITION


async def test_the_continuation_of_a_continuation_past_it_repeats_itself_freely(
    theme: Theme, tmp_path: Path
) -> None:
    async with window_of(theme, tmp_path, "Go", [*COPY * 30, "end"]) as window:
        assert window.workspace.send("Go")
        view, _ = await ended(window)
        current = window.workspace.current
        settings = current.conversation.settings
        window.workspace.change_settings(replace(settings, max_tokens=300))
        view.proceed.click()
        view, limited = await ended(window)
        assert limited.finished is not None
        assert limited.finished.stop.kind is StopKind.MAX_TOKENS
        assert "4 copies of the same 70" in window.stop_panel.verdict.sentence.text()
        # As after a restart, which keeps no more than the record.
        restored = run_from(Fields(json.loads(json.dumps(run_values(limited)))), limited.text)
        assert restored.change_past_stop.goes_past_repetition
        view.proceed.click()
        _, longer = await ended(window)
        assert longer.finished is not None
        assert longer.finished.stop.kind is StopKind.MAX_TOKENS


async def test_with_the_setting_off_answers_reach_their_own_end(
    theme: Theme, tmp_path: Path
) -> None:
    async with window_of(theme, tmp_path, "Tell me a story", STORY) as window:
        window.preferences.change(ends_repetition=False)
        assert window.workspace.send("Tell me a story")
        _, run = await ended(window)
        assert run.text == "".join(STORY)
        assert run.finished is not None
        assert run.finished.stop.kind is StopKind.EOS


async def test_a_change_of_the_setting_offers_no_change_of_the_stop_list(
    theme: Theme, tmp_path: Path
) -> None:
    async with window_of(theme, tmp_path, "Tell me a story", STORY, step_s=0.01) as window:
        assert window.workspace.send("Tell me a story")
        current = window.workspace.current
        await eventually(lambda: current.run is not None and bool(current.run.text))
        info = window.workspace.model_selection.state.info
        assert not current.has_other_stops(info)
        window.preferences.change(ends_repetition=False)
        assert not current.has_other_stops(info)
        current.cancel()
        await ended(window)


async def test_thinking_that_repeats_itself_is_closed_and_explained(
    theme: Theme, tmp_path: Path
) -> None:
    script = ["<think>", *COPY * 8, "</think>", *AFTER]
    async with window_of(theme, tmp_path, "Go", script, plain=["<think>", "</think>"]) as window:
        assert window.workspace.send("Go")
        view, run = await ended(window)
        assert run.thinking == "".join(COPY * 4)
        assert run.finished is not None
        end = run.finished.details.budget_end
        assert end is not None
        assert end.repetition == Repetition(70, 4, 1)
        assert view.thinking.head.text().endswith(", until it repeated itself")
        said = "after 4 copies of the same 70 tokens"
        assert said in facts_text(window.stop_panel.verdict)
        assert said in markdown_report(run)
        inspector = inspector_of(window)
        await eventually(lambda: "copy 4 of 4" in inspector.tape.toPlainText())
        assert said in inspector.head.figures.text()
        inspector.close()


@pytest.mark.parametrize("min_count", [4, 1])
def test_a_detection_that_no_request_could_have_is_ignored(min_count: int) -> None:
    values = run_values(Run(state="finished"))
    detection = {"max_pattern_size": 64, "min_count": min_count}
    values |= {"stops": ["END"], "rules": {"stops": [{"text": "END"}], "repetition": detection}}
    rules = run_from(Fields(values), "").rules
    assert rules.strings == ("END",)
    assert (rules.repetition is None) == (min_count == 1)
    assert isinstance(rules, StopRules)

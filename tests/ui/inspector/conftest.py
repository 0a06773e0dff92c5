"""Recorded runs of a scripted model, and the inspector on the demo model."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.stopping.rules import StopRules
from engine.values.request import TraceLevel
from tests.support.asking import request, run
from tests.support.models.guessing import GuessingStage
from tests.support.scripted import Stage
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, opened
from ui.chat.session.traces import Traces
from ui.inspector.inspector_window import InspectorWindow
from ui.inspector.shown_run import ShownRun
from ui.kit.theme import Theme
from ui.records.runs import Run
from ui.window.main_window import MainWindow

Record = Callable[..., ShownRun]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    """Let the scripted model say something and return the run as it is shown."""

    def run_script(
        script: list[str | int],
        *stops: str,
        rules: StopRules | None = None,
        level: TraceLevel = TraceLevel.STOPS,
        max_tokens: int | None = None,
        guesses: bool = False,
        **tags: object,
    ) -> ShownRun:
        kind = GuessingStage if guesses else Stage
        stage = kind(tmp_path, {"go": script}, **tags)  # type: ignore[arg-type]
        traces = Traces()
        traces.level = level

        async def ask() -> ShownRun:
            engine = Engine(loader=stage.load)
            await engine.load(tmp_path)
            asked = request("go", rules=rules or StopRules.of(*stops))
            if max_tokens is not None:
                asked = replace(asked, max_tokens=max_tokens)
            generation = await engine.generate(traces.traced(asked))
            shown = Run(rules=asked.stops, max_tokens=max_tokens, model_id="scripted")
            trace = traces.begin(shown.id, generation)
            async for event in generation.events():
                shown.apply(event)
                if trace is not None:
                    trace.take(event)
            await engine.aclose()
            return ShownRun(shown, trace, "go")

        return run(ask())  # type: ignore[no-any-return]

    return run_script


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    """The main window on the real engine and the demo model."""

    def make() -> MainWindow:
        window = main_window(engine, theme)
        window.workspace.traces.level = TraceLevel.FULL
        return window

    return enter(lambda: opened(make()))


@asynccontextmanager
async def inspector_of(window: MainWindow) -> AsyncIterator[InspectorWindow]:
    window.others.show_inspector()
    inspector = window.others.inspector
    inspector.resize(1080, 820)  # the offscreen platform's screen is small
    yield inspector


@pytest.fixture
def inspector(enter: Enter, window: Living[MainWindow]) -> Living[InspectorWindow]:
    """The inspector beside it."""
    return enter(lambda: inspector_of(window.value))

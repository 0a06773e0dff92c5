import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import qasync
from PySide6.QtCore import QCoreApplication, QEvent
from PySide6.QtGui import QFileOpenEvent
from PySide6.QtWidgets import QApplication

from app.desktop.application import Application
from engine.engine import Engine
from engine.recording.run_trace import trace_for
from engine.recording.saved_run import to_json
from engine.values.request import TraceLevel
from tests.support.asking import request, run
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.theme import Theme


@pytest.fixture
def application(qapp: Application) -> Iterator[Application]:
    yield qapp
    qapp.detach()


def ask_to_open(application: Application, path: Path) -> None:
    QCoreApplication.sendEvent(application, QFileOpenEvent(str(path)))


def test_file_open_events_before_window_are_queued(
    application: Application, tmp_path: Path
) -> None:
    opened: list[Path] = []
    ask_to_open(application, tmp_path / "early.json")
    application.attach_window(SimpleNamespace(open_run=opened.append))
    ask_to_open(application, tmp_path / "late.json")
    assert opened == [tmp_path / "early.json", tmp_path / "late.json"]


def test_quit_event_closes_window(
    application: Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(QApplication, "event", lambda *_: asked.append("Qt") or True)
    application.attach_window(SimpleNamespace(quit=lambda: asked.append("window")))
    QCoreApplication.sendEvent(application, QEvent(QEvent.Type.Quit))
    assert asked == ["window"]


def test_opened_run_is_shown_in_inspector(
    qapp: Application, engine: Engine, tmp_path: Path
) -> None:
    async def saved() -> str:
        asked = request("Count from 1 to 10, one number per line", "6", trace=TraceLevel.STOPS)
        generation = await engine.generate(asked)
        trace = trace_for(generation)
        async for event in generation.events():
            trace.take(event)
        return to_json(trace, "Count")

    file = tmp_path / "a.fullstop-run"
    file.write_text(run(saved()), encoding="utf-8")

    async def shown() -> None:
        window = main_window(engine, Theme(qapp, "light"))
        try:
            window.open_run(file)
            await eventually(lambda: window.inspector.shown is not None)
            inspector = window.others.inspector
            assert inspector.isVisible()
            assert window.inspector.shown is not None
            assert window.inspector.shown.question == "Count"
        finally:
            window.close()
            await window.finish()
            window.deleteLater()

    qapp.setQuitOnLastWindowClosed(False)
    with asyncio.Runner(loop_factory=lambda: qasync.QEventLoop(qapp)) as runner:
        runner.run(shown())

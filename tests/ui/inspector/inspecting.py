"""Uses the inspector beside the main window, on the real engine and the demo model."""

from collections.abc import Callable, Coroutine
from typing import Any

from tests.ui.driving import eventually
from ui.inspector.inspector_window import InspectorWindow
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"


Steps = Callable[[MainWindow, InspectorWindow], Coroutine[Any, Any, None]]


Use = Callable[[Steps], None]


async def ask(window: MainWindow, question: str, *stops: str) -> None:
    for stop in stops:
        window.workspace.current.stops.ensure(stop)
    await eventually(lambda: window.workspace.model.stage == "ready")
    assert window.workspace.send(question)
    await eventually(lambda: not window.workspace.current.session.is_running)

"""Uses the inspector beside the main window, on the real engine and the demo model."""

from tests.ui.driving import eventually
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"


async def ask(window: MainWindow, question: str, *stops: str) -> None:
    for stop in stops:
        window.workspace.current.stops.ensure(stop)
    await eventually(lambda: window.workspace.models.stage == "ready")
    assert window.workspace.send(question)
    await eventually(lambda: not window.workspace.current.is_running)

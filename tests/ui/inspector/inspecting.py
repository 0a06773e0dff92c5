"""Uses the inspector beside the main window, on the real engine and the demo model."""

from PySide6.QtGui import QAction

from tests.ui.driving import entry, eventually
from ui.inspector.inspector_window import InspectorWindow
from ui.window.main_window import MainWindow

COUNT = "Count from 1 to 10, one number per line"


async def ask(window: MainWindow, question: str, *stops: str) -> None:
    for stop in stops:
        window.workspace.current.stops.ensure(stop)
    await eventually(lambda: window.workspace.models.stage == "ready")
    assert window.workspace.send(question)
    await eventually(lambda: not window.workspace.current.is_running)


def run_entry(inspector: InspectorWindow, words: str) -> QAction:
    """Open the menu of the shown run, and return one of its entries."""
    inspector.bar.menu.aboutToShow.emit()
    return entry(inspector.bar.menu, words)


def tape_text(inspector: InspectorWindow) -> str:
    """Return the text on the tape without the places where its lines may break."""
    return inspector.tape.toPlainText().replace("\u200b", "")

"""Menu entries, buttons, tabs and titles are in Title Case in every window, as in Apple's apps."""

from collections.abc import Iterator

from PySide6.QtWidgets import (
    QAbstractButton,
    QCheckBox,
    QComboBox,
    QRadioButton,
    QTabBar,
    QWidget,
)

from api.conformance.probe.dialects import DRIVERS
from app.agent_commands import CopiedLines
from app.inspector import inspector_tools
from engine.engine import Engine
from tests.support.looks.capitals import wrong_words
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from ui.chat.messages.message_foot import ReasonLine
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow


def labels_of(widget: QWidget) -> Iterator[str]:
    """Yield what a widget says that a person chooses, and its title if it is a window."""
    yield from (action.text() for action in widget.actions())
    if widget.isWindow():
        yield widget.windowTitle()
    match widget:
        case QCheckBox() | QRadioButton() | ReasonLine():
            pass  # these say sentences
        case QAbstractButton():
            yield widget.text()
        case QTabBar():
            yield from map(widget.tabText, range(widget.count()))
        case QComboBox():
            yield from map(widget.itemText, range(widget.count()))


def labels(window: MainWindow) -> set[str]:
    """Return the labels of a window and of all windows, dialogs and menus that belong to it."""
    mine = [window, *window.findChildren(QWidget)]
    return {label for widget in mine for label in labels_of(widget)}


async def test_every_label_that_a_person_chooses_is_in_title_case(
    engine: Engine, theme: Theme
) -> None:
    tools = inspector_tools(engine, lambda: "")
    async with shown(main_window(engine, theme, tools=lambda: tools), quits=True) as window:
        window.start()
        await eventually(lambda: window.workspace.models.stage == "ready")
        assert window.workspace.models.info is not None
        names = {*(one.value for one in DRIVERS), *CopiedLines().titles().values()}
        names.add(window.workspace.models.info.id)
        window.workspace.current.stops.add("6")
        window.workspace.send("Count from 1 to 10, one number per line")
        await eventually(lambda: not window.workspace.current.is_running)
        for other in ("models", "server", "inspector", "capture", "probe", "tool_servers"):
            getattr(window.others, f"show_{other}")()
        for dialog in ("preferences", "shortcuts", "about"):
            getattr(window.others, f"show_{dialog}")()
        window.comparing.ask()
        found = labels(window) - names
        # One of each window and dialog.
        assert found >= {
            "Check for Updates",
            "Copy as curl",
            "What If",
            "Captured Answer",
            "Detect Automatically",
            "Import from Claude Desktop",
            "New Conversations",
            "Keyboard Shortcuts",
            "About Fullstop",
            "Compare Answers",
            "&Import Conversations…",
            "System",
        }
        assert {label: wrong_words(label) for label in found if wrong_words(label)} == {}

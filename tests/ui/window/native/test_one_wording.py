"""One kind of quotes on every screen, and one verb for one command."""

from collections.abc import Iterator

from PySide6.QtWidgets import QAbstractButton, QLabel, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

from app.agent_commands import CopiedLines
from app.inspector import inspector_tools
from engine.engine import Engine
from tests.support.shown import main_window, shown
from tests.ui.driving import eventually
from tests.ui.window.native.test_capitals import labels
from ui.kit.theme import Theme
from ui.window.main_window import MainWindow

STRAIGHT = ("'", '"')
# Delete destroys, Remove takes from a list, Clear empties a field or a list on the screen.
OTHER_VERBS = frozenset({"Forget", "Erase", "Discard", "Trash", "Wipe", "Destroy", "Purge"})


def words_of(widget: QWidget) -> Iterator[str]:
    """Yield what a widget says by itself, not what a person or a model wrote in it."""
    yield widget.toolTip()
    yield widget.windowTitle()
    if not isinstance(widget, QTextEdit | QPlainTextEdit | QLineEdit):
        yield widget.accessibleName()
    yield from (action.text() for action in widget.actions())
    if isinstance(widget, QAbstractButton | QLabel):
        yield widget.text()


async def opened_everywhere(window: MainWindow) -> set[str]:
    """Open every window and dialog; return all their words."""
    window.start()
    await eventually(lambda: window.workspace.models.stage == "ready")
    window.workspace.current.stops.add("6")
    window.workspace.send("Count from 1 to 10, one number per line")
    await eventually(lambda: not window.workspace.current.is_running)
    window.stop_panel.show()
    for other in ("models", "server", "inspector", "capture", "probe", "tool_servers"):
        getattr(window.others, f"show_{other}")()
    for dialog in ("preferences", "shortcuts", "about"):
        getattr(window.others, f"show_{dialog}")()
    window.chat.show_settings()
    window.comparing.ask()
    return {word for widget in (window, *window.findChildren(QWidget)) for word in words_of(widget)}


async def test_quotes_and_apostrophes_are_typographic_in_every_window(
    engine: Engine, theme: Theme
) -> None:
    tools = inspector_tools(engine, lambda: "")
    async with shown(main_window(engine, theme, tools=lambda: tools), quits=True) as window:
        words = await opened_everywhere(window)
        markup = {one for one in words if "</" in one or "<td" in one}
        keys = {one for one in words if one.endswith((": Ctrl+'", "(Ctrl+')")) or one == "Ctrl+'"}
        assert any("“6”" in one for one in words)
        wrong = {one for one in words - markup - keys if any(quote in one for quote in STRAIGHT)}
        assert wrong == set()


async def test_one_verb_stands_for_one_command(engine: Engine, theme: Theme) -> None:
    tools = inspector_tools(engine, lambda: "")
    async with shown(main_window(engine, theme, tools=lambda: tools), quits=True) as window:
        await opened_everywhere(window)
        said = {one.replace("&", "") for one in labels(window)} - set(CopiedLines().titles())
        assert {one for one in said if one.split(" ")[0].strip("…") in OTHER_VERBS} == set()
        assert "Delete" in said
        for button in window.findChildren(QAbstractButton):
            verb = button.text().replace("&", "").split(" ")[0].strip("…")
            if verb in ("Delete", "Remove", "Clear"):
                spoken = button.accessibleName() or button.text().replace("&", "")
                assert spoken.startswith(verb), spoken

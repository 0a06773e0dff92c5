"""The tokens of stop sequences, and end tokens that a person adds to the model's own."""

from dataclasses import replace

import pytest
from PySide6.QtWidgets import QInputDialog, QPushButton, QWidget

from engine.files.json_fields import Fields
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.repetition import DEFAULT_DETECTION
from engine.stopping.rules import StopOptions, StopScope
from engine.values.events import Finished, Timing, Usage
from tests.ui.driving import MODEL, ScriptedEngine, begun, eventually
from ui.kit.buttons import IconButton
from ui.records.codec import settings_from, settings_values
from ui.records.conversations import ConversationSettings
from ui.records.requests import stop_rules
from ui.window.main_window import MainWindow


def rows(window: MainWindow) -> list[str]:
    shown = [child for child in window.stop_panel.findChildren(QWidget) if child.isVisible()]
    names = [child.accessibleName() for child in shown]
    return [name for name in names if name.startswith("End token")]


def button(window: MainWindow, words: str) -> QPushButton:
    found = window.stop_panel.findChildren(QPushButton)
    return next(one for one in found if words in one.text() and one.isVisible())


async def test_an_added_id_ends_the_next_answer_and_can_be_removed(
    window: MainWindow, scripted: ScriptedEngine
) -> None:
    window.pane.open(window.stop_panel)
    window.stop_panel.verdict.heading.click()
    button(window, "Add Token ID").click()
    [dialog] = window.findChildren(QInputDialog)
    assert dialog.intMaximum() == MODEL.vocabulary_size - 1
    dialog.setIntValue(21)
    dialog.accept()
    window.stop_panel.end_tokens.added.emit(22)
    await eventually(lambda: "End token 22, added by you" in rows(window))
    assert window.workspace.send("go")
    await eventually(lambda: bool(scripted.requests))
    assert scripted.requests[-1].stops.token_ids == (21, 22)
    buttons = window.stop_panel.findChildren(IconButton)
    next(one for one in buttons if one.accessibleName() == "Remove end token 21").click()
    added = ["End token 22, added by you"]
    await eventually(lambda: [name for name in rows(window) if "added" in name] == added)
    stack = window.workspace.current.undo_stack
    assert stack.undoText() == "Remove End Token 21"
    stack.undo()
    stack.undo()
    added = ["End token 21, added by you"]
    await eventually(lambda: [name for name in rows(window) if "added" in name] == added)


@pytest.mark.parametrize("what", ["scope", "token id", "sequence"])
async def test_every_change_of_the_stops_can_be_applied_to_the_running_answer(
    window: MainWindow, scripted: ScriptedEngine, what: str
) -> None:
    window.pane.open(window.stop_panel)
    workspace, editor = window.workspace, window.stop_panel.editor
    workspace.current.stops.add("END")
    await begun(window, scripted)
    assert not editor.apply_bar.isVisible()
    changed = {
        "scope": lambda: workspace.current.stops.set_scope(0, StopScope.ALL),
        "token id": lambda: window.stop_panel.end_tokens.added.emit(21),
        "sequence": lambda: workspace.current.stops.add("6"),
    }
    changed[what]()
    assert editor.apply_bar.isVisible()
    wanted = replace(
        stop_rules(workspace.current.conversation, MODEL), repetition=DEFAULT_DETECTION
    )
    editor.apply_now.click()
    scripted.say(Finished(StopInfo(StopKind.CANCELLED), Usage(7, 0, 3), Timing()))
    await eventually(lambda: len(scripted.generations) == 2)
    assert scripted.requests[-1].stops == wanted
    assert scripted.requests[0].stops != wanted
    assert not editor.apply_bar.isVisible()


def test_stop_options_are_kept_with_the_conversation() -> None:
    settings = ConversationSettings(stop_options=StopOptions(ignore_eos=True, min_tokens=3))
    values = settings_values(settings)
    assert values["stop_options"] == {"ignore_eos": True, "min_tokens": 3}
    assert settings_from(Fields(values)) == settings
    assert settings_values(ConversationSettings()) == {}

"""Each preference is declared once: what is made of the declarations is whole."""

import pytest
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from tests.support.kept import preferences_state
from ui.kit.theme import Theme
from ui.preferences import (
    PANES,
    Declaration,
    Preferences,
    declaration,
    declared,
)
from ui.window.preferences_dialog import PreferencesDialog

ALL = list(declared(Preferences))


@pytest.mark.parametrize("one", ALL, ids=[one.path for one in ALL])
def test_every_preference_has_help_and_a_valid_default(
    one: Declaration,
) -> None:
    said = one
    assert said.help
    assert not said.help.endswith(".")
    assert bool(said.section) == bool(said.label)
    if said.choices:
        assert one.default in said.choices
    if said.minimum is not None and one.default is not None:
        assert said.maximum is not None
        assert said.minimum <= one.default <= said.maximum


def test_the_dialog_has_a_control_for_each_preference_of_its_pages(
    theme: Theme, qtbot: QtBot
) -> None:
    parent = QWidget()
    qtbot.addWidget(parent)
    dialog = PreferencesDialog(preferences_state(), parent)
    assert set(dialog.controls) == {one.path for one in ALL if one.section in PANES}
    assert [button.text() for button in dialog.buttons.buttons()] == list(PANES)
    for control in dialog.controls.values():
        assert control.accessibleName()
    dialog.close()


async def test_a_preference_is_found_and_changed_by_its_path() -> None:
    state = preferences_state()
    state.change_value("server.port", 9000)
    state.change_value("theme", "dark")
    assert (state.now.server.port, state.now.theme) == (9000, "dark")
    assert [state.value_of(path) for path in ("server.port", "theme")] == [9000, "dark"]
    assert declaration("server.port").maximum == 65_535

"""Dialogs, menus and selection models go when they are no longer needed."""

from collections.abc import Callable

import pytest
from PySide6.QtCore import QCoreApplication, QEvent, QItemSelectionModel
from PySide6.QtWidgets import QDialog, QMenu, QWidget
from pytestqt.qtbot import QtBot

from engine.engine import Engine
from tests.support.shown import main_window, shown
from ui.chat.composer.settings_popover import PresetButton
from ui.chat.session.presets import PresetList
from ui.inspector.stop_tabs import WhatIfTab
from ui.kit.theme import Theme
from ui.records.codec import Preset
from ui.records.conversations import ConversationSettings, StopEntry
from ui.records.store import MemoryConversationStore
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_editor import StopListEditor
from ui.window.main_window import MainWindow


def delete_later() -> None:
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)


def opened(window: MainWindow) -> dict[str, Callable[[], object]]:
    """Return what opens each dialog of the window, by a name."""
    editor = window.stop_panel.findChild(StopListEditor)
    assert editor is not None
    presets = window.chat.settings.presets
    found: dict[str, Callable[[], object]] = {
        "model folder": window.choosing_model.choose_folder,
        "import stops": editor.import_export._ask_import,
        "export stops": editor.import_export._ask_export,
        "import presets": presets._import,
        "export presets": presets._export,
        "name a preset": presets._ask_for_name,
        "attach": window.chat.composer.attachments.choose,
        "export": lambda: window._menus.files.export([window.workspace.selected]),
    }
    for name in ("show_preferences", "show_shortcuts", "show_about"):
        found[name] = getattr(window.others, name)
    window.others.show_inspector()
    inspector = window.others.inspector
    assert inspector is not None
    found |= {
        "open a run": inspector.bar._choose_file,
        "save a run": inspector.bar._choose_target,
        "save a case": inspector.tab(WhatIfTab)._choose_file,
    }
    return found


async def test_every_dialog_is_freed_when_it_is_closed(engine: Engine, theme: Theme) -> None:
    async with shown(main_window(engine, theme)) as window:
        for name, open_it in opened(window).items():
            before = set(window.findChildren(QDialog))
            open_it()
            [dialog] = [d for d in window.findChildren(QDialog) if d not in before]
            gone: list[str] = []
            dialog.destroyed.connect(lambda *_, name=name, gone=gone: gone.append(name))
            dialog.reject()
            delete_later()
            assert gone, f"{name} stays in memory"
            assert set(window.findChildren(QDialog)) == before


def test_a_list_that_shows_other_stops_keeps_one_selection(qtbot: QtBot, theme: Theme) -> None:
    holder = QWidget()
    qtbot.addWidget(holder)
    editor = StopListEditor()
    editor.setParent(holder)
    models = [StopListModel([StopEntry.of(str(number))]) for number in range(5)]
    for model in models:
        editor.show_model(model)
    delete_later()
    assert len(editor.table.findChildren(QItemSelectionModel)) == 1
    assert editor.table.selectionModel().model() is models[-1]


@pytest.mark.parametrize("times", [5])
def test_the_menu_of_presets_keeps_no_old_submenus(qtbot: QtBot, theme: Theme, times: int) -> None:
    presets = PresetList(MemoryConversationStore())
    presets.keep(Preset("Terse", ConversationSettings()))
    holder = QWidget()
    qtbot.addWidget(holder)
    button = PresetButton(presets, holder)
    button.setParent(holder)
    for _ in range(times):
        button.menu_of_presets.aboutToShow.emit()
        delete_later()
    assert len(button.menu_of_presets.findChildren(QMenu)) == 1

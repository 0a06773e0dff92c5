"""The window of models, opened beside a main window on models of a test."""

from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from engine.engine import Engine
from engine.library.local_models import ModelFolders
from tests.support.kept import preferences_state
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.kit.commands import Command, Submenu
from ui.kit.theme import Theme
from ui.models.model_details import ModelDetails
from ui.models.model_entries import ENTRY, Entry, EntryState
from ui.models.models_window import ModelsWindow
from ui.preferences import ModelPreferences, Preferences


def entry_of(models: ModelsWindow, name: str) -> Entry:
    """Return the row of a model."""
    entries = models.entries
    rows = (entries.data(entries.index(row), ENTRY) for row in range(entries.rowCount()))
    return next(entry for entry in rows if entry.name == name)


def commands_of(models: ModelsWindow, name: str) -> dict[str, Command]:
    """Return the entries of a model's menu by their words, those of submenus too."""
    found: dict[str, Command] = {}
    for command in models.commands(entry_of(models, name)):
        if isinstance(command, Submenu):
            inside = command.entries() if callable(command.entries) else command.entries
            found |= {one.label: one for one in inside if isinstance(one, Command)}
        elif command is not None:
            found[command.label] = command
    return found


class OpenedModels:
    """A main window with its window of models, on a real engine."""

    def __init__(self, theme: Theme, tmp_path: Path, demo: Path, engine: Engine | None = None):
        self.engine = engine or Engine()
        self.cache = tmp_path / "hub"
        self.window = main_window(
            self.engine,
            theme,
            model_folders=ModelFolders(demo, hub_cache=self.cache),
            # The hub of a test is asked when the test wants it.
            preferences=preferences_state(
                Preferences(models=ModelPreferences(looks_for_updates=False))
            ),
        )
        self.demo = demo

    @property
    def models(self) -> ModelsWindow:
        return self.window.others.models

    @property
    def state(self) -> Any:
        return self.window.workspace.models

    @property
    def info(self) -> Any:
        return self.state.status().info

    async def __aenter__(self) -> "OpenedModels":
        self.window.show()
        self.window.others.show_models()
        await eventually(lambda: self.window.model_library.has_looked)
        await eventually(lambda: self.models.finder.stage == "listed")
        return self

    async def __aexit__(self, *_: object) -> None:
        self.window.quit()
        await self.window.finish()
        await self.engine.aclose()
        self.window.deleteLater()

    def entry(self, name: str) -> Entry:
        return entry_of(self.models, name)

    def has(self, name: str) -> bool:
        return any(model.found.name == name for model in self.window.model_library.local)

    def status(self, name: str) -> EntryState:
        return self.models.entries.state(self.entry(name))

    def pick(self, name: str) -> ModelDetails:
        """Choose a row, and return what the window shows of its model."""
        self.models.list.pick(self.entry(name))
        assert self.models.details.entry is not None
        assert self.models.details.entry.name == name
        return self.models.details

    def click(self, name: str) -> None:
        primary = self.pick(name).primary
        assert not primary.isHidden()
        primary.click()

    def commands(self, name: str) -> dict[str, Command]:
        return commands_of(self.models, name)

    async def loaded(self, name: str) -> None:
        await eventually(lambda: self.state.stage == "ready" and self.state.name == name)

    async def found(self, *names: str) -> None:
        """Wait until the list of the hub's models is this; without an answer it has none."""
        finder = self.models.finder

        def listed() -> tuple[str, ...]:
            return () if finder.is_suggesting else tuple(one.name for one in finder.results)

        await eventually(lambda: finder.stage != "asking" and listed() == names)

    async def search(self, text: str, *names: str) -> None:
        """Type a search, press Enter, and wait for what it finds."""
        self.models.show_finding()
        self.models.field.setText(text)
        QTest.keyClick(self.models.field, Qt.Key.Key_Return)
        await self.found(*names)

    def answer(self, words: str) -> None:
        button = next(b for b in self.models.question.buttons if b.text() == words)
        button.click()

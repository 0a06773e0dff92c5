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
from ui.kit.theme import Theme
from ui.models.local_models import LocalModelRow
from ui.models.models_window import ModelsWindow
from ui.preferences import ModelPreferences, Preferences


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
        await eventually(lambda: bool(self.models.local.cards))
        return self

    async def __aexit__(self, *_: object) -> None:
        self.window.quit()
        await self.window.finish()
        await self.engine.aclose()
        self.window.deleteLater()

    def card(self, name: str) -> LocalModelRow:
        return next(card for card in self.models.local.cards if card.model.found.name == name)

    def has(self, name: str) -> bool:
        return any(card.model.found.name == name for card in self.models.local.cards)

    def click(self, name: str) -> None:
        button = self.card(name).button
        assert button is not None
        button.click()

    async def loaded(self, name: str) -> None:
        await eventually(lambda: self.state.stage == "ready" and self.state.name == name)

    async def found(self, *names: str) -> None:
        """Wait until the list of the hub's models is this."""
        finder = self.models.finding.finder
        await eventually(
            lambda: finder.stage != "asking" and tuple(one.name for one in finder.results) == names
        )

    async def search(self, text: str, *names: str) -> None:
        """Type a search, press Enter, and wait for what it finds."""
        self.models.show_finding()
        self.models.finding.field.setText(text)
        QTest.keyClick(self.models.finding.field, Qt.Key.Key_Return)
        await self.found(*names)

    def answer(self, words: str) -> None:
        button = next(b for b in self.models.question.buttons if b.text() == words)
        button.click()

"""A window on several small models, each a copy of the demo model under a name of its own."""

import shutil
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtTest import QTest

from app.desktop.offered_models import offer_found
from engine.engine import Engine
from engine.library.local_models import ModelFolders
from tests.support.shown import main_window
from tests.ui.driving import eventually
from ui.chat.model_switcher import ModelSwitcher
from ui.kit.theme import Theme
from ui.records.runs import Run
from ui.records.store import ConversationStore


class SeveralModels:
    """A shown window whose library has models of these names.

    Args:
        theme: The look.
        folder: Where the models are put.
        demo: The demo model.
        names: What the models are called.
        engine: Another engine than the usual one.
        store: Keeps conversations; memory if it is None.
        at_once: Whether the engine holds several models, as in the program.
    """

    def __init__(
        self,
        theme: Theme,
        folder: Path,
        demo: Path,
        names: tuple[str, ...] = ("alpha", "beta"),
        engine: Engine | None = None,
        store: ConversationStore | None = None,
        *,
        at_once: bool = False,
    ) -> None:
        self.folder = folder / "models"
        for name in names:
            shutil.copytree(demo, self.folder / name, dirs_exist_ok=True)
        self.engine = engine or Engine()
        self.window = main_window(
            self.engine,
            theme,
            store=store,
            model_folders=ModelFolders(added=(self.folder,)),
        )
        if at_once:
            library = self.window.model_library
            library.changed.connect(lambda: offer_found(self.engine, library))
        self.workspace = self.window.workspace
        self.answering = self.workspace.model_selection
        self.header = self.window.chat.header.badge

    @property
    def switcher(self) -> ModelSwitcher:
        return self.window.choosing_model.switcher

    @property
    def names(self) -> list[str]:
        rows = self.switcher.rows
        return [rows.at(row).found.name for row in range(rows.rowCount())]

    async def __aenter__(self) -> "SeveralModels":
        self.window.show()
        self.window.model_library.refresh()
        await eventually(lambda: self.window.model_library.has_looked)
        return self

    async def __aexit__(self, *_: object) -> None:
        self.window.quit()
        await self.window.finish()
        await self.engine.aclose()
        self.window.deleteLater()

    async def load(self, name: str) -> None:
        """Load a model as the switcher does, and wait for it."""
        self.answering.choose(self.folder / name)
        await eventually(
            lambda: (self.answering.state.stage, self.answering.state.name) == ("ready", name)
        )

    async def ask(self, text: str = "Count from 1 to 3") -> Run:
        """Send a message and wait for its answer."""
        assert self.workspace.send(text)
        session = self.workspace.current
        await eventually(lambda: not session.is_running)
        run = self.workspace.current.conversation.messages[-1].run
        assert run is not None
        return run

    def open(self) -> ModelSwitcher:
        self.window.choosing_model.pop_up()
        return self.switcher

    def press(self, key: Qt.Key) -> None:
        """Press a key where the keyboard is: in the field."""
        QTest.keyClick(self.switcher.field, key)

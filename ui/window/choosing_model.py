"""Choosing a model from the main window: from the list, or as a folder. Main thread."""

from typing import Protocol

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ui.chat.columns.chat_panel import ChatPanel
from ui.chat.composing.card import Card
from ui.chat.session.workspace import Workspace
from ui.chat.switching.model_switcher import ModelSwitcher
from ui.kit.look.theme import Theme
from ui.kit.system.file_dialogs import choose_folder
from ui.models.model_library import ModelLibrary


class ModelWindows(Protocol):
    """The part of the other windows that shows models."""

    def show_models(self) -> None:
        """Show the models on this computer."""

    def find_models(self) -> None:
        """Show the models that can be downloaded."""


class ChoosingModel(QObject):
    """Opens the list of models, or a dialog for a folder."""

    def __init__(
        self,
        theme: Theme,
        workspace: Workspace,
        library: ModelLibrary,
        chat: ChatPanel,
        others: ModelWindows,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._chat = chat
        self._parent = parent
        answering = workspace.answering
        answering.library = library
        self._theme, self._library, self._others = theme, library, others
        self._card = Card(theme, self._make_switcher, self)
        library.changed.connect(answering.look_again)
        chat.switch_wanted.connect(self.pop_up)
        chat.welcome.find_wanted.connect(others.find_models)

    @property
    def switcher(self) -> ModelSwitcher:
        """The list of models."""
        return self._card.content

    def _make_switcher(self) -> ModelSwitcher:
        answering = self._workspace.answering
        switcher = ModelSwitcher(self._theme, answering, self._library, self._parent)
        switcher.more_wanted.connect(self._others.show_models)
        switcher.closed.connect(self._chat.focus_composer)
        return switcher

    def pop_up(self) -> None:
        """Show the list of models below the model's name."""
        self.switcher.pop_up(self._chat.header.badge)

    def choose_folder(self) -> None:
        """Ask for a folder and load the model in it."""
        choose_folder(self._parent, "Open a Model Folder", self._workspace.model.load)

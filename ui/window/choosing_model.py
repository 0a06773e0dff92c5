"""Choosing the model of the open conversation. Main thread."""

from functools import cached_property, partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint

from engine.library.adapters import is_model
from ui.chat.model_switcher import ModelSwitcher
from ui.kit.commands import Command, Entry, context_menu
from ui.kit.dialogs import choose_folder
from ui.kit.menus import escape_mnemonics
from ui.window.window_parts import WindowParts


class ChoosingModel(QObject):
    """Opens the list of models, or a dialog for a folder."""

    def __init__(self, window: WindowParts) -> None:
        super().__init__(window)
        workspace, chat = window.workspace, window.chat
        library, others = window.model_library, window.others
        self._workspace, self._chat, self._parent = workspace, chat, window
        self._library, self._others = library, others
        for part in (chat.header.badge, chat.missing_model):
            part.switch_requested.connect(self.pop_up)
        chat.choose_model.clicked.connect(self.pop_up)
        chat.header.badge.menu_requested.connect(self._show_menu)
        chat.welcome.find_requested.connect(others.find_models)
        chat.welcome.first.ready.connect(self._use_downloaded)
        others.model_ready.connect(self._use_downloaded)

    @cached_property
    def switcher(self) -> ModelSwitcher:
        switcher = ModelSwitcher(self._workspace.model_selection, self._library, self._parent)
        switcher.more_requested.connect(self._others.show_models)
        switcher.search_requested.connect(self._others.find_models)
        switcher.closed.connect(self._chat.focus_composer)
        return switcher

    def pop_up(self) -> None:
        self.switcher.pop_up(self._chat.header.badge)

    def _use_downloaded(self) -> None:
        """Let the model that is loaded now answer the empty chat that is open."""
        workspace = self._workspace
        info = workspace.models.status().info
        if info is not None and not workspace.current.conversation.has_messages:
            workspace.model_selection.choose(info.path)

    def _show_menu(self, position: QPoint) -> None:
        models, state = self._workspace.models, self._workspace.model_selection.state
        info, name = state.info, state.title
        entries: list[Entry] = []
        path = None if info is None else info.path
        if (
            status := next((model for model in models.in_memory if model.folder == path), None)
        ) is not None:
            folder, is_pinned = status.folder, status.is_pinned
            pin = partial(self._library.pin, folder, not is_pinned)
            entries = [
                Command(escape_mnemonics(f"Unload {name}"), partial(models.unload, folder)),
                Command(escape_mnemonics(f"Keep {name} in Memory"), pin, checked=is_pinned),
                None,
            ]
        entries.append(Command("Switch Model…", self.pop_up))
        entries.append(Command("Models…", self._others.show_models))
        context_menu(self._parent, "The model of this chat", entries).popup(position)

    def choose_folder(self) -> None:
        choose_folder(self._parent, "Open Model Folder", self.open_folder)

    def open_folder(self, folder: Path) -> None:
        """Load the model in a folder, and list it with the others from now on."""
        self._library.pair(folder)
        self._workspace.models.load(folder)
        known = {model.folder for model in self._library.local}
        if folder.resolve() not in known and is_model(folder):
            self._library.add_folder(folder)

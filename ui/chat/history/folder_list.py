"""The folders of conversations, by name. Main thread."""

from collections.abc import Iterable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from ui.records.conversations import Conversation, ConversationFolder
from ui.records.store import ConversationStore

_FROM_FOLDER = "folder:"


class FolderList(QObject):
    """All folders; each conversation's placement names its folder.

    Signals:
        changed: A folder was added, changed or removed.
    """

    changed = Signal()

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._folders = {folder.id: folder for folder in store.load_folders()}

    def all(self) -> list[ConversationFolder]:
        """Return the folders in the order of their names."""
        return sorted(self._folders.values(), key=lambda one: (one.name.casefold(), one.id))

    def get(self, folder_id: str) -> ConversationFolder | None:
        """Return a folder by its id."""
        return self._folders.get(folder_id)

    def of(self, conversation: Conversation) -> ConversationFolder | None:
        """Return the folder that a conversation is in."""
        return self.get(conversation.placement.folder_id)

    def create(self, name: str) -> ConversationFolder:
        """Return a new folder."""
        folder = ConversationFolder(name)
        self.keep(folder)
        return folder

    def keep(self, folder: ConversationFolder) -> None:
        """Save a folder; one of the same id is replaced."""
        if self._folders.get(folder.id) != folder:
            self._folders[folder.id] = folder
            self._store.save_folder(folder)
            self.changed.emit()

    def delete(self, folder: ConversationFolder) -> None:
        """Delete a folder; the conversations in it stay."""
        if self._folders.pop(folder.id, None) is not None:
            self._store.delete_folder(folder.id)
            self.changed.emit()

    def take_found(self, folders: Iterable[ConversationFolder]) -> None:
        """Add folders that were found later; existing ones stay unchanged."""
        for folder in folders:
            self._folders.setdefault(folder.id, folder)
        self.changed.emit()

    def begin(self, conversation: Conversation, folder: ConversationFolder) -> None:
        """Give a new conversation the settings of its folder."""
        if folder.system_prompt.strip():
            settings = replace(conversation.settings, system_prompt=folder.system_prompt)
            conversation.settings = settings
        if folder.stops:
            conversation.stops = list(folder.stops)
            conversation.stops_from = f"{_FROM_FOLDER}{folder.id}"
        conversation.placement = replace(conversation.placement, folder_id=folder.id)

    def source_of(self, conversation: Conversation) -> ConversationFolder | None:
        """Return the folder that a conversation's stop list came from."""
        kind, _, name = conversation.stops_from.partition(":")
        return self.get(name) if f"{kind}:" == _FROM_FOLDER else None

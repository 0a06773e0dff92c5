"""The conversations in their folders, in their order: the list's data. Main thread."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from engine.wording import counted
from ui.records.attachments import Attachment
from ui.records.conversations import (
    Conversation,
    ConversationFolder,
    ConversationSettings,
    ListOrder,
    Placement,
)
from ui.records.stop_entries import StopEntry
from ui.records.store import ConversationStore
from ui.records.titles import UNTITLED, title_of
from ui.records.tool_choice import ToolsInUse


def sort_key(conversation: Conversation, order: ListOrder) -> tuple[bool, float, str]:
    """Return the sort key of a conversation; pinned ones come first in each order."""
    by_title = order == "title"
    key = {
        "recent": -conversation.updated_at,
        "created": -conversation.created_at,
        "oldest": conversation.created_at,
        "title": 0.0,
    }[order]
    title = conversation.title.casefold() if by_title else ""
    return (not conversation.is_pinned, key, title)


class FolderList(QObject):
    """All folders; each conversation's placement names its folder."""

    changed = Signal()

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self._folders = {folder.id: folder for folder in store.folders()}

    def all(self) -> list[ConversationFolder]:
        """Return the folders in the order of their names."""
        return sorted(
            self._folders.values(), key=lambda folder: (folder.name.casefold(), folder.id)
        )

    def get(self, folder_id: str) -> ConversationFolder | None:
        return self._folders.get(folder_id)

    def of(self, conversation: Conversation) -> ConversationFolder | None:
        return self.get(conversation.placement.folder_id)

    def create(self, name: str) -> ConversationFolder:
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
        if self._folders.pop(folder.id, None) is not None:
            self._store.delete_folder(folder.id)
            self.changed.emit()

    def take_found(self, folders: Iterable[ConversationFolder]) -> None:
        """Add folders that were found later; existing ones stay unchanged."""
        for folder in folders:
            self._folders.setdefault(folder.id, folder)
        self.changed.emit()

    def begin(self, conversation: Conversation, folder: ConversationFolder) -> None:
        if folder.system_prompt.strip():
            settings = replace(conversation.settings, system_prompt=folder.system_prompt)
            conversation.settings = settings
        if folder.stops:
            conversation.stops = list(folder.stops)
            conversation.stops_from = f"folder:{folder.id}"
        conversation.placement = replace(conversation.placement, folder_id=folder.id)


class ConversationList(QObject):
    """All conversations, pinned ones first; an action on several is undone in one step."""

    arranged = Signal()
    repainted = Signal(object)  # Conversation
    renamed = Signal(object)  # Conversation
    undoable = Signal(str)  # name of the action
    undone = Signal()
    restored = Signal(object)  # Conversation

    def __init__(self, store: ConversationStore, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._store = store
        self.order: ListOrder = "recent"
        self._items = sorted(store.conversations(), key=self._key)
        self._undos: list[tuple[str, Callable[[], object]]] = []  # each with its name
        self.folders = FolderList(store, self)
        # The settings of a new conversation: those of its model, or else the usual ones.
        self.new_settings = self.usual_settings = ConversationSettings()
        self.new_stops: tuple[tuple[StopEntry, ...], str] = ((), "")  # its stops, and their source
        self.new_tools = ToolsInUse()  # and its tools

    # -- reading ---------------------------------------------------------------------------

    def row_of(self, conversation: Conversation) -> int:
        return next((row for row, c in enumerate(self._items) if c is conversation), -1)

    def with_id(self, conversation_id: str) -> Conversation | None:
        return next((c for c in self._items if c.id == conversation_id), None)

    def every(self) -> list[Conversation]:
        return list(self._items)

    # -- intents ---------------------------------------------------------------------------

    def create(self, folder: ConversationFolder | None = None) -> Conversation:
        """Return an empty conversation: the present one if it is unused, else a new one.

        It is not reused if its folder's system prompt or stops have changed since.
        """
        stops, source = self.new_stops
        fresh = Conversation(settings=self.new_settings, stops=stops)
        fresh.tools, fresh.stops_from = self.new_tools, source
        if folder is not None:
            self.folders.begin(fresh, folder)
        for conversation in self._items:
            is_free = conversation.is_unused and not conversation.is_pinned
            begins_alike = folder is None or (
                conversation.stops == fresh.stops
                and conversation.settings.system_prompt == fresh.settings.system_prompt
            )
            if is_free and begins_alike and conversation.placement == fresh.placement:
                conversation.model = None  # the model that was used last will answer it
                if not conversation.tools.servers:
                    conversation.tools = fresh.tools
                self.touch(conversation)
                return conversation
        self.insert(fresh)
        return fresh

    def begin_with(self, tools: ToolsInUse) -> None:
        """Let new conversations use these tools, also unused ones whose tools were not chosen."""
        before, self.new_tools = self.new_tools, tools
        for conversation in self._items if tools != before else ():
            if conversation.is_unused and conversation.tools in (before, ToolsInUse()):
                conversation.tools = tools

    def sort_by(self, order: ListOrder) -> None:
        if order == self.order:
            return
        self.order = order
        self._items.sort(key=self._key)
        self.arranged.emit()

    def change_placement(
        self, changes: Sequence[tuple[Conversation, Placement]], action: str
    ) -> None:
        """Change the folder of conversations, or archive them; ``action`` names it for the undo."""
        before = [(conversation, conversation.placement) for conversation, _ in changes]
        if before != changes:
            self._set_placements(changes)
            self._undos.append((action, lambda: self._set_placements(before)))
            self.undoable.emit(action)

    def _set_placements(self, positions: Iterable[tuple[Conversation, Placement]]) -> None:
        for conversation, position in positions:
            conversation.placement = position
            self.changed(conversation)
        self.arranged.emit()

    def delete_folder(self, folder: ConversationFolder) -> None:
        """Delete a folder; the conversations in it stay, without a folder."""
        inside = [item for item in self._items if item.placement.folder_id == folder.id]
        self._set_placements(
            (conversation, replace(conversation.placement, folder_id="")) for conversation in inside
        )
        self.folders.delete(folder)

        def undo() -> None:
            self.folders.keep(folder)
            self._set_placements(
                (conversation, replace(conversation.placement, folder_id=folder.id))
                for conversation in inside
            )

        action = f"Deleted folder “{folder.name}”"
        self._undos.append((action, undo))
        is_found_now = inside and not folder.has_memory
        found = "; the memory can search its conversations" if is_found_now else ""
        self.undoable.emit(f"{action}{found}")

    def insert(self, conversation: Conversation) -> None:
        """Add a new conversation to the list, and save its messages."""
        self.add(conversation)
        self._store.save_messages(conversation, list(conversation.tree))

    def add(self, *conversations: Conversation) -> None:
        """Add new conversations to the list; the caller saves their messages."""
        self._insert(*conversations)
        for conversation in conversations:
            self._store.save(conversation)

    def rename(self, conversation: Conversation, title: str) -> None:
        conversation.title = title
        self._resort(conversation)
        self.changed(conversation)
        self.renamed.emit(conversation)

    def pin(self, conversation: Conversation, is_pinned: bool) -> None:
        if conversation.is_pinned != is_pinned:
            conversation.is_pinned = is_pinned
            self._resort(conversation)
            self.changed(conversation)

    def delete(
        self, *conversations: Conversation, folders: Sequence[ConversationFolder] = ()
    ) -> None:
        """Delete conversations and folders; ``undo_last`` restores all of them."""
        deleted = set(conversations)
        removed = [item for item in self._items if item in deleted]
        self._items = [item for item in self._items if item not in deleted]
        self.arranged.emit()
        for conversation in removed:
            self._store.delete(conversation)
        for folder in folders:
            self.folders.delete(folder)

        def undo() -> None:
            for folder in folders:
                self.folders.keep(folder)
            self._restore(removed)

        if removed:
            action = f"Deleted {named(removed)}"
            self._undos.append((action, undo))
            self.undoable.emit(action)

    @property
    def can_undo(self) -> bool:
        return bool(self._undos)

    @property
    def undo_verb(self) -> str:
        """The command that can be undone: Move, Archive, Unarchive, Delete or Import."""
        return self._undos[-1][0].partition(" ")[0].removesuffix("d") if self._undos else ""

    def offer_undo(self, verb: str, undo: Callable[[], object]) -> None:
        """Let a change be undone later that has a notice of its own."""
        self._undos.append((verb, undo))

    def undo_last(self) -> None:
        if self._undos:
            self._undos.pop()[1]()
            self.undone.emit()

    def _restore(self, conversations: Sequence[Conversation]) -> None:
        self._insert(*conversations)
        for conversation in conversations:
            self._store.restore(conversation)
        self.restored.emit(next(each for each in self._items if each.id == conversations[0].id))

    def name_after(
        self, conversation: Conversation, question: str, files: Sequence[Attachment] = ()
    ) -> None:
        """Title an untitled conversation after its first question, or the files of that."""
        title = title_of(question, (file.name for file in files))
        if conversation.title == UNTITLED and title:
            self.rename(conversation, title)

    def touch(self, conversation: Conversation) -> None:
        """Move a conversation to the top of its group, because it has a new message."""
        conversation.updated_at = time.time()
        self._resort(conversation)
        self.changed(conversation)

    def changed(self, conversation: Conversation) -> None:
        """Save a conversation and repaint its row."""
        if self.row_of(conversation) >= 0:
            self._store.save(conversation)
            self.repaint(conversation)

    def repaint(self, conversation: Conversation) -> None:
        self.repainted.emit(conversation)

    def take_found(self, conversations: Iterable[Conversation]) -> None:
        """Add conversations that the store found later."""
        self.folders.take_found(self._store.folders())
        self._insert(*conversations)

    # -- inside ----------------------------------------------------------------------------

    def _insert(self, *conversations: Conversation) -> None:
        known = {item.id for item in self._items}  # a recovery also finds deleted ones
        new = [each for each in conversations if each.id not in known]
        self._items = sorted([*new, *self._items], key=self._key)
        self.arranged.emit()

    def _resort(self, conversation: Conversation) -> None:
        if self.row_of(conversation) >= 0:
            self._items.sort(key=self._key)
            self.arranged.emit()

    def _key(self, conversation: Conversation) -> tuple[bool, float, str]:
        return sort_key(conversation, self.order)


def named(conversations: Sequence[Conversation]) -> str:
    """Return the title of a single conversation, or the number of several."""
    if len(conversations) == 1:
        return f"“{conversations[0].short_title}”"
    return counted(len(conversations), "conversation")

"""What organizes conversations, in the menu bar and in the sidebar's menu. Main thread."""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtWidgets import QWidget

from ui.chat.session.conversation_list import ConversationList, named
from ui.kit.commands import Command, Entry, Submenu
from ui.kit.dialogs import prompt_text
from ui.kit.menus import escape_mnemonics
from ui.records.conversations import Conversation, ConversationFolder


class ConversationActions:
    """Pins, moves and archives conversations; the last two are undone in one step."""

    def __init__(self, conversations: ConversationList, parent: QWidget) -> None:
        self._list = conversations
        self._parent = parent

    def entries(self, chosen: Sequence[Conversation]) -> list[Entry]:
        folder_ids = {conversation.placement.folder_id for conversation in chosen}
        is_archived = all(conversation.placement.is_archived for conversation in chosen)

        def target(label: str, folder: ConversationFolder | None) -> Command:
            is_there = folder_ids == {"" if folder is None else folder.id}
            return Command(label, lambda: self.move(chosen, folder), checked=lambda: is_there)

        return [
            Submenu(
                "Move to &Folder",
                [
                    target("N&o Folder", None),
                    *(
                        target(escape_mnemonics(folder.name), folder)
                        for folder in self._list.folders.all()
                    ),
                    None,
                    Command("&New Folder…", lambda: self.new_folder(chosen)),
                ],
            ),
            Command(
                "Un&archive" if is_archived else "&Archive", lambda: self.toggle_archived(chosen)
            ),
        ]

    def move(self, chosen: Sequence[Conversation], folder: ConversationFolder | None) -> None:
        target = "" if folder is None else folder.id
        where = "out of their folder" if folder is None else f"to “{folder.name}”"
        changes = [(one, replace(one.placement, folder_id=target)) for one in chosen]
        self._list.change_placement(changes, f"Moved {named(chosen)} {where}")

    def toggle_pinned(self, chosen: Sequence[Conversation]) -> None:
        """Pin conversations, or unpin them if all are pinned."""
        is_pinned = all(conversation.is_pinned for conversation in chosen)
        for conversation in chosen:
            self._list.pin(conversation, not is_pinned)

    def pin_label(self, chosen: Sequence[Conversation]) -> str:
        return "Un&pin" if all(conversation.is_pinned for conversation in chosen) else "&Pin"

    def toggle_archived(self, chosen: Sequence[Conversation]) -> None:
        """Archive conversations, or unarchive them if all are archived."""
        is_archived = all(conversation.placement.is_archived for conversation in chosen)
        changes = [(one, replace(one.placement, is_archived=not is_archived)) for one in chosen]
        action = "Unarchived" if is_archived else "Archived"
        self._list.change_placement(changes, f"{action} {named(chosen)}")

    def new_folder(self, chosen: Sequence[Conversation] = ()) -> None:
        """Ask for a name and make a folder, with some conversations in it."""

        def make(name: str) -> None:
            folder = self._list.folders.create(name)
            if chosen:
                self.move(chosen, folder)

        prompt_text(self._parent, "New Folder", "Folder name:", make)

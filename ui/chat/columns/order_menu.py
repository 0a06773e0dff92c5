"""The menu entries that organize conversations: folders, tags, archive. Main thread.

The sidebar's own menu and the menu bar have the same entries, for one conversation or several.
"""

from collections.abc import Sequence
from dataclasses import replace

from PySide6.QtWidgets import QMenu, QWidget

from ui.chat.history.conversation_list import ConversationList
from ui.kit.system.boxes import ask_text
from ui.kit.system.menus import add_entry, literal
from ui.records.conversations import Conversation, ConversationFolder, clean_tags, typed_tags


class Ordering:
    """Organizes conversations; each action is undone in one step."""

    def __init__(self, conversations: ConversationList, parent: QWidget) -> None:
        self._list = conversations
        self._parent = parent

    def fill(self, menu: QMenu, chosen: Sequence[Conversation]) -> None:
        """Add the entries for some conversations."""
        self._fill_folders(menu.addMenu("Move to &Folder"), chosen)
        self._fill_tags(menu.addMenu("&Tags"), chosen)
        is_archived = all(one.placement.is_archived for one in chosen)
        words = "Un&archive" if is_archived else "&Archive"
        add_entry(menu, words, lambda: self.archive(chosen, not is_archived))

    def move(self, chosen: Sequence[Conversation], folder: ConversationFolder | None) -> None:
        """Put conversations into a folder, or into none."""
        target = "" if folder is None else folder.id
        place = "out of their folder" if folder is None else f"to “{folder.name}”"
        self._list.place(
            chosen,
            lambda old: replace(old, folder_id=target),
            lambda what: f"Moved {what} {place}",
        )

    def tag(self, chosen: Sequence[Conversation], *tags: str) -> None:
        """Add tags to conversations."""
        listed = " ".join(f"#{tag}" for tag in tags)
        self._list.place(
            chosen,
            lambda old: replace(old, tags=clean_tags((*old.tags, *tags))),
            lambda what: f"Tagged {what} {listed}",
        )

    def untag(self, chosen: Sequence[Conversation], tag: str) -> None:
        """Remove a tag from conversations."""
        self._list.place(
            chosen,
            lambda old: replace(old, tags=tuple(one for one in old.tags if one != tag)),
            lambda what: f"Removed #{tag} from {what}",
        )

    def archive(self, chosen: Sequence[Conversation], is_archived: bool) -> None:
        """Archive or unarchive conversations."""
        done = "Archived {}" if is_archived else "Unarchived {}"
        self._list.place(
            chosen,
            lambda old: replace(old, is_archived=is_archived),
            done.format,
        )

    def new_folder(self, chosen: Sequence[Conversation] = ()) -> None:
        """Ask for a name and make a folder, with some conversations in it."""

        def make(name: str) -> None:
            folder = self._list.folders.create(name)
            if chosen:
                self.move(chosen, folder)

        ask_text(self._parent, "New Folder", "Name of the folder:", make)

    def new_tags(self, chosen: Sequence[Conversation]) -> None:
        """Ask for tags and add them to some conversations."""
        ask_text(
            self._parent,
            "New Tag",
            "Tags, separated by commas:",
            lambda typed: self.tag(chosen, *typed_tags(typed)),
        )

    def _fill_folders(self, menu: QMenu, chosen: Sequence[Conversation]) -> None:
        places = {one.placement.folder_id for one in chosen}

        def add(words: str, folder: ConversationFolder | None) -> None:
            is_there = places == {"" if folder is None else folder.id}
            add_entry(menu, words, lambda: self.move(chosen, folder), is_checked=is_there)

        add("No Folder", None)
        for folder in self._list.folders.all():
            add(literal(folder.name), folder)
        menu.addSeparator()
        add_entry(menu, "&New Folder…", lambda: self.new_folder(chosen))

    def _fill_tags(self, menu: QMenu, chosen: Sequence[Conversation]) -> None:
        def add(tag: str) -> None:
            has_it = all(tag in one.placement.tags for one in chosen)
            act = self.untag if has_it else self.tag
            add_entry(menu, literal(f"#{tag}"), lambda: act(chosen, tag), is_checked=has_it)

        for tag in self._list.tags():
            add(tag)
        menu.addSeparator()
        add_entry(menu, "&New Tag…", lambda: self.new_tags(chosen))

"""The actions on conversations, as the menu bar and the list's context menu offer them."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, count

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from ui.chat.file_dialogs import EXPORT_CONTENTS, FileDialogs, export_kinds
from ui.chat.session.conversation_list import named
from ui.chat.session.workspace import Workspace
from ui.kit.commands import Command, Entry, Submenu
from ui.kit.menus import escape_mnemonics
from ui.records.conversations import Conversation, ConversationFolder

EXPORT = "E&xport"

Chosen = Callable[[], Sequence[Conversation]]


class ConversationActions(QObject):
    """Moves, archives and deletes conversations in one step, which is undone as one."""

    rename_requested = Signal(object)  # Conversation or ConversationFolder

    def __init__(self, workspace: Workspace, files: FileDialogs, parent: QWidget) -> None:
        super().__init__(parent)
        self._workspace, self._files, self._parent = workspace, files, parent
        self._list = workspace.conversations

    def entries(self, chosen: Chosen) -> list[Entry]:
        """Return the entries that act on the conversations chosen at that time."""
        workspace = self._workspace

        def is_single() -> bool:
            return has_any() and len(chosen()) == 1

        def has_any() -> bool:
            return not all(conversation.is_blank for conversation in chosen())

        def counted_title(label: str) -> str:
            number = len(chosen())
            return f"{label} {number}" if number > 1 else label

        return [
            Command(
                "Re&name",
                lambda: self.rename_requested.emit(chosen()[0]),
                ("Ctrl+R",),
                is_single,
            ),
            Command(
                "&Pin",
                lambda: self.toggle_pinned(chosen()),
                ("Ctrl+Shift+P",),
                has_any,
                title=lambda: counted_title(
                    "Un&pin" if all(one.is_pinned for one in chosen()) else "&Pin"
                ),
            ),
            Command(
                "D&uplicate",
                lambda: workspace.files.duplicate(chosen()[0]),
                ("Ctrl+Shift+D",),
                is_single,
            ),
            None,
            Submenu("Move to Folde&r", lambda: self._folders(chosen())),
            Command(
                "Arc&hive",
                lambda: self.toggle_archived(chosen()),
                ("Ctrl+Shift+Y",),
                has_any,
                title=lambda: counted_title(
                    "Unarc&hive" if _are_archived(chosen()) else "Arc&hive"
                ),
            ),
            Submenu(EXPORT, self.exports(chosen)),
            None,
            Command(
                "&Delete",
                lambda: workspace.delete(*chosen()),
                ("Ctrl+Shift+Backspace",),
                has_any,
                title=lambda: counted_title("&Delete"),
            ),
        ]

    def exports(self, chosen: Chosen) -> list[Entry]:
        """Return an entry for each kind of file."""

        def has_messages() -> bool:
            return any(conversation.has_messages for conversation in chosen())

        return [
            Command(
                f"{kind}…",
                partial(self._export, chosen, kind),
                ("Ctrl+Shift+E",) if number == 0 else (),
                has_messages,
                tool_tip=EXPORT_CONTENTS.get(kind, ""),
            )
            for number, kind in enumerate(export_kinds())
        ]

    def _export(self, chosen: Chosen, kind: str) -> None:
        self._files.export(chosen(), kind)

    def move(
        self, chosen: Sequence[Conversation], folder: ConversationFolder | None, where: str = ""
    ) -> None:
        target = "" if folder is None else folder.id
        where = where or ("out of their folder" if folder is None else f"to “{folder.name}”")
        changes = [(one, replace(one.placement, folder_id=target)) for one in chosen]
        self._list.change_placement(changes, f"Moved {named(chosen)} {where}")

    def toggle_pinned(self, chosen: Sequence[Conversation]) -> None:
        """Pin conversations, or unpin them if all are pinned."""
        is_pinned = all(conversation.is_pinned for conversation in chosen)
        for conversation in chosen:
            self._list.pin(conversation, not is_pinned)

    def toggle_archived(self, chosen: Sequence[Conversation]) -> None:
        """Archive conversations, or unarchive them if all are archived.

        An open one gives way to the next in the list, as if it were deleted.
        """
        is_archived, row = _are_archived(chosen), self._workspace.row_of(chosen)
        changes = [(one, replace(one.placement, is_archived=not is_archived)) for one in chosen]
        action = "Unarchived" if is_archived else "Archived"
        self._list.change_placement(changes, f"{action} {named(chosen)}")
        if not is_archived and self._workspace.selected in chosen:
            self._workspace.open_nearest(row)

    def new_folder(self, chosen: Sequence[Conversation] = ()) -> None:
        """Make a folder, with some conversations in it, and let the user name it in its row."""
        names = {folder.name for folder in self._list.folders.all()}
        numbered = (f"New Folder {number}" for number in count(2))
        folder = self._list.folders.create(
            next(name for name in chain(["New Folder"], numbered) if name not in names)
        )
        if chosen:
            self.move(chosen, folder, "to a new folder")  # its name is typed next
        self.rename_requested.emit(folder)

    def _folders(self, chosen: Sequence[Conversation]) -> list[Entry]:
        folder_ids = {conversation.placement.folder_id for conversation in chosen}

        def target(label: str, folder: ConversationFolder | None) -> Command:
            is_there = folder_ids == {"" if folder is None else folder.id}
            return Command(label, lambda: self.move(chosen, folder), checked=lambda: is_there)

        folders = self._list.folders.all()
        return [
            target("N&o Folder", None),
            *(target(escape_mnemonics(folder.name), folder) for folder in folders),
            None,
            Command("&New Folder", lambda: self.new_folder(chosen)),
        ]


def _are_archived(chosen: Sequence[Conversation]) -> bool:
    return all(conversation.placement.is_archived for conversation in chosen)

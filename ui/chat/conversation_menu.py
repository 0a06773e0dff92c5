"""The menu entries that belong to conversations and their messages, with shortcuts and files.

Main thread.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from PySide6.QtCore import (
    QObject,
    Qt,
    Signal,
)
from PySide6.QtGui import QActionGroup
from PySide6.QtWidgets import (
    QMenu,
    QWidget,
)

from engine import size_in_words
from ui.chat.chat_panel import ChatPanel
from ui.chat.import_dialog import ImportDialog
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.conversation_imports import ImportPreview
from ui.chat.session.conversation_list import named
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar import Sidebar
from ui.kit.dialogs import choose_file, choose_folder, choose_target, report_failure
from ui.kit.menus import add_entry, empty_menu
from ui.kit.tasks import start_task
from ui.records.conversations import Conversation, ListOrder
from ui.records.messages import ConversationMessage
from ui.records.runs import Run

ORDERS = {
    ListOrder.RECENT: "By &Last Message",
    ListOrder.CREATED: "&Newest First",
    ListOrder.OLDEST: "&Oldest First",
    ListOrder.TITLE: "By &Title",
}
_IMPORTED = "Conversations of Fullstop, ChatGPT, Claude, LM Studio or Jan (*.json *.zip)"
_JSON, _MARKDOWN = "Conversation (*.json)", "Markdown (*.md)"
_WITH_FILES = "With pictures and recorded tokens"


class ConversationMenu(QObject):
    """Fills menus with the actions for conversations, and keeps them up to date.

    Signals:
        order_wanted: A person chose another order of the list; carries the ``ListOrder``.

    Args:
        workspace: What the window shows.
        sidebar: The list of conversations.
        chat: The open conversation.
        parent: The window, to which dialogs belong.
    """

    order_wanted = Signal(object)

    def __init__(
        self, workspace: Workspace, sidebar: Sidebar, chat: ChatPanel, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._parent = parent
        self._workspace = workspace
        self._sidebar = sidebar
        self._chat = chat
        sidebar.export_wanted.connect(self.export)
        workspace.files.refused.connect(self._say)
        workspace.files.imports.looked.connect(self._ask_what_to_import)
        workspace.presets.refused.connect(self._say)

    def fill_file(self, menu: QMenu) -> None:
        """Add the entries that read and write files."""
        add_entry(menu, "&Import Conversations…", self._import)
        add_entry(menu, "Import from Fol&der…", self._import_folder)
        add_entry(menu, "Restore &Backup…", self._restore_backup)
        self._export_one = add_entry(
            menu, "&Export This Conversation…", self._export_current, "Ctrl+Shift+E"
        )
        self._export_every = add_entry(menu, "Export &All Conversations…", self.export_all)
        add_entry(menu, "Ne&w Folder…", self._sidebar.new_folder, "Ctrl+Shift+N")

    def fill_edit(self, menu: QMenu) -> None:
        """Add the search, and the undo of actions in the list."""
        add_entry(menu, "&Search Conversations", self._sidebar.search, "Ctrl+Alt+F")
        self._restore = add_entry(menu, "Undo Sidebar Chan&ge", self._undo_last, "Ctrl+Shift+T")
        menu.aboutToShow.connect(self._refresh_restore)
        conversations = self._workspace.conversations
        conversations.undoable.connect(self._refresh_restore)
        conversations.undone.connect(self._refresh_restore)
        self._refresh_restore()

    def fill_conversation(self, menu: QMenu) -> None:
        """Add the entries that change the open conversation and its messages."""
        chat, workspace = self._chat, self._workspace
        self._pin_entry = add_entry(menu, "&Pin", self._pin, "Ctrl+Shift+P")
        add_entry(menu, "D&uplicate", self._duplicate, "Ctrl+Shift+D")
        order = menu.addMenu("O&rganize")
        order.aboutToShow.connect(lambda: self._fill_order(order))
        self._fill_order(order)
        add_entry(menu, "Arc&hive", self._archive, "Ctrl+Shift+Y")
        menu.addSeparator()
        attach = chat.composer.attachments
        add_entry(menu, "Atta&ch Files…", attach.choose, "Ctrl+Shift+O")
        handling = chat.handling
        self._add = add_entry(
            menu, "&Add Message Without Reply", handling.add_written, "Ctrl+Alt+Return"
        )
        # Also in the context menu of the Send button.
        chat.composer.action.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        chat.composer.action.addAction(self._add)
        self._quote = add_entry(menu, "&Quote Selection", handling.quote_selection, "Ctrl+'")
        self._pin_message = add_entry(menu, "Pin Message", handling.pin_message, "Ctrl+Alt+P")
        self._edit = add_entry(menu, "&Edit Last Message", chat.edit_last_question, "Ctrl+E")
        self._again = add_entry(
            menu,
            "Re&generate",
            self._with_last_answer(ConversationController.regenerate),
            "Ctrl+Alt+G",
        )
        self._continue = add_entry(
            menu,
            "Cont&inue Answer",
            self._with_last_answer(ConversationController.continue_answer),
            "Ctrl+Shift+Return",
        )
        self._earlier = add_entry(menu, "Earlier &Version", lambda: self._step(-1), "Ctrl+[")
        self._later = add_entry(menu, "&Later Version", lambda: self._step(1), "Ctrl+]")

        menu.aboutToShow.connect(self._refresh_writing)
        menu.aboutToHide.connect(self._enable_keys)
        workspace.opened.connect(self._refresh)
        workspace.run_shown.connect(self._refresh)
        workspace.model.changed.connect(self._refresh)
        workspace.answering_changed.connect(self._refresh)
        workspace.conversations.rowsInserted.connect(self._refresh)
        workspace.conversations.rowsRemoved.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        """Disable the entries that cannot be used now, with their shortcuts."""
        current = self._workspace.current
        conversation, is_running = current.conversation, current.is_busy
        shown = conversation.messages
        last = shown[-1].run if shown else None
        is_ready = self._workspace.model.state.can_answer and not is_running
        index, count = next(map(self._place, self._with_versions()), (0, 1))
        states = {
            self._export_one: conversation.has_messages,
            self._export_every: self._workspace.conversations.rowCount() > 1
            or conversation.has_messages,
            self._add: not is_running,
            self._edit: bool(shown) and not is_running,
            self._again: is_ready and last is not None,
            self._continue: is_ready and last is not None and last.can_be_continued,
            self._earlier: not is_running and index > 0,
            self._later: not is_running and index < count - 1,
        }
        for action, can_act in states.items():
            action.setEnabled(can_act)

    def _refresh_writing(self) -> None:
        """Disable what needs a text, and name what pinning does, while the menu is open."""
        is_pinned = self._workspace.selected.is_pinned
        self._pin_entry.setText("Un&pin" if is_pinned else "&Pin")
        message = self._chat.handling.message_to_pin
        is_pinned = message is not None and message.is_pinned
        self._pin_message.setText("Unpin Message" if is_pinned else "Pin Message")
        self._pin_message.setEnabled(message is not None)
        self._quote.setEnabled(bool(self._chat.handling.selection.strip()))
        is_written = bool(self._chat.composer.message.strip())
        self._add.setEnabled(is_written and not self._workspace.current.is_busy)

    def _enable_keys(self) -> None:
        """Enable what ``_refresh_writing`` disabled: the keys work while the menu is closed."""
        self._quote.setEnabled(True)
        self._pin_message.setEnabled(True)
        self._refresh()

    def _with_versions(self) -> Iterator[ConversationMessage]:
        """Yield the shown messages that have several versions, from the last to the first."""
        conversation = self._workspace.current.conversation
        shown, tree = conversation.messages, conversation.tree
        if len(shown) < len(tree):  # else no message has another version
            yield from (message for message in reversed(shown) if len(tree.versions(message)) > 1)

    def _place(self, message: ConversationMessage) -> tuple[int, int]:
        """Return the number of a message's version, and how many versions there are."""
        versions = self._workspace.current.conversation.tree.versions(message)
        return versions.index(message), len(versions)

    def fill_view(self, menu: QMenu) -> None:
        """Add the entries for the order and content of the list of conversations."""
        rows, conversations = self._sidebar.rows, self._workspace.conversations
        sorting = menu.addMenu("Sor&t Conversations")
        orders = QActionGroup(sorting)
        for order, words in ORDERS.items():
            entry = add_entry(sorting, words, partial(self.order_wanted.emit, order))
            entry.setCheckable(True)
            orders.addAction(entry)
            entry.setChecked(order is conversations.order)
            conversations.modelReset.connect(
                lambda entry=entry, order=order: entry.setChecked(order is conversations.order)
            )
        archive = add_entry(
            menu,
            "Archi&ved Conversations",
            lambda: rows.show_archive(not rows.shows_archive),
            is_checked=rows.shows_archive,
        )
        rows.filtered.connect(lambda: archive.setChecked(rows.shows_archive))

    def export(self, conversations: Sequence[Conversation]) -> None:
        """Ask for a file and write conversations to it."""
        files, what = self._workspace.files, named(conversations)
        alone = conversations[0] if len(conversations) == 1 else None
        choose_target(
            self._parent,
            f"Export {what}",
            lambda path: files.export_to(path, *conversations),
            name=("conversations" if alone is None else file_name(alone.title)) + ".json",
            filters=[_JSON, _MARKDOWN, f"{_WITH_FILES} (*.zip)"],
        )

    # -- intents ---------------------------------------------------------------------------

    def _export_current(self) -> None:
        self.export(self._sidebar.chosen())

    def export_all(self) -> None:
        """Ask for a file and write all conversations to it."""
        start_task(self, self._export_all(), "measure what an export takes")

    async def _export_all(self) -> None:
        """Ask for a file; it has pictures and tokens unless a person chooses otherwise."""
        kinds, name = [_JSON], "conversations.json"
        if beside := await self._workspace.files.bytes_beside():
            name = "conversations.zip"
            kinds = [f"{_WITH_FILES}, {size_in_words(beside)} (*.zip)", "Text only (*.json)"]
        write = self._workspace.files.export_all_to
        choose_target(self._parent, "Export All Conversations", write, name=name, filters=kinds)

    def _import(self) -> None:
        look = self._workspace.files.imports.look_into
        choose_file(self._parent, "Import Conversations", look, [_IMPORTED])

    def _import_folder(self) -> None:
        look = self._workspace.files.imports.look_into
        choose_folder(self._parent, "Import from Folder", look)

    def _restore_backup(self) -> None:
        recovery = self._workspace.recovery
        dialog = choose_file(self._parent, "Restore Backup", recovery.begin, ["Backups (*.db)"])
        if recovery.backups_folder is not None:
            dialog.setDirectory(str(recovery.backups_folder))

    def _ask_what_to_import(self, preview: ImportPreview) -> None:
        imports = self._workspace.files.imports
        ImportDialog(
            preview,
            lambda wanted, folder: imports.take(preview, wanted, folder),
            self._parent,
        ).open()

    def _fill_order(self, menu: QMenu) -> None:
        empty_menu(menu)
        self._sidebar.fill_order(menu)

    def _archive(self) -> None:
        chosen = self._sidebar.chosen()
        is_archived = all(conversation.placement.is_archived for conversation in chosen)
        self._sidebar.ordering.archive(chosen, not is_archived)

    def _undo_last(self) -> None:
        self._workspace.conversations.undo_last()

    def _refresh_restore(self) -> None:
        self._restore.setEnabled(self._workspace.conversations.can_undo)

    def _pin(self) -> None:
        conversation = self._workspace.selected
        self._workspace.conversations.pin(conversation, not conversation.is_pinned)

    def _duplicate(self) -> None:
        self._workspace.files.duplicate(self._workspace.selected)

    def _with_last_answer(
        self, action: Callable[[ConversationController, ConversationMessage], Run | None]
    ) -> Callable[[], None]:
        def act() -> None:
            messages = self._workspace.current.conversation.messages
            if messages and messages[-1].run is not None:
                self._workspace.ask(action, messages[-1])

        return act

    def _step(self, step: int) -> None:
        """Show another version of the last message that has several."""
        if (message := next(self._with_versions(), None)) is not None:
            self._workspace.show_version(message, step)

    def _say(self, words: str) -> None:
        what, _, why = words.partition(": ")
        if why:  # in bold is what happened, the cause is below it
            report_failure(self._parent, f"{what}.", why[0].upper() + why[1:])
        else:
            report_failure(self._parent, words)


def file_name(title: str) -> str:
    """Return a title as a file name that every file system accepts."""
    words = re.sub(r"[^\w\-]+", " ", title).split()
    return " ".join(words)[:60].strip() or "conversation"

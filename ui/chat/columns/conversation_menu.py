"""The menu entries that belong to conversations and their messages, with shortcuts and files.

Main thread. Knows the panels it steers, not the window that holds it.
"""

import re
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, QStandardPaths, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QFileDialog, QMenu, QMessageBox, QWidget

from ui.chat.columns.chat_panel import ChatPanel
from ui.chat.columns.sidebar import Sidebar
from ui.chat.session.workspace import Workspace
from ui.records.conversations import Conversation
from ui.records.messages import ChatMessage

_JSON, _MARKDOWN = "Conversation (*.json)", "Markdown (*.md)"


class ConversationMenu(QObject):
    """Fills menus with what can be done with conversations, and keeps them up to date."""

    def __init__(
        self, workspace: Workspace, sidebar: Sidebar, chat: ChatPanel, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._parent = parent
        self._workspace = workspace
        self._sidebar = sidebar
        self._chat = chat
        sidebar.export_wanted.connect(self.export)
        workspace.library.refused.connect(self._say)
        workspace.presets.refused.connect(self._say)

    def fill_file(self, menu: QMenu) -> None:
        """Add what reads and writes files."""
        self._add(menu, "&Import Conversations…", self._import)
        self._export_one = self._add(
            menu, "&Export This Conversation…", self._export_current, "Ctrl+Shift+E"
        )
        self._export_every = self._add(menu, "Export &All Conversations…", self.export_all)

    def fill_edit(self, menu: QMenu) -> None:
        """Add search, and the undoing of a deletion."""
        self._add(
            menu, "&Search Conversations", self._sidebar.search, QKeySequence.StandardKey.Find
        )
        self._restore = self._add(
            menu, "Undo &Delete Conversation", self._undo_delete, "Ctrl+Shift+T"
        )
        menu.aboutToShow.connect(self._refresh_restore)
        conversations = self._workspace.conversations
        conversations.deleted.connect(self._refresh_restore)
        conversations.restored.connect(self._refresh_restore)
        self._refresh_restore()

    def fill_conversation(self, menu: QMenu) -> None:
        """Add what changes the open conversation and its messages."""
        chat, workspace = self._chat, self._workspace
        self._add(menu, "&Pin or Unpin", self._pin, "Ctrl+Shift+P")
        self._add(menu, "D&uplicate", self._duplicate, "Ctrl+Shift+D")
        menu.addSeparator()
        attach = chat.composer.attachments
        self._add(menu, "Atta&ch Text Files…", attach.choose, "Ctrl+Shift+O")
        self._edit = self._add(menu, "&Edit the Last Question", chat.edit_last_question, "Ctrl+E")
        self._again = self._add(
            menu, "Re&generate", self._with_last_answer(workspace.regenerate), "Ctrl+Shift+G"
        )
        self._continue = self._add(
            menu,
            "&Continue the Answer",
            self._with_last_answer(workspace.continue_answer),
            "Ctrl+Shift+Return",
        )
        self._earlier = self._add(menu, "Earlier &Version", lambda: self._step(-1), "Ctrl+[")
        self._later = self._add(menu, "&Later Version", lambda: self._step(1), "Ctrl+]")

        workspace.opened.connect(self._refresh)
        workspace.run_shown.connect(self._refresh)
        workspace.model.changed.connect(self._refresh)
        workspace.conversations.dataChanged.connect(self._refresh)
        self._refresh()

    def _refresh(self) -> None:
        """Grey out what can not act now; their keys rest with them."""
        current = self._workspace.current
        conversation, is_running = current.conversation, current.session.is_running
        shown = conversation.messages
        last = shown[-1].run if shown else None
        is_ready = self._workspace.model.stage == "ready" and not is_running
        places = [self._place(message) for message in reversed(shown)]
        index, count = next((place for place in places if place[1] > 1), (0, 1))
        states = {
            self._export_one: conversation.has_messages,
            self._export_every: self._workspace.conversations.rowCount() > 1
            or conversation.has_messages,
            self._edit: bool(shown) and not is_running,
            self._again: is_ready and last is not None,
            self._continue: is_ready and last is not None and last.can_be_continued,
            self._earlier: not is_running and index > 0,
            self._later: not is_running and index < count - 1,
        }
        for action, can_act in states.items():
            action.setEnabled(can_act)

    def _place(self, message: ChatMessage) -> tuple[int, int]:
        """Return which of how many versions a message is."""
        versions = self._workspace.current.conversation.tree.versions(message)
        return versions.index(message), len(versions)

    def export(self, conversation: Conversation) -> None:
        """Ask for a file and write a conversation to it."""
        dialog = self._file_dialog(f"Export “{conversation.title}”", [_JSON, _MARKDOWN])
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.selectFile(file_name(conversation.title) + ".json")
        dialog.setDefaultSuffix("json")
        dialog.filterSelected.connect(
            lambda chosen: dialog.setDefaultSuffix("md" if chosen == _MARKDOWN else "json")
        )
        library = self._workspace.library
        dialog.fileSelected.connect(lambda path: library.export_to(Path(path), conversation))
        dialog.open()

    # -- intents ---------------------------------------------------------------------------

    def _export_current(self) -> None:
        self.export(self._workspace.selected)

    def export_all(self) -> None:
        """Ask for a file and write all conversations to it."""
        dialog = self._file_dialog("Export all conversations", [_JSON])
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.selectFile("conversations.json")
        dialog.setDefaultSuffix("json")
        dialog.fileSelected.connect(lambda p: self._workspace.library.export_all_to(Path(p)))
        dialog.open()

    def _import(self) -> None:
        dialog = self._file_dialog("Import conversations", [_JSON, "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.fileSelected.connect(lambda p: self._workspace.library.import_from(Path(p)))
        dialog.open()

    def _undo_delete(self) -> None:
        self._workspace.conversations.undo_delete()

    def _refresh_restore(self) -> None:
        self._restore.setEnabled(self._workspace.conversations.can_undo_delete)

    def _pin(self) -> None:
        conversation = self._workspace.selected
        self._workspace.conversations.pin(conversation, not conversation.is_pinned)

    def _duplicate(self) -> None:
        self._workspace.library.duplicate(self._workspace.selected)

    def _with_last_answer(self, intent: Callable[[ChatMessage], object]) -> Callable[[], None]:
        def act() -> None:
            messages = self._workspace.current.conversation.messages
            if messages and messages[-1].run is not None:
                intent(messages[-1])

        return act

    def _step(self, step: int) -> None:
        """Show another version of the last message that has several."""
        conversation = self._workspace.current.conversation
        for message in reversed(conversation.messages):
            if len(conversation.tree.versions(message)) > 1:
                self._workspace.show_version(message, step)
                return

    # -- inside ----------------------------------------------------------------------------

    def _add(
        self,
        menu: QMenu,
        words: str,
        intent: Callable[[], object],
        shortcut: QKeySequence.StandardKey | str | None = None,
    ) -> QAction:
        action = menu.addAction(words)
        if shortcut is not None:
            action.setShortcut(shortcut)
        action.triggered.connect(lambda: intent())
        return action

    def _file_dialog(self, title: str, filters: list[str]) -> QFileDialog:
        dialog = QFileDialog(self._parent, title)
        dialog.setNameFilters(filters)
        documents = QStandardPaths.StandardLocation.DocumentsLocation
        dialog.setDirectory(QStandardPaths.writableLocation(documents))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        return dialog

    def _say(self, words: str) -> None:
        box = QMessageBox(
            QMessageBox.Icon.Warning,
            "Fullstop",
            words,
            QMessageBox.StandardButton.Ok,
            self._parent,
        )
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.open()


def file_name(title: str) -> str:
    """Return a title as a name that every file system takes."""
    words = re.sub(r"[^\w\-]+", " ", title).split()
    return " ".join(words)[:60].strip() or "conversation"

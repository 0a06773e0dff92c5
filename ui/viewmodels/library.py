"""Copies of conversations: duplicates, files to and from other places.

Main thread; files are read and written on a thread of their own.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.fields import DamagedFile
from ui.viewmodels.archive import (
    conversation_markdown,
    conversations_from_json,
    conversations_json,
)
from ui.viewmodels.conversation_list import ConversationList
from ui.viewmodels.conversations import Conversation
from ui.viewmodels.storing import ConversationStore
from ui.viewmodels.tasks import Tasks


class Library(QObject):
    """Duplicates, exports and imports conversations.

    Signals:
        added: A conversation has come in; carries the ``Conversation``.
        written: A file has been written; carries its path.
        refused: A file could not be read or written; carries why, in words.
    """

    added = Signal(object)
    written = Signal(object)
    refused = Signal(str)

    def __init__(
        self,
        store: ConversationStore,
        conversations: ConversationList,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._conversations = conversations
        self._tasks = Tasks()

    def duplicate(self, conversation: Conversation) -> None:
        """Make a copy with all versions and show it."""
        self._tasks.start(self._duplicate(conversation), "duplicate a conversation")

    def export_to(self, path: Path, conversation: Conversation) -> None:
        """Write a conversation to a file: Markdown for ``.md``, else JSON."""
        is_markdown = path.suffix.lower() in (".md", ".markdown", ".txt")
        render: Callable[[], str] = (
            (lambda: conversation_markdown(conversation))
            if is_markdown
            else (lambda: conversations_json([conversation]))
        )
        self._tasks.start(self._export(path, [conversation], render), "export")

    def export_all_to(self, path: Path) -> None:
        """Write all conversations to one JSON file."""
        rows = range(self._conversations.rowCount())
        every = [c for c in map(self._conversations.at, rows) if c.has_messages]
        self._tasks.start(self._export(path, every, lambda: conversations_json(every)), "export")

    def import_from(self, path: Path) -> None:
        """Take in the conversations of a JSON file, beside those that are here."""
        self._tasks.start(self._import(path), "import")

    async def finish(self) -> None:
        """Wait until nothing is being read or written."""
        await self._tasks.finish()

    async def _duplicate(self, conversation: Conversation) -> None:
        await self._store.fill(conversation)
        if conversation.is_loaded:
            self.added.emit(self._conversations.duplicate(conversation))

    async def _export(
        self, path: Path, conversations: list[Conversation], render: Callable[[], str]
    ) -> None:
        for conversation in conversations:
            await self._store.fill(conversation)
            if not conversation.is_loaded:
                self.refused.emit(f"“{conversation.title}” could not be read; nothing was written.")
                return
        text = render()
        try:
            await asyncio.to_thread(path.write_text, text, encoding="utf-8")
        except OSError as error:
            self.refused.emit(f"{path.name} could not be written: {error.strerror}.")
        else:
            self.written.emit(path)

    async def _import(self, path: Path) -> None:
        try:
            text = await asyncio.to_thread(path.read_text, encoding="utf-8")
            conversations = await asyncio.to_thread(conversations_from_json, text)
        except OSError as error:
            self.refused.emit(f"{path.name} could not be read: {error.strerror}.")
        except (DamagedFile, UnicodeDecodeError) as error:
            self.refused.emit(f"{path.name} holds no conversations: {error}.")
        else:
            for conversation in conversations:
                self._conversations.insert(conversation)
            if conversations:
                self.added.emit(conversations[0])
            else:
                self.refused.emit(f"{path.name} holds no conversations: its list is empty.")

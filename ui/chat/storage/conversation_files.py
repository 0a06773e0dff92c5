"""Copies of conversations: duplicates, files to and from other places.

Main thread; files are read, written and turned into conversations on other threads, conversation
by conversation, so that the window goes on and memory holds one of them at a time.
"""

import asyncio
import errno
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine import EngineError, counted
from engine.files.bounded import read_bounded
from engine.files.causes import os_cause
from engine.files.fields import DamagedFile
from engine.files.text_memory import text_memory
from engine.files.whole_file import WholeFile
from engine.library.memory import memory
from ui.chat.history.conversation_list import ConversationList
from ui.chat.storage.transfers import Transfer, Transfers
from ui.kit.background.tasks import Tasks
from ui.records.conversations import Conversation
from ui.records.exchange.archive import (
    ARCHIVE_BEGIN,
    archive_end,
    archive_part,
    conversation_markdown,
    conversations_from_json,
)
from ui.records.messages import ConversationMessage
from ui.records.storing import ConversationStore

# The store gets so many messages at a time; the window is served in between.
_STEP_MESSAGES = 50
# So many are named where conversations cannot be read.
_MOST_NAMED = 3
# A file may always have so many bytes, and more where memory is plenty.
_LEAST_LIMIT_BYTES = 128 << 20
_MEMORY_SHARE = 32
_MARKDOWN = (".md", ".markdown", ".txt")


class Unreadable(EngineError):
    """A conversation's messages cannot be read; the message names it."""


class ConversationFiles(QObject):
    """Duplicates, exports and imports conversations.

    Signals:
        added: A conversation was imported or copied; carries the ``Conversation``.
        grown: Conversations were imported or copied and are still in memory.
        written: A file has been written; carries its path.
        refused: A file could not be read or written; carries why, in words.

    Attributes:
        transfers: The exports and imports that are running.
    """

    added = Signal(object)
    grown = Signal()
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
        self.transfers = Transfers(self)

    def duplicate(self, conversation: Conversation) -> None:
        """Make a copy with all versions and show it."""
        self._tasks.start(self._duplicate(conversation), "duplicate a conversation")

    def export_to(self, path: Path, conversation: Conversation) -> None:
        """Write a conversation to a file: Markdown for ``.md``, else JSON."""
        self.transfers.start(
            f"Exporting “{conversation.title}”",
            lambda transfer: self._export(path, [conversation], transfer),
        )

    def export_all_to(self, path: Path) -> None:
        """Write all conversations to one JSON file, also those that only have a draft."""
        rows = range(self._conversations.rowCount())
        every = [c for c in map(self._conversations.at, rows) if not c.is_unused]
        self.transfers.start(
            "Exporting all conversations", lambda transfer: self._export(path, every, transfer)
        )

    def import_from(self, path: Path) -> None:
        """Import the conversations of a JSON file, beside those that are here."""
        self.transfers.start(
            f"Importing {path.name}", lambda transfer: self._import(path, transfer)
        )

    async def finish(self) -> None:
        """Wait until nothing is read or written."""
        await self._tasks.finish()
        await self.transfers.finish()

    # -- inside ----------------------------------------------------------------------------

    async def _duplicate(self, conversation: Conversation) -> None:
        try:
            original = await self._snapshot(conversation)
        except Unreadable as problem:
            self.refused.emit(str(problem))
            return
        copy = await asyncio.to_thread(original.duplicate)
        await self._take_in(copy)
        self.added.emit(copy)
        self.grown.emit()

    async def _export(
        self, path: Path, conversations: Sequence[Conversation], transfer: Transfer
    ) -> None:
        try:
            is_done = await self._write(path, conversations, transfer)
        except OSError as error:
            self.refused.emit(f"{path.name} could not be written: {os_cause(error)}.")
        except Unreadable as problem:
            self.refused.emit(f"{problem} Nothing was written.")
        else:
            if is_done:
                self.written.emit(path)

    async def _write(
        self, path: Path, conversations: Sequence[Conversation], transfer: Transfer
    ) -> bool:
        """Write conversations one after the other; returns whether it came to the end."""
        target = _Target(path)
        missing: list[str] = []
        await asyncio.to_thread(target.open)
        try:
            for number, conversation in enumerate(conversations):
                transfer.advance(number, len(conversations))
                try:
                    snapshot = await self._snapshot(conversation)
                except Unreadable:
                    # The others are exported all the more: the disk may be about to fail.
                    missing.append(conversation.title)
                else:
                    await asyncio.to_thread(target.add, snapshot)
                if transfer.is_cancelled:
                    await asyncio.to_thread(target.forget)
                    return False
            if missing and len(missing) == len(conversations):
                raise Unreadable(f"{_named(missing)} could not be read.")
            await asyncio.to_thread(target.close)
        except BaseException:
            await asyncio.to_thread(target.forget)
            raise
        if missing:
            self.refused.emit(f"{_named(missing)} could not be read. {path.name} has the others.")
        return True

    async def _snapshot(self, conversation: Conversation) -> Conversation:
        """Return a conversation with its messages as they are now, for another thread.

        Raises:
            Unreadable: Its messages cannot be read.
        """
        if conversation.is_loaded:
            return conversation.snapshot(conversation.tree)
        messages = await self._store.read(conversation)
        if messages is None:
            raise Unreadable(f"“{conversation.title}” could not be read.")
        return conversation.snapshot(messages)

    async def _import(self, path: Path, transfer: Transfer) -> None:
        try:
            conversations = await asyncio.to_thread(_read, path)
        except OSError as error:
            if error.errno == errno.EFBIG:
                self.refused.emit(_too_large(path))
                return
            self.refused.emit(f"{path.name} could not be read: {os_cause(error)}.")
            return
        except UnicodeDecodeError:
            self.refused.emit(f"{path.name} is not a file of conversations: it is not text.")
            return
        except DamagedFile as error:
            self.refused.emit(f"{path.name} is not a file of conversations: {error}.")
            return
        if not conversations:
            self.refused.emit(f"{path.name} contains no conversations.")
            return
        for number, conversation in enumerate(conversations):
            if transfer.is_cancelled:
                break  # conversations imported so far stay
            transfer.advance(number, len(conversations))
            await self._take_in(conversation)
            if number == 0:
                self.added.emit(conversation)
            elif number % 32 == 0:
                self.grown.emit()
        self.grown.emit()

    async def _take_in(self, conversation: Conversation) -> None:
        """Add a conversation to the list and save its messages in steps."""
        self._conversations.add(conversation)
        messages = iter(list(conversation.tree))
        while step := _next(messages):
            self._store.save_messages(conversation, step)
            await asyncio.sleep(0)


def _named(titles: Sequence[str]) -> str:
    named = ", ".join(f"“{title}”" for title in titles[:_MOST_NAMED])
    more = len(titles) - _MOST_NAMED
    return f"{named} and {counted(more, 'more conversation')}" if more > 0 else named


class _Target:
    """A file that conversations are written to one by one; blocks, so not on the main thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: WholeFile | None = None
        self._is_markdown = path.suffix.lower() in _MARKDOWN
        self._count = 0

    def open(self) -> None:
        """Open a file beside its place."""
        self._file = WholeFile(self._path)
        self._file.open()
        if not self._is_markdown:
            self._file.write(ARCHIVE_BEGIN)

    def add(self, conversation: Conversation) -> None:
        """Write a conversation."""
        assert self._file is not None
        if self._is_markdown:
            self._file.write(conversation_markdown(conversation))
        else:
            self._file.write(archive_part(conversation, is_first=not self._count))
        self._count += 1

    def close(self) -> None:
        """Put the file in its place."""
        assert self._file is not None
        if not self._is_markdown:
            self._file.write(archive_end())
        self._file.commit()

    def forget(self) -> None:
        """Discard the new file; the one that was there stays."""
        if self._file is not None:
            self._file.forget()


def _next(messages: Iterator[ConversationMessage]) -> list[ConversationMessage]:
    return list(islice(messages, _STEP_MESSAGES))


def _read(path: Path) -> list[Conversation]:
    raw = read_bounded(path, _most_bytes())
    if (why := text_memory(raw, is_json=True).excess(_most_bytes())) is not None:
        raise DamagedFile(f"it takes too much memory: {why}")
    text = raw.decode("utf-8")
    del raw
    return conversations_from_json(text)


def _too_large(path: Path) -> str:
    return (
        f"{path.name} is too large: this computer can import files of up to "
        f"{_most_bytes() / 1e6:.0f} MB. Export fewer conversations to one file."
    )


def _most_bytes() -> int:
    """Return the size of the largest file that is imported: its values take many times as much."""
    return max(_LEAST_LIMIT_BYTES, memory().total // _MEMORY_SHARE)

"""The window's store: an SQLite file with its own thread, for which the main thread never waits."""

import asyncio
import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from app.damaged_files import has_set_aside
from app.exits import CommandError
from app.store import passages, rows, statements
from app.store.backups import backups_folder, make_backup, pictures_in_backup
from app.store.database import Database, describe_error
from app.store.recovery import readable_rows
from app.store.search import search
from app.store.writer import Write, Writer
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.facts import Fact
from ui.records.messages import ConversationMessage
from ui.records.passages import (
    Document,
    Found,
    IndexedDocument,
    PassageSearch,
    passages_of,
)
from ui.records.runs import PastRun
from ui.records.store import EVERYWHERE, MAX_HITS, Hit, Problem, Recovered, SearchFilter
from ui.words import FileRefused

# Written together, between which the conversations are saved.
_PASSAGES_PART = 500
_UNSAVED = "Your conversations are not being saved."
_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Default = TypeVar("_Default")


class SqliteConversationStore:
    """Keeps conversations in a file, or in memory without one. Made by ``open_store``.

    Fits ``ui.records.store.ConversationStore``. Its methods are called on the main thread; all work
    on the file runs, in order, on the database's own thread.
    """

    def __init__(self, path: Path | None, problem: Problem | None = None) -> None:
        self._path = path
        self.pictures_folder = None if path is None else _pictures_folder(path)
        self.backups_folder = None if path is None else backups_folder(path)
        self._has_text_in_memory = False
        self._database = Database(path, problem)
        self._writer = Writer(self._database, self._report_outcome)
        self._saved: dict[str, tuple[Any, ...]] = {}
        self._unsent: dict[str, rows.Unsent] = {}
        self._report: Callable[[Problem | None], None] = lambda _: None
        self._on_found: Callable[[list[Conversation], list[Preset]], None] = lambda *_: None
        self._backup: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Open the file, read the conversations, and make a backup once a day."""
        try:
            await asyncio.wrap_future(self._database.thread.submit(self._database.open))
        except (sqlite3.Error, OSError):
            self._database.thread.shutdown(wait=False)
            raise
        if self._path is None:
            return
        self._database.thread.submit(self._delete_unused_pictures, self._path, time.time())
        if self._database.conversations:
            self._backup = asyncio.ensure_future(asyncio.to_thread(make_backup, self._path))

    async def aclose(self) -> None:
        self._report = lambda _: None
        await self.flush()
        self._writer.close()
        if self._backup is not None:
            await self._backup
        await asyncio.wrap_future(self._database.thread.submit(self._database.close))
        await asyncio.to_thread(self._database.thread.shutdown)

    # -- the window's side -----------------------------------------------------------------

    @property
    def problem(self) -> Problem | None:
        return self._database.problem

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that cannot be written to the file."""
        return self._has_text_in_memory or (bool(self.failing_because) and self._writer.has_text)

    @property
    def is_writing(self) -> bool:
        return not self.failing_because and self._writer.has_text

    @property
    def failing_because(self) -> str:
        """Why changes cannot be written; empty while they can."""
        return self._writer.failure

    def on_problem(self, report: Callable[[Problem | None], None]) -> None:
        self._report = report

    def on_found(self, show: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``show`` with all conversations and presets after a recovery."""
        self._on_found = show

    def is_saved(self, conversation: Conversation) -> bool:
        return not self._writer.has_pending(conversation.id)

    def conversations(self) -> list[Conversation]:
        for conversation in self._database.conversations:
            if conversation.attachments or conversation.queue:
                unsent = conversation.attachments, conversation.queue
                self._unsent.setdefault(conversation.id, unsent)
        return self._database.conversations

    def presets(self) -> list[Preset]:
        return self._database.presets

    def folders(self) -> list[ConversationFolder]:
        return self._database.folders

    async def fill(self, conversation: Conversation) -> None:
        """Load the messages of a conversation; it stays unloaded if they cannot be read."""
        if conversation.is_loaded:
            return
        messages = await self.read(conversation)
        if messages is not None:
            conversation.fill(messages)

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        """Return the messages as they are in the file; None if they cannot be read."""
        identity = conversation.id
        return await self._read(lambda database: statements.messages(database, identity), None)

    def save(self, conversation: Conversation) -> None:
        """Save a conversation's own row, if it has changed."""
        row = rows.conversation_row(conversation)
        if self._saved.get(conversation.id) != row:
            self._saved[conversation.id] = row
            has_text = not conversation.is_unused
            statement = statements.SAVE_CONVERSATION
            self._put("conversation", row.id, statement, row, row.id, has_text=has_text)
        unsent = conversation.attachments, conversation.queue
        if self._unsent.get(row.id, ((), ())) != unsent:
            self._unsent[row.id] = unsent
            if any(unsent):
                content = rows.unsent_json(unsent)
                self._put("attached", row.id, statements.SAVE_UNSENT, (row.id, content), row.id)
            else:
                self._put("attached", row.id, statements.DELETE_UNSENT, (row.id,), row.id)

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        for message in messages:
            row = rows.message_row(conversation, message)
            self._put("message", row.id, statements.SAVE_MESSAGE, row, conversation.id)

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Remove messages from the file; saving one again brings it back."""
        for message in messages:
            key = message.id
            self._put("message", key, statements.DELETE_MESSAGE, (key,), conversation.id)

    def delete(self, conversation: Conversation) -> None:
        """Hide a conversation; it is deleted from the file at the next start."""
        self._mark_deleted(conversation.id, time.time())

    def restore(self, conversation: Conversation) -> None:
        self._mark_deleted(conversation.id, None)

    async def search(
        self, query: str, filter_: SearchFilter = EVERYWHERE, limit: int = MAX_HITS
    ) -> list[Hit]:
        return await self._read(lambda database: search(database, query, filter_, limit), [])

    async def find_passages(self, search: PassageSearch) -> Found:
        return await self._read(
            lambda connection: passages.find_passages(connection, search), Found((), ())
        )

    async def passages_without_vector(
        self, conversation_id: str, folder_id: str, model: str, count: int
    ) -> list[tuple[int, str]]:
        owners = conversation_id, folder_id
        return await self._read(
            lambda connection: passages.passages_without_vector(connection, owners, model, count),
            [],
        )

    async def save_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> bool:
        try:
            await self._change(lambda connection: passages.save_vectors(connection, model, vectors))
        except sqlite3.Error as error:
            _log.error("vectors of passages cannot be saved", exc_info=error)
            return False
        return True

    async def folder_documents(self, folder_id: str) -> list[IndexedDocument]:
        return await self._read(
            lambda connection: passages.folder_documents(connection, folder_id), []
        )

    async def add_document(
        self, folder_id: str, document: Document, remark: str, on_added: Callable[[int], object]
    ) -> None:
        if await self.show_document(folder_id, document.id, is_shown=True):
            return
        divided, count = passages_of(document), 0
        try:
            number = await self._change(
                lambda c: passages.begin_document(c, folder_id, document, remark)
            )
            while part := await asyncio.to_thread(lambda: list(islice(divided, _PASSAGES_PART))):
                count += await self._change(
                    partial(passages.add_passages, document=number, passages=part)
                )
                on_added(count)
            await self._change(lambda c: passages.end_document(c, number, count))
        except BaseException as error:
            with contextlib.suppress(sqlite3.Error):
                await asyncio.shield(
                    self._change(lambda c: passages.remove_document(c, folder_id, document.id))
                )
            if isinstance(error, sqlite3.Error):
                _log.error("a document cannot be added", exc_info=error)
                raise FileRefused(
                    f"“{document.name}” could not be added: {describe_error(error)}."
                ) from error
            raise

    async def show_document(self, folder_id: str, document_id: str, *, is_shown: bool) -> bool:
        try:
            return await self._change(
                lambda c: passages.show_document(c, folder_id, document_id, is_shown=is_shown)
            )
        except sqlite3.Error as error:
            _log.error("a document cannot be removed or restored", exc_info=error)
            return False

    async def _change(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        def change() -> _T:
            with statements.transaction(self._database.connection) as connection:
                return work(connection)

        return await asyncio.wrap_future(self._database.thread.submit(change))

    async def recent_runs(self, limit: int) -> list[PastRun]:
        return await self._read(lambda database: statements.recent_runs(database, limit), [])

    def save_preset(self, preset: Preset) -> None:
        self._put("preset", preset.name, statements.SAVE_PRESET, rows.preset_row(preset))

    def delete_preset(self, name: str) -> None:
        self._put("preset", name, statements.DELETE_PRESET, (name,))

    def save_folder(self, folder: ConversationFolder) -> None:
        self._put("folder", folder.id, statements.SAVE_FOLDER, rows.folder_row(folder))

    def delete_folder(self, folder_id: str) -> None:
        self._put("folder", folder_id, statements.DELETE_FOLDER, (folder_id,))

    def facts(self) -> list[Fact]:
        return self._database.facts

    def save_fact(self, fact: Fact) -> None:
        self._put("fact", fact.id, statements.SAVE_FACT, rows.fact_row(fact))

    def delete_fact(self, fact_id: str) -> None:
        self._put("fact", fact_id, statements.DELETE_FACT, (fact_id,))

    async def flush(self) -> None:
        """Wait until all earlier changes are in the file, or their failure has been reported."""
        # A cancelled wait must not cancel the writing.
        await asyncio.shield(asyncio.wrap_future(self._writer.flush()))

    async def recover(self, path: Path) -> Recovered:
        """Add the readable conversations of a backup or of a damaged file that are not here."""
        is_newest = self.problem is not None and path == self.problem.path  # the damaged file
        try:
            found, unreadable = await asyncio.to_thread(readable_rows, path)
            merging = self._database.thread.submit(
                lambda: statements.merge(self._database.connection, found, is_newest=is_newest)
            )
            merged = asyncio.wrap_future(merging)
            while not merged.done():  # the transaction cannot be cancelled
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(merged)
            result = Recovered(*merged.result(), unreadable)
        except (sqlite3.Error, OSError) as error:
            _log.error("%s: not all could be recovered", path, exc_info=error)
            result = Recovered(cause=describe_error(error))
        await asyncio.wrap_future(self._database.thread.submit(self._database.read_all))
        self._on_found(self.conversations(), self.presets())
        return result

    # -- inside ----------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return "memory" if self._path is None else self._path.name

    @property
    def _folder(self) -> Path | None:
        return None if self._path is None else self._path.parent

    def _mark_deleted(self, identity: str, deleted_at: float | None) -> None:
        self._put("deletion", identity, statements.MARK_DELETED, (deleted_at, identity), identity)

    def _put(
        self,
        kind: str,
        identity: str,
        statement: str,
        values: Sequence[Any],
        conversation_id: str = "",
        *,
        has_text: bool = True,
    ) -> None:
        self._has_text_in_memory |= has_text and self._path is None
        write = Write((kind, identity), conversation_id, statement, tuple(values), has_text)
        self._writer.put(write)

    def _report_outcome(self, cause: str, has_bad: bool) -> None:
        """Report when saving begins to fail, fails differently, or works again."""
        name, folder = self._name, self._folder
        if cause:
            detail = (
                f"{name}: {cause}. Everything is kept in memory, and saving is tried again until "
                "it works. Export important conversations before you quit."
            )
            self._report(Problem(_UNSAVED, detail, folder))
        elif has_bad:
            detail = (
                f"{name} refused this change; everything else is saved. Export the conversation to "
                "keep it. The log has the cause."
            )
            self._report(Problem("A change could not be saved.", detail, folder))
        else:
            self._report(None)

    def _delete_unused_pictures(self, path: Path, before: float) -> None:
        """Delete the pictures that no message has, here or in a backup; store thread."""
        try:
            files = [
                file
                for file in os.scandir(_pictures_folder(path))
                if file.is_file(follow_symlinks=False)
            ]
            if not files or has_set_aside(path):
                return
            used = statements.picture_files(self._database.connection)
            if any(file.name not in used for file in files):
                used = used.union(*map(pictures_in_backup, backups_folder(path).glob("*.db")))
            for file in files:
                if file.name not in used and file.stat(follow_symlinks=False).st_mtime < before:
                    os.unlink(file.path)
        except FileNotFoundError:
            pass
        except (OSError, sqlite3.Error) as error:
            _log.warning("pictures of deleted conversations are kept for now", exc_info=error)

    async def _read(
        self, work: Callable[[sqlite3.Connection], _T], default: _Default
    ) -> _T | _Default:
        """Return the result of reading the file; ``default``, with a report, if that fails."""
        self._writer.flush_before_read()
        reading = self._database.thread.submit(lambda: work(self._database.connection))
        try:
            return await asyncio.wrap_future(reading)
        except sqlite3.ProgrammingError:
            return default  # closed meanwhile
        except sqlite3.Error as error:
            _log.error("conversations could not be read", exc_info=error)
            detail = f"{self._name}: {describe_error(error)}. Nothing in the file was changed."
            self._report(Problem("Your conversations could not be read.", detail, self._folder))
            return default


def _pictures_folder(path: Path) -> Path:
    return path.with_name("pictures")


async def open_store(path: Path) -> SqliteConversationStore:
    """Open the store of a file, created if needed; if it cannot be used, one in memory says why."""
    store = SqliteConversationStore(path)
    try:
        await store.open()
    except sqlite3.NotSupportedError as error:  # a store in memory needs the same
        raise CommandError(f"conversations cannot be kept: {error}") from error
    except (sqlite3.Error, OSError) as error:
        _log.error("%s cannot be used", path, exc_info=error)
        detail = (
            f"{path} cannot be used: {describe_error(error)}. Earlier conversations in it are "
            "unchanged. Repair this and start Fullstop again; new text is kept only until then."
        )
        problem = Problem(_UNSAVED, detail, path.parent)
        store = SqliteConversationStore(None, problem)
        await store.open()
    return store

"""The window's store: an SQLite file with its own thread, for which the main thread never waits."""

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from app.store import rows, statements
from app.store.backups import backups_folder, make_backup
from app.store.database import Database, describe_error
from app.store.recovery import readable_rows
from app.store.search import search
from app.store.writer import Write, Writer
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.messages import ConversationMessage
from ui.records.runs import PastRun
from ui.records.store import (
    EVERYWHERE,
    MOST_HITS,
    Hit,
    Recovered,
    SearchFilter,
    StoreProblem,
)

_UNSAVED = "Your conversations are not being saved."
_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_Default = TypeVar("_Default")


class StoreUnavailable(Exception):
    """The file can be neither read nor created; ``problem`` is shown to the user."""

    def __init__(self, problem: StoreProblem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class SqliteConversationStore:
    """Keeps conversations in a file, or in memory without one. Made by ``open_store``.

    Fits ``ui.records.store.ConversationStore``. Its methods are called on the main thread; all work
    on the file runs, in order, on the database's own thread.
    """

    def __init__(self, path: Path | None, problem: StoreProblem | None = None) -> None:
        self._path = path
        self._has_text_in_memory = False
        self._database = Database(path, problem)
        self._writer = Writer(self._database, self._report_outcome)
        self._loop = asyncio.get_running_loop()
        self._saved: dict[str, tuple[Any, ...]] = {}
        self._unsent: dict[str, rows.Unsent] = {}
        self._report: Callable[[StoreProblem | None], None] = lambda _: None
        self._on_found: Callable[[list[Conversation], list[Preset]], None] = lambda *_: None
        self._backup: asyncio.Future[None] | None = None

    async def open(self) -> None:
        """Open the file, read the conversations, and make a backup once a day."""
        try:
            await asyncio.wrap_future(self._database.submit(self._database.open))
        except (sqlite3.Error, OSError) as error:
            _log.error("%s cannot be opened", self._path, exc_info=error)
            self._database.end_thread(waits=False)
            raise StoreUnavailable(
                StoreProblem(
                    _UNSAVED,
                    f"{self._path} cannot be used: {describe_error(error)}. New text is kept only "
                    "until you close the window.",
                    self._folder,
                )
            ) from error
        if self._path is None:
            return
        self._database.submit(self._delete_unused_pictures, self._path, time.time())
        if self._database.conversations:
            self._backup = asyncio.ensure_future(asyncio.to_thread(make_backup, self._path))

    async def close(self) -> None:
        self._report = lambda _: None
        await self.flush()
        self._writer.close()
        if self._backup is not None:
            await self._backup
        await asyncio.wrap_future(self._database.submit(self._database.close))
        await asyncio.to_thread(self._database.end_thread, waits=True)

    # -- the window's side -----------------------------------------------------------------

    @property
    def pictures_folder(self) -> Path | None:
        return None if self._path is None else _pictures_folder(self._path)

    @property
    def backups_folder(self) -> Path | None:
        return None if self._path is None else backups_folder(self._path)

    @property
    def problem(self) -> StoreProblem | None:
        """The problem found when the file was opened."""
        return self._database.problem

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that cannot be written to the file."""
        return self._has_text_in_memory or (bool(self.failing_because) and self._writer.has_text)

    @property
    def is_writing(self) -> bool:
        """Whether text of the user is being written to the file."""
        return not self.failing_because and self._writer.has_text

    @property
    def failing_because(self) -> str:
        """Why changes cannot be written; empty while they can."""
        return self._writer.failure

    def on_problem(self, report: Callable[[StoreProblem | None], None]) -> None:
        self._report = report

    def on_found(self, show: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``show`` with all conversations and presets after a recovery."""
        self._on_found = show

    def is_kept(self, conversation: Conversation) -> bool:
        return not self._writer.has_pending(conversation.id)

    def load_all(self) -> list[Conversation]:
        for conversation in self._database.conversations:
            if conversation.attachments or conversation.queue:
                unsent = conversation.attachments, conversation.queue
                self._unsent.setdefault(conversation.id, unsent)
        return self._database.conversations

    def load_presets(self) -> list[Preset]:
        return self._database.presets

    def load_folders(self) -> list[ConversationFolder]:
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
            self._put(
                ("conversation", conversation.id),
                conversation.id,
                lambda database: statements.save_conversation(database, row),
                has_text=not conversation.is_unused,
            )
        self._save_unsent(conversation)

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        for message in messages:
            self._save_message(conversation, rows.message_snapshot(conversation, message))

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Remove messages from the file; saving one again brings it back."""
        for message in messages:
            self._delete_message(conversation.id, message.id)

    def delete(self, conversation: Conversation) -> None:
        """Hide a conversation; it is deleted from the file at the next start."""
        self._mark_deleted(conversation.id, True)

    def restore(self, conversation: Conversation) -> None:
        self._mark_deleted(conversation.id, False)

    async def search(
        self, query: str, filter_: SearchFilter = EVERYWHERE, limit: int = MOST_HITS
    ) -> list[Hit]:
        """Return the places with the words of a query, best first."""
        return await self._read(lambda database: search(database, query, filter_, limit), [])

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers that were generated here, the newest first."""
        return await self._read(lambda database: statements.recent_runs(database, limit), [])

    def save_preset(self, preset: Preset) -> None:
        row = rows.preset_row(preset)
        self._put(("preset", preset.name), "", lambda db: statements.save_preset(db, row))

    def delete_preset(self, name: str) -> None:
        self._put(("preset", name), "", lambda db: statements.delete_preset(db, name))

    def save_folder(self, folder: ConversationFolder) -> None:
        row = rows.folder_row(folder)
        self._put(("folder", folder.id), "", lambda db: statements.save_folder(db, row))

    def delete_folder(self, folder_id: str) -> None:
        """Delete a folder; the caller moves its conversations."""
        self._put(("folder", folder_id), "", lambda db: statements.delete_folder(db, folder_id))

    async def flush(self) -> None:
        """Wait until all earlier changes are in the file, or their failure has been reported."""
        # A cancelled wait must not cancel the writing.
        await asyncio.shield(asyncio.wrap_future(self._writer.flush()))

    async def recover(self, path: Path) -> Recovered:
        """Add the readable conversations of a backup or of a damaged file that are not here."""
        try:
            found, unreadable = await asyncio.to_thread(readable_rows, path)
            merging = self._database.submit(
                lambda: statements.merge(self._database.connection, found)
            )
            result = Recovered(*await asyncio.wrap_future(merging), unreadable)
        except (sqlite3.Error, OSError) as error:
            _log.error("%s: not all could be recovered", path, exc_info=error)
            result = Recovered(cause=describe_error(error))
        await asyncio.wrap_future(self._database.submit(self._database.read_all))
        self._on_found(self.load_all(), self.load_presets())
        return result

    # -- inside ----------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return "memory" if self._path is None else self._path.name

    @property
    def _folder(self) -> Path | None:
        return None if self._path is None else self._path.parent

    def _save_unsent(self, conversation: Conversation) -> None:
        identity, unsent = conversation.id, (conversation.attachments, conversation.queue)
        if self._unsent.get(identity, ((), ())) != unsent:
            self._unsent[identity] = unsent
            self._put(
                ("attached", identity),
                identity,
                lambda database: statements.save_unsent(database, identity, unsent),
            )

    def _save_message(self, conversation: Conversation, message: rows.MessageSnapshot) -> None:
        key = ("message", message.row.id)
        self._put(key, conversation.id, lambda database: statements.save_message(database, message))

    def _delete_message(self, conversation_id: str, message_id: str) -> None:
        self._put(
            ("message", message_id),
            conversation_id,
            lambda database: statements.delete_message(database, message_id),
        )

    def _mark_deleted(self, identity: str, is_deleted: bool) -> None:
        self._put(
            ("deletion", identity),
            identity,
            lambda database: statements.mark_deleted(database, identity, is_deleted),
        )

    def _put(
        self,
        key: tuple[str, str],
        identity: str,
        apply: Callable[[sqlite3.Connection], None],
        *,
        has_text: bool = True,
    ) -> None:
        self._has_text_in_memory |= has_text and self._path is None
        self._writer.put(Write(key, identity, apply, has_text))

    def _report_outcome(self, cause: str, has_bad: bool) -> None:
        """Report when saving begins to fail, fails differently, or works again."""
        name, folder = self._name, self._folder
        if cause:
            detail = (
                f"{name}: {cause}. Everything is kept in memory, and saving is tried again until "
                "it works. Export important conversations before you quit."
            )
            self._report(StoreProblem(_UNSAVED, detail, folder))
        elif has_bad:
            detail = (
                f"{name} refused this change; everything else is saved. Export the conversation to "
                "keep it. The log has the cause."
            )
            self._report(StoreProblem("A change could not be saved.", detail, folder))
        else:
            self._report(None)

    def _delete_unused_pictures(self, path: Path, before: float) -> None:
        """Delete the pictures that no message has any more; store thread."""
        # Messages that are recovered from another file may need them.
        others = path.parent.glob(f"{path.stem}.set-aside-*")
        try:
            files = [
                file
                for file in os.scandir(_pictures_folder(path))
                if file.is_file(follow_symlinks=False)
            ]
            if not files or any(others):
                return
            used = statements.picture_files(self._database.connection)
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
        """Return the result of reading the file, or ``default`` if it cannot be read."""
        try:
            return await asyncio.wrap_future(self._begin_reading(work))
        except sqlite3.Error:
            return default  # has been reported

    def _begin_reading(self, work: Callable[[sqlite3.Connection], _T]) -> Future[_T]:
        """Read on the database's thread; report and log a failure."""

        def run() -> _T:
            try:
                return work(self._database.connection)
            except sqlite3.ProgrammingError:
                raise  # closed meanwhile
            except sqlite3.Error as error:
                _log.error("conversations could not be read", exc_info=error)
                problem = StoreProblem(
                    "Your conversations could not be read.",
                    f"{self._name}: {describe_error(error)}. Nothing in the file was changed.",
                    self._folder,
                )
                self._loop.call_soon_threadsafe(self._report, problem)
                raise

        self._writer.flush_before_read()
        return self._database.submit(run)


def _pictures_folder(path: Path) -> Path:
    return path.with_name("pictures")


async def open_store(
    path: Path | None, problem: StoreProblem | None = None
) -> SqliteConversationStore:
    """Open the store of a file, created if needed; close it with ``close``.

    Without a path it is kept in memory, with a problem for the window to show.

    Raises:
        StoreUnavailable: The file can be neither read nor created.
    """
    store = SqliteConversationStore(path, problem)
    await store.open()
    return store

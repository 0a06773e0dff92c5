"""The window's store: an SQLite file with its own thread, for which the main thread never waits."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from app.store import rows, statements
from app.store.database import Database, PendingWrites, Write, offer_no_more, store_cause
from app.store.recovery import recover
from app.store.statements import search
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

_log = logging.getLogger(__name__)

# Messages for a person when conversations cannot be read or saved.

_UNSAVED = "Your conversations are not being saved."


class StoreUnavailable(Exception):
    """The file can be neither read nor created; ``problem`` says why, for a person."""

    def __init__(self, problem: StoreProblem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


def unusable(path: Path, cause: str) -> StoreProblem:
    """Return the problem of a file that is not retried."""
    detail = f"{path} cannot be used: {cause}. New text is kept only until you close the window."
    return StoreProblem(_UNSAVED, detail, path.parent)


def not_yet_usable(path: Path, cause: str) -> StoreProblem:
    """Return the problem of a file that could not be opened and is retried."""
    return StoreProblem(
        _UNSAVED,
        f"{path} cannot be used: {cause}. What you write is kept in memory, and the file is tried "
        "again until it works. Earlier conversations appear then.",
        path.parent,
    )


def not_written(path: Path, cause: str) -> StoreProblem:
    """Return the problem of changes that cannot be written now."""
    return StoreProblem(
        _UNSAVED,
        f"{path.name}: {cause}. Everything is kept in memory, and saving is tried again until it "
        "works. Export what matters before you quit.",
        path.parent,
    )


def refused(path: Path) -> StoreProblem:
    """Return the problem of a change that can never be written."""
    return StoreProblem(
        "A change could not be saved.",
        f"{path.name} refused this change; everything else is saved. Export the conversation to "
        "keep it. The log has the cause.",
        path.parent,
    )


def unreadable(path: Path, cause: str) -> StoreProblem:
    """Return the problem of conversations that cannot be read."""
    return StoreProblem(
        "Your conversations could not be read.",
        f"{path.name}: {cause}. Nothing in the file was changed.",
        path.parent,
    )


# Writes changes to the file, and retries those that fail.
#
# Methods are called on the main thread, which never waits; work on the file runs on the
# database's own thread. Opening a file is retried in the same way.

# How long to wait for another program's lock: long at first, then briefly.
PATIENT_MS, _IMPATIENT_MS = 5_000, 250
_TRIED_AGAIN_AFTER_S = 2.0


class Saving:
    """Writes a store's changes to its file."""

    def __init__(
        self,
        path: Path,
        database: Database,
        loop: asyncio.AbstractEventLoop,
        on_opened: Callable[[], None],
    ) -> None:
        self.tell: Callable[[StoreProblem | None], None] | None = None
        self.pending = PendingWrites()
        self.failing_because = ""
        self.waits_because: StoreProblem | None = None
        self._path = path
        self._database = database
        self._loop = loop
        self._on_opened = on_opened
        self._is_write_due = False
        # Whether the file could not be opened yet, and is tried again (store thread).
        self._is_waiting = False
        # Whether the last attempt to write failed (store thread).
        self._is_failing = False
        self._again: asyncio.TimerHandle | None = None

    # -- the main thread's side ------------------------------------------------------------

    def put(self, write: Write) -> None:
        """Add a change, and start to write all pending changes."""
        self.pending.put(write)
        if not self._is_write_due:
            self.begin()

    def begin(self) -> Future[None]:
        """Write all pending changes; the future is done after the attempt."""
        self._is_write_due = True
        return self._database.submit(self._write)

    def write_what_was_put(self) -> None:
        """Have changes written before what is asked of the file next.

        One that is put while the main thread has not heard of the last attempt yet would
        otherwise be written only afterwards.
        """
        if len(self.pending) and not self.failing_because:
            self.begin()

    def open_later(self, cause: str) -> None:
        """Retry to open the file until it works; changes are pending meanwhile."""
        self._is_waiting = self._is_failing = True
        self.failing_because = cause
        self.waits_because = not_yet_usable(self._path, cause)
        self._try_again()

    async def close(self) -> None:
        """Stop trying, and close the file."""
        if self._again is not None:
            self._again.cancel()
        if count := len(self.pending):
            _log.error("%d changes could not be saved before the end", count)
        await asyncio.wrap_future(self._database.submit(self._close))

    def _try_again(self) -> None:
        self._again = self._loop.call_later(_TRIED_AGAIN_AFTER_S, self.begin)

    def _note_opened(self) -> None:
        self.failing_because = ""
        self.waits_because = None
        if self.tell is not None:
            self.tell(self._database.problem)
        self._on_opened()

    def _note_outcome(self, failure: sqlite3.Error | OSError | None, unusable: int) -> None:
        """Tell the window when saving begins to fail, fails differently, or works again."""
        self._is_write_due = False
        cause = "" if failure is None else store_cause(failure)
        before, self.failing_because = self.failing_because, cause
        if cause != before:
            # Once, and not every two seconds.
            _log.error("saving: %s", cause or "works again", exc_info=failure)
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if cause:
            self._try_again()
        elif len(self.pending):
            self.begin()  # added during the last attempt
        if self.tell is None:
            return
        if cause and cause != before:
            self.tell(not_written(self._path, cause))
        elif before and not cause:
            self.tell(None)
        if unusable:
            self.tell(refused(self._path))

    # -- the store's thread ----------------------------------------------------------------

    def _write(self) -> None:
        """Write pending changes, and report the result to the main thread."""
        # Decided now, not when this was queued: of several that wait for the same lock, only the
        # first waits long.
        patience_ms = _IMPATIENT_MS if self._is_failing else PATIENT_MS
        failure: sqlite3.Error | OSError | None = None
        unusable = 0
        try:
            if self._is_waiting:
                self._database.open(patience_ms)
                self._is_waiting = False
                self._loop.call_soon_threadsafe(self._note_opened)
            if not self._database.is_open:
                return  # closed
            unusable = self._database.write(self.pending, patience_ms)
        except (sqlite3.Error, OSError) as error:
            failure = error
        self._is_failing = failure is not None
        self._loop.call_soon_threadsafe(self._note_outcome, failure, unusable)

    def _close(self) -> None:
        self._is_waiting = False
        self._database.close()


_T = TypeVar("_T")
_Otherwise = TypeVar("_Otherwise")


class SqliteConversationStore:
    """Keeps conversations in a file. Made by ``open_store``.

    Fits ``ui.records.store.ConversationStore``. Its methods are called on the main thread; all work
    on the file runs, in order, on the database's own thread.
    """

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._database = Database(path)
        self._saving = Saving(path, self._database, loop, self._hand_over)
        self._loop = loop
        self._saved: dict[str, tuple[Any, ...]] = {}
        # What waits to be sent, as it is in the file or soon will be.
        self._unsent: dict[str, rows.Unsent] = {}
        self._found: Callable[[list[Conversation], list[Preset]], None] | None = None

    # -- life ------------------------------------------------------------------------------

    async def open(self, *, may_wait: bool = False) -> None:
        """Open the file and read the list of conversations and the newest one."""
        try:
            await asyncio.wrap_future(self._database.submit(self._database.open, PATIENT_MS))
        except (sqlite3.Error, OSError) as error:
            _log.error("%s cannot be opened", self._path, exc_info=error)
            cause = store_cause(error)
            if not may_wait or isinstance(error, sqlite3.NotSupportedError):
                self._database.end_thread(waits=False)
                raise StoreUnavailable(unusable(self._path, cause)) from error
            self._saving.open_later(cause)
        else:
            # Not for a file that opens late: what was imported before that is not in it yet.
            self._database.submit(
                self._database.delete_unused_pictures, self.pictures_folder, time.time()
            )

    async def close(self) -> None:
        """Write pending changes and close the file."""
        self._saving.tell = None
        await self.settled()
        await self._saving.close()
        await asyncio.to_thread(self._database.end_thread, waits=True)

    # -- the window's side -----------------------------------------------------------------

    @property
    def pictures_folder(self) -> Path:
        """The folder of the pictures of imported messages, beside the file."""
        return self._path.with_name("pictures")

    @property
    def problem(self) -> StoreProblem | None:
        """What went wrong when the file was opened."""
        return self._saving.waits_because or self._database.problem

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that cannot be written to the file."""
        return bool(self.failing_because) and self._saving.pending.has_words

    @property
    def is_writing(self) -> bool:
        """Whether text that a person wrote is still being written to the file."""
        return not self.failing_because and self._saving.pending.has_words

    @property
    def failing_because(self) -> str:
        """Why changes cannot be written; empty while they can."""
        return self._saving.failing_because

    def on_problem(self, tell: Callable[[StoreProblem | None], None]) -> None:
        """Call ``tell`` on the main thread with problems of saving; with None once all is saved."""
        self._saving.tell = tell

    def on_found(self, tell: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``tell`` on the main thread with the content of a file that was opened late."""
        self._found = tell

    def is_kept(self, conversation: Conversation) -> bool:
        """Return whether all changes of a conversation are in the file."""
        return not self._saving.pending.concern(conversation.id)

    def load_all(self) -> list[Conversation]:
        """Return all conversations as they were when the file was opened."""
        for conversation in self._database.conversations:
            if conversation.attachments or conversation.queue:
                unsent = conversation.attachments, conversation.queue
                self._unsent.setdefault(conversation.id, unsent)
        return self._database.conversations

    def load_presets(self) -> list[Preset]:
        """Return all presets as they were when the file was opened."""
        return self._database.presets

    def load_folders(self) -> list[ConversationFolder]:
        """Return all folders as they were when the file was opened."""
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
                has_words=not conversation.is_unused,
            )
        self._save_unsent(conversation)

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Save messages as they are now."""
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
        """Bring back a deleted conversation."""
        self._mark_deleted(conversation.id, False)

    async def search(
        self, query: str, wanted: SearchFilter = EVERYWHERE, limit: int = MOST_HITS
    ) -> list[Hit]:
        """Return the places with the words of a query, best first."""
        return await self._read(lambda database: search(database, query, wanted, limit), [])

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers that were generated here, the newest first."""
        return await self._read(lambda database: statements.recent_runs(database, limit), [])

    def save_preset(self, preset: Preset) -> None:
        """Save a preset; one of the same name is replaced."""
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

    async def settled(self) -> None:
        """Wait until all earlier changes are in the file, or their failure has been reported."""
        # A cancelled wait must not cancel the writing.
        await asyncio.shield(asyncio.wrap_future(self._saving.begin()))

    async def recover(
        self, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> Recovered:
        """Recover what can be read of the damaged file that was set aside at the start."""
        problem = self.problem
        if problem is None or problem.path is None or not problem.can_be_recovered:
            return Recovered()
        recovered = await recover(problem.path, self._database, advance, is_cancelled)
        self._hand_over()
        if not recovered.cause and not is_cancelled():
            self.decline_recovery()
        return recovered

    def decline_recovery(self) -> None:
        """Stop offering the damaged file; it stays where it is."""
        problem = self.problem
        if problem is not None and problem.path is not None:
            offer_no_more(problem.path)

    # -- inside ----------------------------------------------------------------------------

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
        work: Callable[[sqlite3.Connection], None],
        *,
        has_words: bool = True,
    ) -> None:
        self._saving.put(Write(key, identity, work, has_words))

    def _hand_over(self) -> None:
        """Pass on the content of a file that was opened late, or recovered."""
        if self._found is not None:
            self._found(self.load_all(), self.load_presets())

    async def _read(
        self, work: Callable[[sqlite3.Connection], _T], otherwise: _Otherwise
    ) -> _T | _Otherwise:
        """Return the result of reading the file, or ``otherwise`` if it cannot be read."""
        try:
            return await asyncio.wrap_future(self._begin_reading(work))
        except sqlite3.Error:
            return otherwise  # has been reported

    def _begin_reading(self, work: Callable[[sqlite3.Connection], _T]) -> Future[_T]:
        """Read on the database's thread; report and log a failure."""

        def run() -> _T:
            try:
                return self._database.read(work)
            except sqlite3.ProgrammingError:
                raise  # closed meanwhile
            except sqlite3.Error as error:
                _log.error("conversations could not be read", exc_info=error)
                self._loop.call_soon_threadsafe(self._tell_unreadable, store_cause(error))
                raise

        self._saving.write_what_was_put()
        return self._database.submit(run)

    def _tell_unreadable(self, cause: str) -> None:
        if self._saving.tell is not None:
            self._saving.tell(unreadable(self._path, cause))


async def open_store(path: Path, *, may_wait: bool = False) -> SqliteConversationStore:
    """Open the store of a file, created if needed; close it with ``close``.

    Args:
        path: The file.
        may_wait: Whether to retry a file that cannot be used now.

    Raises:
        StoreUnavailable: The file can be neither read nor created.
    """
    store = SqliteConversationStore(path, asyncio.get_running_loop())
    await store.open(may_wait=may_wait)
    return store

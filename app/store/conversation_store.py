"""The store of the window: an SQLite file behind one thread, which the main thread never waits for.

Fits ``ui.records.storing.ConversationStore``. Its methods are called on the main thread; all
that touches the file runs, in order, on the store's own thread. A change that cannot be written
stays pending and is tried again, with those after it, until the file takes it.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, TypeVar

from app.store import bringing_over, opening, rows, searching, store_problems, writing
from app.store.database import Database
from app.store.database_causes import store_cause
from app.store.pending import PendingWrites, Write
from app.store.store_problems import StoreUnavailable
from ui.records.conversations import Conversation
from ui.records.finding import MOST_HITS, Hit
from ui.records.messages import ConversationMessage
from ui.records.presets import Preset
from ui.records.storing import Recovered, StoreProblem

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
# How long to wait for another program's lock: patiently at first, and not again and again.
_PATIENT_MS, _IMPATIENT_MS = 5_000, 250
_TRIED_AGAIN_AFTER_S = 2.0


class SqliteConversationStore:
    """Keeps conversations in a file. Made by ``open_store``."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._database = Database(path)
        # Why the file cannot be used yet, while it is tried again.
        self._waits_because: StoreProblem | None = None
        self._tell: Callable[[StoreProblem | None], None] | None = None
        self._saved: dict[str, tuple[Any, ...]] = {}
        self._pending = PendingWrites()
        self._is_write_due = False
        # Whether the file could not be opened yet, and is tried again (store thread).
        self._is_waiting = False
        # Whether the last attempt to write failed (store thread).
        self._is_failing = False
        self._found: Callable[[list[Conversation], list[Preset]], None] | None = None
        # Why writing fails; empty while it works. Changed on the main thread alone.
        self._failing_because = ""
        self._again: asyncio.TimerHandle | None = None

    # -- life ------------------------------------------------------------------------------

    async def open(self, *, may_wait: bool = False) -> None:
        """Open the file and read the list of conversations and the newest one.

        Args:
            may_wait: Whether a file that cannot be used now is tried again until it can; what
                is written meanwhile is pending.

        Raises:
            StoreUnavailable: It can be neither read nor made.
        """
        try:
            await asyncio.wrap_future(self._database.submit(self._database.open, _PATIENT_MS))
        except (sqlite3.Error, OSError) as error:
            _log.error("%s cannot be opened", self._path, exc_info=error)
            cause = store_cause(error)
            if not may_wait or isinstance(error, sqlite3.NotSupportedError):
                self._database.end_thread(waits=False)
                raise StoreUnavailable(store_problems.unusable(self._path, cause)) from error
            self._is_waiting = self._is_failing = True
            self._failing_because = cause
            self._waits_because = store_problems.not_yet_usable(self._path, cause)
            self._try_again()

    async def close(self) -> None:
        """Write what is still to be written and close the file."""
        self._tell = None
        await self.settled()
        if self._again is not None:
            self._again.cancel()
        if count := len(self._pending):
            _log.error("%d changes could not be saved before the end", count)
        await asyncio.wrap_future(self._database.submit(self._close))
        await asyncio.to_thread(self._database.end_thread, waits=True)

    # -- the window's side -----------------------------------------------------------------

    @property
    def problem(self) -> StoreProblem | None:
        """What went wrong when the file was opened."""
        return self._waits_because or self._database.problem

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that the file does not take."""
        return bool(self._failing_because) and self._pending.has_words

    @property
    def is_writing(self) -> bool:
        """Whether something that a person wrote is not in the file yet, and may be soon."""
        return not self._failing_because and self._pending.has_words

    @property
    def failing_because(self) -> str:
        """Why the file takes no changes; empty while it takes them."""
        return self._failing_because

    def on_problem(self, tell: Callable[[StoreProblem | None], None]) -> None:
        """Call ``tell`` on the main thread when something cannot be kept, and with None when all
        of it is kept after all.
        """
        self._tell = tell

    def on_found(self, tell: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``tell`` on the main thread with what a file held that could only be opened late."""
        self._found = tell

    def is_kept(self, conversation: Conversation) -> bool:
        """Return whether all that was saved of a conversation is in the file."""
        return not self._pending.concern(conversation.id)

    def load_all(self) -> list[Conversation]:
        """Return all conversations as they were when the file was opened."""
        return self._database.conversations

    def load_presets(self) -> list[Preset]:
        """Return all presets as they were when the file was opened."""
        return self._database.presets

    async def fill(self, conversation: Conversation) -> None:
        """Load the messages of a conversation; it stays unloaded if they can not be read."""
        if conversation.is_loaded:
            return
        messages = await self.read(conversation)
        if messages is not None:
            conversation.fill(messages)

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        """Return the messages as they are in the file; None if they cannot be read."""
        identity = conversation.id
        found = self._read(lambda database: writing.messages(database, identity))
        try:
            return await asyncio.wrap_future(found)
        except sqlite3.Error:
            return None  # has been told

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation's own row, if it is another than before."""
        row = rows.conversation_row(conversation)
        if self._saved.get(conversation.id) != row:
            self._saved[conversation.id] = row
            self._put(
                ("conversation", conversation.id),
                conversation.id,
                lambda database: writing.save_conversation(database, row),
                has_words=not conversation.is_unused,
            )

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Keep messages as they are now."""
        for message in messages:
            self._save_message(conversation, rows.message_snapshot(conversation, message))

    def delete(self, conversation: Conversation) -> None:
        """Hide a conversation; it is gone from the file at the next start."""
        self._mark_deleted(conversation.id, True)

    def restore(self, conversation: Conversation) -> None:
        """Bring back what was deleted."""
        self._mark_deleted(conversation.id, False)

    async def search(self, query: str, limit: int = MOST_HITS) -> list[Hit]:
        """Return where the words of a query were said, best first."""
        found = self._read(lambda database: searching.search(database, query, limit))
        try:
            return await asyncio.wrap_future(found)
        except sqlite3.Error:
            return []  # has been told

    def save_preset(self, preset: Preset) -> None:
        """Keep a preset; one of the same name is replaced."""
        row = rows.preset_row(preset)
        self._put(("preset", preset.name), "", lambda db: writing.save_preset(db, row))

    def delete_preset(self, name: str) -> None:
        """Forget a preset."""
        self._put(("preset", name), "", lambda db: writing.delete_preset(db, name))

    async def settled(self) -> None:
        """Wait until all that was saved before is in the file, or its failure has been told."""
        # Whoever gives up waiting is not to keep the rest from being written.
        await asyncio.shield(asyncio.wrap_future(self._begin_writing()))

    async def recover(
        self, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> Recovered:
        """Bring over what can be read of the damaged file that was set aside at the start."""
        problem = self.problem
        if problem is None or problem.path is None or not problem.can_be_recovered:
            return Recovered()
        path = problem.path

        def take(*found: Any) -> tuple[int, int]:
            # Read on a thread of its own, written where all else is written, in small steps.
            return self._database.submit(self._database.take_over, *found).result()

        def tell(done: int, total: int) -> None:
            self._loop.call_soon_threadsafe(advance, done, total)

        recovered, cause = (0, 0, 0), ""
        try:
            recovered = await asyncio.to_thread(
                bringing_over.bring_over, path, take, tell, is_cancelled
            )
        except (sqlite3.Error, OSError, ValueError) as error:
            _log.error("%s: not all could be recovered", path, exc_info=error)
            cause = "nothing in the file can be read"
            if isinstance(error, sqlite3.Error | OSError):
                cause = store_cause(error)
        await asyncio.wrap_future(self._database.submit(self._database.read_all))
        if self._found is not None:
            self._found(self.load_all(), self.load_presets())
        if not cause and not is_cancelled():
            self.decline_recovery()
        return Recovered(*recovered, cause)

    def decline_recovery(self) -> None:
        """Offer the damaged file no more; it stays where it is."""
        problem = self.problem
        if problem is not None and problem.path is not None:
            opening.offer_no_more(problem.path)

    # -- writing, the main thread's side ---------------------------------------------------

    def _save_message(self, conversation: Conversation, message: rows.MessageSnapshot) -> None:
        key = ("message", message.row.id)
        self._put(key, conversation.id, lambda database: writing.save_message(database, message))

    def _mark_deleted(self, identity: str, is_deleted: bool) -> None:
        self._put(
            ("deletion", identity),
            identity,
            lambda database: writing.mark_deleted(database, identity, is_deleted),
        )

    def _put(
        self,
        key: tuple[str, str],
        identity: str,
        work: Callable[[sqlite3.Connection], None],
        *,
        has_words: bool = True,
    ) -> None:
        """Note a change, and have it written with all that is still pending."""
        self._pending.put(Write(key, identity, work, has_words))
        if not self._is_write_due:
            self._begin_writing()

    def _begin_writing(self) -> Future[None]:
        self._is_write_due = True
        return self._database.submit(self._write)

    def _try_again(self) -> None:
        self._again = self._loop.call_later(_TRIED_AGAIN_AFTER_S, self._begin_writing)

    def _note_found(self) -> None:
        self._failing_because = ""
        self._waits_because = None
        if self._tell is not None:
            self._tell(self.problem)
        if self._found is not None:
            self._found(self.load_all(), self.load_presets())

    def _note_outcome(self, failure: sqlite3.Error | OSError | None, unusable: int) -> None:
        """Tell the window when saving begins to fail, fails otherwise, or works again."""
        self._is_write_due = False
        cause = "" if failure is None else store_cause(failure)
        before, self._failing_because = self._failing_because, cause
        if cause != before:
            # Once, and not every two seconds.
            _log.error("saving: %s", cause or "works again", exc_info=failure)
        if self._again is not None:
            self._again.cancel()
            self._again = None
        if cause:
            self._try_again()
        elif len(self._pending):
            self._begin_writing()  # put while the last look was under way
        if self._tell is None:
            return
        if cause and cause != before:
            self._tell(store_problems.not_written(self._path, cause))
        elif before and not cause:
            self._tell(None)
        if unusable:
            self._tell(store_problems.refused(self._path))

    def _tell_unreadable(self, cause: str) -> None:
        if self._tell is not None:
            self._tell(store_problems.unreadable(self._path, cause))

    # -- the store's thread ----------------------------------------------------------------

    def _write(self) -> None:
        """Write what is pending, and tell the main thread how that went."""
        # Decided now, and not when this was asked for: of several that wait for the same lock, only
        # the first is to be patient.
        patience_ms = _IMPATIENT_MS if self._is_failing else _PATIENT_MS
        failure: sqlite3.Error | OSError | None = None
        unusable = 0
        try:
            if self._is_waiting:
                self._database.open(patience_ms)
                self._is_waiting = False
                self._loop.call_soon_threadsafe(self._note_found)
            if not self._database.is_open:
                return  # closed
            unusable = self._database.write(self._pending, patience_ms)
        except (sqlite3.Error, OSError) as error:
            failure = error
        self._is_failing = failure is not None
        self._loop.call_soon_threadsafe(self._note_outcome, failure, unusable)

    def _close(self) -> None:
        self._is_waiting = False
        self._database.close()

    def _read(self, work: Callable[[sqlite3.Connection], _T]) -> Future[_T]:
        """Let the store's thread read; a failure is told to the window and logged."""

        def run() -> _T:
            try:
                return self._database.read(work)
            except sqlite3.ProgrammingError:
                raise  # closed meanwhile
            except sqlite3.Error as error:
                _log.error("conversations could not be read", exc_info=error)
                self._loop.call_soon_threadsafe(self._tell_unreadable, store_cause(error))
                raise

        return self._database.submit(run)


async def open_store(path: Path, *, may_wait: bool = False) -> SqliteConversationStore:
    """Open the store of a file, made if there is none; to be closed with ``close``.

    Args:
        path: The file.
        may_wait: Whether a file that cannot be used now is tried again until it can.

    Raises:
        StoreUnavailable: The file can be neither read nor made.
    """
    store = SqliteConversationStore(path, asyncio.get_running_loop())
    await store.open(may_wait=may_wait)
    return store

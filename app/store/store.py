"""The store of the window: an SQLite file behind one thread, which the main thread never waits for.

Fits ``ui.viewmodels.storing.ConversationStore``. Its methods are called on the main thread; all
that touches the file runs, in order, on the store's own thread.
"""

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from app.store import opening, rows, searching, writing
from ui.viewmodels.conversations import Conversation
from ui.viewmodels.finding import MOST_HITS, Hit
from ui.viewmodels.messages import ChatMessage
from ui.viewmodels.presets import Preset
from ui.viewmodels.storing import StoreProblem

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class StoreUnavailable(Exception):
    """The file can be neither read nor made; ``problem`` says why, for a person."""

    def __init__(self, problem: StoreProblem) -> None:
        super().__init__(problem.detail)
        self.problem = problem


class SqliteConversationStore:
    """Keeps conversations in a file. Made by ``open_store``."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self._path = path
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "fullstop-store")
        self._connection: sqlite3.Connection | None = None
        self._problem: StoreProblem | None = None
        self._tell: Callable[[StoreProblem], None] | None = None
        self._conversations: list[Conversation] = []
        self._presets: list[Preset] = []
        self._saved: dict[str, tuple[Any, ...]] = {}
        self._is_failing = False

    # -- life ------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the file and read the list of conversations and the newest one.

        Raises:
            StoreUnavailable: It can be neither read nor made.
        """
        try:
            await asyncio.wrap_future(self._thread.submit(self._open))
        except (sqlite3.Error, OSError) as error:
            self._thread.shutdown(wait=False)
            raise StoreUnavailable(
                StoreProblem(
                    "Conversations are not being saved.",
                    f"{self._path} can not be used: {error}. What you write now is kept until "
                    "you close the window.",
                    self._path.parent,
                )
            ) from error

    async def close(self) -> None:
        """Write what is still to be written and close the file."""
        await asyncio.wrap_future(self._thread.submit(self._close))
        await asyncio.to_thread(self._thread.shutdown)

    # -- the window's side -----------------------------------------------------------------

    @property
    def problem(self) -> StoreProblem | None:
        """What went wrong when the file was opened."""
        return self._problem

    def on_problem(self, tell: Callable[[StoreProblem], None]) -> None:
        """Call ``tell`` on the main thread when something can not be kept."""
        self._tell = tell

    def load_all(self) -> list[Conversation]:
        """Return all conversations as they were when the file was opened."""
        return self._conversations

    def load_presets(self) -> list[Preset]:
        """Return all presets as they were when the file was opened."""
        return self._presets

    async def fill(self, conversation: Conversation) -> None:
        """Load the messages of a conversation; it stays unloaded if they can not be read."""
        if conversation.is_loaded:
            return
        identity = conversation.id
        found = self._do(lambda database: writing.messages(database, identity), "read")
        try:
            messages = await asyncio.wrap_future(found)
        except sqlite3.Error:
            return  # has been told
        conversation.fill(messages)

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation's own row, if it is another than before."""
        row = rows.conversation_row(conversation)
        if self._saved.get(conversation.id) != row:
            self._saved[conversation.id] = row
            self._do(lambda database: writing.save_conversation(database, row), "saved")

    def save_messages(self, conversation: Conversation, messages: Sequence[ChatMessage]) -> None:
        """Keep messages as they are now."""
        if messages:
            written = [rows.message_row(conversation, message) for message in messages]
            self._do(lambda database: writing.save_messages(database, written), "saved")

    def delete(self, conversation: Conversation) -> None:
        """Hide a conversation; it is gone from the file at the next start."""
        identity = conversation.id
        self._do(lambda database: writing.mark_deleted(database, identity, True), "deleted")

    def restore(self, conversation: Conversation) -> None:
        """Bring back what was deleted."""
        identity = conversation.id
        self._do(lambda database: writing.mark_deleted(database, identity, False), "restored")

    async def search(self, query: str, limit: int = MOST_HITS) -> list[Hit]:
        """Return where the words of a query were said, best first."""
        found = self._do(lambda database: searching.search(database, query, limit), "searched")
        try:
            return await asyncio.wrap_future(found)
        except sqlite3.Error:
            return []  # has been told

    def save_preset(self, preset: Preset) -> None:
        """Keep a preset; one of the same name is replaced."""
        row = rows.preset_row(preset)
        self._do(lambda database: writing.save_preset(database, row), "saved")

    def delete_preset(self, name: str) -> None:
        """Forget a preset."""
        self._do(lambda database: writing.delete_preset(database, name), "deleted")

    async def settled(self) -> None:
        """Wait until all that was saved before is in the file, or its failure has been told."""
        await asyncio.wrap_future(self._thread.submit(lambda: None))

    # -- the store's thread ----------------------------------------------------------------

    def _open(self) -> None:
        connection, self._problem = opening.opened(self._path)
        self._connection = connection
        writing.recover(connection)
        self._conversations = writing.summaries(connection)
        self._presets = writing.presets(connection)
        # What was last worked on is what the window shows first.
        last = max(self._conversations, key=lambda c: c.updated_at, default=None)
        if last is not None and not last.is_loaded:
            last.fill(writing.messages(connection, last.id))

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _do(self, work: Callable[[sqlite3.Connection], _T], verb: str) -> Future[_T]:
        """Let the store's thread work; a failure is told to the window and logged."""

        def run() -> _T:
            if self._connection is None:
                raise sqlite3.ProgrammingError("the store is closed")
            try:
                result = work(self._connection)
            except sqlite3.Error as error:
                _log.error("conversations could not be %s", verb, exc_info=error)
                self._loop.call_soon_threadsafe(self._fail, str(error), verb)
                raise
            self._is_failing = False
            return result

        return self._thread.submit(run)

    def _fail(self, cause: str, verb: str) -> None:
        """Tell the window, once until it works again (main thread)."""
        if self._tell is None or self._is_failing:
            return
        self._is_failing = True
        self._saved.clear()
        done = "A conversation" if verb != "searched" else "The conversations"
        self._tell(
            StoreProblem(
                f"{done} could not be {verb}.",
                f"{self._path.name}: {cause}. Make room on the disk or export what matters; "
                "saving is tried again with the next change.",
                self._path.parent,
            )
        )


async def open_store(path: Path) -> SqliteConversationStore:
    """Open the store of a file, made if there is none; to be closed with ``close``.

    Raises:
        StoreUnavailable: The file can be neither read nor made.
    """
    store = SqliteConversationStore(path, asyncio.get_running_loop())
    await store.open()
    return store

"""Imports of conversations and of recorded tokens. Main thread."""

import asyncio
import contextlib
import errno
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from PySide6.QtCore import QObject, Signal

from engine import counted
from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.library.memory import memory
from engine.recording.run_trace import KeptTrace
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.presets import PresetList
from ui.kit.tasks import finish_tasks, start_task
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.exchange.archive import OURS
from ui.records.exchange.contents import (
    ArchivedTrace,
    ArchivedTraces,
    FileContents,
    ListedConversation,
    origin_of,
)
from ui.records.exchange.export_reader import ExportReader
from ui.records.messages import ConversationMessage, runs_of
from ui.records.runs import Run
from ui.records.store import ConversationStore

_T = TypeVar("_T")


class Transfer:
    """A running export or import."""

    def __init__(self, words: str, tell: Callable[[], None], *, is_import: bool = False) -> None:
        self.words = words
        self.is_import = is_import
        self.done = 0
        self.total = 0
        self.is_cancelled = False
        self.outcome = ""
        self._tell = tell
        self._waiters: list[asyncio.Event] = []

    def cancel(self) -> None:
        """Note that a person cancelled it; ``result_of`` then no longer waits for its work."""
        self.is_cancelled = True
        for waiter in self._waiters:
            waiter.set()

    async def result_of(self, work: asyncio.Future[_T]) -> _T | None:
        """Wait for work that cannot be interrupted, on another thread; None once cancelled.

        After a cancel, the thread continues to its end, but its result or failure is ignored.
        """
        waiter = asyncio.Event()
        self._waiters.append(waiter)
        if self.is_cancelled:
            waiter.set()
        given_up = asyncio.ensure_future(waiter.wait())
        try:
            await asyncio.wait((work, given_up), return_when=asyncio.FIRST_COMPLETED)
        finally:
            given_up.cancel()
            self._waiters.remove(waiter)
        if self.is_cancelled:
            work.add_done_callback(_forget)
            return None
        return work.result()

    def advance(self, done: int, total: int = 0) -> None:
        """Set the progress; without a total, of work whose extent is not known."""
        self.done, self.total = done, total
        self._tell()


class Transfers(QObject):
    """The exports and imports of a window.

    Attributes:
        now: The one that is running; None for none.

    Signals:
        changed: One began, made progress or ended; see ``now``.
        ended: One ended; carries its result, as a sentence.
    """

    changed = Signal()
    ended = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.now: Transfer | None = None
        self._turn = asyncio.Lock()
        self._waiting: list[Transfer] = []

    def start(
        self,
        words: str,
        work: Callable[[Transfer], Coroutine[Any, Any, None]],
        *,
        is_import: bool = False,
    ) -> None:
        """Do work once earlier transfers have ended."""
        transfer = Transfer(words, self.changed.emit, is_import=is_import)
        self._waiting.append(transfer)
        start_task(self, self._do(transfer, work), words)

    def cancel(self) -> None:
        """Cancel the running transfer and those that wait; unfinished files are discarded."""
        for transfer in self._waiting:
            transfer.cancel()

    def cancel_imports(self) -> None:
        """Cancel the imports when the window ends; the conversations that have come in stay."""
        for transfer in self._waiting:
            if transfer.is_import:
                transfer.cancel()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await finish_tasks(self)

    async def _do(
        self, transfer: Transfer, work: Callable[[Transfer], Coroutine[Any, Any, None]]
    ) -> None:
        async with self._turn:
            try:
                if not transfer.is_cancelled:
                    self.now = transfer
                    self.changed.emit()
                    await work(transfer)
            finally:
                self._waiting.remove(transfer)
                self.now = None
                self.changed.emit()
                if transfer.outcome:
                    self.ended.emit(transfer.outcome)


def _forget(work: asyncio.Future[Any]) -> None:
    """Read the outcome of abandoned work, because asyncio would log an unread exception."""
    if not work.cancelled():
        work.exception()


class TraceArchive(Protocol):
    """The traces that are kept on disk."""

    def measured(self) -> "Future[int]":
        """Return how many bytes are kept."""

    async def kept(self) -> list[KeptTrace]:
        """Return the kept traces, oldest first."""

    async def content(self, run_id: str) -> bytes | None:
        """Return the stored form of a trace; None if it is gone or cannot be read."""

    async def take_in(self, kept: KeptTrace, content: bytes) -> bool:
        """Keep a trace from an archive, if there is room for a trace of its age."""

    def copy(self, copies: Iterable[Run], conversation_id: str) -> None:
        """Give copied runs a trace of their own, if the original has one."""


class Owner(NamedTuple):
    """A run that was imported: its id here, and that of its conversation."""

    run_id: str
    conversation_id: str


@dataclass(slots=True)
class TakenTraces:
    """The result of importing the traces of an archive."""

    came: int = 0
    damaged: int = 0
    left_out: int = 0
    cause: str = ""

    @property
    def words(self) -> str:
        """The result for the person, as sentences; empty if there were no traces."""
        said = []
        if self.came:
            said.append(f"The recorded tokens of {counted(self.came, 'answer')} were imported too.")
        if self.damaged:
            what = "Those" if self.came else "The recorded tokens"
            of = counted(self.damaged, "answer")
            said.append(f"{what} of {of} are damaged and left out.")
        if self.left_out:
            said.append(
                f"Settings \u25b8 Storage leaves no room for the recorded tokens of "
                f"{counted(self.left_out, 'answer')}."
            )
        if self.cause:
            said.append(f"The other recorded tokens could not be imported: {self.cause}.")
        return " ".join(said)


async def take_traces(
    archive: ArchivedTraces,
    wanted: Mapping[str, Sequence[Owner]],
    traces: TraceArchive,
    transfer: Transfer,
) -> TakenTraces:
    """Import the traces of the imported answers, one after the other."""
    taken = TakenTraces()
    total = sum(run_id in wanted for run_id in archive.members)
    reading = archive.read(wanted)
    try:
        while not transfer.is_cancelled:
            transfer.advance(taken.came + taken.damaged + taken.left_out, total)
            trace: ArchivedTrace | None = await asyncio.to_thread(next, reading, None)
            if trace is None:
                break
            if trace.content is None:
                taken.damaged += 1
                continue
            for run_id, conversation_id in wanted[trace.run_id]:
                kept = KeptTrace(run_id, conversation_id, trace.written_at)
                try:
                    is_kept = await traces.take_in(kept, trace.content)
                except DamagedFile:
                    taken.damaged += 1
                    break
                taken.came += is_kept
                taken.left_out += not is_kept
    except OSError as error:
        taken.cause = os_cause(error)
    except DamagedFile as error:
        taken.cause = str(error)
    finally:
        await asyncio.to_thread(reading.close)
    return taken


# Files are read and converted in another process, one conversation at a time. A person sees the
# contents before the import; conversations that are here already are imported only if the person
# wants that.

# How many messages the store gets at a time; the window is responsive in between.
_STEP_MESSAGES = 50
# So many imported conversations are listed at once, of many more of them: one by one, each would
# lay out the whole list again. Until then they are in memory.
_LEAST_LISTED, _MOST_LISTED, _LISTED_SHARE = 32, 256, 8
# A file may always have this many bytes, and more if there is enough memory.
_LEAST_LIMIT_BYTES = 128 << 20
_MEMORY_SHARE = 32


@dataclass(frozen=True, slots=True)
class ImportPreview:
    """The contents of a file, before any of it is imported."""

    name: str
    contents: FileContents
    new: list[ListedConversation] = field(default_factory=list)
    here: list[ListedConversation] = field(default_factory=list)
    path: Path = Path()


class ConversationImports(QObject):
    """Reads files of conversations, and imports the conversations that a person chooses.

    Signals:
        looked: A file was read; carries an ``ImportPreview``.
        added: A conversation was imported; carries the ``Conversation``. Of many, the first.
        grown: Conversations were imported and are still in memory.
        refused: A file could not be read; carries the reason in words.
    """

    looked = Signal(object)
    added = Signal(object)
    grown = Signal()
    refused = Signal(str)

    def __init__(
        self,
        store: ConversationStore,
        conversations: ConversationList,
        presets: PresetList,
        traces: TraceArchive,
        transfers: Transfers,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._conversations = conversations
        self._presets = presets
        self._traces = traces
        self._start = partial(transfers.start, is_import=True)

    def look_into(self, path: Path) -> None:
        """Read a file, an archive or a folder, and emit ``looked`` with its contents."""
        self._start(f"Reading {path.name}", lambda transfer: self._look(path, transfer))

    def take(
        self, preview: ImportPreview, conversations: Sequence[ListedConversation], folder: str = ""
    ) -> None:
        """Import conversations of a file that was read."""
        self._start(
            f"Importing {preview.name}",
            lambda transfer: self._take(preview, conversations, folder, transfer),
        )

    def take_all_of(self, path: Path) -> None:
        """Import all conversations of a file without asking, even those that are here already."""
        self._start(f"Importing {path.name}", lambda transfer: self._take_all_of(path, transfer))

    async def take_in(self, conversation: Conversation) -> None:
        """Add a conversation to the list and save its messages in steps."""
        self._conversations.add(conversation)
        await self._save(conversation)

    # -- inside ----------------------------------------------------------------------------

    def _list(self, arrived: list[Conversation]) -> None:
        """Add saved conversations to the list."""
        self._conversations.add(*arrived)
        arrived.clear()
        self.grown.emit()

    async def _save(self, conversation: Conversation) -> None:
        self._store.save(conversation)
        messages = iter(list(conversation.tree))
        while step := _next(messages):
            self._store.save_messages(conversation, step)
            await asyncio.sleep(0)

    async def _look(self, path: Path, transfer: Transfer) -> None:
        contents = await self._read(path, transfer)
        if contents is None:
            return
        known = {
            conversation.origin
            for conversation in self._conversations.every()
            if conversation.origin
        }
        known |= {origin_of(OURS, conversation.id) for conversation in self._conversations.every()}
        preview = ImportPreview(path.name, contents, path=path)
        for listed in contents.listed:
            (preview.here if listed.origin in known else preview.new).append(listed)
            known.add(listed.origin)
        self.looked.emit(preview)

    async def _take_all_of(self, path: Path, transfer: Transfer) -> None:
        contents = await self._read(path, transfer)
        if contents is not None:
            preview = ImportPreview(path.name, contents, path=path)
            await self._take(preview, contents.listed, "", transfer)
            if contents.damaged:
                self.refused.emit(f"Not all of {path.name} could be read: {contents.damaged[0]}.")

    async def _read(self, path: Path, transfer: Transfer) -> FileContents | None:
        """Return the contents of a file; None if it was cancelled or refused."""
        reader = ExportReader(path, _most_bytes(), self._store.pictures_folder)
        loop = asyncio.get_running_loop()

        def tell(count: int) -> None:
            loop.call_soon_threadsafe(partial(transfer.advance, count))

        try:
            with self._told(path):
                reading = asyncio.ensure_future(asyncio.to_thread(reader.contents, tell))
                contents = await transfer.result_of(reading)
                if contents is None or contents.listed or contents.presets or contents.folders:
                    return contents
                if contents.damaged:
                    self.refused.emit(f"Nothing in {path.name} can be read: {contents.damaged[0]}.")
                else:
                    words = f"{path.name} contains no conversations. {contents.left_out_words}"
                    self.refused.emit(words.rstrip())
        finally:
            reader.close()
        return None

    @contextlib.contextmanager
    def _told(self, path: Path) -> Iterator[None]:
        """Tell why a file cannot be read."""
        try:
            yield
        except OSError as error:
            if error.errno == errno.EFBIG:
                self.refused.emit(
                    f"{path.name} is too large: this computer can import files of up to "
                    f"{_most_bytes() / 1e6:.0f} MB. Export fewer conversations to one file."
                )
            else:
                self.refused.emit(f"{path.name} could not be read: {os_cause(error)}.")
        except DamagedFile as error:
            self.refused.emit(f"{path.name} could not be imported: {error}.")

    async def _take(
        self,
        preview: ImportPreview,
        listed: Sequence[ListedConversation],
        folder: str,
        transfer: Transfer,
    ) -> None:
        contents = preview.contents
        target = self._take_folders(contents, listed, folder)
        count = 0
        arrived: list[Conversation] = []
        wanted: defaultdict[str, list[Owner]] = defaultdict(list)
        left_out = Counter[str]()
        reader = ExportReader(preview.path, _most_bytes(), self._store.pictures_folder)
        reader.is_ours = contents.program == OURS
        reading = reader.conversations([conversation.number for conversation in listed], left_out)
        try:
            with self._told(preview.path):
                while not transfer.is_cancelled:  # conversations imported so far stay
                    transfer.advance(count, len(listed))
                    step = asyncio.ensure_future(asyncio.to_thread(next, reading, None))
                    read = await transfer.result_of(step)
                    if read is None:
                        break
                    conversation = read
                    count += 1
                    if target and self._conversations.folders.of(conversation) is None:
                        place = conversation.placement
                        conversation.placement = replace(place, folder_id=target)
                    await self._take_one(conversation, contents, wanted)
                    arrived.append(conversation)
                    if count == 1:
                        self._list(arrived)
                        self.added.emit(conversation)
                    elif len(arrived) >= _listed_at_once(count):
                        self._list(arrived)
        finally:
            self._list(arrived)
            reader.close()
        self._presets.take_new(contents.presets)
        traces = await take_traces(contents.traces, wanted, self._traces, transfer)
        chosen = FileContents(contents.program, left_out=left_out, unread=contents.unread)
        chosen.damaged = contents.damaged
        transfer.outcome = _outcome(chosen, count, len(listed), traces, transfer.is_cancelled)

    async def _take_one(
        self,
        conversation: Conversation,
        contents: FileContents,
        wanted: defaultdict[str, list[Owner]],
    ) -> None:
        """Save one conversation, and note which traces belong to it."""
        await self._save(conversation)
        answers = runs_of(conversation.tree)
        for run in answers:
            if run.copied_from:
                wanted[run.copied_from].append(Owner(run.id, conversation.id))
        # For a copy of a conversation of this computer, the traces may exist only here.
        here = (run for run in answers if run.copied_from not in contents.traces.members)
        self._traces.copy(here, conversation.id)

    def _take_folders(
        self, contents: FileContents, listed: Sequence[ListedConversation], name: str
    ) -> str:
        """Create the folders of the conversations to import, and the empty folders."""
        folders = self._conversations.folders
        inside = {conversation.folder_id for conversation in listed}
        not_wanted = {conversation.folder_id for conversation in contents.listed} - inside
        for folder in contents.folders:
            if folder.id not in not_wanted and folders.get(folder.id) is None:
                folders.keep(folder)
        if not name:
            return ""
        # A second import puts new conversations into the folders of the first.
        same = next((folder for folder in folders.all() if folder.name == name), None)
        target = same or ConversationFolder(name)
        folders.keep(target)
        return target.id


def _listed_at_once(count: int) -> int:
    return min(max(_LEAST_LISTED, count // _LISTED_SHARE), _MOST_LISTED)


def _next(messages: Iterator[ConversationMessage]) -> list[ConversationMessage]:
    return list(islice(messages, _STEP_MESSAGES))


def _outcome(
    contents: FileContents, taken: int, wanted: int, traces: TakenTraces, is_cancelled: bool
) -> str:
    """Return the result of an import, in sentences."""
    if not wanted:
        return ""
    whole = counted(wanted, "conversation")
    if taken < wanted:
        how = "Cancelled after" if is_cancelled else "Imported only"
        said = f"{how} {taken:,} of {whole} from {contents.program}; these stay."
    else:
        said = f"Imported {whole} from {contents.program}."
    parts = (said, traces.words, contents.left_out_words, contents.damage_words)
    return " ".join(filter(None, parts))


def _most_bytes() -> int:
    """Return the size of the largest file to import: its values take many times as much memory."""
    return max(_LEAST_LIMIT_BYTES, memory().total // _MEMORY_SHARE)

"""Imports of conversations and of recorded tokens. Main thread.

Files are read and converted in another process, one conversation at a time. The user sees the
contents before the import; conversations that are here already are imported only if chosen.
"""

import asyncio
import contextlib
import errno
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.files.causes import os_cause
from engine.files.json_fields import DamagedFile
from engine.helper_process import HelperClosed
from engine.recording.stored_trace import StoredTrace
from engine.wording import counted
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.presets import PresetList
from ui.chat.session.traces import Traces
from ui.chat.session.transfers import Transfer, Transfers
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.exchange.archive import OURS
from ui.records.exchange.contents import FileContents, ListedConversation, origin_of
from ui.records.exchange.export_files import read_traces
from ui.records.exchange.export_reader import ExportReader
from ui.records.facts import MAX_FACTS, Fact
from ui.records.messages import runs_of
from ui.records.store import ConversationStore
from ui.tools.memory import Memory

_MAX_BYTES = 2 << 30

# The runs here, each with its conversation, by the id that the run has in the archive.
ImportedRuns = defaultdict[str, list[tuple[str, str]]]


class ConversationImports(QObject):
    """Reads files of conversations, and imports the conversations that the user chooses."""

    looked = Signal(object)  # FileContents
    added = Signal(object)  # Conversation; of many, the first
    grown = Signal()
    undo_requested = Signal(list, list)  # imported conversations, folders
    refused = Signal(str)

    def __init__(
        self,
        store: ConversationStore,
        conversations: ConversationList,
        presets: PresetList,
        traces: Traces,
        memory: Memory,
        transfers: Transfers,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._conversations = conversations
        self._presets = presets
        self._traces = traces
        self._memory = memory
        self._start = partial(transfers.start, is_import=True)

    def look_into(self, path: Path) -> None:
        """Read a file, an archive or a folder, and emit ``looked`` with its contents."""
        self._start(f"Reading {path.name}", lambda transfer: self._look(path, transfer))

    def take(
        self, contents: FileContents, conversations: Sequence[ListedConversation], folder: str = ""
    ) -> None:
        self._start(
            f"Importing {contents.path.name}",
            lambda transfer: self._take(contents, conversations, folder, transfer),
        )

    async def take_in(self, conversation: Conversation) -> None:
        """Save a conversation in steps, then list it: a listed one may leave the memory."""
        await self._save(conversation)
        self._conversations.add(conversation)

    # -- inside ----------------------------------------------------------------------------

    def _list(self, arrived: list[Conversation]) -> None:
        self._conversations.add(*arrived)
        arrived.clear()
        self.grown.emit()

    async def _save(self, conversation: Conversation) -> None:
        self._store.save(conversation)
        messages = list(conversation.tree)
        for start in range(0, len(messages), 50):
            self._store.save_messages(conversation, messages[start : start + 50])
            await asyncio.sleep(0)  # the window is responsive in between

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
        contents.path = path
        for listed in contents.listed:
            (contents.here if listed.origin in known else contents.new).append(listed)
            known.add(listed.origin)
        self.looked.emit(contents)

    async def _read(self, path: Path, transfer: Transfer) -> FileContents | None:
        """Return the contents of a file; None if it was cancelled or refused."""
        with self._reader(path, transfer) as reader:
            contents = await asyncio.to_thread(reader.contents)
            if transfer.is_cancelled:
                return None
            if contents.listed or contents.presets or contents.folders or contents.facts:
                return contents
            if contents.damaged:
                self.refused.emit(f"Nothing in {path.name} can be read: {contents.damaged[0]}.")
            else:
                message = f"“{path.name}” contains no conversations. {contents.left_out_sentence}"
                self.refused.emit(message.rstrip())
        return None

    @contextlib.contextmanager
    def _reader(self, path: Path, transfer: Transfer) -> Iterator[ExportReader]:
        """Open a file; a file that cannot be read is refused with the reason."""
        reader = ExportReader(path, _MAX_BYTES, self._store.pictures_folder)
        transfer.cancelled.connect(reader.close)
        try:
            yield reader
        except HelperClosed:
            pass  # it was cancelled
        except OSError as error:
            if error.errno == errno.EFBIG:
                self.refused.emit(
                    f"“{path.name}” is too large: files of up to {_MAX_BYTES / 1e6:,.0f} MB can be "
                    "imported. Export fewer conversations to one file."
                )
            else:
                self.refused.emit(f"“{path.name}” could not be read: {os_cause(error)}.")
        except DamagedFile as error:
            self.refused.emit(f"“{path.name}” could not be imported: {error}.")
        finally:
            reader.close()

    async def _take(
        self,
        contents: FileContents,
        listed: Sequence[ListedConversation],
        folder: str,
        transfer: Transfer,
    ) -> None:
        folders = set(self._conversations.folders.all())
        target = self._take_folders(contents, listed, folder)
        facts, missing = self._memory.take_new(contents.facts)
        memory = [f"{counted(len(facts), 'fact')} added to the memory."] if facts else []
        if missing:
            memory.append(f"{counted(missing, 'fact')} did not fit: the memory keeps {MAX_FACTS}.")
        transfer.undo = partial(self._undo, transfer.imported, folders, facts)
        count = 0
        arrived: list[Conversation] = []
        imported: ImportedRuns = defaultdict(list)
        left_out = Counter[str]()
        try:
            with self._reader(contents.path, transfer) as reader:
                reader.is_ours = contents.program == OURS
                reading = reader.conversations([one.number for one in listed], left_out)
                while not transfer.is_cancelled:  # conversations imported so far stay
                    transfer.advance(count, len(listed))
                    conversation = await asyncio.to_thread(next, reading, None)
                    if conversation is None:
                        break
                    if target and self._conversations.folders.of(conversation) is None:
                        position = conversation.placement
                        conversation.placement = replace(position, folder_id=target)
                    await self._take_one(conversation, contents, imported)
                    count += 1
                    arrived.append(conversation)
                    transfer.imported.append(conversation)
                    if count == 1:
                        self._list(arrived)
                        self.added.emit(conversation)
                    elif len(arrived) >= 256:  # each time the whole list is laid out
                        self._list(arrived)
        finally:
            self._list(arrived)
        if count:
            self._conversations.offer_undo("Import", transfer.undo)
        self._presets.take_new(contents.presets)
        if not listed:
            transfer.outcome = " ".join(memory)
            return
        traces = await self._take_traces(contents, imported, transfer)
        total = counted(len(listed), "conversation")
        result = f"Imported {total} from {contents.program}."
        if count < len(listed):
            how = "Cancelled after" if transfer.is_cancelled else "Imported only"
            result = f"{how} {count:,} of {total} from {contents.program}; these stay."
        remainder = replace(contents, left_out=left_out)
        parts = (result, *memory, traces, remainder.left_out_sentence, remainder.damage_sentence)
        transfer.outcome = " ".join(filter(None, parts))

    def _undo(
        self,
        imported: Sequence[Conversation],
        before: Collection[ConversationFolder],
        facts: Sequence[Fact],
    ) -> None:
        """Delete imported conversations and facts, and folders of the import that are empty."""
        self._memory.delete(fact.id for fact in facts)
        listed = self._conversations
        others = (one for one in listed.every() if one not in imported)
        known = {folder.id for folder in before} | {one.placement.folder_id for one in others}
        emptied = [folder for folder in listed.folders.all() if folder.id not in known]
        self.undo_requested.emit(imported, emptied)

    async def _take_one(
        self, conversation: Conversation, contents: FileContents, imported: ImportedRuns
    ) -> None:
        """Save one conversation, and note which traces belong to it."""
        await self._save(conversation)
        answers = runs_of(conversation.tree)
        for run in answers:
            if run.copied_from:
                imported[run.copied_from].append((run.id, conversation.id))
        # For a copy of a conversation of this computer, the traces may exist only here.
        here = (run for run in answers if run.copied_from not in contents.traces)
        self._traces.copy(here, conversation.id)

    async def _take_traces(
        self, contents: FileContents, imported: ImportedRuns, transfer: Transfer
    ) -> str:
        """Import the recorded tokens of the imported answers; return the result in sentences."""
        counts, cause = Counter[str](), ""
        total = sum(run_id in imported for run_id in contents.traces)
        reading = read_traces(contents.path, contents.traces, imported)
        try:
            while not transfer.is_cancelled:
                transfer.advance(counts.total(), total)
                trace = await asyncio.to_thread(next, reading, None)
                if trace is None:
                    break
                archived_id, written_at, content = trace
                if content is None:
                    counts["damaged"] += 1
                    continue
                for run_id, conversation_id in imported[archived_id]:
                    kept = StoredTrace(run_id, conversation_id, written_at)
                    try:
                        is_kept = await self._traces.take_in(kept, content)
                    except DamagedFile:
                        counts["damaged"] += 1
                        break
                    counts["imported" if is_kept else "no room"] += 1
        except OSError as error:
            cause = os_cause(error)
        except DamagedFile as error:
            cause = str(error)
        finally:
            await asyncio.to_thread(reading.close)
        return _traces_sentences(counts, cause)

    def _take_folders(
        self, contents: FileContents, listed: Sequence[ListedConversation], name: str
    ) -> str:
        """Create the folders of the conversations to import, and the empty folders."""
        folders = self._conversations.folders
        inside = {conversation.folder_id for conversation in listed}
        not_requested = {conversation.folder_id for conversation in contents.listed} - inside
        for folder in contents.folders:
            if folder.id not in not_requested and folders.get(folder.id) is None:
                folders.keep(folder)
        if not name:
            return ""
        # A second import puts new conversations into the folders of the first.
        same = next((folder for folder in folders.all() if folder.name == name), None)
        target = same or ConversationFolder(name)
        folders.keep(target)
        return target.id


def _traces_sentences(counts: Counter[str], cause: str) -> str:
    """Return the result of importing recorded tokens; empty if there were none."""
    parts = []
    if count := counts["imported"]:
        parts.append(f"The recorded tokens of {counted(count, 'answer')} were imported too.")
    if damaged := counts["damaged"]:
        subject = "Those" if count else "The recorded tokens"
        parts.append(f"{subject} of {counted(damaged, 'answer')} are damaged and left out.")
    if skipped_traces := counts["no room"]:
        parts.append(
            f"Settings \u25b8 Storage leaves no room for the recorded tokens of "
            f"{counted(skipped_traces, 'answer')}."
        )
    if cause:
        parts.append(f"The other recorded tokens could not be imported: {cause}.")
    return " ".join(parts)

"""Conversations as files: exports, copies and recoveries. Main thread.

Files are written on other threads, one conversation at a time, so that the window stays responsive
and memory holds only one of them.
"""

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.errors import EngineError
from engine.files.causes import os_cause
from engine.wording import counted
from ui.chat.session.conversation_imports import ConversationImports
from ui.chat.session.conversation_list import ConversationList, named
from ui.chat.session.presets import PresetList
from ui.chat.session.traces import Traces
from ui.chat.session.transfers import Transfer, Transfers
from ui.kit.markdown.pdf import pdf_of
from ui.kit.tasks import finish_tasks, start_task
from ui.records.conversations import Conversation
from ui.records.exchange.archive import archive_end
from ui.records.exchange.exported_file import ExportedFile
from ui.records.messages import runs_of
from ui.records.store import ConversationStore, Problem, Recovered
from ui.tools.memory import Memory


class ConversationFiles(QObject):
    """Duplicates, exports, imports and recovers conversations."""

    added = Signal(object)  # Conversation
    grown = Signal()
    refused = Signal(str)  # reason
    recovered = Signal(object)  # Problem with the result

    def __init__(
        self,
        store: ConversationStore,
        conversations: ConversationList,
        presets: PresetList,
        traces: Traces,
        memory: Memory,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._store = store
        self._conversations = conversations
        self._presets = presets
        self._traces = traces
        self._memory = memory
        self.transfers = Transfers(self)
        self.imports = ConversationImports(
            store, conversations, presets, traces, memory, self.transfers, self
        )
        self.imports.added.connect(self.added)
        self.imports.grown.connect(self.grown)
        self.imports.refused.connect(self.refused)

    def duplicate(self, conversation: Conversation) -> None:
        start_task(self, self._duplicate(conversation), "duplicate a conversation")

    def export_to(self, path: Path, *conversations: Conversation) -> None:
        """Write conversations to a file, in the format of its suffix; otherwise as JSON."""
        inside = {conversation.placement.folder_id for conversation in conversations}
        folders = [folder for folder in self._conversations.folders.all() if folder.id in inside]
        self.transfers.start(
            f"Exporting {named(conversations)}",
            lambda transfer: self._export(path, conversations, transfer, archive_end(folders)),
        )

    def export_all_to(self, path: Path) -> None:
        """Write everything to one file: conversations, drafts, folders, presets and kept facts.

        A ``.zip`` file also gets the recorded tokens of answers; any other one is JSON.
        """
        every = [
            conversation
            for conversation in self._conversations.every()
            if not conversation.is_unused
        ]
        folders = self._conversations.folders.all()
        presets, facts = self._presets.all(), self._memory.facts
        self.transfers.start(
            "Exporting all conversations",
            lambda transfer: self._export(
                path, every, transfer, archive_end(folders, presets, facts)
            ),
        )

    def recover(self, path: Path) -> None:
        """Add the readable conversations of a backup or a damaged file."""

        async def recover(transfer: Transfer) -> None:
            work = asyncio.ensure_future(self._store.recover(path))
            transfer.cancelled.connect(lambda: work.cancel())
            await asyncio.wait({work})
            is_cancelled = work.cancelled()
            recovered = Recovered() if is_cancelled else work.result()
            problem = self._store.problem
            is_damaged = problem is not None and problem.path == path
            self.recovered.emit(
                _outcome(recovered, path, is_cancelled=is_cancelled, is_damaged=is_damaged)
            )

        self.transfers.start("Recovering conversations", recover)

    async def bytes_beside(self) -> int:
        """Return how much an archive has beside the text: recorded tokens, and pictures."""
        folder = self._store.pictures_folder
        pictures = 0 if folder is None else await asyncio.to_thread(_size_of, folder)
        return pictures + await asyncio.wrap_future(self._traces.measured())

    async def finish(self) -> None:
        await finish_tasks(self)
        await self.transfers.finish()

    # -- inside ----------------------------------------------------------------------------

    async def _duplicate(self, conversation: Conversation) -> None:
        try:
            original = await self._snapshot(conversation)
        except EngineError as problem:
            self.refused.emit(str(problem))
            return
        copy = await asyncio.to_thread(original.duplicate)
        await self.imports.take_in(copy)
        self._traces.copy(runs_of(copy.tree), copy.id)
        self.added.emit(copy)
        self.grown.emit()

    async def _export(
        self, path: Path, conversations: Sequence[Conversation], transfer: Transfer, end: str
    ) -> None:
        try:
            await self._write(path, conversations, transfer, end)
        except OSError as error:
            self.refused.emit(f"“{path.name}” could not be written: {os_cause(error)}.")
        except EngineError as problem:
            self.refused.emit(f"{problem} Nothing was written.")

    async def _write(
        self, path: Path, conversations: Sequence[Conversation], transfer: Transfer, end: str
    ) -> None:
        """Write conversations one after the other; after a cancel the old file stays."""
        folder = self._store.pictures_folder
        target = await asyncio.to_thread(ExportedFile, path, end, folder, pdf_of)
        missing: list[str] = []
        try:
            for number, conversation in enumerate(conversations):
                transfer.advance(number, len(conversations))
                try:
                    snapshot = await self._snapshot(conversation)
                except EngineError:
                    # The others are exported nevertheless: the disk may be about to fail.
                    missing.append(conversation.title)
                else:
                    await asyncio.to_thread(target.add, snapshot)
                if transfer.is_cancelled:
                    break
            if missing and len(missing) == len(conversations):
                raise EngineError(f"{_named(missing)} could not be read.")
            if target.takes_traces:
                await self._add_traces(target, conversations, transfer)
            await asyncio.to_thread(target.forget if transfer.is_cancelled else target.close)
        except BaseException:
            await asyncio.to_thread(target.forget)
            raise
        if transfer.is_cancelled:
            return
        transfer.exported = path
        if missing:
            self.refused.emit(
                f"{_named(missing)} could not be read. “{target.name}” has the others."
            )
        else:
            what = "" if len(conversations) == 1 else f" {named(conversations)}"
            transfer.outcome = f"Exported{what} to “{target.name}”."

    async def _add_traces(
        self, target: ExportedFile, conversations: Sequence[Conversation], transfer: Transfer
    ) -> None:
        """Add the recorded tokens of answers."""
        inside = {conversation.id for conversation in conversations}
        requested = [
            trace for trace in await self._traces.stored() if trace.conversation_id in inside
        ]
        lost = 0
        for number, kept in enumerate(requested):
            if transfer.is_cancelled:
                return
            transfer.advance(number, len(requested))
            content = await self._traces.content(kept.run_id)
            if content is None:
                lost += 1
            else:
                await asyncio.to_thread(target.add_trace, kept, content)
        if lost:
            self.refused.emit(
                f"The recorded tokens of {counted(lost, 'answer')} could not be read. "
                f"“{target.name}” has all the rest."
            )

    async def _snapshot(self, conversation: Conversation) -> Conversation:
        """Return a copy of a conversation and its messages as they are now, for another thread."""
        if conversation.is_loaded:
            return conversation.snapshot(conversation.tree)
        messages = await self._store.read(conversation)
        if messages is None:
            raise EngineError(f"“{conversation.title}” could not be read.")
        return conversation.snapshot(messages)


def _named(titles: Sequence[str]) -> str:
    named = ", ".join(f"“{title}”" for title in titles[:3])
    more = len(titles) - 3
    return f"{named} and {counted(more, 'more conversation')}" if more > 0 else named


def _outcome(recovered: Recovered, path: Path, *, is_cancelled: bool, is_damaged: bool) -> Problem:
    """Return the result of a recovery; after an early end it can be started again."""
    conversations = counted(recovered.conversations, "conversation")
    messages = counted(recovered.messages, "message")
    sentence = (
        f"{conversations} with {messages} recovered."
        if recovered.messages
        else f"{conversations} recovered."
    )
    if recovered.cause:
        detail = f"The recovery failed: {recovered.cause}."
    elif is_cancelled:
        detail = "The recovery was cancelled."
    elif recovered.unreadable:
        detail = f"{counted(recovered.unreadable, 'row')} could not be read."
    else:
        detail = "Everything in the file could be read."
    detail += f" The file is kept as {path.name}."
    if is_damaged:
        detail += (
            " Until you delete it, pictures and recorded tokens of deleted conversations are kept."
        )
    return Problem(
        sentence,
        detail,
        path,
        can_be_recovered=bool(recovered.cause) or is_cancelled,
    )


def _size_of(folder: Path) -> int:
    """Return how many bytes the files of a folder have; 0 if it is not there."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        return sum(entry.stat().st_size for entry in entries)
    return 0

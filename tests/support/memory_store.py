"""A store of conversations for tests of the window that need neither a file nor a loop."""

from collections.abc import Callable, Sequence
from pathlib import Path

from app.store.passages import find_in_memory
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.facts import Fact
from ui.records.messages import ConversationMessage
from ui.records.passages import Document, Found, IndexedDocument, PassageSearch
from ui.records.runs import PastRun
from ui.records.store import (
    EVERYWHERE,
    MAX_HITS,
    Hit,
    Problem,
    Recovered,
    SearchFilter,
)


class MemoryConversationStore:
    """Lists the saved conversations at once; the real store lists those of its file."""

    pictures_folder: Path | None = None
    backups_folder: Path | None = None
    problem: Problem | None = None
    has_unsaved = is_writing = False
    failing_because = ""

    def __init__(self) -> None:
        self._conversations: dict[str, Conversation] = {}
        self._presets: dict[str, Preset] = {}
        self._folders: dict[str, ConversationFolder] = {}
        self._facts: dict[str, Fact] = {}

    def on_problem(self, report: Callable[[Problem | None], None]) -> None: ...

    def on_found(self, show: Callable[[list[Conversation], list[Preset]], None]) -> None: ...

    def is_saved(self, conversation: Conversation) -> bool:
        return False

    def conversations(self) -> list[Conversation]:
        return list(self._conversations.values())

    async def fill(self, conversation: Conversation) -> None: ...

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        return list(conversation.tree)

    def save(self, conversation: Conversation) -> None:
        self._conversations[conversation.id] = conversation

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None: ...

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None: ...

    def delete(self, conversation: Conversation) -> None:
        self._conversations.pop(conversation.id, None)

    def restore(self, conversation: Conversation) -> None:
        self.save(conversation)

    async def search(
        self, query: str, filter_: SearchFilter = EVERYWHERE, limit: int = MAX_HITS
    ) -> list[Hit]:
        return []

    async def find_passages(self, search: PassageSearch) -> Found:
        return find_in_memory(search)

    async def passages_without_vector(
        self, conversation_id: str, folder_id: str, model: str, count: int
    ) -> list[tuple[int, str]]:
        return []

    async def save_vectors(self, model: str, vectors: Sequence[tuple[int, bytes]]) -> bool:
        return True

    async def folder_documents(self, folder_id: str) -> list[IndexedDocument]:
        return []

    async def add_document(
        self, folder_id: str, document: Document, remark: str, on_added: Callable[[int], object]
    ) -> None: ...

    async def show_document(self, folder_id: str, document_id: str, *, is_shown: bool) -> bool:
        return True

    async def recent_runs(self, limit: int) -> list[PastRun]:
        answers = [
            PastRun(one.id, one.title, message.parent.text if message.parent else "", message.run)
            for one in self._conversations.values()
            for message in one.tree
            if message.run is not None and not message.run.is_from_elsewhere
        ]
        return sorted(answers, key=lambda past: past.run.started_at, reverse=True)[:limit]

    def presets(self) -> list[Preset]:
        return list(self._presets.values())

    def save_preset(self, preset: Preset) -> None:
        self._presets[preset.name] = preset

    def delete_preset(self, name: str) -> None:
        self._presets.pop(name, None)

    def folders(self) -> list[ConversationFolder]:
        return list(self._folders.values())

    def save_folder(self, folder: ConversationFolder) -> None:
        self._folders[folder.id] = folder

    def delete_folder(self, folder_id: str) -> None:
        self._folders.pop(folder_id, None)

    def facts(self) -> list[Fact]:
        return list(self._facts.values())

    def save_fact(self, fact: Fact) -> None:
        self._facts[fact.id] = fact

    def delete_fact(self, fact_id: str) -> None:
        self._facts.pop(fact_id, None)

    async def flush(self) -> None: ...

    async def recover(self, path: Path) -> Recovered:
        return Recovered()

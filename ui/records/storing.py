"""Where conversations and presets are kept: the seam behind which a database stands, and memory.

Called on the main thread. Knows no database.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ui.records.conversations import Conversation, ConversationFolder
from ui.records.finding import MOST_HITS, Hit, matches, named_hit, snippet_of, words_of
from ui.records.messages import ConversationMessage
from ui.records.presets import Preset
from ui.records.runs import PastRun


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """Something that a person must know about how conversations are kept.

    Attributes:
        sentence: What happened.
        detail: Why, and what it means.
        path: The file it is about; None for none.
        can_be_recovered: Whether some of that file may be readable, and be brought over.
    """

    sentence: str
    detail: str
    path: Path | None = None
    can_be_recovered: bool = False


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was brought over from a damaged file.

    Attributes:
        conversations: Conversations that were not here before.
        messages: Messages that were not here before.
        unreadable: Rows of the file that could not be read.
        cause: Why it ended early, as the end of a sentence; empty where it did not.
    """

    conversations: int = 0
    messages: int = 0
    unreadable: int = 0
    cause: str = ""


class ConversationStore(Protocol):
    """Keeps conversations. Saving returns at once; ``settled`` waits until it is done."""

    @property
    def problem(self) -> StoreProblem | None:
        """What went wrong when the store was opened."""

    def on_problem(self, tell: Callable[[StoreProblem | None], None]) -> None:
        """Call ``tell`` on the main thread when something cannot be kept, and with None when all
        of it is kept after all.
        """

    def on_found(self, tell: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Call ``tell`` on the main thread with conversations and presets that are found late."""

    @property
    def has_unsaved(self) -> bool:
        """Whether there are changes that could not be kept, and are tried again."""

    @property
    def is_writing(self) -> bool:
        """Whether something that a person wrote is not kept yet, and may be soon."""

    @property
    def failing_because(self) -> str:
        """Why nothing can be kept, as the end of a sentence; empty while it can."""

    def is_kept(self, conversation: Conversation) -> bool:
        """Return whether all that was saved of a conversation can be loaded again."""

    def load_all(self) -> list[Conversation]:
        """Return all conversations, as they were when the store was opened."""

    async def fill(self, conversation: Conversation) -> None:
        """Load the messages of a conversation, if they are not here yet."""

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        """Return the messages of a conversation without loading them into it; None where they
        cannot be read.
        """

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation's title, settings, stops and draft; a new one is added."""

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Keep messages as they are now, each after the one it follows."""

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """Forget messages; saving them brings them back."""

    def delete(self, conversation: Conversation) -> None:
        """Forget a conversation; ``restore`` can bring it back until the program ends."""

    def restore(self, conversation: Conversation) -> None:
        """Bring back what was deleted."""

    async def search(self, query: str) -> list[Hit]:
        """Return where the words of a query were said, best first."""

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers of all conversations, the newest first."""

    def load_presets(self) -> list[Preset]:
        """Return all presets, as they were when the store was opened."""

    def save_preset(self, preset: Preset) -> None:
        """Keep a preset; one of the same name is replaced."""

    def delete_preset(self, name: str) -> None:
        """Forget a preset."""

    def load_folders(self) -> list[ConversationFolder]:
        """Return all folders, as they were when the store was opened or a file was found late."""

    def save_folder(self, folder: ConversationFolder) -> None:
        """Keep a folder; one of the same id is replaced."""

    def delete_folder(self, folder_id: str) -> None:
        """Forget a folder; the conversations in it are for the caller to move."""

    async def settled(self) -> None:
        """Wait until all that was saved before is kept."""

    async def recover(
        self, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> Recovered:
        """Bring over what can be read of the damaged file that ``problem`` names.

        What is found is told as things that are found late are. What is here already stays as it
        is, however often this is done.

        Args:
            advance: Told on the main thread how many rows were looked at, and how many there are.
            is_cancelled: Whether to end early; what was brought over stays.
        """

    def decline_recovery(self) -> None:
        """Offer the damaged file that ``problem`` names no more; it stays where it is."""


class MemoryConversationStore:
    """Keeps conversations as long as the process lives.

    Args:
        problem: Why there is nothing better, for the window to say.
    """

    def __init__(self, problem: StoreProblem | None = None) -> None:
        self._problem = problem
        self._kept: dict[str, Conversation] = {}
        self._presets: dict[str, Preset] = {}
        self._folders: dict[str, ConversationFolder] = {}

    @property
    def problem(self) -> StoreProblem | None:
        """Why there is nothing better."""
        return self._problem

    @property
    def has_unsaved(self) -> bool:
        """Whether anything was written although a file was to keep it."""
        written = any(not conversation.is_unused for conversation in self._kept.values())
        return self._problem is not None and written

    @property
    def is_writing(self) -> bool:
        """Memory takes everything at once."""
        return False

    @property
    def failing_because(self) -> str:
        """Memory takes everything."""
        return ""

    def on_problem(self, tell: Callable[[StoreProblem | None], None]) -> None:
        """Never happens in memory."""

    def on_found(self, tell: Callable[[list[Conversation], list[Preset]], None]) -> None:
        """Never happens in memory."""

    def is_kept(self, conversation: Conversation) -> bool:
        """Memory keeps no second copy, so nothing can be loaded again."""
        return False

    def load_all(self) -> list[Conversation]:
        """Return all conversations."""
        return list(self._kept.values())

    async def fill(self, conversation: Conversation) -> None:
        """All messages are here already."""

    async def read(self, conversation: Conversation) -> list[ConversationMessage] | None:
        """Return the messages, which the conversation itself holds."""
        return list(conversation.tree)

    def save(self, conversation: Conversation) -> None:
        """Keep a conversation; a new one is added."""
        self._kept[conversation.id] = conversation

    def save_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """The conversation itself holds its messages."""

    def delete_messages(
        self, conversation: Conversation, messages: Sequence[ConversationMessage]
    ) -> None:
        """The conversation itself holds its messages."""

    def delete(self, conversation: Conversation) -> None:
        """Forget a conversation."""
        self._kept.pop(conversation.id, None)

    def restore(self, conversation: Conversation) -> None:
        """Bring back what was deleted."""
        self.save(conversation)

    async def search(self, query: str) -> list[Hit]:
        """Return where the words of a query were said, newest first."""
        words = words_of(query)
        hits: list[Hit] = []
        for conversation in self._kept.values() if words else ():
            title, tags = conversation.title, conversation.placement.tags
            if named := named_hit(conversation.id, title, tags, conversation.updated_at, words):
                hits.append(named)
            for message in conversation.tree:
                if matches(message.said, words):
                    line, spans = snippet_of(message.said, words)
                    hits.append(
                        Hit(
                            conversation.id,
                            message.id,
                            conversation.title,
                            message.role,
                            message.created_at,
                            line,
                            spans,
                        )
                    )
        # A longer version of an answer has copies of what follows it.
        once = {(hit.conversation_id, hit.role, hit.said_at, hit.snippet): hit for hit in hits}
        return sorted(once.values(), key=lambda hit: hit.said_at, reverse=True)[:MOST_HITS]

    async def recent_runs(self, limit: int) -> list[PastRun]:
        """Return the newest answers of all conversations, the newest first."""
        found = [
            PastRun(one.id, one.title, message.parent.text if message.parent else "", message.run)
            for one in self._kept.values()
            for message in one.tree
            if message.run is not None
        ]
        return sorted(found, key=lambda past: past.run.started_at, reverse=True)[:limit]

    def load_presets(self) -> list[Preset]:
        """Return all presets."""
        return list(self._presets.values())

    def save_preset(self, preset: Preset) -> None:
        """Keep a preset; one of the same name is replaced."""
        self._presets[preset.name] = preset

    def delete_preset(self, name: str) -> None:
        """Forget a preset."""
        self._presets.pop(name, None)

    def load_folders(self) -> list[ConversationFolder]:
        """Return all folders."""
        return list(self._folders.values())

    def save_folder(self, folder: ConversationFolder) -> None:
        """Keep a folder; one of the same id is replaced."""
        self._folders[folder.id] = folder

    def delete_folder(self, folder_id: str) -> None:
        """Forget a folder."""
        self._folders.pop(folder_id, None)

    async def settled(self) -> None:
        """Memory is always settled."""

    async def recover(
        self, advance: Callable[[int, int], None], is_cancelled: Callable[[], bool]
    ) -> Recovered:
        """Memory knows no damaged file."""
        return Recovered()

    def decline_recovery(self) -> None:
        """Memory knows no damaged file."""

"""A conversation: messages, settings, stop list, draft, model, and its place in the list.

Plain records without Qt; changed on the main thread only.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from engine.library.model_files import model_name
from engine.stopping.rules import StopOptions
from engine.values.request import SAMPLING_OPTIONS, LimitSource, Sampling, SamplingOptions
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage, MessageTree, chained, copied, frozen
from ui.records.stop_entries import StopEntry, rules_of
from ui.records.titles import UNTITLED, title_of
from ui.records.tool_choice import ToolsInUse

ListOrder = Literal["recent", "created", "oldest", "title"]
"""The order of the list of conversations; pinned ones always come first."""
WhenFull = Literal["leave_out", "summarize", "ask"]
"""The treatment of the oldest messages when the context is full; ``ask`` sends all or none."""

QueuedMessage = tuple[str, tuple[Attachment, ...]]
"""The text and the files of a message that is sent once the running answer has ended."""
ReadingPosition = tuple[str, float]
"""The id of the message at the top of the screen, and the share of it that is above."""


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model that a conversation remembers."""

    name: str
    folder: Path | None = None

    @staticmethod
    def of(folder: Path) -> "ChosenModel":
        return ChosenModel(model_name(folder), folder.resolve())


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a conversation is in the list."""

    folder_id: str = ""
    is_archived: bool = False


@dataclass(frozen=True, slots=True)
class ConversationSettings(SamplingOptions):
    """The settings of a conversation, including those of sampling.

    ``preset`` is the name of the preset that set the limits; empty where none did.
    """

    system_prompt: str = ""
    max_tokens: int | None = None
    is_thinking: bool = False
    stop_token_ids: tuple[int, ...] = ()
    stop_options: StopOptions = field(default_factory=StopOptions)
    thinking_budget: int | None = None
    preset: str = field(default="", compare=False)

    @property
    def limits_from(self) -> LimitSource:
        """Who set the limits."""
        return LimitSource.PRESET if self.preset else LimitSource.SETTINGS

    @property
    def sampling(self) -> Sampling:
        return Sampling(**{option.name: getattr(self, option.name) for option in SAMPLING_OPTIONS})


class Conversation:
    """Messages, with the settings and the stop list for the next answer. Times are Unix times."""

    def __init__(
        self,
        title: str = UNTITLED,
        messages: Iterable[ConversationMessage] = (),
        settings: ConversationSettings | None = None,
        stops: Iterable[StopEntry] = (),
        draft: str = "",
        created_at: float | None = None,
        updated_at: float | None = None,
        id: str = "",
        is_pinned: bool = False,
    ) -> None:
        self.needs_user = False
        self.title = title
        self.tree = MessageTree()
        self.settings = settings or ConversationSettings()
        self.stops = list(stops)
        self.draft = draft
        self.attachments: tuple[Attachment, ...] = ()
        self.queue: tuple[QueuedMessage, ...] = ()
        self.when_full: WhenFull | None = None
        self.reading_position: ReadingPosition | None = None
        self.shown_at = 0.0
        self.model: ChosenModel | None = None
        self.tools = ToolsInUse()
        self.is_pinned = is_pinned
        self.placement = Placement()
        self.origin = ""
        self.stops_from = ""
        self.created_at = time.time() if created_at is None else created_at
        self.updated_at = time.time() if updated_at is None else updated_at
        self.id = id or uuid.uuid4().hex
        self.is_loaded = True
        self.tree.fill(chained(messages))

    @property
    def messages(self) -> list[ConversationMessage]:
        """The messages that are shown, from the first to the last."""
        return self.tree.shown()

    @property
    def has_messages(self) -> bool:
        """Whether it has messages, even if they are not loaded."""
        return len(self.tree) > 0 or not self.is_loaded

    @property
    def is_unused(self) -> bool:
        """Whether it has no messages, and the composer is empty."""
        return not self.has_messages and not self.has_draft and not self.queue

    @property
    def is_blank(self) -> bool:
        """Whether nothing of it is the user's: unused, untitled and not pinned."""
        return self.is_unused and self.title == UNTITLED and not self.is_pinned

    @property
    def has_draft(self) -> bool:
        """Whether the composer holds text or files."""
        return bool(self.draft.strip() or self.attachments)

    @property
    def listed_title(self) -> str:
        """Its title, or the beginning of its draft where it has none."""
        if self.title != UNTITLED:
            return self.title
        return title_of(self.draft, (file.name for file in self.attachments)) or UNTITLED

    @property
    def pictures(self) -> Iterator[Attachment]:
        """The pictures and recordings of all messages, of the draft and of the queue."""
        for message in self.tree:
            yield from message.pictures
        unsent = (self.attachments, *(files for _, files in self.queue))
        yield from (file for files in unsent for file in files if file.kept_file)

    @property
    def is_running(self) -> bool:
        """Whether an answer is running, also as one of two answers side by side."""
        return self.tree.is_running

    @property
    def short_title(self) -> str:
        """The title for where nothing else cuts it, such as a menu or a notification."""
        title = self.listed_title
        return title if len(title) <= 60 else f"{title[:59].rstrip()}…"

    @property
    def used_at(self) -> float:
        """Unix time at which it was shown last, or had its last message."""
        return max(self.shown_at, self.updated_at)

    def add(self, message: ConversationMessage) -> None:
        """Append a message to the shown ones."""
        shown = self.messages
        self.tree.add(message, shown[-1] if shown else None)

    def unload(self) -> None:
        """Drop the messages from memory, until ``fill`` restores them."""
        self.tree = MessageTree()
        self.is_loaded = False

    def snapshot(self, messages: Iterable[ConversationMessage]) -> "Conversation":
        """Return a copy of the present state, with these messages, for another thread to read."""
        twin = copy(self)
        twin.stops, twin.tree, twin.is_loaded = list(self.stops), MessageTree(), True
        twin.tree.fill(map(frozen, messages))
        return twin

    def duplicate(self) -> "Conversation":
        """Return a new conversation with copies of all messages and of the draft."""
        twin = self.twin(f"{self.title} (copy)", self.tree)
        twin.draft, twin.attachments = self.draft, self.attachments
        return twin

    def twin(self, title: str, messages: Iterable[ConversationMessage]) -> "Conversation":
        """Return a new conversation like this one with copies of messages that are complete."""
        twin = Conversation(title, settings=self.settings, stops=self.stops)
        twin.model, twin.tools = self.model, self.tools
        twin.when_full, twin.stops_from = self.when_full, self.stops_from
        twin.placement = self.placement
        twin.tree.fill(copied(message for message in messages if message.is_settled))
        return twin

    def fill(self, messages: Iterable[ConversationMessage]) -> None:
        """Add the stored messages, parents first; does nothing if they are loaded already."""
        if not self.is_loaded:
            self.tree.fill(messages)
            self.is_loaded = True

    def enabled_stops(self) -> tuple[str, ...]:
        """Return the enabled sequences in their order, without duplicates and empty ones."""
        return rules_of(self.stops).strings


@dataclass(frozen=True, slots=True)
class ConversationFolder:
    """A folder, with settings for new conversations in it; ``created_at`` is a Unix time."""

    name: str
    system_prompt: str = ""
    stops: tuple[StopEntry, ...] = ()
    is_open: bool = False
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    has_memory: bool = True  # else its conversations neither use the memory nor are searched

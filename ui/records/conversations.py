"""A conversation: messages, settings, stop list, draft, model, and its place in the list.

Plain records without Qt; changed on the main thread only.
"""

import re
import time
import uuid
from collections.abc import Iterable
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from engine import (
    SAMPLING_OPTIONS,
    Sampling,
    SamplingOptions,
    Stop,
    StopOptions,
    StopRules,
    StopScope,
    counted,
    quoted,
)
from engine.library.model_files import model_name
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage, MessageTree, chained, copied, frozen
from ui.records.tool_choice import ToolsInUse

UNTITLED = "New conversation"
ListOrder = Literal["recent", "created", "oldest", "title"]
"""The order of the list of conversations; pinned ones always come first."""
WhenFull = Literal["leave_out", "summarize", "ask"]
"""The treatment of the oldest messages when the context is full; ``ask`` sends all or none."""
# Characters that control a terminal or change the direction of text.
_STEERING = dict.fromkeys(
    (*range(0x20), *range(0x7F, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)), "\ufffd"
)
# The marks of Markdown, HTML and LaTeX, and their replacements.
_MARKS = (
    (re.compile(r"^\s*(?:```|~~~).*$", re.M), " "),
    (re.compile(r"^\s*(?:[-*_]\s*){3,}$", re.M), " "),
    (re.compile(r"^\s*\|?(?:\s*:?-{2,}:?\s*\|)+\s*(?::?-{2,}:?)?\s*$", re.M), " "),
    (re.compile(r"^\s*(?:#{1,6}|>|[-*+])\s+", re.M), ""),
    (re.compile(r"!?\[([^\]\n]*)\]\([^)\n]*\)?"), r"\1"),
    (re.compile(r"</?[a-zA-Z][^<>\n]*>?"), " "),
    (re.compile(r"(?<!\w)([*_~]{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"(?<!\w)(?:\*\*|__|~~)(?=\w)"), ""),  # the text ends before the other mark
    (re.compile(r"`+([^`]*)`*"), r"\1"),
    (re.compile(r"\$\$|\\[()\[\]]"), ""),
    (re.compile(r"\s\|\s|^\||\|$", re.M), " "),
)


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
class StopEntry:
    """A row of a stop list: a stop, its text exactly as it was entered, and whether it is used."""

    stop: Stop
    is_enabled: bool = True

    @classmethod
    def of(cls, text: str, is_enabled: bool = True, **options: Any) -> "StopEntry":
        """Return the row of a text, with options of ``Stop``."""
        return cls(Stop(text, **options), is_enabled)

    @property
    def scope(self) -> StopScope:
        """Where it applies."""
        return self.stop.scope or StopScope.TEXT

    def within(self, scope: StopScope) -> "StopEntry":
        """Return the row of the same stop that applies elsewhere."""
        own = None if scope is StopScope.TEXT else scope
        return replace(self, stop=replace(self.stop, scope=own))


@dataclass(frozen=True, slots=True)
class QueuedMessage:
    """A message that is sent once the running answer has ended."""

    text: str
    files: tuple[Attachment, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadingPosition:
    """Where a person was reading: a message, and which part of it was above the screen."""

    message_id: str
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class ConversationSettings(SamplingOptions):
    """The settings of a conversation, including those of sampling."""

    system_prompt: str = ""
    max_tokens: int | None = None
    is_thinking: bool = False
    stop_token_ids: tuple[int, ...] = ()
    stop_options: StopOptions = field(default_factory=StopOptions)
    thinking_budget: int | None = None

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
        self._stored_preview = ""
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
        is_written = bool(self.draft.strip() or self.attachments or self.queue)
        return not self.has_messages and not is_written

    @property
    def is_running(self) -> bool:
        """Whether an answer is running, also as one of two answers side by side."""
        return self.tree.is_running

    @property
    def short_title(self) -> str:
        """The title for where nothing else cuts it, such as a menu or a notification."""
        title = self.title
        return title if len(title) <= 60 else f"{title[:59].rstrip()}…"

    @property
    def used_at(self) -> float:
        """Unix time at which it was shown last, or had its last message."""
        return max(self.shown_at, self.updated_at)

    @property
    def preview(self) -> str:
        """The first words of the last message."""
        if not self.is_loaded:
            return self._stored_preview
        for message in reversed(self.messages):
            if message.content.strip():
                typed = message.typed if message.attached_chars else ""
                return preview_of(typed.lstrip() or message.content.lstrip())
        return ""

    def add(self, message: ConversationMessage) -> None:
        """Append a message to the shown ones."""
        shown = self.messages
        self.tree.add(message, shown[-1] if shown else None)

    def unload(self, preview: str) -> None:
        """Drop the messages from memory and keep a preview, until ``fill`` restores them."""
        self.tree = MessageTree()
        self.is_loaded = False
        self._stored_preview = preview

    def snapshot(self, messages: Iterable[ConversationMessage]) -> "Conversation":
        """Return a copy of the present state, with these messages, for another thread to read."""
        twin = copy(self)
        twin.stops, twin.tree, twin.is_loaded = list(self.stops), MessageTree(), True
        twin.tree.fill(map(frozen, messages))
        return twin

    def duplicate(self) -> "Conversation":
        """Return a new conversation with copies of the messages that are complete."""
        twin = Conversation(
            f"{self.title} (copy)", settings=self.settings, stops=self.stops, draft=self.draft
        )
        twin.attachments, twin.model = self.attachments, self.model
        twin.when_full = self.when_full
        twin.placement, twin.stops_from = self.placement, self.stops_from
        twin.tools = self.tools
        twin.tree.fill(copied(message for message in self.tree if message.is_settled))
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
    is_open: bool = True
    created_at: float = field(default_factory=time.time)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)


def rules_of(entries: Iterable[StopEntry]) -> StopRules:
    """Return the rules of a stop list: the enabled ones, without duplicates and empty ones."""
    counting: dict[str, Stop] = {}
    for entry in entries:
        if entry.is_enabled and entry.stop.text:
            counting.setdefault(entry.stop.text, entry.stop)
    return StopRules(tuple(counting.values()))


def plain_line(text: str) -> str:
    """Return a text as one line without the marks of Markdown, HTML and LaTeX."""
    for pattern, left in _MARKS:
        text = pattern.sub(left, text)
    return " ".join(text.split())


def preview_of(text: str) -> str:
    """Return the first words of a text, as one plain line."""
    return plain_line(text[:200])


def title_of(question: str) -> str:
    """Return the title for a conversation that begins with this question: its words."""
    return " ".join(question[:1_000].split())


def title_from_file(text: str) -> str:
    """Return a title from a file in a safe form: one line of limited length.

    Characters that control a terminal or change the direction of text become ``\ufffd``.
    """
    line = " ".join(text[:1_000].split()).translate(_STEERING)
    return line or UNTITLED


# Two answers side by side: each has a model, settings and stops of its own.


@dataclass(frozen=True, slots=True)
class Variant:
    """The model, settings and stop list of an answer."""

    settings: ConversationSettings
    stops: tuple[StopEntry, ...] = ()
    model: ChosenModel | None = None

    @staticmethod
    def of(conversation: Conversation) -> "Variant":
        """Return the variant of a conversation's next answer."""
        return Variant(conversation.settings, tuple(conversation.stops), conversation.model)

    def given_to(self, conversation: Conversation) -> Conversation:
        """Return a conversation with the same messages that uses this variant; it is not stored."""
        twin = Conversation(
            conversation.title, settings=self.settings, stops=self.stops, id=conversation.id
        )
        twin.model, twin.tree = self.model, conversation.tree
        twin.when_full = conversation.when_full
        return twin


def describe_difference(variant: Variant, other: Variant) -> str:
    """Return in a few words how the settings of a variant differ from another's; empty for not."""
    parts: list[str] = []
    mine, others = rules_of(variant.stops), rules_of(other.stops)
    if mine != others:
        parts.append(_stops(mine.strings))
    settings, before = variant.settings, other.settings
    if settings.system_prompt != before.system_prompt:
        parts.append("another system prompt" if settings.system_prompt else "no system prompt")
    if settings.max_tokens != before.max_tokens:
        limit = settings.max_tokens
        parts.append("no limit" if limit is None else _limit_text(limit))
    if settings.is_thinking != before.is_thinking:
        parts.append("with thinking" if settings.is_thinking else "without thinking")
    if settings.thinking_budget != before.thinking_budget:
        limit = settings.thinking_budget
        parts.append(
            "thinking without a limit" if limit is None else f"thinks {_limit_text(limit)}"
        )
    for option in SAMPLING_OPTIONS:
        value = getattr(settings, option.name)
        if value != getattr(before, option.name):
            shown = "model default" if value is None else f"{value:g}"
            parts.append(f"{option.title.lower()} {shown}")
    return " · ".join(parts)


def _limit_text(tokens: int) -> str:
    return f"at most {counted(tokens, 'token')}"


def _stops(strings: tuple[str, ...]) -> str:
    if not strings:
        return "no stops"
    if len(strings) > 2:
        return counted(len(strings), "stop")
    return "stops at " + ", ".join(quoted(string, 16) for string in strings)

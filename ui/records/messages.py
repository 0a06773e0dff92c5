"""The messages of a conversation as a tree: versions are kept side by side.

Plain records without Qt; changed on the main thread only.
"""

import time
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

from ui.records.attachments import (
    Attachment,
    Reading,
    attached_chars,
    cut_text,
    taken_apart,
    with_attachments,
)
from ui.records.passages import Document, Excerpt
from ui.records.runs import Run

Role = Literal["user", "assistant"]


@dataclass(eq=False)
class ConversationMessage:
    """One message; an assistant's has the run that made it. ``created_at`` is a Unix time."""

    role: Role
    text: str = ""
    run: Run | None = None
    created_at: float = field(default_factory=time.time)
    parent: "ConversationMessage | None" = field(default=None, repr=False)
    shown_rank: int = 0
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    attached_chars: int = 0
    sent_chars: tuple[int | None, ...] = ()
    readings: tuple[Reading, ...] = ()
    excerpts: tuple[Excerpt, ...] = ()
    is_pinned: bool = False
    summary: str = ""

    @property
    def sent(self) -> str:
        """The text that the model gets: all of it, unless files are cut."""
        if not self.excerpts and not any(chars is not None for chars in self.sent_chars):
            return self.text
        return with_attachments(self.typed, self.sent_files)

    @property
    def sent_files(self) -> list[Attachment]:
        """The files with the text that the model gets of them, and passages of documents."""
        whole = (
            replace(file, text=cut_text(file.text, file.sent_chars)) for file in self.whole_files
        )
        return [*(excerpt.as_file() for excerpt in self.excerpts), *whole]

    @property
    def whole_files(self) -> list[Attachment]:
        """The files of which the model gets more than passages."""
        excerpted = {excerpt.document for excerpt in self.excerpts}
        return [
            file
            for file in self.files
            if not excerpted or file.kept_file or Document.of(file).id not in excerpted
        ]

    @property
    def files(self) -> tuple[Attachment, ...]:
        """The files that were attached to a question, with what the model gets of them."""
        files = taken_apart(self.text, self.attached_chars)[0]
        cuts = (*self.sent_chars, *[None] * len(files))
        unset: tuple[Reading, ...] = ("",)
        readings = self.readings + unset * len(files)
        return tuple(
            replace(file, sent_chars=chars, reading=reading)
            for file, chars, reading in zip(files, cuts, readings, strict=False)
        )

    @property
    def cards(self) -> list[tuple[Attachment, Excerpt | None]]:
        """The files, with the passages that were read of them, and then other documents."""
        excerpts = {excerpt.document: excerpt for excerpt in self.excerpts}
        own = [
            (file, excerpts.pop(Document.of(file).id, None) if excerpts else None)
            for file in self.files
        ]
        return [*own, *((Attachment(each.name, ""), each) for each in excerpts.values())]

    @property
    def pictures(self) -> tuple[Attachment, ...]:
        """The pictures and sound recordings of a question or an answer."""
        if self.run is not None:
            made = (picture for result in self.run.results for picture in result.pictures)
            return (*self.run.pictures, *made)
        return tuple(file for file in self.files if file.kept_file)

    @property
    def typed(self) -> str:
        """The typed text, without the files."""
        return taken_apart(self.text, self.attached_chars)[1]

    @property
    def content(self) -> str:
        """The text so far, also while the answer is running."""
        return self.text if self.run is None else self.run.text

    @property
    def is_settled(self) -> bool:
        return self.run is None or (self.run.is_over and not self.run.live.is_calling)


class MessageTree:
    """All messages of a conversation, and which of their versions are shown."""

    def __init__(self) -> None:
        self._following: dict[str | None, list[ConversationMessage]] = {}
        self._by_id: dict[str, ConversationMessage] = {}
        self._shown: list[ConversationMessage] | None = None
        # The answers that may be running: the new ones, and those whose calls may be run again.
        self._live: dict[str, ConversationMessage] = {}

    def __iter__(self) -> Iterator[ConversationMessage]:
        """Iterate over all messages, parents first."""
        return iter(self._by_id.values())

    def __len__(self) -> int:
        """Return the number of all messages, hidden versions included."""
        return len(self._by_id)

    @property
    def is_running(self) -> bool:
        """Whether an answer is running or its calls are; asked for each frame of the list."""
        return any(not message.is_settled for message in self._live.values())

    def get(self, message_id: str) -> ConversationMessage | None:
        return self._by_id.get(message_id)

    def shown(self) -> list[ConversationMessage]:
        """Return the messages that are shown, from the first to the last."""
        if self._shown is None:
            self._shown = []
            versions = self._following.get(None)
            while versions:
                message = max(versions, key=lambda version: version.shown_rank)
                self._shown.append(message)
                versions = self._following.get(message.id)
        return list(self._shown)

    def add(self, message: ConversationMessage, parent: ConversationMessage | None) -> None:
        """Add a new message after another one; it is shown instead of its other versions."""
        versions = self._following.setdefault(parent.id if parent else None, [])
        message.parent = parent
        message.shown_rank = 1 + max((v.shown_rank for v in versions), default=0)
        versions.append(message)
        self._put(message)
        self._shown = None

    def _put(self, message: ConversationMessage, *, is_new: bool = True) -> None:
        self._by_id[message.id] = message
        run = message.run
        if run is not None and (is_new or run.tool_calls or not message.is_settled):
            self._live[message.id] = message

    def fill(self, messages: Iterable[ConversationMessage]) -> None:
        """Add messages that have their parents and ranks, parents first."""
        for message in messages:
            self._put(message, is_new=False)
            parent_id = message.parent.id if message.parent else None
            self._following.setdefault(parent_id, []).append(message)
        self._shown = None

    def remove(self, message: ConversationMessage) -> list[ConversationMessage]:
        """Remove a message and all messages after it, in all versions; return them in order."""
        removed = [message]
        for each in removed:
            removed.extend(self._following.get(each.id, ()))
        for each in removed:
            self._following.pop(each.id, None)
            del self._by_id[each.id]
            self._live.pop(each.id, None)
        self._following[message.parent.id if message.parent else None].remove(message)
        self._shown = None
        return removed

    def put_back(self, removed: Iterable[ConversationMessage]) -> None:
        """Put removed messages back, in their order; they keep their ranks."""
        for message in removed:
            self._put(message)
            versions = self._following.setdefault(message.parent.id if message.parent else None, [])
            versions.append(message)
            versions.sort(key=lambda version: version.created_at)
        self._shown = None

    def versions(self, message: ConversationMessage) -> list[ConversationMessage]:
        """Return a message with its siblings, oldest first."""
        return list(self._following.get(message.parent.id if message.parent else None, ()))

    def show(self, message: ConversationMessage) -> list[ConversationMessage]:
        """Show a message and its parents; return the messages whose rank changed."""
        changed: list[ConversationMessage] = []
        step: ConversationMessage | None = message
        while step is not None:
            highest = max(version.shown_rank for version in self.versions(step))
            rivals = [v for v in self.versions(step) if v.shown_rank == highest]
            if step.shown_rank < highest or len(rivals) > 1:
                step.shown_rank = highest + 1
                changed.append(step)
            step = step.parent
        self._shown = None
        return changed

    def add_version(
        self,
        message: ConversationMessage,
        parent: ConversationMessage | None,
        replaced: ConversationMessage | None = None,
    ) -> list[ConversationMessage]:
        """Add a message, followed by copies of the messages after the replaced one; return these.

        Nothing follows it without a replaced message.
        """
        shown = self.shown()
        is_followed = replaced is not None and replaced in shown
        following = shown[shown.index(replaced) + 1 :] if replaced and is_followed else []
        followers = copied_below(following, message)
        self.add(message, parent)
        for follower in followers:
            self.add(follower, follower.parent)
        return followers

    def path_to(self, message: ConversationMessage | None) -> list[ConversationMessage]:
        path: list[ConversationMessage] = []
        while message is not None:
            path.append(message)
            message = message.parent
        return path[::-1]


def frozen(message: ConversationMessage) -> ConversationMessage:
    """Return a message that no longer changes: itself, or a copy if its answer is running."""
    if message.is_settled or message.run is None:
        return message
    calls, results = list(message.run.tool_calls), list(message.run.results)
    run = replace(message.run, tool_calls=calls, results=results)
    return replace(message, run=run)


def chained(messages: Iterable[ConversationMessage]) -> Iterator[ConversationMessage]:
    """Set the parent of each message to the one before it."""
    before: ConversationMessage | None = None
    for message in messages:
        message.parent, message.shown_rank = before, 1
        before = message
        yield message


def copied_below(
    messages: Iterable[ConversationMessage], parent: ConversationMessage
) -> list[ConversationMessage]:
    """Return copies of consecutive messages, to follow another message."""
    twins: list[ConversationMessage] = []
    for message in messages:
        parent = _twin(message, parent, 1)
        twins.append(parent)
    return twins


def copied(messages: Iterable[ConversationMessage]) -> list[ConversationMessage]:
    """Return copies of messages and runs with new ids, parents first."""
    twins: dict[str, ConversationMessage] = {}
    for message in messages:
        parent = twins[message.parent.id] if message.parent else None
        twins[message.id] = _twin(message, parent, message.shown_rank)
    return list(twins.values())


def runs_of(messages: Iterable[ConversationMessage]) -> list[Run]:
    """Return the runs of the answers among the messages."""
    return [message.run for message in messages if message.run is not None]


def question(typed: str, files: Iterable[Attachment] = ()) -> ConversationMessage:
    """Return a question of the user: the files, then the text."""
    attached = tuple(files)
    readings = tuple(file.reading for file in attached)
    cuts = tuple(file.sent_chars for file in attached)
    return ConversationMessage(
        "user",
        with_attachments(typed, attached),
        attached_chars=attached_chars(typed, attached),
        sent_chars=cuts if any(chars is not None for chars in cuts) else (),
        readings=readings if any(readings) else (),
    )


def _twin(
    message: ConversationMessage, parent: ConversationMessage | None, rank: int
) -> ConversationMessage:
    run = None if message.run is None else message.run.copy()
    return replace(message, run=run, parent=parent, shown_rank=rank, id=uuid.uuid4().hex)

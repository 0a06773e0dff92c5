"""Rows of the tables: taken from conversations on the main thread, written on the store's.

A row is a snapshot of immutable values, so that nothing is shared between the two threads.
"""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.files.fields import DamagedFile, Fields, parsed_json
from ui.records import codec
from ui.records.conversations import Conversation, preview_of
from ui.records.messages import ChatMessage
from ui.records.presets import Preset, presets_from_json, presets_json
from ui.records.runs import Run, RunState

MESSAGE_COLUMNS = "id, parent_id, role, text, run, created_at, shown_rank"


@dataclass(frozen=True, slots=True)
class MessageRow:
    """A message as it was when it was saved; the run is turned into JSON on the store's thread."""

    conversation_id: str
    id: str
    parent_id: str | None
    role: str
    text: str
    run: dict[str, Any] | None
    is_running: bool
    created_at: float
    shown_rank: int

    def values(self) -> tuple[Any, ...]:
        """Return what is written, in the order of the columns."""
        run = None if self.run is None else json.dumps(self.run, ensure_ascii=True)
        return (
            self.id,
            self.conversation_id,
            self.parent_id,
            self.role,
            storable(self.text),
            run,
            self.is_running,
            self.created_at,
            self.shown_rank,
        )


def message_row(conversation: Conversation, message: ChatMessage) -> MessageRow:
    """Return a message's row."""
    return MessageRow(
        conversation.id,
        message.id,
        message.parent.id if message.parent else None,
        message.role,
        message.said,
        None if message.run is None else codec.run_values(message.run),
        not message.is_settled,
        message.created_at,
        message.shown_rank,
    )


def conversation_row(conversation: Conversation) -> tuple[Any, ...]:
    """Return a conversation's row."""
    return (
        conversation.id,
        storable(conversation.title),
        json.dumps(codec.settings_values(conversation.settings)),
        json.dumps(codec.stops_values(conversation.stops)),
        storable(conversation.draft),
        conversation.is_pinned,
        conversation.created_at,
        conversation.updated_at,
    )


def conversation_from(row: Sequence[Any], preview: str | None) -> Conversation:
    """Return a conversation; with a preview, its messages are still to be loaded."""
    identity, title, settings, stops, draft, is_pinned, created_at, updated_at = row
    # Settings can be set again; for their sake no conversation is withheld, nor its stops.
    read_settings, read_stops = None, []
    with contextlib.suppress(DamagedFile):
        read_settings = codec.settings_from(Fields(parsed_json(settings)))
    with contextlib.suppress(DamagedFile):
        read_stops = codec.stops_from(Fields({"stops": parsed_json(stops)}))
    created_at, updated_at = codec.moment(created_at), codec.moment(updated_at)
    conversation = Conversation(
        title, (), read_settings, read_stops, draft, created_at, updated_at, identity
    )
    conversation.is_pinned = bool(is_pinned)
    if preview is not None:
        conversation.unload(preview_of(preview))
    return conversation


def messages_from(rows: Iterable[Sequence[Any]]) -> list[ChatMessage]:
    """Return messages with their parents, which have to come first."""
    read: dict[str, ChatMessage] = {}
    for identity, parent_id, role, text, run, created_at, shown_rank in rows:
        read[identity] = ChatMessage(
            role,
            text,
            _run(run, text) if role == "assistant" else None,
            codec.moment(created_at),
            read.get(parent_id) if parent_id else None,
            codec.shown_rank(shown_rank),
            identity,
        )
    return list(read.values())


def preset_row(preset: Preset) -> tuple[str, str]:
    """Return a preset's row."""
    return preset.name, presets_json([preset])


def presets_from(rows: Iterable[Sequence[Any]]) -> list[Preset]:
    """Return presets; one that can not be read is left out."""
    presets: list[Preset] = []
    for (content,) in rows:
        try:
            presets += presets_from_json(content)
        except DamagedFile:
            continue
    return presets


def storable(text: str) -> str:
    """Return text with half characters (lone surrogates), which no UTF-8 can hold, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _run(content: str | None, text: str) -> Run:
    try:
        return codec.run_from(Fields(parsed_json(content or "")), text)
    except DamagedFile:
        # The answer is worth more than the record of how it ended.
        return Run(text=text, state=RunState.UNRECORDED)

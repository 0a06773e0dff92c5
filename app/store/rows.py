"""Rows of the tables: taken from conversations on the main thread, written on the store's.

A row is a snapshot of immutable values, so that nothing is shared between the two threads.
"""

import contextlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from engine.files.json_fields import DamagedFile, Fields, parsed_json
from ui.records.attachments import Attachment, attachment_from, attachment_values
from ui.records.codec import (
    Preset,
    folder_from,
    folder_values,
    message_values,
    model_from,
    model_values,
    moment,
    position_from,
    position_values,
    presets_from_json,
    presets_json,
    queue_from,
    queue_values,
    run_from,
    run_values,
    settings_from,
    settings_values,
    shown_rank,
    stops_from,
    stops_values,
    take_message_values,
    when_full_from,
)
from ui.records.conversations import Conversation, ConversationFolder, Placement, QueuedMessage
from ui.records.facts import Fact
from ui.records.messages import ConversationMessage
from ui.records.runs import PastRun, Run
from ui.records.titles import title_from_file
from ui.records.tool_choice import ToolsInUse, choice_from, choice_values

_NAMELESS_FOLDER = "Folder"
# Tables of a key and JSON.
ATTACHED = ("conversation_id", "content")  # unsent files and messages
PRESETS = ("name", "content")
FOLDERS = ("id", "content")
DOCUMENTS = ("number", "owner", "id", "name", "remark", "passages")
PASSAGES = ("number", "page", "last_page", "heading", "text")
FACTS = ("id", "text", "created_at", "conversation_id")
Pair = tuple[str, str]
FactRow = tuple[str, str, float, str]


class ConversationRow(NamedTuple):
    """A conversation in the database; the names of the fields are those of the columns."""

    id: str
    title: str
    settings: str
    stops: str
    draft: str
    is_pinned: bool
    created_at: float
    updated_at: float
    folder_id: str = ""
    is_archived: bool = False
    origin: str = ""
    stops_from: str = ""


class MessageRow(NamedTuple):
    """A message; ``run`` is JSON: an answer's run, or where a question's files end in its text."""

    id: str
    conversation_id: str
    parent_id: str | None
    role: Literal["user", "assistant"]
    text: str
    run: str | None
    is_running: bool
    created_at: float
    shown_rank: int


class RecoveredRows(NamedTuple):
    """Readable rows of a backup or of a damaged file."""

    conversations: Sequence[ConversationRow] = ()
    attached: Sequence[Pair] = ()
    messages: Sequence[MessageRow] = ()
    presets: Sequence[Pair] = ()
    folders: Sequence[Pair] = ()
    facts: Sequence[FactRow] = ()
    documents: Sequence[tuple[Any, ...]] = ()  # of folders
    passages: Sequence[tuple[Any, ...]] = ()


def message_row(conversation: Conversation, message: ConversationMessage) -> MessageRow:
    """Return a message as it is now."""
    values = message_values(message)
    if message.run is not None:
        values = {**run_values(message.run), **values}
    return MessageRow(
        id=message.id,
        conversation_id=conversation.id,
        parent_id=message.parent.id if message.parent else None,
        role=message.role,
        text=storable(message.content),
        run=json.dumps(values) if values else None,
        is_running=not message.is_settled,
        created_at=message.created_at,
        shown_rank=message.shown_rank,
    )


def conversation_row(conversation: Conversation) -> ConversationRow:
    """Return a conversation's row."""
    return ConversationRow(
        id=conversation.id,
        title=storable(conversation.title),
        settings=json.dumps(_settings(conversation)),
        stops=json.dumps(stops_values(conversation.stops)),
        draft=storable(conversation.draft),
        is_pinned=conversation.is_pinned,
        created_at=conversation.created_at,
        updated_at=conversation.updated_at,
        folder_id=conversation.placement.folder_id,
        is_archived=conversation.placement.is_archived,
        origin=storable(conversation.origin),
        stops_from=storable(conversation.stops_from),
    )


# What waits to be sent in a conversation: the files of its draft, and whole messages.
Unsent = tuple[tuple[Attachment, ...], tuple[QueuedMessage, ...]]


def unsent_json(unsent: Unsent) -> str:
    """Return what waits to be sent, for a row of its own."""
    files = [attachment_values(file) for file in unsent[0]]
    queue = queue_values(unsent[1])
    # Earlier versions know only the list of files.
    return json.dumps({"files": files, "queue": queue} if queue else files)


def unsent_from(content: str) -> Unsent:
    """Return what waits to be sent; nothing where it cannot be read."""
    try:
        values = parsed_json(content)
        fields = Fields(values if isinstance(values, dict) else {"files": values})
        return tuple(map(attachment_from, fields.items("files"))), queue_from(fields)
    except DamagedFile:
        return (), ()


def _settings(conversation: Conversation) -> dict[str, Any]:
    """Return the settings, and beside them model and tools, as one JSON object."""
    values = settings_values(conversation.settings)
    beside = {
        "model": model_values(conversation.model),
        "tools": choice_values(conversation.tools),
        "when_full": conversation.when_full,
        "shown_at": conversation.shown_at,
        "place": position_values(conversation.reading_position),
    }
    return {**values, **{name: value for name, value in beside.items() if value}}


def conversation_from(stored: ConversationRow, has_messages: bool) -> Conversation:
    """Return a conversation, whose messages are still to be loaded."""
    # Settings can be set again; for their sake no conversation is withheld, nor its stops.
    settings, stops, model, tools = None, [], None, ToolsInUse()
    when_full, position, shown_at = None, None, 0.0
    with contextlib.suppress(DamagedFile):
        fields = Fields(parsed_json(stored.settings))
        settings = settings_from(fields)
        model = model_from(fields.inner("model")) if fields.has("model") else None
        tools = choice_from(fields.inner("tools")) if fields.has("tools") else tools
        when_full = when_full_from(fields)
        shown_at = moment(fields.maybe("shown_at", float))
        position = position_from(fields.inner("place")) if fields.has("place") else None
    with contextlib.suppress(DamagedFile):
        stops = stops_from(Fields({"stops": parsed_json(stored.stops)}))
    created_at, updated_at = moment(stored.created_at), moment(stored.updated_at)
    conversation = Conversation(
        title_from_file(stored.title),
        (),
        settings,
        stops,
        stored.draft,
        created_at,
        updated_at,
        stored.id,
    )
    conversation.is_pinned = bool(stored.is_pinned)
    conversation.placement = Placement(stored.folder_id, bool(stored.is_archived))
    conversation.origin, conversation.stops_from = stored.origin, stored.stops_from
    conversation.model, conversation.tools = model, tools
    conversation.when_full, conversation.reading_position = when_full, position
    conversation.shown_at = shown_at
    if has_messages:
        conversation.unload()
    return conversation


def messages_from(rows: Iterable[MessageRow]) -> list[ConversationMessage]:
    """Return messages with their parents, which have to come first."""
    read: dict[str, ConversationMessage] = {}
    for row in rows:
        fields = _stored_fields(row.run)
        message = read[row.id] = ConversationMessage(
            row.role,
            row.text,
            _run(fields, row.text) if row.role == "assistant" else None,
            moment(row.created_at),
            read.get(row.parent_id) if row.parent_id else None,
            shown_rank(row.shown_rank),
            row.id,
        )
        if fields is not None:
            take_message_values(message, fields)
    return list(read.values())


def past_run(
    conversation_id: str, title: str, question: str | None, text: str, run: str | None
) -> PastRun:
    """Return an answer of some conversation."""
    fields = _stored_fields(run)
    return PastRun(conversation_id, title_from_file(title), question or "", _run(fields, text))


def preset_row(preset: Preset) -> Pair:
    """Return a preset's row."""
    return preset.name, presets_json([preset])


def presets_from(rows: Iterable[Pair]) -> list[Preset]:
    """Return the readable presets."""
    presets: list[Preset] = []
    for _, content in rows:
        try:
            presets += presets_from_json(content)
        except DamagedFile:
            continue
    return presets


def folder_row(folder: ConversationFolder) -> Pair:
    """Return a folder's row."""
    return folder.id, json.dumps(folder_values(folder))


def folders_from(rows: Iterable[Pair]) -> list[ConversationFolder]:
    """Return folders. One that cannot be read loses its name and memory, not its conversations."""
    folders: list[ConversationFolder] = []
    for identity, content in rows:
        try:
            folders.append(replace(folder_from(Fields(parsed_json(content))), id=identity))
        except DamagedFile:
            # Its conversations may be private.
            folders.append(ConversationFolder(_NAMELESS_FOLDER, id=identity, has_memory=False))
    return folders


def fact_row(fact: Fact) -> FactRow:
    """Return a fact's row."""
    return fact.id, storable(fact.text), fact.created_at, fact.conversation_id


def storable(text: str) -> str:
    """Return text with half characters (lone surrogates), which no UTF-8 can hold, replaced."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _stored_fields(content: str | None) -> Fields | None:
    """Return the JSON values stored with a message; None if unreadable."""
    try:
        return Fields(parsed_json(content)) if content else None
    except DamagedFile:
        return None


def _run(fields: Fields | None, text: str) -> Run:
    if fields is not None:
        with contextlib.suppress(DamagedFile):
            return run_from(fields, text)
    # The answer is worth more than the record of how it ended.
    return Run(text=text, state="unrecorded")

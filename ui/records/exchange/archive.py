"""Conversations as files: JSON that can be imported again, and Markdown for people. Pure.

Any thread. Reading gives every message a new id, so that an import never replaces anything.
"""

import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from engine.files.json_fields import DamagedFile, Fields, parsed_json
from engine.files.json_items import JsonItem
from engine.values.figures import figures
from ui.records.attachments import attachment_from, attachment_values
from ui.records.codec import (
    Preset,
    check_version,
    folder_from,
    folder_values,
    message_values,
    moment,
    preset_from,
    preset_values,
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
from ui.records.conversations import ChosenModel, Conversation, ConversationFolder, Placement
from ui.records.exchange.contents import FileContents, origin_of
from ui.records.facts import Fact, fact_from, fact_values
from ui.records.messages import ConversationMessage, Role, copied
from ui.records.runs import Run
from ui.records.titles import title_from_file

VERSION = 1


# The beginning of a file; the conversations follow, and ``archive_end`` closes it.
ARCHIVE_BEGIN = f'{{\n"fullstop_conversations": {VERSION},\n"conversations": ['
OURS = "Fullstop"
LISTS = ("conversations", "folders", "presets", "facts")


def archive_end(
    folders: Iterable[ConversationFolder] = (),
    presets: Iterable[Preset] = (),
    facts: Iterable[Fact] = (),
) -> str:
    """Return the end of a file, with the folders of its conversations, presets and kept facts."""
    parts = {
        "folders": [folder_values(folder) for folder in folders],
        "presets": [preset_values(preset) for preset in presets],
        "facts": [fact_values(fact) for fact in facts],
    }
    listed = (f',\n"{name}": {json.dumps(of, indent=1)}' for name, of in parts.items() if of)
    return f"\n]{''.join(listed)}\n}}\n"


def archive_part(conversation: Conversation, *, is_first: bool) -> str:
    """Return a loaded conversation, all versions included, as a part of a file."""
    # With an indent, Python's encoder works in small steps, so that other threads can run.
    text = json.dumps(conversation_values(conversation), ensure_ascii=False, indent=1)
    return f"{'' if is_first else ','}\n{text}"


def conversations_json(
    conversations: Iterable[Conversation],
    folders: Iterable[ConversationFolder] = (),
    presets: Iterable[Preset] = (),
) -> str:
    """Return loaded conversations, all versions included, as the text of a file."""
    parts = [
        archive_part(conversation, is_first=not n) for n, conversation in enumerate(conversations)
    ]
    return ARCHIVE_BEGIN + "".join(parts) + archive_end(folders, presets)


def conversations_from_json(text: str) -> list[Conversation]:
    """Return the conversations of a file; raises ``DamagedFile`` if a part is damaged."""
    top = Fields(parsed_json(text))
    check_version(top, "fullstop_conversations", VERSION)
    return [conversation_from(item) for item in top.items("conversations")]


def read_archive_item(item: JsonItem, contents: FileContents) -> None:
    """Read a part of a file that arrives in parts; a damaged one is noted."""
    if item.name == "fullstop_conversations":
        check_version(Fields({item.name: item.value}), item.name, VERSION)
        contents.program = OURS
        return
    if item.name not in LISTS:
        return
    if item.number is None:
        raise DamagedFile(f"{item.name}: must be a list")
    try:
        part = Fields(item.value, item.path)
        match item.name:
            case "conversations":
                conversation = conversation_from(part)
                _take_pictures(conversation, contents)
                contents.conversations.append(conversation)
            case "folders":
                contents.folders.append(folder_from(part))
            case "facts":
                contents.facts.append(fact_from(part))
            case _:
                contents.presets.append(preset_from(part))
    except DamagedFile as error:
        cause = str(error)
        contents.note_damage(cause if cause.startswith(item.path) else f"{item.path}: {cause}")


def _take_pictures(conversation: Conversation, contents: FileContents) -> None:
    """Keep the pictures of messages and drafts, and count the missing ones."""
    for picture in conversation.pictures:
        name = picture.kept_file
        kept = not picture.is_sound and contents.pictures.file_of(name)
        if not (kept or contents.pictures.is_here(name)):
            contents.left_out["sound recording" if picture.is_sound else "picture"] += 1


def conversation_markdown(conversation: Conversation) -> str:
    """Return the shown messages of a loaded conversation as Markdown."""
    lines = [f"# {' '.join(conversation.title.split())}", ""]
    if conversation.settings.system_prompt.strip():
        lines += ["## System prompt", "", conversation.settings.system_prompt, ""]
    for message in conversation.messages:
        run = message.run
        if run is None:
            lines += ["## You", "", message.text, ""]
            continue
        when = datetime.fromtimestamp(message.created_at).strftime("%Y-%m-%d %H:%M")
        lines += [f"## {run.model_id or 'Answer'}, {when}", ""]
        if run.thinking:
            lines += ["<details><summary>Thinking</summary>", "", run.thinking, "", "</details>"]
            lines.append("")
        lines += [run.text + _struck(run), "", *_calls(run)]
        for picture in run.pictures:
            lines += [f"{picture.name}: {picture.text}", ""]
        if ending := _ending(run):
            lines += [f"*{ending}*", ""]
    return "\n".join(lines).rstrip() + "\n"


def _struck(run: Run) -> str:
    """Return the words that a stop cut off, struck as in the chat; empty inside code."""
    words = run.cut_text.strip()
    space = run.cut_text[: -len(run.cut_text.lstrip()) or None]
    is_plain = words.isprintable() and not set(words) & set("~`\\*_<")
    is_code = run.text.count("```") % 2 or run.text.count("~~~") % 2
    return f"{space}~~{words}~~" if words and is_plain and not is_code else ""


def _calls(run: Run) -> list[str]:
    """Return the calls of an answer with their results, indented as code."""
    lines: list[str] = []
    for call in run.tool_calls:
        result = run.result_of(call.id)
        texts = [call.arguments] if result is None else [call.arguments, f"→ {result.text}"]
        lines += [f"Called `{call.name.replace('`', '')}`:", ""]
        lines += [f"    {line}" for part in texts for line in part.split("\n")]
        lines.append("")
    return lines


def _ending(run: Run) -> str:
    """Return the line under an answer: figures, then the reason by name."""
    if run.state == "refused":
        return f"Not sent: {run.refusal}"
    verdict, finished = run.verdict, run.finished
    if verdict is None or (finished is None and run.state != "interrupted"):
        return ""
    known = () if finished is None else figures(finished)
    return " · ".join((*known, verdict.text.label)).replace("*", "\\*")


def conversation_values(conversation: Conversation) -> dict[str, Any]:
    """Return a loaded conversation, all versions included, as JSON values."""
    placement = conversation.placement
    values: dict[str, Any] = {
        "id": conversation.id,
        "title": conversation.title,
        "created_at": conversation.created_at,
        "updated_at": conversation.updated_at,
        "is_pinned": conversation.is_pinned,
        "draft": conversation.draft,
        # Only the name: the folder is private.
        "model": "" if conversation.model is None else conversation.model.name,
        "settings": settings_values(conversation.settings),
        "stops": stops_values(conversation.stops),
    }
    order = {
        "attachments": [attachment_values(file) for file in conversation.attachments],
        "folder": placement.folder_id,
        "is_archived": placement.is_archived,
        "origin": conversation.origin,
        "stops_from": conversation.stops_from,
        "queue": queue_values(conversation.queue),
        "when_full": conversation.when_full,
    }
    values.update((name, value) for name, value in order.items() if value)
    values["messages"] = [_message_values(message) for message in conversation.tree]
    return values


def _message_values(message: ConversationMessage) -> dict[str, Any]:
    values: dict[str, Any] = {
        "id": message.id,
        "parent": message.parent.id if message.parent else None,
        "role": message.role,
        "text": message.content,
        "created_at": message.created_at,
        "shown_rank": message.shown_rank,
    }
    values.update(message_values(message))
    if message.run is not None:
        values["run"] = run_values(message.run)
    return values


def conversation_from(fields: Fields) -> Conversation:
    """Return a conversation from its JSON values; raises ``DamagedFile`` if one is wrong."""
    conversation = Conversation(
        title=title_from_file(fields.maybe("title", str) or ""),
        settings=settings_from(fields.inner("settings")) if fields.has("settings") else None,
        stops=stops_from(fields),
        draft=fields.maybe("draft", str) or "",
        created_at=_moment(fields, "created_at"),
        updated_at=_moment(fields, "updated_at"),
        is_pinned=fields.maybe("is_pinned", bool) or False,
    )
    if name := fields.maybe("model", str):
        conversation.model = ChosenModel(title_from_file(name))
    conversation.placement = Placement(
        fields.maybe("folder", str) or "",
        fields.maybe("is_archived", bool) is True,
    )
    conversation.attachments = tuple(map(attachment_from, fields.items("attachments")))
    conversation.queue = queue_from(fields)
    conversation.when_full = when_full_from(fields)
    conversation.stops_from = fields.maybe("stops_from", str) or ""
    conversation.origin = fields.maybe("origin", str) or ""
    if not conversation.origin and (name := fields.maybe("id", str)):
        conversation.origin = origin_of(OURS, name)
    read: dict[str, ConversationMessage] = {}
    for item in fields.items("messages"):
        message = _message(item, read)
        read[message.id] = message
    conversation.tree.fill(copied(read.values()))
    return conversation


def _moment(fields: Fields, name: str) -> float | None:
    value = fields.maybe(name, float)
    return None if value is None else moment(value)


def _message(fields: Fields, read: dict[str, ConversationMessage]) -> ConversationMessage:
    parent_id = fields.maybe("parent", str)
    parent = read.get(parent_id) if parent_id is not None else None
    if parent_id is not None and parent is None:
        raise fields.wrong("parent", "must be the id of an earlier message")
    message_id = fields.take("id", str)
    if message_id in read:
        raise fields.wrong("id", "two messages have the same id")
    named = fields.take("role", str)
    if named not in ("user", "assistant"):
        raise fields.wrong("role", "must be “user” or “assistant”")
    role: Role = "user" if named == "user" else "assistant"
    text = fields.take("text", str)
    run: Run | None = None
    if role == "assistant":
        # An answer from another program may have no record of its run, or of its end.
        bare = Run(text=text, state="unrecorded")
        run = bare
        if fields.has("run"):
            run = run_from(fields.inner("run"), text, "unrecorded")
    message = ConversationMessage(
        role,
        text,
        run,
        _moment(fields, "created_at") or 0.0,
        parent,
        shown_rank(fields.maybe("shown_rank", int)),
        message_id,
    )
    take_message_values(message, fields)
    return message

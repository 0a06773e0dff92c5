"""Reads Claude's export: ``conversations.json``, each conversation a list of messages.

https://support.claude.com/en/articles/9450526-how-can-i-export-my-claude-ai-data describes the
export; its format has no reference. Where messages name the one before them, edits and retries
become our versions. Pure; any thread.
"""

from typing import Any

from engine import StopKind, ToolCall
from engine.files.json_fields import DamagedFile, Fields
from ui.records.attachments import Attachment
from ui.records.exchange.contents import FoundConversations
from ui.records.exchange.other_programs import (
    Reason,
    Said,
    call_of,
    conversation_of,
    file_name,
    fill,
    parts_of,
    result_of,
    seconds,
    text_in,
    whole,
    with_files,
)
from ui.records.messages import ConversationMessage
from ui.records.tools import CallResult

CLAUDE = "Claude"
_ENDS = {
    "end_turn": StopKind.EOS,
    "stop_sequence": StopKind.STOP_STRING,
    "max_tokens": StopKind.MAX_TOKENS,
    "tool_use": StopKind.TOOL_CALL,
    "user_canceled": StopKind.CANCELLED,
}


def read_claude(part: Fields, found: FoundConversations) -> None:
    """Read one conversation; damaged messages are listed, and the others are read."""
    began, ended = seconds(part.raw("created_at")), seconds(part.raw("updated_at"))
    name = part.take("uuid", str)
    conversation = conversation_of(CLAUDE, name, text_in(part, "name"), began, ended)
    # The message made from each; for an empty one, the message before it.
    by_id: dict[str, ConversationMessage | None] = {}
    ranks: dict[str | None, int] = {}
    made: list[ConversationMessage] = []
    last: ConversationMessage | None = None
    for where, value in parts_of(part, "chat_messages"):
        try:
            message = Fields(value, where)
            said = _said(message, found)
            above = text_in(message, "parent_message_uuid")
        except DamagedFile as error:
            found.note_damage(f"“{conversation.title}”: {error}")
            continue
        parent = by_id[above] if above in by_id else None if _is_first(above) else last
        if said is not None:
            key = parent.id if parent else None
            ranks[key] = ranks.get(key, 0) + 1
            last = said.message(parent, ranks[key])
            made.append(last)
            parent = last
        if own := text_in(message, "uuid"):
            by_id[own] = parent
    fill(conversation, made)
    leaf = by_id.get(text_in(part, "current_leaf_message_uuid"), last)
    if leaf is not None:
        conversation.tree.show(leaf)
    if made:
        found.conversations.append(conversation)
    else:
        found.left_out["empty conversation"] += 1


def _is_first(above: str) -> bool:
    """Return whether a parent's id means "none": all zeros, except for the UUID's version."""
    return above.startswith("00000000-0000-")


def _said(message: Fields, found: FoundConversations) -> Said | None:
    sender = message.take("sender", str)
    if sender not in ("human", "assistant"):
        found.left_out["message of an unknown sender"] += 1
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    calls: dict[str, ToolCall] = {}
    results: list[CallResult] = []
    for number, block in enumerate(message.items("content")):
        kind = text_in(block, "type")
        if kind == "text" and isinstance(text := block.raw("text"), str):
            texts.append(whole(text))
        elif kind == "thinking" and isinstance(text := block.raw("thinking"), str):
            thoughts.append(whole(text))
        elif kind == "tool_use":
            own = text_in(block, "id") or f"call_{number}"
            calls[own] = call_of(own, text_in(block, "name"), block.raw("input") or {})
        elif kind == "tool_result" and calls:
            own = text_in(block, "tool_use_id")
            call = calls.get(own) or list(calls.values())[-1]
            is_error = block.raw("is_error") is True
            results.append(result_of(call, _result_text(block, found), is_error=is_error))
        elif kind != "token_budget":  # a mark without content
            found.left_out["unknown part" if kind != "tool_result" else "message of a tool"] += 1
    said = "\n\n".join(text for text in texts if text.strip())
    if not said and isinstance(plain := message.raw("text"), str):
        said = whole(plain)
    files = tuple(_files(message, found))
    when = seconds(message.raw("created_at"))
    if sender == "human":
        made = Said("user", said, when, files=files)
    else:
        said, _ = with_files(said, files)
        reason = _reason(message.raw("stop_reason"), message.raw("stop_sequence"))
        made = Said(
            "assistant", said, when, thinking="\n\n".join(thoughts), calls=tuple(calls.values()),
            results=tuple(results), reason=reason,
        )  # fmt: skip
    return None if made.is_empty else made


def _reason(named: Any, sequence: Any) -> Reason | None:
    kind = _ENDS.get(named) if isinstance(named, str) else None
    is_named = kind is StopKind.STOP_STRING and isinstance(sequence, str) and bool(sequence)
    return None if kind is None else Reason(kind, whole(sequence) if is_named else None)


def _result_text(block: Fields, found: FoundConversations) -> str:
    content = block.raw("content")
    if isinstance(content, str):
        return content
    texts = []
    for part in content if isinstance(content, list) else []:
        if isinstance(part, dict) and isinstance(text := part.get("text"), str):
            texts.append(text)
        else:
            is_picture = isinstance(part, dict) and part.get("type") == "image"
            found.left_out["picture" if is_picture else "unknown part"] += 1
    return "\n\n".join(texts)


def _files(message: Fields, found: FoundConversations) -> list[Attachment]:
    files = []
    for item in message.items("attachments"):
        name = file_name(text_in(item, "file_name") or "attachment.txt")
        if isinstance(text := item.raw("extracted_content"), str) and text:
            files.append(Attachment(name, whole(text)))
        else:
            found.left_out["attached file"] += 1
            files.append(Attachment(name, "(the file is not in the export)"))
    read = {file.name for file in files}
    for item in message.items("files"):
        name = file_name(text_in(item, "file_name"))
        if name not in read:
            found.left_out["attached file"] += 1
            files.append(Attachment(name, "(the file is not in the export)"))
    return files

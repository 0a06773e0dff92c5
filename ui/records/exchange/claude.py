"""Reads Claude's export: ``conversations.json``, each conversation a list of messages.

https://support.claude.com/en/articles/9450526-how-can-i-export-my-claude-ai-data describes the
export; its format has no reference. Where messages name the one before them, edits and retries
become our versions. Pure; any thread.
"""

from engine.files.fields import DamagedFile, Fields
from ui.records.attachments import Attachment
from ui.records.exchange.found import FoundConversations
from ui.records.exchange.other_programs import (
    Said,
    conversation_of,
    fill,
    parts_of,
    seconds,
    text_in,
    whole,
)
from ui.records.messages import ConversationMessage

CLAUDE = "Claude"


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
            said = _said(message)
            above = text_in(message, "parent_message_uuid")
        except DamagedFile as error:
            found.damaged.append(f"“{conversation.title}”: {error}")
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


def _is_first(above: str) -> bool:
    """Return whether a parent's id means "none": all zeros, except for the UUID's version."""
    return above.startswith("00000000-0000-")


def _said(message: Fields) -> Said | None:
    sender = message.take("sender", str)
    if sender not in ("human", "assistant"):
        return None
    texts: list[str] = []
    thoughts: list[str] = []
    for block in message.items("content"):
        kind = text_in(block, "type")
        if kind == "text" and isinstance(text := block.raw("text"), str):
            texts.append(whole(text))
        elif kind == "thinking" and isinstance(text := block.raw("thinking"), str):
            thoughts.append(whole(text))
    said = "\n\n".join(text for text in texts if text.strip())
    if not said and isinstance(plain := message.raw("text"), str):
        said = whole(plain)
    files = tuple(_files(message)) if sender == "human" else ()
    when = seconds(message.raw("created_at"))
    if not said.strip() and not files:
        return None
    if sender == "human":
        return Said("user", said, when, files=files)
    return Said("assistant", said, when, thinking="\n\n".join(thoughts))


def _files(message: Fields) -> list[Attachment]:
    return [
        Attachment(" ".join(text_in(one, "file_name").split()) or "attachment.txt", whole(text))
        for one in message.items("attachments")
        if isinstance(text := one.raw("extracted_content"), str) and text
    ]

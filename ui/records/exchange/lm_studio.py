"""Reads LM Studio's conversations: a ``*.conversation.json`` for each, in folders.

The format has no reference; this reads what LM Studio 0.3 writes. Each message has versions, one of
which is selected; all versions share the messages that follow. Pure; any thread.
"""

from dataclasses import replace
from pathlib import PurePosixPath

from engine.files.fields import DamagedFile, Fields
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

LM_STUDIO = "LM Studio"
SUFFIX = ".conversation.json"


def read_lm_studio(part: Fields, name: str, found: FoundConversations) -> None:
    """Read a conversation; damaged messages are listed, and the others are read.

    Args:
        part: The content of its file.
        name: The file's path in the folder of conversations.
        found: Gets the conversation.
    """
    began = seconds(part.raw("createdAt"))
    own = PurePosixPath(name).name.removesuffix(SUFFIX)
    conversation = conversation_of(LM_STUDIO, own, text_in(part, "name"), began, 0.0)
    conversation.is_pinned = part.raw("pinned") is True
    prompt = text_in(part, "systemPrompt")
    conversation.settings = replace(conversation.settings, system_prompt=whole(prompt))
    made: list[ConversationMessage] = []
    parent: ConversationMessage | None = None
    for where, value in parts_of(part, "messages"):
        try:
            said, selected = _versions(Fields(value, where))
        except DamagedFile as error:
            found.damaged.append(f"{name}: {error}")
            continue
        versions = [one.message(parent, 2 if number == selected else 1) for number, one in said]
        made += versions
        shown = next((m for m in versions if m.shown_rank == 2), None)
        parent = shown or (versions[-1] if versions else parent)
    # Messages have no times: the newest is at least as new as the conversation.
    for message in made:
        message.created_at = message.created_at or began
    fill(conversation, made)
    if made:
        found.conversations.append(conversation)


def _versions(message: Fields) -> tuple[list[tuple[int, Said]], int]:
    """Return the versions of a message with their numbers, and the number of the selected one."""
    found = [(n, _said(version)) for n, version in enumerate(message.items("versions"))]
    selected = message.maybe("currentlySelected", int) or 0
    return [(n, said) for n, said in found if said is not None], selected


def _said(version: Fields) -> Said | None:
    role = version.take("role", str)
    if role not in ("user", "assistant"):
        return None
    sender = version.inner("senderInfo") if version.has("senderInfo") else None
    model = text_in(sender, "senderName") if sender is not None else ""
    texts: list[str] = []
    thoughts: list[str] = []
    if version.has("steps"):
        for step in version.items("steps"):
            if text_in(step, "type") != "contentBlock":
                continue
            style = step.inner("style") if step.has("style") else None
            is_thinking = style is not None and text_in(style, "type") == "thinking"
            (thoughts if is_thinking else texts).append(_text(step))
            if step.has("genInfo"):
                model = model or text_in(step.inner("genInfo"), "identifier")
    else:
        texts.append(_text(version))
    text = "".join(texts)
    if not text.strip():
        return None
    if role == "user":
        return Said("user", text)
    return Said("assistant", text, model=model, thinking="".join(thoughts).strip())


def _text(holder: Fields) -> str:
    """Return the text of a list of pieces; tags that only mark structure are left out."""
    return whole(
        "".join(
            text_in(piece, "text")
            for piece in holder.items("content")
            if text_in(piece, "type") == "text" and piece.raw("isStructural") is not True
        )
    )

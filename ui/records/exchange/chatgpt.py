"""Reads ChatGPT's export: ``conversations.json``, each conversation a tree of nodes.

https://help.openai.com/en/articles/7260999-how-do-i-export-my-chatgpt-history-and-data describes
the export; its format has no reference. Edits and regenerated answers are branches of the tree, and
become our versions; ``current_node`` says which of them are shown. Pure; any thread.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from engine.files.fields import DamagedFile, Fields
from ui.records.conversations import Conversation
from ui.records.exchange.found import FoundConversations
from ui.records.exchange.other_programs import (
    Said,
    add_text,
    conversation_of,
    fill,
    seconds,
    text_in,
    whole,
)
from ui.records.messages import ConversationMessage
from ui.records.placement import Placement

CHATGPT = "ChatGPT"
# Marks of sources; they stand for links that are not in the export.
_CITATION = re.compile("\ue200.*?\ue201", re.DOTALL)
_NOT_SAID = (
    "execution_output", "model_editable_context", "reasoning_recap", "system_error",
    "tether_browsing_display", "tether_quote", "user_editable_context",
)  # fmt: skip
_ROLES = ("user", "assistant")


def read_chatgpt(part: Fields, found: FoundConversations) -> None:
    """Read one conversation; damaged nodes are listed, and the others are read."""
    title = text_in(part, "title")
    nodes = part.take("mapping", dict)
    name = text_in(part, "conversation_id") or text_in(part, "id")
    if not name:
        raise part.wrong("conversation_id", "is missing")
    conversation = conversation_of(
        CHATGPT,
        name,
        title,
        seconds(part.raw("create_time")),
        seconds(part.raw("update_time")),
    )
    conversation.placement = Placement(is_archived=part.raw("is_archived") is True)
    tree = _Tree(nodes)
    messages = tree.messages()
    found.damaged += [f"“{conversation.title}”: {words}" for words in tree.damaged]
    fill(conversation, messages)
    _show_current(conversation, tree.message_of(part.raw("current_node")))
    if messages:
        found.conversations.append(conversation)


def _show_current(conversation: Conversation, current: ConversationMessage | None) -> None:
    if current is not None:
        conversation.tree.show(current)


class _Tree:
    """The nodes of one conversation."""

    def __init__(self, nodes: Mapping[str, Any]) -> None:
        self.damaged: list[str] = []
        self._nodes = nodes
        self._message_of: dict[str, ConversationMessage | None] = {}
        self._following: dict[str | None, list[str]] = {}
        for key, node in nodes.items():
            parent = node.get("parent") if isinstance(node, dict) else None
            known = parent if isinstance(parent, str) and parent in nodes else None
            self._following.setdefault(known, []).append(key)

    def message_of(self, key: Any) -> ConversationMessage | None:
        """Return the message made from a node; for a node without one, the message before it."""
        return self._message_of.get(key) if isinstance(key, str) else None

    def messages(self) -> list[ConversationMessage]:
        """Return all messages, parents first."""
        made: list[ConversationMessage] = []
        ranks: dict[str | None, int] = {}
        # A node, with what comes before it: a message, reasoning that has no answer yet, and
        # whether nothing else follows that message.
        waiting: list[tuple[str, ConversationMessage | None, str, bool]] = [
            (key, None, "", True) for key in reversed(self._following.get(None, []))
        ]
        unseen = iter(self._nodes)
        while waiting or (start := self._circle(unseen)) is not None:
            if not waiting:
                assert start is not None
                waiting.append((start, None, "", True))
            key, parent, thinking, is_only = waiting.pop()
            if key in self._message_of:
                continue
            said = self._read(key)
            message = parent
            if said is not None and not said.text.strip():
                thinking = "\n\n".join(part for part in (thinking, said.thinking) if part)
            elif said is not None:
                said = replace(said, thinking=thinking) if said.role == "assistant" else said
                thinking = ""
                if parent is not None and parent.role == said.role and is_only:
                    add_text(parent, said)
                else:
                    above = parent.id if parent else None
                    ranks[above] = ranks.get(above, 0) + 1
                    message = said.message(parent, ranks[above])
                    made.append(message)
                    is_only = True
            self._message_of[key] = message
            following = self._following.get(key, [])
            is_only = is_only and len(following) == 1
            waiting += [(one, message, thinking, is_only) for one in reversed(following)]
        return made

    def _circle(self, unseen: Iterator[str]) -> str | None:
        """Return a node that no first node leads to, because its parents form a circle."""
        key = next((one for one in unseen if one not in self._message_of), None)
        if key is not None:
            self.damaged.append(
                f"mapping.{key[:40]}: the messages before it lead back to it, so the conversation "
                "begins there as well"
            )
        return key

    def _read(self, key: str) -> Said | None:
        node = self._nodes[key]
        try:
            if not isinstance(node, dict):
                raise DamagedFile(f"mapping.{key[:40]}: must be an object")
            return None if node.get("message") is None else _said(self._fields(key, node))
        except DamagedFile as error:
            self.damaged.append(str(error))
            return None

    def _fields(self, key: str, node: Mapping[str, Any]) -> Fields:
        return Fields(node["message"], f"mapping.{key[:40]}.message")


def _said(message: Fields) -> Said | None:
    role = text_in(message.inner("author"), "role")
    details = message.inner("metadata") if message.has("metadata") else None
    if details is not None and details.raw("is_visually_hidden_from_conversation") is True:
        return None
    if role not in _ROLES or not message.has("content"):
        return None
    content = message.inner("content")
    kind = text_in(content, "content_type")
    if kind in _NOT_SAID:
        return None
    model = text_in(details, "model_slug") if details is not None else ""
    when = seconds(message.raw("create_time"))
    if kind == "thoughts":
        thoughts = [whole(text_in(one, "content")) for one in content.items("thoughts")]
        return Said("assistant", "", when, model, "\n\n".join(filter(None, thoughts)))
    text = _CITATION.sub("", whole(_text(content, kind)))
    return Said("user" if role == "user" else "assistant", text, when, model)


def _text(content: Fields, kind: str) -> str:
    if kind == "code":
        language = text_in(content, "language")
        fence = "" if language in ("", "unknown") else language
        return f"```{fence}\n{content.raw('text') or ''}\n```"
    parts = content.raw("parts")
    if parts is None:
        text = content.raw("text")
        return text if isinstance(text, str) else ""
    if not isinstance(parts, list):
        raise content.wrong("parts", "must be a list")
    return "\n\n".join(text for part in parts if (text := _part(part)))


def _part(part: Any) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        return ""
    if isinstance(text := part.get("text"), str):
        return text  # the transcript of spoken words
    kind = part.get("content_type")
    return "(an image that was not exported)" if kind == "image_asset_pointer" else ""

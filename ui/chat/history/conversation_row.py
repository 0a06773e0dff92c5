"""The values of a conversation's row, by role, and its sort key. Main thread."""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

from PySide6.QtCore import Qt

from ui.records.conversations import Conversation, ListOrder


class ConversationRole(IntEnum):
    """The roles of a row, besides Qt's own ones."""

    TITLE = int(Qt.ItemDataRole.UserRole) + 1
    UPDATED_AT = int(Qt.ItemDataRole.UserRole) + 2
    PREVIEW = int(Qt.ItemDataRole.UserRole) + 3
    IS_RUNNING = int(Qt.ItemDataRole.UserRole) + 4
    IS_PINNED = int(Qt.ItemDataRole.UserRole) + 5
    TAGS = int(Qt.ItemDataRole.UserRole) + 6


def row_value(conversation: Conversation, role: int) -> Any:
    """Return the value of a role for a conversation; None for a role that rows do not have."""
    show = _SHOWN.get(role)
    return None if show is None else show(conversation)


def sort_key(conversation: Conversation, order: ListOrder) -> tuple[bool, float, str]:
    """Return the sort key of a conversation; pinned ones come first in each order."""
    by_title = order is ListOrder.TITLE
    key = {
        ListOrder.RECENT: -conversation.updated_at,
        ListOrder.CREATED: -conversation.created_at,
        ListOrder.OLDEST: conversation.created_at,
        ListOrder.TITLE: 0.0,
    }[order]
    title = conversation.title.casefold() if by_title else ""
    return (not conversation.is_pinned, key, title)


def _title(conversation: Conversation) -> str:
    return conversation.title


def _spoken(conversation: Conversation) -> str:
    """Return what a screen reader says about a row."""
    pinned = ", pinned" if conversation.is_pinned else ""
    running = ", answering" if conversation.is_running else ""
    tags = "".join(f", {tag}" for tag in conversation.placement.tags)
    return f"Conversation {conversation.title}{pinned}{running}{tags}"


_SHOWN: dict[int, Callable[[Conversation], Any]] = {
    int(Qt.ItemDataRole.DisplayRole): _title,
    int(Qt.ItemDataRole.EditRole): _title,
    int(Qt.ItemDataRole.ToolTipRole): _title,
    int(Qt.ItemDataRole.AccessibleTextRole): _spoken,
    ConversationRole.TITLE: _title,
    ConversationRole.UPDATED_AT: lambda conversation: conversation.updated_at,
    ConversationRole.PREVIEW: lambda conversation: conversation.preview,
    ConversationRole.IS_RUNNING: lambda conversation: conversation.is_running,
    ConversationRole.IS_PINNED: lambda conversation: conversation.is_pinned,
    ConversationRole.TAGS: lambda conversation: conversation.placement.tags,
}

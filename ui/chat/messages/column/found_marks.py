"""The highlights of searched words in the messages. Main thread.

The search of all conversations highlights words in one message; the find bar highlights a text in
all messages, with one current place.
"""

from collections.abc import Iterable, Sequence

from ui.chat.messages.column.message_slot import MessageSlot
from ui.chat.messages.column.query import Query
from ui.kit.look.theme import Theme
from ui.records.messages import ConversationMessage


class FoundMarks:
    """Highlights words in the messages that have views."""

    def __init__(self, theme: Theme) -> None:
        self._theme = theme
        self._found: tuple[ConversationMessage, tuple[str, ...]] | None = None
        self._query: Query | None = None
        self._current: tuple[ConversationMessage, int] | None = None
        self._are_shown = False

    def forget_found(self) -> None:
        """Stop highlighting the words of a search."""
        self._found = None

    def choose_found(self, message: ConversationMessage, words: Sequence[str]) -> None:
        """Highlight the words of a search in one message."""
        self._found = message, tuple(words)

    def choose_query(
        self, query: Query | None, current: tuple[ConversationMessage, int] | None
    ) -> None:
        """Highlight a query in every message."""
        self._found, self._query, self._current = None, query, current

    def mark(self, slot: MessageSlot) -> int | None:
        """Highlight the places in a message."""
        self._are_shown = self._are_shown or self._query is not None or self._found is not None
        if self._query is not None:
            message, place = self._current or (None, None)
            current = place if slot.message is message else None
            return slot.highlight(self._query.highlight(self._theme.colors, current))
        if self._found is None or slot.message is not self._found[0]:
            return None
        return slot.show_found(self._found[1])

    def mark_all(self, slots: Iterable[MessageSlot]) -> None:
        """Highlight the places in messages again, and remove outdated highlights."""
        if self._query is not None or self._found is not None:
            for slot in slots:
                self.mark(slot)
        elif self._are_shown:
            self._are_shown = False
            for slot in slots:
                slot.show_found(())

    def unfold_current(self, slot: MessageSlot) -> None:
        """Unfold the part with the current place of a message."""
        if self._query is not None and self._current is not None:
            current = self._current[1] if self._current[0] is slot.message else None
            slot.unfold_place(self._query.highlight(self._theme.colors, current))

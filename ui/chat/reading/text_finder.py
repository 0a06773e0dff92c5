"""Finds a text in all messages of the open conversation, a few milliseconds at a time.

Main thread. Knows no widgets; the bar asks, and the column marks.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from PySide6.QtCore import QObject, QTimer, Signal

from ui.chat.messages.column.query import Query
from ui.chat.reading.message_texts import MessageTexts
from ui.records.messages import ConversationMessage

# The search may delay the painting of the window by this time.
_SLICE_S = 0.008
# A running answer is searched again at this interval.
_RECOUNT_MS = 300

Place = tuple[ConversationMessage, int]


class TextFinder(QObject):
    """Counts the places of a query, and goes from one to the next.

    Signals:
        changed: The count or the current place has changed.
        marked: The places to highlight have changed.
        place_chosen: A place should be scrolled to; carries its message.
    """

    changed = Signal()
    marked = Signal()
    place_chosen = Signal(object)

    def __init__(
        self,
        texts: MessageTexts,
        messages: Callable[[], Sequence[ConversationMessage]],
        begins_at: Callable[[], int],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._texts = texts
        self._messages = messages
        self._begins_at = begins_at
        self.query: Query | None = None
        self.current: Place | None = None
        self._listed: list[ConversationMessage] = []
        self._counts: dict[str, int] = {}
        self._waiting: Iterator[ConversationMessage] = iter(())
        self._is_counting = False
        self._slices = QTimer(self, singleShot=True, interval=0)
        self._slices.timeout.connect(self._count_on)
        self._again = QTimer(self, singleShot=True, interval=_RECOUNT_MS)
        self._again.timeout.connect(self.look_again)

    @property
    def count(self) -> int:
        """How many places were found so far."""
        return sum(self._counts.values())

    @property
    def number(self) -> int:
        """The number of the current place, from 1; 0 for none."""
        if self.current is None:
            return 0
        message, place = self.current
        before = 0
        for one in self._listed:
            if one is message:
                return before + place + 1
            before += self._counts.get(one.id, 0)
        return 0

    @property
    def is_counting(self) -> bool:
        """Whether some messages have not been searched yet."""
        return self._is_counting

    def look_for(self, text: str, has_case: bool) -> None:
        """Search for a text, beginning at the messages on the screen; white space finds nothing."""
        self.query = Query(text, has_case) if text.strip() else None
        self.current = None
        self._begin(self._begins_at())

    def look_again(self) -> None:
        """Count again, because the messages have changed."""
        if self.query is not None:
            shown = self._messages()
            if self.current is not None and self.current[0] not in shown:
                self.current = None
            self._begin(self._begins_at() if self.current is None else 0)

    def look_again_soon(self) -> None:
        """Count again in a moment, because an answer grows."""
        if self.query is not None and not self._again.isActive():
            self._again.start()

    def end(self) -> None:
        """Stop searching."""
        self.look_for("", False)
        self._again.stop()
        self._texts.forget()

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) place; after the last place comes the first."""
        self._finish_counting()
        found = self.count
        if found:
            number = self.number - 1 if self.current is not None else (-1 if by > 0 else 0)
            self._choose(self._place_at((number + by) % found))

    def _begin(self, first: int) -> None:
        self._counts = {}
        self._listed = list(self._messages()) if self.query is not None else []
        self._waiting = iter((*self._listed[first:], *self._listed[:first]))
        self._is_counting = self.query is not None
        self.marked.emit()
        if self._is_counting:
            self._count_on()
        else:
            self._slices.stop()
            self.changed.emit()

    def _count_on(self) -> None:
        until = time.monotonic() + _SLICE_S
        while self._is_counting and time.monotonic() < until:
            self._count_next()
        if self._is_counting:
            self._slices.start()
        self.changed.emit()

    def _finish_counting(self) -> None:
        while self._is_counting:
            self._count_next()

    def _count_next(self) -> None:
        message = next(self._waiting, None)
        if message is None or self.query is None:
            self._is_counting = False
            self._settle()
            return
        pattern = self.query.pattern
        found = sum(len(pattern.findall(text)) for text in self._texts.blocks(message))
        if found:
            self._counts[message.id] = found
            if self.current is None:
                self._choose((message, 0))

    def _settle(self) -> None:
        """Forget the current place if it no longer exists."""
        if self.current is not None:
            message, place = self.current
            found = self._counts.get(message.id, 0)
            if place >= found:
                self.current = (message, found - 1) if found else None
                self.marked.emit()

    def _place_at(self, number: int) -> Place:
        for message in self._listed:
            found = self._counts.get(message.id, 0)
            if number < found:
                return message, number
            number -= found
        raise IndexError(number)

    def _choose(self, place: Place) -> None:
        self.current = place
        self.marked.emit()
        self.changed.emit()
        self.place_chosen.emit(place[0])

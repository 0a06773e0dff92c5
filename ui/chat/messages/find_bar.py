"""Finds a text in the open conversation. Main thread."""

import time
from collections.abc import Iterator

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QLineEdit, QToolButton, QWidget

from ui.chat.messages.message_column import MessageColumn, Query
from ui.chat.messages.message_menu import MessageTexts
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import IconButton
from ui.kit.following import Following
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, row
from ui.kit.theme import restyle
from ui.records.messages import ConversationMessage

# The search may delay the painting of the window by this time.
_SLICE_S = 0.008
# A running answer is searched again at this interval.
_RECOUNT_MS = 300

Match = tuple[ConversationMessage, int]
_FIELD_CHARS = 26


class TextFinder(QObject):
    """Counts the places of a query, and goes from one to the next."""

    changed = Signal()
    marked = Signal()
    match_chosen = Signal(object)  # ConversationMessage

    def __init__(
        self,
        workspace: Workspace,
        column: MessageColumn,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._texts = MessageTexts()
        self._workspace = workspace
        self._column = column
        self.query: Query | None = None
        self.current: Match | None = None
        self._listed: list[ConversationMessage] = []
        self._counts: dict[str, int] = {}
        self._waiting: Iterator[ConversationMessage] = iter(())
        self.is_counting = False  # some messages have not been searched yet
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
        message, position = self.current
        before = 0
        for listed in self._listed:
            if listed is message:
                return before + position + 1
            before += self._counts.get(listed.id, 0)
        return 0

    def look_for(self, text: str, has_case: bool) -> None:
        """Search for a text, beginning at the messages on the screen; white space finds nothing."""
        self.query = Query(text, has_case) if text.strip() else None
        self.current = None
        self._begin(self._column.first_seen)

    def look_again(self) -> None:
        """Count again, because the messages have changed."""
        if self.query is not None:
            shown = self._workspace.current.conversation.messages
            if self.current is not None and self.current[0] not in shown:
                self.current = None
            self._begin(self._column.first_seen if self.current is None else 0)

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
        count = self.count
        if count:
            number = self.number - 1 if self.current is not None else (-1 if by > 0 else 0)
            self._choose(self._match_at((number + by) % count))

    def _begin(self, first: int) -> None:
        self._counts = {}
        self._listed = (
            list(self._workspace.current.conversation.messages) if self.query is not None else []
        )
        self._waiting = iter((*self._listed[first:], *self._listed[:first]))
        self.is_counting = self.query is not None
        self.marked.emit()
        if self.is_counting:
            self._count_on()
        else:
            self._slices.stop()
            self.changed.emit()

    def _count_on(self) -> None:
        until = time.monotonic() + _SLICE_S
        while self.is_counting and time.monotonic() < until:
            self._count_next()
        if self.is_counting:
            self._slices.start()
        self.changed.emit()

    def _finish_counting(self) -> None:
        while self.is_counting:
            self._count_next()

    def _count_next(self) -> None:
        message = next(self._waiting, None)
        if message is None or self.query is None:
            self.is_counting = False
            self._settle()
            return
        pattern = self.query.pattern
        count = sum(len(pattern.findall(text)) for text in self._texts.blocks(message))
        if count:
            self._counts[message.id] = count
            if self.current is None:
                self._choose((message, 0))

    def _settle(self) -> None:
        """Forget the current place if it no longer exists."""
        if self.current is not None:
            message, position = self.current
            count = self._counts.get(message.id, 0)
            if position >= count:
                self.current = (message, count - 1) if count else None
                self.marked.emit()

    def _match_at(self, number: int) -> Match:
        for message in self._listed:
            count = self._counts.get(message.id, 0)
            if number < count:
                return message, number
            number -= count
        raise IndexError(number)

    def _choose(self, position: Match) -> None:
        self.current = position
        self.marked.emit()
        self.changed.emit()
        self.match_chosen.emit(position[0])


class FindBar(QFrame):
    """A field with count, next, previous and match case; hidden until the user opens it.

    Return goes to the next place, Shift+Return to the previous one, Escape closes the bar.
    """

    closed = Signal()

    def __init__(self, finder: TextFinder) -> None:
        super().__init__()
        self.setObjectName("find_bar")
        self._finder = finder
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find in this conversation")
        self.field.setAccessibleName("Find in this conversation")
        self._fit_field()
        self.case = QToolButton()
        self.case.setText("Aa")
        self.case.setCheckable(True)
        self.case.setAccessibleName("Match case")
        self.case.setToolTip("Match case")
        self.count = label("", "muted", 0.95)
        self.earlier = IconButton("up", "Previous Match", keys="Shift+Enter")
        self.later = IconButton("down", "Next Match", keys="Enter")
        self.close_button = IconButton("close", "Close the find bar", keys="Esc")
        row(
            (self.field, 3),
            self.case,
            self.count,
            self.earlier,
            self.later,
            STRETCH,
            self.close_button,
            spacing=6,
            margins=(16, 6, 10, 6),
            on=self,
        )
        self.field.textChanged.connect(self._look)
        self.case.toggled.connect(self._look)
        self.earlier.clicked.connect(lambda: finder.step(-1))
        self.later.clicked.connect(lambda: finder.step(1))
        self.close_button.clicked.connect(self.put_away)
        finder.changed.connect(self._show_count)
        self.hide()
        self._show_count()

    def begin(self, text: str = "") -> None:
        """Show the bar with the caret in its field; search for a given text."""
        is_new = self.isHidden()
        self.show()
        self.field.setFocus()
        if text and text != self.field.text():
            self.field.setText(text)
        elif is_new:
            self._look()  # search for the text of the last time
        self.field.selectAll()

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) place; open the bar if there is no text to find."""
        if self.isHidden() or not self.field.text():
            self.begin()
        if self.field.text():
            self._finder.step(by)

    def put_away(self) -> None:
        """Hide the bar and remove the highlights."""
        if not self.isHidden():
            self.hide()
            self._finder.end()
            self.closed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Step with Return, leave with Escape."""
        if event.key() == Qt.Key.Key_Escape:
            self.put_away()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self._finder.step(-1 if is_back else 1)
        else:
            super().keyPressEvent(event)

    def _look(self) -> None:
        if not self.isHidden():
            self._finder.look_for(self.field.text(), self.case.isChecked())

    def _show_count(self) -> None:
        finder = self._finder
        count, is_requested = finder.count, finder.query is not None
        if not is_requested:
            text = ""
        elif count:
            text = f"{finder.number:,} of {count:,}{'…' if finder.is_counting else ''}"
        else:
            text = "Searching…" if finder.is_counting else "Not found"
        self.count.setText(text)
        self.field.setAccessibleDescription(text)
        is_missing = is_requested and not count and not finder.is_counting
        restyle(self.field, "invalid", is_missing)
        for button in (self.earlier, self.later):
            button.setEnabled(bool(count))

    def _fit_field(self) -> None:
        width = self.field.fontMetrics().averageCharWidth() * _FIELD_CHARS
        self.field.setMaximumWidth(width * 2)


class FindingText(QObject):
    """Finds text in the open conversation."""

    def __init__(self, workspace: Workspace, column: MessageColumn, parent: QWidget) -> None:
        super().__init__(parent)
        self._column = column
        self._following = Following()
        self.finder = TextFinder(workspace, column, self)
        self.bar = FindBar(self.finder)
        self.finder.marked.connect(self._mark)
        self.finder.match_chosen.connect(column.go_to_message)
        workspace.opened.connect(self._follow)
        self._follow(workspace.current)

    def _follow(self, opened: ConversationController) -> None:
        """Search in the conversation that is open now."""
        self._following.follow(
            (opened.message_appended, self._look_again),
            (opened.path_changed, self._look_again),
            (opened.text_appended, self._look_again_soon),
            (opened.thinking_appended, self._look_again_soon),
            (opened.run_changed, self._look_again_soon),
        )
        self.finder.look_again()

    def _look_again(self, _: ConversationMessage | int) -> None:
        self.finder.look_again()

    def _look_again_soon(self, *_: object) -> None:
        self.finder.look_again_soon()

    def _mark(self) -> None:
        self._column.show_query(self.finder.query, self.finder.current)

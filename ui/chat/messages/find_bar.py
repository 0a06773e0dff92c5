"""Finds a text in the open conversation. Main thread."""

import time
from collections.abc import Iterator

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QKeyEvent, QTextDocument
from PySide6.QtWidgets import QFrame, QLineEdit, QToolButton

from ui.chat.messages.answer_view import answer_lines
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.question_view import question_lines
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import IconButton
from ui.kit.flow_text import block_texts, terms_pattern
from ui.kit.following import Following
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, row
from ui.kit.markdown.growing_text import GrowingText
from ui.kit.markdown.style import markdown_style
from ui.kit.theme import restyle
from ui.records.messages import ConversationMessage

Match = tuple[ConversationMessage, int]


class MessageTexts:
    """The lines, paragraphs and cells of messages."""

    def __init__(self) -> None:
        self._document = QTextDocument()
        style = markdown_style()
        self._writer = GrowingText(self._document, style)
        self._kept: dict[str, tuple[str, list[str]]] = {}

    def blocks(self, message: ConversationMessage) -> list[str]:
        """Return the text of a message, block by block, in the order of its parts on the screen."""
        if message.run is None:
            return question_lines(message)
        return answer_lines(message.run, self._rendered(message))

    def forget(self) -> None:
        """Drop the kept texts."""
        self._kept.clear()

    def _rendered(self, message: ConversationMessage) -> list[str]:
        source, texts = self._kept.get(message.id, ("", []))
        if source != message.content:
            self._writer.show(message.content)
            self._writer.unfold_all()
            texts = block_texts(self._document)
            self._kept[message.id] = message.content, texts
        return texts


class TextFinder(QObject):
    """Finds a text in the open conversation: counts its matches, and goes from one to the next."""

    changed = Signal()

    def __init__(self, workspace: Workspace, column: MessageColumn) -> None:
        super().__init__(column)
        self._texts = MessageTexts()
        self._workspace = workspace
        self._column = column
        self._following = Following()
        self.text = ""
        self._has_case = False
        self.current: Match | None = None
        self._listed: list[ConversationMessage] = []
        self._counts: dict[str, int] = {}
        self._waiting: Iterator[ConversationMessage] = iter(())
        self.is_counting = False  # some messages have not been searched yet
        self._slices = QTimer(self, singleShot=True, interval=0)
        self._slices.timeout.connect(self._count_on)
        self._again = QTimer(self, singleShot=True, interval=300)
        self._again.timeout.connect(self._look_again)
        workspace.opened.connect(self._follow)
        self._follow(workspace.current)

    @property
    def count(self) -> int:
        return sum(self._counts.values())

    @property
    def number(self) -> int:
        """The number of the current match, from 1; 0 for none."""
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
        self.text, self._has_case = text if text.strip() else "", has_case
        self.current = None
        self._begin(self._column.first_seen)

    def _follow(self, opened: ConversationController) -> None:
        self._following.follow(
            (opened.message_appended, self._look_again),
            (opened.path_changed, self._look_again),
            (opened.text_appended, self._look_again_soon),
            (opened.thinking_appended, self._look_again_soon),
            (opened.run_changed, self._look_again_soon),
        )
        self._look_again()

    def _look_again(self, _: ConversationMessage | int | None = None) -> None:
        if self.text:
            shown = self._workspace.current.conversation.messages
            if self.current is not None and self.current[0] not in shown:
                self.current = None
            self._begin(self._column.first_seen if self.current is None else 0)

    def _look_again_soon(self, *_: object) -> None:
        if self.text and not self._again.isActive():
            self._again.start()

    def end(self) -> None:
        self.look_for("", False)
        self._again.stop()
        self._texts.forget()

    def step(self, by: int) -> None:
        """Go to the next (1) or previous (-1) match; after the last one comes the first."""
        while self.is_counting:
            self._count_next()
        count = self.count
        if count:
            number = self.number - 1 if self.current is not None else (-1 if by > 0 else 0)
            self._choose(self._match_at((number + by) % count))

    def _begin(self, first: int) -> None:
        self._counts = {}
        self._listed = list(self._workspace.current.conversation.messages) if self.text else []
        self._waiting = iter((*self._listed[first:], *self._listed[:first]))
        self.is_counting = bool(self.text)
        self._mark()
        if self.is_counting:
            self._count_on()
        else:
            self._slices.stop()
            self.changed.emit()

    def _count_on(self) -> None:
        until = time.monotonic() + 0.008  # half a frame
        while self.is_counting and time.monotonic() < until:
            self._count_next()
        if self.is_counting:
            self._slices.start()
        self.changed.emit()

    def _count_next(self) -> None:
        message = next(self._waiting, None)
        if message is None:
            self.is_counting = False
            self._settle()
            return
        pattern = terms_pattern((self.text,), self._has_case)
        count = sum(len(pattern.findall(text)) for text in self._texts.blocks(message))
        if count:
            self._counts[message.id] = count
            if self.current is None:
                self._choose((message, 0))

    def _settle(self) -> None:
        if self.current is not None:
            message, position = self.current
            count = self._counts.get(message.id, 0)
            if position >= count:
                self.current = (message, count - 1) if count else None
                self._mark()

    def _match_at(self, number: int) -> Match:
        for message in self._listed:
            count = self._counts.get(message.id, 0)
            if number < count:
                return message, number
            number -= count
        raise IndexError(number)

    def _choose(self, position: Match) -> None:
        self.current = position
        self._mark()
        self.changed.emit()
        self._column.go_to_message(position[0])

    def _mark(self) -> None:
        self._column.show_query(self.text, self._has_case, self.current)


class FindBar(QFrame):
    """A field with count, next, previous and match case; hidden until the user opens it.

    Return goes to the next place, Shift+Return to the previous one, Escape closes the bar.
    """

    closed = Signal()

    def __init__(self, finder: TextFinder) -> None:
        super().__init__()
        self.setObjectName("find_bar")
        self.finder = finder
        self.field = QLineEdit()
        self.field.setPlaceholderText("Find in this conversation")
        self.field.setAccessibleName("Find in this conversation")
        self.field.setMaximumWidth(52 * self.field.fontMetrics().averageCharWidth())
        self.case = QToolButton()
        self.case.setText("Aa")
        self.case.setCheckable(True)
        self.case.setAccessibleName("Match case")
        self.case.setToolTip("Match case")
        self.count = label("", "muted", 0.95)
        # The arrows beside it do not move.
        self.count.setMinimumWidth(self.count.fontMetrics().horizontalAdvance("8,888 of 8,888…"))
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
            self.finder.step(by)

    def put_away(self) -> None:
        if not self.isHidden():
            self.hide()
            self.finder.end()
            self.closed.emit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape:
            self.put_away()
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            is_back = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
            self.finder.step(-1 if is_back else 1)
        else:
            super().keyPressEvent(event)

    def _look(self) -> None:
        if not self.isHidden():
            self.finder.look_for(self.field.text(), self.case.isChecked())

    def _show_count(self) -> None:
        finder = self.finder
        count, is_requested = finder.count, bool(finder.text)
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

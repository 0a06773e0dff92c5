"""The messages that are sent next, above the composer: each can be edited, removed or sent now.

Main thread.
"""

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from engine import counted
from ui.chat.composer.composer import MessageEditor
from ui.kit.buttons import IconButton
from ui.kit.labels import ElidedLabel, label
from ui.kit.layouts import column, row
from ui.records.attachments import Attachment
from ui.records.conversations import QueuedMessage

_MOST_CARDS = 3


class QueueCard(QFrame):
    """One message that waits.

    Signals:
        changed: A person edited it; carries the ``QueuedMessage``, or None for one that is removed.
        send_wanted: A person wants it to be sent now.
        left: Its editor was closed, so that another widget should get the focus.
    """

    changed = Signal(object)
    send_wanted = Signal()
    left = Signal()

    def __init__(self, message: QueuedMessage, number: int) -> None:
        super().__init__()
        self.setObjectName("card")
        self.message = message
        self.editor: MessageEditor | None = None
        words = " ".join(message.text.split())
        files = ", ".join(file.name for file in message.files)
        shown = " · ".join(filter(None, (words, files)))
        place = "Sent next" if number == 0 else f"Sent as number {number + 1}"
        self.setAccessibleName(f"{place}: {shown}")
        self.place = label("Sent Next" if number == 0 else "Then", "faint", 0.92)
        self.words = ElidedLabel(shown)
        self.words.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.send = QPushButton("Send Now")
        self.send.setProperty("kind", "link")
        self.send.setAccessibleName(f"Stop the answer and send now: {shown}")
        self.edit = IconButton("pencil", "Edit this message", size=16)
        self.remove = IconButton("close", "Remove this message", size=16)
        self._line = QWidget()
        row(
            self.place,
            (self.words, 1),
            self.send,
            self.edit,
            self.remove,
            spacing=8,
            on=self._line,
        )
        self._column = column(self._line, margins=(12, 4, 6, 4), on=self)
        self.send.clicked.connect(self.send_wanted)
        self.edit.clicked.connect(self.begin_editing)
        self.remove.clicked.connect(lambda: self.changed.emit(None))

    def begin_editing(self) -> None:
        """Show an editor instead of the words."""
        if self.editor is None:
            text, files = self.message.text, self.message.files
            editor = MessageEditor(text, files, says="message that is sent next", sends="Save")
            editor.submitted.connect(self._take)
            editor.left.connect(self.end_editing)
            self._column.addWidget(editor)
            self.editor = editor
            self._line.hide()
        self.editor.input.setFocus()

    def end_editing(self) -> None:
        """Show the words again."""
        if self.editor is not None:
            self.editor.discard()
            self.editor = None
            self._line.show()
            self.left.emit()

    def _take(self, text: str, files: tuple[Attachment, ...]) -> None:
        self.end_editing()
        self.changed.emit(QueuedMessage(text, files))


class QueueCards(QWidget):
    """The first messages that wait in a conversation, in their order; hidden without any.

    Signals:
        changed: The messages were edited; carries them as a tuple.
        send_wanted: A person wants one to be sent now; carries its number.
        left: The focus should go to another widget.
    """

    changed = Signal(object)
    send_wanted = Signal(int)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Messages that are sent next")
        self.notice = label("", "muted", 0.93, is_wrapped=True)
        self.more = label("", "faint", 0.92)
        self.cards: list[QueueCard] = []
        self._messages: tuple[QueuedMessage, ...] = ()
        self._cards = column(spacing=6)
        column(self.notice, self._cards, self.more, spacing=6, margins=(0, 0, 0, 8), on=self)
        self.hide()

    def show_messages(self, messages: Sequence[QueuedMessage], *, waits: bool) -> None:
        """Show the messages that wait.

        Args:
            messages: The messages, in their order.
            waits: Whether they are sent by themselves once the answer has ended.
        """
        if tuple(messages) != self._messages:
            self._messages = tuple(messages)
            self._show_cards()
        count = len(self._messages)
        first = "it" if count == 1 else "the first one"
        words = f"{counted(count, 'message')} not sent yet. Return sends {first}."
        self.notice.setText("" if waits else words)
        self.notice.setVisible(not waits)
        hidden = len(self._messages) - len(self.cards)
        self.more.setText(f"and {hidden:,} more")
        self.more.setVisible(hidden > 0)
        self.setVisible(bool(self._messages))

    def _show_cards(self) -> None:
        for card in self.cards:
            self._cards.removeWidget(card)
            card.hide()
            card.deleteLater()
        shown = self._messages[:_MOST_CARDS]
        self.cards = [QueueCard(message, number) for number, message in enumerate(shown)]
        for number, card in enumerate(self.cards):
            self._cards.addWidget(card)
            card.changed.connect(lambda changed, n=number: self._change(n, changed))
            card.send_wanted.connect(lambda n=number: self.send_wanted.emit(n))
            card.left.connect(self.left)

    def _change(self, number: int, changed: QueuedMessage | None) -> None:
        messages = list(self._messages)
        messages[number : number + 1] = [] if changed is None else [changed]
        self.changed.emit(tuple(messages))
        self.left.emit()

"""The bar above the composer that says what does not fit into the context. Main thread."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QPushButton

from engine import counted
from ui.chat.session.context_meter import Count
from ui.kit.labels import label
from ui.kit.layouts import FlowLayout, column
from ui.records.conversations import WhenFull
from ui.records.runs import LeftOut

_BUTTONS = {
    WhenFull.LEAVE_OUT: ("Omit the Oldest", "Leave out the oldest messages when this is sent"),
    WhenFull.SUMMARIZE: ("Summarize the Oldest", "Send a summary instead of the oldest messages"),
    WhenFull.ASK: ("Send All", "Send all messages, or none if they do not fit"),
}


def bar_words(count: Count, before: LeftOut | None) -> str:
    """Return what the bar says of a count; empty if there is nothing new to say.

    Args:
        count: The count of the message.
        before: What the answer before was without.
    """
    least = "at least " if count.is_least_total else ""
    too_many = f"{least}{counted(count.too_many, 'token')}"
    if count.is_full:
        is_asked = count.when_full is WhenFull.ASK and count.without_files is None
        return f"The conversation is {too_many} too long for this model." if is_asked else ""
    left_out = count.left_out
    if left_out is None or (before is not None and before.until == left_out.until):
        return ""
    messages = counted(left_out.messages, "earlier message")
    is_summary = count.when_full is WhenFull.SUMMARIZE
    what = "will be sent as a summary" if is_summary else "will not be sent"
    if not count.too_many:
        return f"The context is nearly full: {messages} {what}."
    return f"The conversation is {too_many} too long for this model: {messages} {what}."


class ContextBar(QFrame):
    """Says what will be left out, and offers the other ways.

    Signals:
        chosen: A person chose what becomes of the oldest messages; carries the ``WhenFull``.
    """

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        self.words = label("", "muted", 0.95, is_wrapped=True)
        self.buttons: dict[WhenFull, QPushButton] = {}
        buttons = QFrame()
        flow = FlowLayout(buttons)
        for choice, (words, says) in _BUTTONS.items():
            button = QPushButton(words)
            button.setProperty("kind", "link")
            button.setProperty("is_flush", True)
            button.setAccessibleName(says)
            button.setAutoDefault(False)
            button.clicked.connect(lambda _=False, chosen=choice: self.chosen.emit(chosen))
            self.buttons[choice] = button
            flow.addWidget(button)
        column(self.words, buttons, spacing=2, margins=(12, 8, 12, 6), on=self)
        self.hide()

    def show_count(self, count: Count | None, before: LeftOut | None = None) -> None:
        """Show what a count says, with the choices that it does not have already."""
        words = "" if count is None else bar_words(count, before)
        self.words.setText(words)
        if count is not None and words:
            for choice, button in self.buttons.items():
                button.setVisible(choice is not count.when_full)
        self.setVisible(bool(words))

"""The card of a call that the model is writing. Main thread."""

from PySide6.QtGui import QFont, QTextCursor
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSizePolicy, QVBoxLayout

from ui.kit.controls.buttons import IconBadge
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.flow_text import FlowText
from ui.kit.text.labels import ElidedLabel, rescale
from ui.records.runs import GrowingCall
from ui.words.tones import Tone

_ICON_PX = 26


class GrowingCard(QFrame):
    """Shows the name of a call, and its arguments so far."""

    def __init__(self, theme: Theme, call: GrowingCall) -> None:
        super().__init__()
        self.setObjectName("card")
        self.setAccessibleName(f"Tool call {call.name}, is being written")
        self._call = call
        self._shown = 0
        badge = IconBadge(theme, _ICON_PX)
        badge.show_icon("tool", Tone.TOOL)
        title = ElidedLabel(call.name)
        rescale(title, 1.0, QFont.Weight.DemiBold)
        title.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Preferred)
        # Shortened if there is no room: a card never makes the chat wider.
        said = ElidedLabel("is being written")
        said.setProperty("role", "muted")
        rescale(said, 0.92)
        head = QHBoxLayout()
        head.setSpacing(9)
        head.addWidget(badge)
        head.addWidget(title)
        head.addWidget(said, 1)
        self._text = FlowText()
        self._text.setObjectName("answer_text")
        self._text.setAccessibleName(f"Arguments of {call.name}")
        self._text.setFont(fixed_font(self.font(), 0.95))
        column = QVBoxLayout(self)
        column.setContentsMargins(11, 9, 9, 10)
        column.setSpacing(6)
        column.addLayout(head)
        column.addWidget(self._text)

    def grow(self) -> None:
        """Show the new part of the arguments, without laying out the shown part again."""
        texts = self._call.texts
        if self._shown < len(texts):
            cursor = QTextCursor(self._text.document())
            cursor.movePosition(QTextCursor.MoveOperation.End)
            cursor.insertText("".join(texts[self._shown :]))
            self._shown = len(texts)

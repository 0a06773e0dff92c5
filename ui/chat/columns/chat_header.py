"""The line above a conversation: its title, the model, and buttons for the side columns.

Main thread.
"""

from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout

from ui.chat.session.answering_model import AnsweringModel
from ui.chat.switching.model_badge import ModelBadge
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import HEAD_PX, Theme
from ui.kit.text.labels import ElidedLabel, rescale


class ChatHeader(QFrame):
    """Shows title and model; as high as the heads of the other columns."""

    def __init__(self, theme: Theme, model: AnsweringModel) -> None:
        super().__init__()
        self.setObjectName("chat_header")
        theme.follow(self, lambda: self.setFixedHeight(theme.gap(HEAD_PX)))
        self.title = ElidedLabel()
        rescale(self.title, 1.08, QFont.Weight.DemiBold)
        self.sidebar = IconButton(theme, "sidebar", "Show or hide the conversations (Ctrl+B)")
        self.badge = ModelBadge(theme, model)
        self.stop_panel = IconButton(theme, "panel", "Show or hide the stop panel (Ctrl+I)")
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 0, 12, 0)
        row.setSpacing(10)
        row.addWidget(self.sidebar)
        row.addWidget(self.title, 1)
        row.addWidget(self.badge)
        row.addWidget(self.stop_panel)

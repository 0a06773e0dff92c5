"""The reasoning of an answer: folded, with its duration. Main thread."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from engine import seconds
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.text.flow_text import FlowText
from ui.records.runs import Run


class ThinkingView(QWidget):
    """A heading that unfolds the reasoning on a click.

    Attributes:
        text_view: The view of the reasoning, hidden while it is folded.
    """

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._head = QPushButton("Thinking…")
        self._head.setProperty("kind", "fold")
        self._head.setCheckable(True)
        self._head.setAccessibleName("Show the thinking")
        self.text_view = FlowText()
        self.text_view.setObjectName("thinking_text")
        self.text_view.setAccessibleName("Thinking")
        self.text_view.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(6)
        layout.addWidget(self._head, 0, Qt.AlignmentFlag.AlignLeft)
        indent = QHBoxLayout()
        indent.setContentsMargins(14, 0, 0, 0)
        indent.addWidget(self.text_view)
        layout.addLayout(indent)
        self._head.toggled.connect(self._fold)
        theme.changed.connect(self._tint)
        self._tint()
        self.hide()

    def append(self, text: str) -> None:
        """Show more reasoning."""
        if text:
            self.show()
            cursor = self.text_view.textCursor()
            cursor.movePosition(cursor.MoveOperation.End)
            cursor.insertText(text)

    def show_stage(self, run: Run) -> None:
        """Say whether it still lasts, or how long it took."""
        if run.thinking_s is not None:
            self._head.setText(f"Thought for {seconds(run.thinking_s)}")
        elif run.is_over:
            self._head.setText("Thought")

    def _fold(self, is_open: bool) -> None:
        self.text_view.setVisible(is_open)
        self._head.setAccessibleName("Hide the thinking" if is_open else "Show the thinking")
        self._tint()

    def _tint(self) -> None:
        name = "chevron-down" if self._head.isChecked() else "chevron-right"
        size = self._theme.px(14)
        self._head.setIconSize(QSize(size, size))
        self._head.setIcon(icons.icon(name, self._theme.colors.muted, size))

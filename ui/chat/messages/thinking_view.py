"""The reasoning of an answer: folded, with its duration. Main thread."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from engine import seconds
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.text.flow_text import FlowText
from ui.kit.text.labels import ElidedLabel, rescale
from ui.kit.text.searched import SearchedPart, SearchedText
from ui.records.runs import Run

_LINE_CHARS = 240


class ThinkingView(QWidget):
    """A heading that unfolds the reasoning on a click."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self.head = QPushButton("Thinking…")
        self.head.setProperty("kind", "fold")
        self.head.setCheckable(True)
        self.head.setAccessibleName("Show the thinking")
        self._tail = ""
        self.preview = ElidedLabel(mode=Qt.TextElideMode.ElideLeft)
        self.preview.setProperty("role", "faint")
        rescale(self.preview, 0.95)
        self.text_view = FlowText()
        self.text_view.setObjectName("thinking_text")
        self.text_view.setAccessibleName("Thinking")
        self.text_view.hide()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 4)
        layout.setSpacing(6)
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.head, 0, Qt.AlignmentFlag.AlignLeft)
        head.addWidget(self.preview, 1)
        layout.addLayout(head)
        indent = QHBoxLayout()
        indent.setContentsMargins(14, 0, 0, 0)
        indent.addWidget(self.text_view)
        layout.addLayout(indent)
        self.head.toggled.connect(self._fold)
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
            self._tail = (self._tail + text)[-4 * _LINE_CHARS :]
            self.preview.setText(last_line(self._tail))

    def searched_part(self) -> SearchedPart:
        """Return the reasoning for the search, even while it is folded."""
        return SearchedText(lambda: self.text_view, None, lambda: self.head.setChecked(True))

    def show_stage(self, run: Run) -> None:
        """Show whether the reasoning continues, or how long it took."""
        if run.thinking_s is not None:
            self.head.setText(f"Thought for {seconds(run.thinking_s)}")
        elif run.is_over:
            self.head.setText("Thought")

    def _fold(self, is_open: bool) -> None:
        self.text_view.setVisible(is_open)
        self.preview.setVisible(not is_open)
        self.head.setAccessibleName("Hide the thinking" if is_open else "Show the thinking")
        self._tint()

    def _tint(self) -> None:
        name = "chevron-down" if self.head.isChecked() else "chevron-right"
        size = self._theme.px(14)
        self.head.setIconSize(QSize(size, size))
        self.head.setIcon(icons.icon(name, self._theme.colors.muted, size))


def last_line(text: str) -> str:
    """Return the last line with words; of a long line, the newest part."""
    return text.rstrip().rpartition("\n")[2].strip()[-_LINE_CHARS:]

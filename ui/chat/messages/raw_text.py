"""An answer's text exactly as the model wrote it, with visible white space. Main thread."""

from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor

from engine import StopKind, visible
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.flow_text import FlowText
from ui.records.runs import Run


class RawText(FlowText):
    """Shows the text without Markdown, then the text that was cut off, or the end token."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._run: Run | None = None
        self.setObjectName("answer_text")
        self.setAccessibleName("Raw text of the answer")
        self.setFont(fixed_font(self.font(), 1.0))
        self.hide()
        theme.changed.connect(self._fill)

    def show_run(self, run: Run) -> None:
        """Show a run's text."""
        self._run = run
        self._fill()

    def _fill(self) -> None:
        run = self._run
        self.clear()
        if run is None:
            return
        colors = self._theme.colors
        cursor = QTextCursor(self.document())
        if run.thinking:
            self._write(cursor, run.thinking, colors.muted)
            cursor.insertBlock()
        self._write(cursor, run.text, colors.text)
        stop = None if run.finished is None else run.finished.stop
        if stop is None:
            return
        if stop.dropped:
            self._write(cursor, stop.dropped, colors.fault, is_struck=True)
        elif stop.kind is StopKind.EOS and stop.token_text:
            self._write(cursor, stop.token_text, colors.tool)

    @staticmethod
    def _write(cursor: QTextCursor, text: str, color: str, *, is_struck: bool = False) -> None:
        form = QTextCharFormat()
        form.setForeground(QColor(color))
        form.setFontStrikeOut(is_struck)
        # A line feed is shown and breaks the line.
        cursor.insertText(visible(text).replace("⏎", "⏎\u2028"), form)

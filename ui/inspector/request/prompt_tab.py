"""The tab that shows the prompt as the model read it. Main thread; reads it only while visible."""

from itertools import groupby
from operator import itemgetter

from PySide6.QtGui import QColor, QShowEvent, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QTextEdit, QVBoxLayout, QWidget

from engine import Usage, counted
from ui.inspector.run.inspector import Inspector
from ui.inspector.run.pages import align
from ui.inspector.run.shown_run import ShownRun
from ui.kit.look.theme import Theme, fixed_font
from ui.kit.text.labels import label

MAX_TOKENS = 20_000


def _reused(usage: Usage | None) -> str:
    """Return in words how many tokens came from a cache, and from which."""
    if usage is None or not usage.cached_tokens:
        return ""
    place = "on disk" if usage.disk_tokens else "in memory"
    return f"; the first {usage.cached_tokens:,} came from the cache {place}"


class PromptTab(QWidget):
    """The rendered template: special tokens marked, what came from the cache in gray."""

    def __init__(self, theme: Theme, inspector: Inspector) -> None:
        super().__init__()
        self._theme = theme
        self._inspector = inspector
        self.note = label("", "muted", 0.95, is_wrapped=True)
        self.page = QTextEdit()
        align(self.page)
        self.page.setReadOnly(True)
        self.page.setAccessibleName("The prompt as the model read it")
        self.page.setFont(fixed_font(self.page.font(), 0.95))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 12, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.note)
        layout.addWidget(self.page, 1)
        inspector.prompt.read.connect(self._fill)
        theme.changed.connect(self._fill)

    def show_run(self, shown: ShownRun | None) -> None:
        """Forget the prompt of the previous run."""
        self.page.clear()
        if self.isVisible():
            self._ask()

    def showEvent(self, event: QShowEvent) -> None:
        """Read the prompt once the tab is seen."""
        super().showEvent(event)
        self._ask()

    def _ask(self) -> None:
        shown = self._inspector.shown
        if shown is None:
            self.note.setText("No run is shown.")
        elif shown.request is None:
            self.note.setText(
                "The prompt of this run was not kept: its tokens were not recorded, or have been "
                "forgotten."
            )
        elif self._inspector.prompt.pieces is None:
            self.note.setText("Reading the prompt…")
            self._inspector.prompt.ask()
        else:
            self._fill()

    def _fill(self) -> None:
        prompt, shown = self._inspector.prompt, self._inspector.shown
        pieces = prompt.pieces
        self.page.clear()
        if pieces is None:
            if prompt.problem:
                self.note.setText(f"It cannot be shown now: {prompt.problem}.")
            return
        usage = shown.run.finished.usage if shown and shown.run.finished else None
        cached = usage.cached_tokens if usage is not None else 0
        self.note.setText(f"{counted(len(pieces), 'token')}{_reused(usage)}.")
        vocabulary = shown.trace.vocabulary if shown and shown.trace else None
        special = vocabulary.special if vocabulary is not None else {}
        colors = self._theme.colors
        plain, old, mark = (QTextCharFormat() for _ in range(3))
        plain.setForeground(QColor(colors.text))
        old.setForeground(QColor(colors.faint))
        mark.setForeground(QColor(colors.tool))
        mark.setBackground(QColor(colors.tool_soft))
        cursor = QTextCursor(self.page.document())
        cursor.beginEditBlock()
        first = max(0, len(pieces) - MAX_TOKENS)
        if first:
            cursor.insertText(f"… {counted(first, 'token')} before these\n", old)
        looks = (
            (0 if token_id in special else 1 if place < cached else 2, text)
            for place, (token_id, text) in enumerate(pieces[first:], first)
        )
        for look, group in groupby(looks, key=itemgetter(0)):
            cursor.insertText("".join(text for _, text in group), (mark, old, plain)[look])
        cursor.endEditBlock()

"""The legend of the tape: explains only the marks that the tape shows. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from ui.inspector.tape.tape_marks import MarkKind, draw_mark
from ui.kit.controls.flow_layout import FlowLayout
from ui.kit.look.theme import Theme
from ui.kit.text.labels import rescale

_WORDS = {
    MarkKind.GUESSED: (
        "guessed",
        "dotted line above: guessed, and confirmed by the model together with others in one pass",
    ),
    MarkKind.FORCED: (
        "forced",
        "solid line above: the schema or the call allowed no other token",
    ),
    MarkKind.HELD: ("held back", "hatching below: held back, because it could become a stop"),
    MarkKind.MATCHED: ("stop", "outline: the stop that ended the answer"),
}
_SAMPLE = "abc"
_GAP_CHARS = 0.7


class TapeLegend(QWidget):
    """A sample and a word for each kind of mark; hidden if there are no marks."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._kinds: list[MarkKind] = []
        self._entries = {kind: _Entry(theme, kind) for kind in MarkKind}
        layout = FlowLayout(self)
        for entry in self._entries.values():
            layout.addWidget(entry)
        self.show_kinds([], is_first=True)

    @property
    def kinds(self) -> list[MarkKind]:
        """The kinds that are explained now."""
        return self._kinds

    def show_kinds(self, kinds: Sequence[MarkKind], *, is_first: bool = False) -> None:
        """Explain these kinds of marks."""
        if list(kinds) == self._kinds and not is_first:
            return
        self._kinds = list(kinds)
        for kind, entry in self._entries.items():
            entry.setVisible(kind in kinds)
        self.setVisible(bool(kinds))
        said = "; ".join(f"{_WORDS[kind][0]}, {_WORDS[kind][1]}" for kind in kinds)
        self.setAccessibleName(f"Marks on the tape: {said}" if said else "Marks on the tape")


class _Entry(QWidget):
    """A few letters with a mark, and what the mark means."""

    def __init__(self, theme: Theme, kind: MarkKind) -> None:
        super().__init__()
        self._theme = theme
        self._kind = kind
        word, about = _WORDS[kind]
        self._word = word
        self.setAccessibleName(word)
        self.setAccessibleDescription(about)
        self.setToolTip(f"{about[0].upper()}{about[1:]}.")
        rescale(self, 0.92)
        theme.changed.connect(self.update)

    def sizeHint(self) -> QSize:
        """Return the room of the sample, the word, and what is above and below the letters."""
        metrics = self.fontMetrics()
        gaps = round(3 * _GAP_CHARS * metrics.averageCharWidth())
        width = metrics.horizontalAdvance(_SAMPLE) + metrics.horizontalAdvance(self._word) + gaps
        return QSize(width, round(metrics.height() * 1.5))

    def minimumSizeHint(self) -> QSize:
        """Return the same size: a smaller one would cut the word."""
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the sample and the word."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics, colors = self.fontMetrics(), self._theme.colors
        top, height = metrics.height() * 0.22, metrics.height()
        sample = QRectF(1, top, metrics.horizontalAdvance(_SAMPLE), height)
        painter.setPen(QColor(colors.muted))
        painter.drawText(sample, _SAMPLE)
        left = sample.right() + _GAP_CHARS * metrics.averageCharWidth()
        painter.drawText(QRectF(left, top, self.width() - left, height), self._word)
        draw_mark(painter, sample, self._kind, colors)
        painter.end()

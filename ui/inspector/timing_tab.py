"""The tab that says where the time went. Main thread."""

from PySide6.QtCore import QEvent, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from engine import RunPhase, phases, seconds
from ui.chat.session.traces import held_words
from ui.inspector.pages import InspectorTab
from ui.inspector.shown_run import ShownRun
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, scrolling
from ui.kit.theme import current_theme, fixed_font
from ui.words import guess_words

_LINES, _NAME_CHARS, _TIME_CHARS = 2.4, 11, 9
_MIDDLE = int(Qt.AlignmentFlag.AlignVCenter)
_BAR_SHARE = 0.5  # of the height of a line
_UNKNOWN = "The times of this answer are not known."


class TimingTab(InspectorTab):
    """A bar for each phase, the result of guessing, and how long text was held back."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: ShownRun | None = None
        self.note = label("", "", 0.98, is_wrapped=True)
        self.bars = PhaseBars()
        self.guesses = label("", "", 0.95, is_wrapped=True)
        self.waits = label("", "muted", 0.95, is_wrapped=True)
        inside = QWidget()
        inside.setObjectName("scrolled")
        column(self.note, self.bars, self.guesses, self.waits, STRETCH, spacing=10, on=inside)
        area = scrolling(inside, "Where the time went", goes_sideways=False)
        column(area, margins=(0, 12, 0, 0), on=self)

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run's times."""
        self._shown = shown
        self._refresh()

    def _refresh(self) -> None:
        shown = self._shown
        finished = None if shown is None else shown.run.finished
        found = [] if finished is None else phases(finished)
        self.bars.show_phases(found)
        self.bars.setVisible(bool(found))
        if finished is not None:
            total_s = finished.timing.total_s
            self.note.setText(f"{seconds(total_s)} in all." if total_s else _UNKNOWN)
        elif shown is None:
            self.note.setText("No run is shown.")
        elif shown.run.is_over:
            self.note.setText(_UNKNOWN)
        else:
            self.note.setText("The times are known when the answer has ended.")
        self.guesses.setText(
            guess_words(finished.speculation, finished.usage.output_tokens) if finished else ""
        )
        trace = None if shown is None else shown.trace
        if self.isVisible():  # a long run takes a moment
            self.waits.setText(held_words(tuple(trace.tokens)) if trace and finished else "")

    def showEvent(self, event: QShowEvent) -> None:
        """Compute what was skipped while the tab was hidden."""
        super().showEvent(event)
        self._refresh()


class PhaseBars(QWidget):
    """Rows of name, bar and time; each bar begins when its phase began."""

    def __init__(self) -> None:
        super().__init__()
        self._phases: list[RunPhase] = []
        current_theme().changed.connect(self.update)

    def show_phases(self, found: list[RunPhase]) -> None:
        """Draw these phases."""
        self._phases = found
        self._fit()
        words = (f"{phase.name} {seconds(phase.took_s)}, {phase.note}" for phase in found)
        self.setAccessibleName("; ".join(words) or "Phases")
        self.update()

    def changeEvent(self, event: QEvent) -> None:
        """Take as much room as the letters need."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.FontChange:
            self._fit()

    def _fit(self) -> None:
        self.setFixedHeight(round(self.fontMetrics().height() * _LINES) * len(self._phases))

    def paintEvent(self, event: QPaintEvent) -> None:
        if not self._phases:
            return
        colors = current_theme().colors
        fills = (colors.quiet, colors.tool, colors.match, colors.done)
        total = max(phase.begins_s + phase.took_s for phase in self._phases) or 1.0
        line, letter = self.fontMetrics().height(), self.fontMetrics().averageCharWidth()
        row_px, name_px, time_px = round(line * _LINES), letter * _NAME_CHARS, letter * _TIME_CHARS
        room, thick = max(40, self.width() - name_px - time_px), line * _BAR_SHARE
        bar_top, half = (line - thick) / 2, thick / 2
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for row, (phase, color) in enumerate(zip(self._phases, fills, strict=False)):
            y = row * row_px
            painter.setFont(self.font())
            painter.setPen(QColor(colors.text))
            painter.drawText(QRectF(0, y, name_px, line), _MIDDLE, phase.name)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.bubble))
            painter.drawRoundedRect(QRectF(name_px, y + bar_top, room, thick), half, half)
            painter.setBrush(QColor(color))
            left = name_px + phase.begins_s / total * room
            width = max(3.0, phase.took_s / total * room)
            bar = QRectF(min(left, name_px + room - width), y + bar_top, width, thick)
            painter.drawRoundedRect(bar, half, half)
            painter.setPen(QColor(colors.text))
            painter.setFont(fixed_font(self.font(), 0.95))
            time = QRectF(name_px + room, y, time_px, line)
            painter.drawText(
                time, _MIDDLE | int(Qt.AlignmentFlag.AlignRight), seconds(phase.took_s)
            )
            painter.setPen(QColor(colors.muted))
            painter.setFont(self.font())
            painter.drawText(QRectF(name_px, y + line, room, line), _MIDDLE, phase.note)
        painter.end()

"""The tab that shows how likely the model was to end at each token. Main thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QShowEvent,
)
from PySide6.QtWidgets import QWidget

from engine.recording.run_trace import RunTrace
from ui.inspector.pages import InspectorTab
from ui.inspector.shown_run import ShownRun
from ui.inspector.tape import percent
from ui.kit.labels import label
from ui.kit.layouts import Stretch, column
from ui.kit.theme import current_theme

LIKELY = 0.2
MAX_PLACES = 50
_NAMED_PLACES = 5


@dataclass(frozen=True, slots=True)
class EndingOdds:
    """The EOS probabilities of a run."""

    values: tuple[float, ...]
    first_index: int
    likely: tuple[int, ...]
    sentence: str
    has_end: bool = False


def ending_odds(trace: RunTrace) -> EndingOdds | None:
    """Return a run's EOS probabilities; None if they were not recorded.

    "How near the model came to ending" leaves out the end itself, and end tokens that the model
    chose but that were ignored: neither is a near miss.
    """
    known = [(token, token.stats) for token in trace.tokens if token.stats is not None]
    if not known:
        return None
    last, eos = known[-1][0], frozenset(trace.setting.eos)
    stop = trace.stop
    has_end = (
        stop is not None
        and stop.token_index == last.index
        and last.token_id in eos
        and not trace.rules.ignore_eos
    )
    ends = [token.index for token, _ in known if token.token_id in eos]
    ignored = ends[:-1] if has_end else ends
    others = [(token.index, stats) for token, stats in known if token.token_id not in eos]
    likely = [index for index, stats in others if stats.eos_probability >= LIKELY]
    highest = max((stats.eos_probability for _, stats in others), default=None)
    return EndingOdds(
        tuple(stats.eos_probability for _, stats in known),
        known[0][0].index,
        tuple(likely[:MAX_PLACES]),
        _sentence(likely, ignored, highest),
        has_end,
    )


def _sentence(likely: Sequence[int], ignored: Sequence[int], highest: float | None) -> str:
    parts: list[str] = []
    if ignored:
        parts.append(f"The model chose an end token at {_places(ignored)}; it was ignored.")
    if likely:
        parts.append(f"The model might have ended instead of writing {_places(likely)}.")
    elif highest is not None:
        before = "before the end" if not ignored else "elsewhere"
        parts.append(f"Ending was never likely {before}: at most {percent(highest)}.")
    elif not ignored:
        parts.append("The model ended with its first token.")
    return " ".join(parts)


def _places(indexes: Sequence[int]) -> str:
    """Return tokens by their numbers: ``token 4``, ``tokens 4, 9 and 3 more``."""
    named = ", ".join(f"{index + 1:,}" for index in indexes[:_NAMED_PLACES])
    more = len(indexes) - _NAMED_PLACES
    word = "token" if len(indexes) == 1 else "tokens"
    return f"{word} {named} and {more:,} more" if more > 0 else f"{word} {named}"


_LEFT_CHARS, _RIGHT_PX, _LINES_BELOW = 6, 12, 1.4
_END_PX = 3.5


class EndingTab(InspectorTab):
    """A sentence and a curve."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: ShownRun | None = None
        self.note = label("", "", 0.98, is_wrapped=True)
        self.curve = OddsCurve()
        column(self.note, (self.curve, 1), Stretch(0), spacing=10, margins=(0, 12, 0, 0), on=self)

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run's odds."""
        self._shown = shown
        self.catch_up()

    def catch_up(self) -> None:
        """Show the odds of the tokens that have arrived."""
        shown = self._shown
        odds = None
        if shown is not None and shown.trace is not None and self.isVisible():
            odds = ending_odds(shown.trace)
        self.curve.show_odds(odds)
        self.curve.setVisible(odds is not None)
        if odds is not None:
            self.note.setText(odds.sentence)
        elif shown is None:
            self.note.setText("No run is shown.")
        else:
            self.note.setText(
                "The probabilities of this run were not recorded. Choose “Everything” above and "
                "ask again to see how likely the model was to end at each token."
            )

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up on what arrived while it was hidden."""
        super().showEvent(event)
        self.catch_up()


class OddsCurve(QWidget):
    """The EOS probability over the tokens; a click chooses a token."""

    token_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._odds: EndingOdds | None = None
        self.setMinimumHeight(120)
        self.setMouseTracking(True)
        current_theme().changed.connect(self.update)

    def show_odds(self, odds: EndingOdds | None) -> None:
        """Draw these odds."""
        self._odds = odds
        self.setAccessibleName("Probability of ending" if odds is None else odds.sentence)
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the token that was clicked."""
        place = self._place_at(event.position().x())
        if place is not None and self._odds is not None:
            self.token_chosen.emit(self._odds.first_index + place)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Show the probability under the mouse in a tool tip."""
        place = self._place_at(event.position().x())
        if place is not None and self._odds is not None:
            number = self._odds.first_index + place + 1
            is_end = self._odds.has_end and place == len(self._odds.values) - 1
            end = ", where the answer ended" if is_end else ""
            self.setToolTip(f"Token {number:,}: {percent(self._odds.values[place])}{end}")

    def paintEvent(self, event: QPaintEvent) -> None:
        odds = self._odds
        if odds is None:
            return
        colors, area = current_theme().colors, self._area()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small = QFont(self.font())
        small.setPointSizeF(small.pointSizeF() * 0.85)
        painter.setFont(small)
        line = painter.fontMetrics().height()
        for value in (0.0, 0.5, 1.0):
            y = area.bottom() - value * area.height()
            painter.setPen(QColor(colors.line))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(QColor(colors.muted))
            box = QRectF(0, y - line / 2, area.left() - 8, line)
            painter.drawText(box, int(Qt.AlignmentFlag.AlignLeft), f"{value * 100:.0f} %")
        likely = area.bottom() - LIKELY * area.height()
        painter.setPen(QPen(QColor(colors.limit), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(area.left(), likely), QPointF(area.right(), likely))
        above = QRectF(area.left(), likely - line - 2, area.width(), line)
        words = f"Ending is likely from {percent(LIKELY)}"
        painter.drawText(above, int(Qt.AlignmentFlag.AlignRight), words)
        painter.setPen(QPen(QColor(colors.match), 1.6))
        points = self._points(odds, area)
        painter.drawPolyline(QPolygonF(points))
        if odds.has_end:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.done))
            painter.drawEllipse(points[-1], _END_PX, _END_PX)
        painter.setPen(QColor(colors.muted))
        foot = QRectF(area.left(), area.bottom() + 4, area.width(), line)
        painter.drawText(foot, int(Qt.AlignmentFlag.AlignLeft), f"token {odds.first_index + 1:,}")
        last = odds.first_index + len(odds.values)
        painter.drawText(foot, int(Qt.AlignmentFlag.AlignRight), f"{last:,}")
        painter.end()

    def _area(self) -> QRectF:
        metrics = self.fontMetrics()
        left, line = metrics.averageCharWidth() * _LEFT_CHARS, metrics.height()
        width = max(1, self.width() - left - _RIGHT_PX)
        return QRectF(left, line / 2, width, max(1, self.height() - line * (0.5 + _LINES_BELOW)))

    def _points(self, odds: EndingOdds, area: QRectF) -> list[QPointF]:
        """Return the curve with at most one point per pixel column: the highest value in it."""
        count = len(odds.values)
        step = max(1, count // max(1, int(area.width())))
        places = range(0, count, step)
        span = max(1, count - 1)
        return [
            QPointF(
                area.left() + place / span * area.width(),
                area.bottom() - max(odds.values[place : place + step]) * area.height(),
            )
            for place in places
        ]

    def _place_at(self, x: float) -> int | None:
        if self._odds is None:
            return None
        area, count = self._area(), len(self._odds.values)
        share = (x - area.left()) / area.width()
        return max(0, min(count - 1, round(share * (count - 1))))

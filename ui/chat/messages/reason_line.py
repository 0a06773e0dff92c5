"""The line under an answer: figures, and the reason of its end with icon and color.

Main thread.
"""

from collections.abc import Sequence

from PySide6.QtCore import QRect, QSize, Qt
from PySide6.QtGui import QColor, QFont, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QAbstractButton, QSizePolicy

from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.words.tones import Tone

_GAP = 8
_PAD = 9
_ICON = 15


class ReasonLine(QAbstractButton):
    """A button that shows the run in the stop panel."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._figures = ""
        self._word = ""
        self._icon = "check"
        self._tone = Tone.QUIET
        font = QFont(self.font())
        font.setPointSizeF(font.pointSizeF() * 0.92)
        self.setFont(font)
        self.setCheckable(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setMinimumWidth(40)
        theme.changed.connect(self._fit)

    def show_reason(self, figures: Sequence[str], word: str, icon: str, tone: Tone) -> None:
        """Show figures and a reason."""
        self._figures = " · ".join(figures)
        self._word, self._icon, self._tone = word, icon, tone
        spoken = " · ".join([*figures, word])
        self.setText(spoken)
        self.setAccessibleName(f"{spoken}. Show why it stopped")
        self.setToolTip("Show why it stopped")
        self.updateGeometry()
        self.update()

    def _fit(self) -> None:
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Return the size of the whole line."""
        metrics = self.fontMetrics()
        return QSize(
            metrics.horizontalAdvance(self._figures) + _GAP + self._pill_width(self._word),
            metrics.height() + self._theme.gap(10),
        )

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the reason as a pill, then the figures; the pill is never cut."""
        colors = self._theme.colors
        color, soft = colors.tone(self._tone)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        metrics = self.fontMetrics()
        size, pad = self._theme.px(_ICON), self._theme.gap(_PAD)
        room = self.width() - self._pill_width("")
        word = metrics.elidedText(self._word, Qt.TextElideMode.ElideRight, room)
        width = self._pill_width(word)
        figures_width = max(0, self.width() - width - _GAP)
        figures = metrics.elidedText(self._figures, Qt.TextElideMode.ElideRight, figures_width)
        painter.setPen(QColor(colors.muted))
        painter.drawText(
            QRect(0, 0, figures_width, self.height()), Qt.AlignmentFlag.AlignVCenter, figures
        )
        left = metrics.horizontalAdvance(figures) + (_GAP if figures else 0)
        pill = QRect(left, 1, width - 1, self.height() - 3)
        is_marked = self.isChecked() or self.underMouse()
        painter.setPen(QPen(QColor(color), 1) if is_marked else Qt.PenStyle.NoPen)
        if self.hasFocus():
            # Unlike the line of the shown answer, which has the border of its color as well.
            painter.setPen(QPen(QColor(colors.text), 1.4))
        painter.setBrush(QColor(soft))
        painter.drawRoundedRect(pill, pill.height() / 2, pill.height() / 2)
        image = icons.pixmap(self._icon, color, size, 2.0)
        painter.drawPixmap(left + pad, pill.center().y() - size // 2, image)
        painter.setPen(QColor(color))
        text = QRect(left + pad + size + self._theme.gap(5), 0, width, self.height() - 1)
        painter.drawText(text, Qt.AlignmentFlag.AlignVCenter, word)
        painter.end()

    def _pill_width(self, word: str) -> int:
        around = self._theme.gap(_PAD) * 2 + self._theme.px(_ICON) + self._theme.gap(6)
        return self.fontMetrics().horizontalAdvance(word) + around

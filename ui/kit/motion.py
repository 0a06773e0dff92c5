"""Short movements; none where motion is reduced. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QPointF, QPropertyAnimation, Qt, QTimer
from PySide6.QtGui import QColor, QHideEvent, QLinearGradient, QPainter, QPaintEvent, QShowEvent
from PySide6.QtWidgets import QGraphicsOpacityEffect, QLabel, QWidget

from ui.kit.theme import current_theme

DURATION_MS = 150
_STEP_MS, _STEPS = 40, 45  # of a shimmer, and how many a pass over the widget takes


def edge_fade(start: QPointF, end: QPointF, color: str, share: float = 1.0) -> QLinearGradient:
    """Return a gradient from a share of a color to nothing."""
    gradient, ground = QLinearGradient(start, end), QColor(color)
    for place, alpha in ((0.0, share), (1.0, 0.0)):
        ground.setAlphaF(alpha)
        gradient.setColorAt(place, ground)
    return gradient


def fade(widget: QWidget, *, is_in: bool, then: Callable[[], object] = lambda: None) -> None:
    """Let a widget appear or disappear; ``then`` is called at the end."""
    if not current_theme().has_motion:
        then()
        return
    effect = QGraphicsOpacityEffect(widget)
    widget.setGraphicsEffect(effect)  # deletes an earlier one with its animation
    fading = QPropertyAnimation(effect, b"opacity", effect)
    fading.setDuration(DURATION_MS)
    fading.setStartValue(0.0 if is_in else 1.0)
    fading.setEndValue(1.0 if is_in else 0.0)

    def end() -> None:
        then()
        # Removing the effect deletes the animation, which is still emitting its end.
        QTimer.singleShot(0, effect, lambda: widget.setGraphicsEffect(None))  # type: ignore[arg-type]

    fading.finished.connect(end)
    fading.start()


def dissolve(widget: QWidget) -> None:
    """Let the present look of a widget fade away over the next one."""
    options, name = Qt.FindChildOption.FindDirectChildrenOnly, "passing_look"
    is_dissolving = widget.findChild(QLabel, name, options) is not None
    if is_dissolving or not (current_theme().has_motion and widget.isVisible()):
        return
    picture = QLabel(widget)
    picture.setObjectName(name)
    picture.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
    picture.setPixmap(widget.grab())
    picture.setGeometry(widget.rect())
    picture.show()
    fade(picture, is_in=False, then=picture.deleteLater)


class Shimmer(QWidget):
    """A band of the background's color that passes over a widget while something goes on."""

    def __init__(self, over: QWidget) -> None:
        super().__init__(over)
        self._over, self._step = over, 0
        self._ticks = QTimer(self, interval=_STEP_MS)
        self._ticks.timeout.connect(self._advance)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.hide()

    def show_active(self, is_active: bool) -> None:
        self.setVisible(is_active and current_theme().has_motion)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._ticks.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._ticks.stop()

    def _advance(self) -> None:
        self._step = (self._step + 1) % _STEPS
        self.setGeometry(self._over.rect())
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        width = max(60, self.width() // 3)
        left = -width + (self.width() + 2 * width) * self._step / _STEPS
        band = QLinearGradient(left - width, 0, left + width, 0)
        for place, alpha in ((0.0, 0), (0.5, 190), (1.0, 0)):
            color = QColor(current_theme().colors.canvas)
            color.setAlpha(alpha)
            band.setColorAt(place, color)
        painter = QPainter(self)
        painter.fillRect(self.rect(), band)
        painter.end()

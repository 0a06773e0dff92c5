"""Icons in the colors of the theme at the time of painting, so that they follow it. Main thread."""

from PySide6.QtCore import QRect, QSize
from PySide6.QtGui import QIcon, QIconEngine, QPainter, QPixmap

from ui.kit import icons
from ui.kit.theme import current_theme


class ThemedIconEngine(QIconEngine):
    """Paints one icon while a button is unchecked or disabled, and one while it is checked."""

    def __init__(self, off: tuple[str, str], on: tuple[str, str], disabled_color: str) -> None:
        super().__init__()
        self._off, self._on, self._disabled_color = off, on, disabled_color

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        scale = painter.device().devicePixelRatioF()
        painter.drawPixmap(rect, self._pixmap(rect.width(), mode, state, scale))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        """Return the icon; Qt's own would paint it on memory that is not cleared."""
        side = min(size.width(), size.height())
        return self._pixmap(side, mode, state) if side > 0 else QPixmap()

    def _pixmap(
        self, width: int, mode: QIcon.Mode, state: QIcon.State, scale: float = 1.0
    ) -> QPixmap:
        name, color = self._on if state == QIcon.State.On else self._off
        if mode == QIcon.Mode.Disabled:
            color = self._disabled_color
        return icons.pixmap(name, getattr(current_theme().colors, color), width, scale)

    def clone(self) -> QIconEngine:
        return ThemedIconEngine(self._off, self._on, self._disabled_color)


def themed_icon(
    name: str,
    color: str = "muted",
    *,
    checked_name: str = "",
    checked_color: str = "",
    disabled_color: str = "disabled",
) -> QIcon:
    """Return an icon whose colors are names in ``Colors``; it may differ while checked."""
    on = checked_name or name, checked_color or color
    return QIcon(ThemedIconEngine((name, color), on, disabled_color))

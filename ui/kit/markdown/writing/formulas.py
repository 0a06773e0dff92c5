"""Draws LaTeX formulas as pictures, each once. Main thread.

For a formula that cannot be drawn, the caller shows the source.
"""

import logging
import warnings
from dataclasses import dataclass
from functools import lru_cache

from PySide6.QtCore import QByteArray, QRectF, Qt
from PySide6.QtGui import QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

# Drawn finer than the screen, so that it is sharp on a high-resolution one.
FINENESS = 3.0
_PX_PER_POINT = 4 / 3
_MOST_CHARS = 2_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Formula:
    """A drawn formula."""

    image: QImage
    width_px: float
    height_px: float


@lru_cache(maxsize=512)
def formula(tex: str, points: float, color: str, *, is_display: bool) -> Formula | None:
    """Return the picture of a formula; None if it cannot be drawn."""
    if len(tex) > _MOST_CHARS:
        return None
    try:
        svg = _svg(tex, points * _PX_PER_POINT * 1.05, color, is_display=is_display)
    except Exception as error:  # the library raises exceptions of any kind
        _log.debug("a formula cannot be drawn: %s", error)
        return None
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    size = renderer.defaultSize()
    if not renderer.isValid() or size.isEmpty():
        return None
    image = QImage(size * FINENESS, QImage.Format.Format_ARGB32_Premultiplied)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    renderer.render(painter, QRectF(image.rect()))
    painter.end()
    return Formula(image, size.width(), size.height())


def _svg(tex: str, size_px: float, color: str, *, is_display: bool) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it finds its own font
        # Imported for the first formula: importing takes a moment, and most answers have none.
        import ziamath

        ziamath.config.svg2 = False  # Qt draws SVG 1.2 only
        drawn = ziamath.Latex(tex, size=size_px, color=color, inline=not is_display)
        return str(drawn.svg())

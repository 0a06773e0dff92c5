"""Draws the program's icon in all sizes: ``python -m assets.bundle.draw_icons`` after a change.

The pictures are kept in the repository, so that a build needs nothing that can draw. Needs Qt.
"""

import os
import sys

from PySide6.QtCore import QRectF
from PySide6.QtGui import QGuiApplication, QImage, QPainter
from PySide6.QtSvg import QSvgRenderer

from assets.bundle.mac import SIDES
from assets.bundle.product import ICONS


def main() -> None:
    """Draw and write all pictures."""
    os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
    application = QGuiApplication(sys.argv[:1])
    drawing = QSvgRenderer(str(ICONS / "fullstop.svg"))
    for side in SIDES:
        picture = QImage(side, side, QImage.Format.Format_ARGB32)
        picture.fill(0)
        painter = QPainter(picture)
        drawing.render(painter, QRectF(0, 0, side, side))
        painter.end()
        picture.save(str(ICONS / f"{side}.png"))
    application.quit()


if __name__ == "__main__":
    main()

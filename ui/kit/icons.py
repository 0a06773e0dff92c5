"""Our own line icons, and the ground of rows that a list paints itself.

Icons are drawn from path data in a 24 by 24 grid.

Main thread (pixmaps). Knows no palette: callers pass the color.
"""

from functools import lru_cache

from PySide6.QtCore import QByteArray, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QStyle

from ui.kit.colors import Colors

_PATHS = {
    "plus": '<path d="M12 5v14M5 12h14"/>',
    "attach": '<path d="M19 11.2l-7.4 7.4a4.6 4.6 0 0 1-6.5-6.5l7.9-7.9a3.1 3.1 0 0 1 4.4 4.4l'
    '-7.7 7.7a1.5 1.5 0 0 1-2.1-2.1l7-7"/>',
    "trash": '<path d="M4.5 7h15M9.5 7V4.5h5V7M6.5 7l.8 12.5h9.4L17.5 7M10 11v5M14 11v5"/>',
    "pencil": '<path d="M4.5 19.5l.9-4L16 4.9l3.1 3.1L8.5 18.6zM13.7 7.2l3.1 3.1"/>',
    "send": '<path d="M12 19V5.5M6 11.5l6-6 6 6"/>',
    "square": '<rect x="6.5" y="6.5" width="11" height="11" rx="2" fill="COLOR"/>',
    "panel": '<rect x="3.5" y="4.5" width="17" height="15" rx="3"/><path d="M15 4.5v15"/>',
    "sidebar": '<rect x="3.5" y="4.5" width="17" height="15" rx="3"/><path d="M9 4.5v15"/>',
    "sliders": '<path d="M4 8h9M18 8h2M4 16h2M11 16h9"/><circle cx="15.5" cy="8" r="2.3"/>'
    '<circle cx="8.5" cy="16" r="2.3"/>',
    "more": '<circle cx="6" cy="12" r="1.1" fill="COLOR"/><circle cx="12" cy="12" r="1.1" '
    'fill="COLOR"/><circle cx="18" cy="12" r="1.1" fill="COLOR"/>',
    "copy": '<rect x="8.5" y="8.5" width="11" height="11" rx="2.2"/>'
    '<path d="M15.5 5.5v-.3a1.7 1.7 0 0 0-1.7-1.7H6.2a1.7 1.7 0 0 0-1.7 1.7v7.6a1.7 1.7 0 0 0 '
    '1.7 1.7h.3"/>',
    "check": '<circle cx="12" cy="12" r="8.5"/><path d="M8.2 12.3l2.6 2.6 5-5.4"/>',
    "tick": '<path d="M5 12.5l4.5 4.5L19 7.5"/>',
    "box": '<rect x="3.5" y="3.5" width="17" height="17" rx="4"/>',
    "box-ticked": '<rect x="3.5" y="3.5" width="17" height="17" rx="4"/>'
    '<path d="M8 12.3l2.8 2.8 5.4-5.8"/>',
    "stop-match": '<path d="M8.3 3.8h7.4l4.5 4.5v7.4l-4.5 4.5H8.3l-4.5-4.5V8.3z"/>'
    '<circle cx="12" cy="12" r="2.6" fill="COLOR" stroke="none"/>',
    "limit": '<path d="M3.5 17a8.5 8.5 0 1 1 17 0M12 15l3.8-5.2"/>'
    '<circle cx="12" cy="16.2" r="1.5"/>',
    "tool": '<path d="M14.6 6.6a4.3 4.3 0 0 1 5.5-1.3l-2.9 2.9 1.5 1.5 2.6-2.6a4.3 4.3 0 0 '
    '1-5.8 5.4l-7 7.1a2 2 0 0 1-2.9-2.9l7.1-7a4.3 4.3 0 0 1 1.9-3.1z"/>',
    "cancelled": '<circle cx="12" cy="12" r="8.5"/><rect x="9" y="9" width="6" height="6" rx="1"/>',
    "fault": '<path d="M12 4.2l8.6 15H3.4zM12 10v4.2M12 16.8v.2"/>',
    "pause": '<path d="M9 6.5v11M15 6.5v11"/>',
    "clock": '<circle cx="12" cy="12" r="8.5"/><path d="M12 7.5V12l3 2"/>',
    "up": '<path d="M12 19V6M6.5 11.5L12 6l5.5 5.5"/>',
    "down": '<path d="M12 5v13M6.5 12.5L12 18l5.5-5.5"/>',
    "chevron-right": '<path d="M9.5 6l6 6-6 6"/>',
    "chevron-down": '<path d="M6 9.5l6 6 6-6"/>',
    "thinking": '<path d="M9.3 17.2a6.2 6.2 0 1 1 5.4 0v1.6H9.3zM10 21.2h4"/>',
    "close": '<path d="M6.5 6.5l11 11M17.5 6.5l-11 11"/>',
    "detach": '<path d="M13 5h6v6M19 5l-8 8M16.5 14v4.2a1.3 1.3 0 0 1-1.3 1.3H5.8a1.3 1.3 0 0 '
    '1-1.3-1.3V8.8a1.3 1.3 0 0 1 1.3-1.3H10"/>',
    "gear": '<circle cx="12" cy="12" r="2.6"/><circle cx="12" cy="12" r="6.2"/><path d="M12 3.2v2.4'
    "M12 18.4v2.4M3.2 12h2.4M18.4 12h2.4M5.8 5.8l1.7 1.7M16.5 16.5l1.7 1.7M5.8 18.2l1.7-1.7"
    'M16.5 7.5l1.7-1.7"/>',
    "appearance": '<circle cx="12" cy="12" r="8.5"/><path d="M12 3.5a8.5 8.5 0 0 1 0 17z" '
    'fill="COLOR"/>',
    "storage": '<ellipse cx="12" cy="6.5" rx="7.5" ry="3"/><path d="M4.5 6.5v11c0 1.7 3.4 3 7.5 3'
    's7.5-1.3 7.5-3v-11M4.5 12c0 1.7 3.4 3 7.5 3s7.5-1.3 7.5-3"/>',
    "server": '<rect x="4" y="4.5" width="16" height="6" rx="2"/>'
    '<rect x="4" y="13.5" width="16" height="6" rx="2"/><path d="M7.5 7.5h.2M7.5 16.5h.2"/>',
    "chat": '<path d="M5 5.5h14a1.5 1.5 0 0 1 1.5 1.5v8.5A1.5 1.5 0 0 1 19 17h-7l-4.5 3.5V17H5a1.5 '
    '1.5 0 0 1-1.5-1.5V7A1.5 1.5 0 0 1 5 5.5z"/>',
    "report": '<path d="M6.5 3.8h7.7l3.8 3.8v12.6H6.5zM14 4v4h4M9.3 12.2h5.5M9.3 15.7h5.5"/>',
    "warning": '<circle cx="12" cy="12" r="8.5"/><path d="M12 7.8v5M12 15.8v.2"/>',
    "mark": '<circle cx="12" cy="12" r="5.2" fill="COLOR" stroke="none"/>',
    "search": '<circle cx="10.8" cy="10.8" r="6.3"/><path d="M15.5 15.5l4.8 4.8"/>',
    "folder": '<path d="M3.5 18V7A1.5 1.5 0 0 1 5 5.5h4.2l2.3 2.7H19a1.5 1.5 0 0 1 1.5 1.5V18a1.5 '
    '1.5 0 0 1-1.5 1.5H5A1.5 1.5 0 0 1 3.5 18z"/>',
    "pin": '<path d="M9 3.8h6M10 3.8v6l-3 4.2h10l-3-4.2v-6M12 14v6.2"/>',
    "regenerate": '<path d="M19.4 9.5A8 8 0 1 0 20 13.4M19.8 4.2v5.3h-5.3"/>',
    "repeat": '<path d="M16.5 3.5l3 3-3 3M4.5 11.5V10A3.5 3.5 0 0 1 8 6.5h11.5M7.5 20.5l-3-3 3-3'
    'M19.5 12.5V14a3.5 3.5 0 0 1-3.5 3.5H4.5"/>',
    "chevron-left": '<path d="M14.5 6l-6 6 6 6"/>',
    "download": '<path d="M12 4v10.5M7.5 10.5L12 15l4.5-4.5M5 19.5h14"/>',
    "code": '<path d="M8.5 7.5L4 12l4.5 4.5M15.5 7.5L20 12l-4.5 4.5M13.3 5.5l-2.6 13"/>',
    "picture": '<rect x="3.5" y="5" width="17" height="14" rx="2.5"/><circle cx="8.7" cy="9.8" '
    'r="1.4"/><path d="M4 17l5-4.5 3.5 3 3.2-2.7 4.3 3.7"/>',
    "calendar": '<rect x="4" y="5.5" width="16" height="14.5" rx="3"/>'
    '<path d="M4 10.5h16M8.5 3.5v4M15.5 3.5v4"/>',
    "spinner": '<path d="M12 3.8a8.2 8.2 0 1 1-7.3 4.5"/>',
}


@lru_cache(maxsize=512)
def pixmap(name: str, color: str, size: int = 18, scale: float = 2.0) -> QPixmap:
    """Return an icon of ``size`` logical pixels, ``scale`` device pixels each."""
    pixels = round(size * scale)
    image = QPixmap(pixels, pixels)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(svg(name, color))).render(painter, QRectF(0, 0, pixels, pixels))
    painter.end()
    image.setDevicePixelRatio(scale)
    return image


def draw(painter: QPainter, area: QRectF, name: str, color: str) -> None:
    """Draw an icon on a widget, sharp on any screen."""
    image = pixmap(name, color, round(area.width()), painter.device().devicePixelRatioF() * 2)
    painter.drawPixmap(area, image, QRectF(image.rect()))


def icon(name: str, color: str, size: int = 18) -> QIcon:
    """Return an icon of a fixed color that is sharp on ordinary and high-resolution screens."""
    result = QIcon()
    for scale in (1.0, 2.0):
        result.addPixmap(pixmap(name, color, size, scale))
    return result


def svg(name: str, color: str) -> bytes:
    """Return an icon as SVG."""
    shape = _PATHS[name].replace("COLOR", color)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 24 24" fill="none" '
        f'stroke="{color}" stroke-width="1.7" stroke-linecap="round" stroke-linejoin="round">'
        f"{shape}</svg>"
    ).encode()


def draw_row_ground(
    painter: QPainter,
    area: QRect,
    state: QStyle.StateFlag,
    colors: Colors,
    *,
    has_focus: bool,
) -> None:
    """Draw a rounded field where a row is chosen, framed with the focus, or is pointed at."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    if state & QStyle.StateFlag.State_Selected:
        painter.setBrush(QColor(colors.accent_soft))
        if has_focus or colors.is_strong:
            painter.setPen(QColor(colors.accent if has_focus else colors.strong_line))
        edge = QRectF(area).adjusted(0.5, 0.5, -0.5, -0.5)
        painter.drawRoundedRect(edge, 8, 8)
    elif state & QStyle.StateFlag.State_MouseOver:
        painter.setBrush(QColor(colors.hover))
        painter.drawRoundedRect(area, 8, 8)

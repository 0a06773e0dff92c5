"""The picture of a probe's score, to be shared: name, version and score of a server."""

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QColor, QFont, QImage, QPainter

from api.conformance.probe.suite import score
from api.conformance.probe.values import Report
from ui.kit.colors import Colors

_SIZE = 1200, 630  # the size of a link's preview
_MARGIN = 80


def probe_card(report: Report, name: str, colors: Colors, font: QFont) -> QImage:
    """Return the picture. Any thread."""
    width, height = _SIZE
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor(colors.canvas))
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    passed, judged = score(report)

    def write(text: str, y: int, size_px: int, color: str, *, is_bold: bool = False) -> None:
        font_ = QFont(font)
        font_.setPixelSize(size_px)
        font_.setBold(is_bold)
        painter.setFont(font_)
        painter.setPen(QColor(color))
        room = width - 2 * _MARGIN
        shown = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideRight, room)
        painter.drawText(_MARGIN, y, shown)

    write(name, 150, 56, colors.text, is_bold=True)
    write(f"{passed} of {judged}", 330, 144, colors.text, is_bold=True)
    left = f", {len(report.not_run):,} not asked" if report.not_run else ""
    write(f"checks of stop sequences and their answers passed{left}", 400, 32, colors.muted)
    painter.setPen(Qt.PenStyle.NoPen)
    whole = QRectF(_MARGIN, 450, width - 2 * _MARGIN, 16)
    part = QRectF(whole)
    part.setWidth(whole.width() * passed / max(1, judged))
    for area, color in ((whole, colors.fault_soft), (part, colors.done)):
        painter.setBrush(QColor(color))
        painter.drawRoundedRect(area, 8, 8)
    facts = (report.model, report.dialect.value.capitalize(), report.began_at[:10])
    write(" · ".join(filter(None, facts)), 530, 26, colors.muted)
    write(f"Probed with {report.tool or 'Fullstop'}", 570, 26, colors.muted)
    painter.end()
    return image

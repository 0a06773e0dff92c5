"""Formulas and pictures that are drawn within lines of text. Main thread.

Everything is drawn at the pixels of the screen, so that it is sharp on any. A picture is in the
text itself, or the user has loaded it.
"""

import base64
import logging
import math
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from xml.etree import ElementTree

from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPointF, QRect, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import (
    QFont,
    QFontMetricsF,
    QImage,
    QImageReader,
    QPainter,
    QPyTextObject,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextImageFormat,
)
from PySide6.QtSvg import QSvgRenderer

from engine.files.safe_files import read_bounded
from ui.kit.flow_text import text_fragments
from ui.kit.markdown.math_spacing import space_as_tex

_log = logging.getLogger(__name__)

_DATA = re.compile(r"data:image/(?:png|jpe?g|gif|webp);base64,(?P<bytes>[A-Za-z0-9+/=\s]+)\Z")
_TAG = re.compile(r"\\tag\{(?P<number>.*?)\}")
# Its lines have numbers, which nothing refers to and the drawing would begin again each time.
_NUMBERED = re.compile(r"\\(?:begin|end)\{(?:align|equation|gather|multline)(?=\})")
_NAMESPACE = ' xmlns="http://www.w3.org/1998/Math/MathML"'
_FORMATS = (b"png", b"jpeg", b"gif", b"webp")
# A larger one stays text: its bytes, and its pixels, which take four bytes each.
MAX_PICTURE_BYTES = 10 << 20


@dataclass(frozen=True, slots=True)
class Drawn:
    """A formula as SVG, or a picture; ``descent_px`` is its part below the base line."""

    width_px: float
    height_px: float
    descent_px: float = 0.0
    svg: bytes = b""
    image: QImage | None = None

    def within(self, width_px: float) -> QSizeF:
        """Return its size where there is this much room; formulas keep theirs."""
        share = 1.0 if self.image is None else min(1.0, max(width_px, 1.0) / self.width_px)
        return QSizeF(self.width_px * share, self.height_px * share)

    def paint(self, painter: QPainter, area: QRectF) -> None:
        if self.image is not None:
            area.setHeight(self.within(area.width()).height())
            painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
            painter.drawImage(area, self.image)
            return
        to_device = painter.deviceTransform()
        ascent_px = self.height_px - self.descent_px
        base = to_device.map(QPointF(area.left(), area.top() + ascent_px))
        image, rows_above = _formula_image(self, to_device.m11())
        corner = QPointF(round(base.x()), round(base.y()) - rows_above)
        painter.drawImage(to_device.inverted()[0].map(corner), image)


@lru_cache(maxsize=512)
def _formula_image(formula: Drawn, ratio: float) -> tuple[QImage, int]:
    """Return the picture at a number of pixels per unit, and its rows above the base line."""
    ascent_px = formula.height_px - formula.descent_px
    above, below = math.ceil(ascent_px * ratio), math.ceil(formula.descent_px * ratio)
    image = QImage(
        QSize(math.ceil(formula.width_px * ratio), above + below),
        QImage.Format.Format_ARGB32_Premultiplied,
    )
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    QSvgRenderer(QByteArray(formula.svg)).render(
        painter,
        QRectF(
            0,
            above - ascent_px * ratio,
            formula.width_px * ratio,
            formula.height_px * ratio,
        ),
    )
    painter.end()
    image.setDevicePixelRatio(ratio)
    return image, above


@lru_cache(maxsize=512)
def formula(tex: str, points: float, color: str, *, is_display: bool) -> Drawn | None:
    """Return a formula; None if it cannot be drawn."""
    if len(tex) > 2_000:
        return None
    try:
        svg = _svg(tex, points * (4 / 3) * 1.05, color, is_display=is_display)
    except Exception as error:  # the library raises exceptions of any kind
        _log.debug("a formula cannot be drawn: %s", error)
        return None
    renderer = QSvgRenderer(QByteArray(svg.encode()))
    # The base line is at height 0 of the picture.
    box = renderer.viewBoxF()
    if not renderer.isValid() or box.isEmpty():
        return None
    ascent_px, descent_px = max(-box.top(), 0.0), max(box.bottom(), 0.0)
    return Drawn(box.width(), ascent_px + descent_px, descent_px, svg.encode())


def _svg(tex: str, size_px: float, color: str, *, is_display: bool) -> str:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of how it finds its own font
        # Imported for the first formula: importing takes a moment, and most answers have none.
        import ziamath
        from ziamath.tex import tex2mml

        ziamath.config.svg2 = False  # Qt draws SVG 1.2 only
        bare = _NUMBERED.sub(r"\g<0>*", _TAG.sub("", tex))
        source = tex2mml(bare, inline=not is_display)
        mathml = ElementTree.fromstring(source.replace(_NAMESPACE, "", 1))
        mathml.set("mathcolor", color)
        space_as_tex(mathml)
        label = _TAG.search(tex)
        number = ziamath.config.numbering.getlabel(label["number"]) if label else None
        drawn = ziamath.Math(mathml, size=size_px, number=number)
        return str(drawn.svg())


@lru_cache(maxsize=32)
def picture(address: str, em: float) -> Drawn | None:
    """Return the picture that a data address contains; None for any other address."""
    data = _DATA.match(address)
    if data is None or len(address) > MAX_PICTURE_BYTES * 4 // 3 + 100:
        return None
    try:
        content = base64.b64decode(re.sub(r"\s", "", data["bytes"]), validate=True)
    except ValueError:
        return None
    return drawn_picture(content, em)


def drawn_picture(content: bytes, em: float) -> Drawn | None:
    """Return the picture in a file's bytes; None if it cannot be shown."""
    image = decoded_image(content, QSizeF(em * 40, em * 28))
    if image is None:
        return None
    ratio = image.devicePixelRatio()
    return Drawn(image.width() / ratio, image.height() / ratio, image=image)


@contextmanager
def picture_reader(content: bytes) -> Iterator[QImageReader]:
    """Yield a reader of a picture's file.

    Qt's handler of TIFF uses the buffer when it is destroyed, so it has to go first.
    """
    buffer = QBuffer()
    buffer.setData(QByteArray(content))
    buffer.open(QIODevice.OpenModeFlag.ReadOnly)
    reader = QImageReader(buffer)
    reader.setAutoTransform(True)
    try:
        yield reader
    finally:
        reader.setDevice(QBuffer())


def decoded_image(content: bytes, maximum: QSizeF) -> QImage | None:
    """Return the picture in a file's bytes, no larger than wanted; None if it cannot be shown."""
    with picture_reader(content) as reader:
        size = reader.size()
        if reader.format().data() not in _FORMATS or not size.isValid() or size.isEmpty():
            return None
        if size.width() * size.height() > 50_000_000:
            return None
        shown = QSizeF(size).scaled(maximum, Qt.AspectRatioMode.KeepAspectRatio)
        fine = (shown * 2).toSize().boundedTo(size).expandedTo(QSize(1, 1))
        if fine != size:
            reader.setScaledSize(fine)
        image = reader.read()
    if image.isNull():
        return None
    if size.width() > maximum.width() or size.height() > maximum.height():
        image.setDevicePixelRatio(max(image.width() / shown.width(), 1.0))
    return image


def picture_size(content: bytes) -> QSize:
    """Return the size of a picture by the beginning of its file; invalid if it is none."""
    with picture_reader(content) as reader:
        return reader.size()


def picture_from(path: Path, maximum: QSizeF) -> QImage | None:
    """Return the picture in a file, as ``decoded_image`` does; blocks, any thread."""
    try:
        content = read_bounded(path, MAX_PICTURE_BYTES)
    except OSError:
        return None
    return decoded_image(content, maximum)


class Pictures(QPyTextObject):
    """Draws the formulas and pictures within the lines of a document."""

    def __init__(self, document: QTextDocument) -> None:
        super().__init__(document)
        self._drawn: dict[str, Drawn] = {}
        # The pictures of addresses that the user has loaded, or how loading goes.
        self.loaded: dict[str, Drawn | str] = {}
        image = QTextFormat.ObjectTypes.ImageObject.value
        document.documentLayout().registerHandler(image, self)

    def clear(self) -> None:
        self._drawn.clear()

    def format(self, name: str, drawn: Drawn, font: QFont, available_px: float) -> QTextImageFormat:
        """Return the format of a position where something is drawn."""
        self._drawn[name] = drawn
        form = QTextImageFormat()
        form.setName(name)
        form.setVerticalAlignment(QTextCharFormat.VerticalAlignment.AlignBaseline)
        self._fit(form, drawn, font, available_px)
        return form

    def _fit(self, form: QTextImageFormat, drawn: Drawn, font: QFont, available_px: float) -> bool:
        """Set the size of a format; return whether it has changed."""
        size = drawn.within(available_px)
        # Qt puts the end of a picture as far below the base line as the font's letters reach.
        reaching, below_px = _font_reaching(font.family(), drawn.descent_px)
        form.setFont(reaching)
        size.setHeight(size.height() + below_px - drawn.descent_px)
        if (form.width(), form.height()) == (size.width(), size.height()):
            return False
        form.setWidth(size.width())
        form.setHeight(size.height())
        return True

    def fit_all(self, document: QTextDocument, font: QFont, available_px: float) -> None:
        """Fit all pictures into a width; formulas keep theirs."""
        if not any(drawn.image is not None for drawn in self._drawn.values()):
            return
        cursor = QTextCursor(document)
        for piece in text_fragments(document):
            image = piece.charFormat().toImageFormat()
            drawn = self._drawn.get(image.name())
            if drawn is None or drawn.image is None:
                continue
            cursor.setPosition(piece.position())
            cursor.setPosition(piece.position() + piece.length(), QTextCursor.MoveMode.KeepAnchor)
            left = cursor.blockFormat().leftMargin()
            if self._fit(image, drawn, font, available_px - left):
                cursor.setCharFormat(image)

    def intrinsicSize(self, document: QTextDocument, position: int, form: QTextFormat) -> QSizeF:  # noqa: N802
        """Return the room that a place takes."""
        image = form.toImageFormat()
        return QSizeF(image.width(), image.height())

    def drawObject(  # noqa: N802 - Qt's name
        self,
        painter: QPainter,
        target_area: QRectF | QRect,
        document: QTextDocument,
        position: int,
        form: QTextFormat,
    ) -> None:
        drawn = self._drawn.get(form.toImageFormat().name())
        if drawn is None:
            return
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        drawn.paint(painter, QRectF(target_area))
        painter.restore()


@lru_cache(maxsize=256)
def _font_reaching(family: str, below_px: float) -> tuple[QFont, float]:
    """Return a font whose letters reach at least this far below the base line, and how far."""
    font = QFont(family)
    font.setPixelSize(100)
    per_px = max(QFontMetricsF(font).descent() / 100, 0.01)
    size = max(math.ceil(below_px / per_px), 1)
    font.setPixelSize(size)
    while (reached := QFontMetricsF(font).descent()) < below_px:
        size += 1
        font.setPixelSize(size)
    return font, reached

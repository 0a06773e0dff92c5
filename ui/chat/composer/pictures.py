"""Pictures that are attached: stored in a form that models read, and shown large."""

import asyncio
from pathlib import Path

import shiboken6
from PySide6.QtCore import QBuffer, QByteArray, QIODevice, QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import (
    QGuiApplication,
    QIcon,
    QImage,
    QImageReader,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPixmap,
)
from PySide6.QtWidgets import QPushButton, QSizePolicy, QWidget

from ui.kit.buttons import push_button
from ui.kit.dialogs import confirm_file
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.markdown.pictures import decoded_image, picture_from, picture_reader
from ui.kit.menus import show_copied
from ui.kit.tasks import start_task
from ui.kit.windows import OwnDialog
from ui.records.attachments import Attachment, picture_kind
from ui.records.pictures import MAX_PICTURE_BYTES, keep_picture
from ui.words import FileRefused

# A larger picture, or one in another format, is stored anew within this; models see less.
_MAX_STORED = QSizeF(4096, 4096)


def store_picture(folder: Path | None, name: str, data: bytes) -> Attachment:
    """Store a picture; raises ``FileRefused``. Blocks; any thread."""
    if folder is None:
        raise FileRefused(f"“{name}” cannot be attached: conversations are not being saved.")
    is_stored_as_it_is = picture_kind(data) and len(data) <= MAX_PICTURE_BYTES
    image = decoded_image(data, QSizeF(64, 64)) if is_stored_as_it_is else _read(data)
    if image is None or image.isNull():
        raise FileRefused(
            f"“{name}” is an image that cannot be read: it is damaged, too large, or in an unknown "
            "format. Save it as PNG or JPEG and attach that."
        )
    try:
        return keep_picture(folder, name, data if is_stored_as_it_is else encode_picture(image))
    except OSError as error:
        raise FileRefused(f"“{name}” could not be stored: {error.strerror or error}.") from error


class PastedPicture:
    """Stores a picture of the clipboard as a file of this name."""

    def __init__(self, name: str, image: QImage, folder: Path | None) -> None:
        self.name, self._image, self._folder = name, image, folder

    def read(self) -> Attachment:
        """Return the stored picture; raises ``FileRefused``. Blocks; any thread."""
        return store_picture(self._folder, self.name, encode_picture(self._image))

    def close(self) -> None:
        """Do nothing: it is stored in a moment."""


def encode_picture(image: QImage) -> bytes:
    """Return a picture as a PNG file, or as JPEG where that is too large. Any thread."""
    for kind in ("PNG", "JPEG"):
        encoded, buffer = QByteArray(), QBuffer()
        buffer.setBuffer(encoded)
        buffer.open(QIODevice.OpenModeFlag.WriteOnly)
        image.save(buffer, kind)  # type: ignore[call-overload]  # the stub wants bytes
        if encoded.size() <= MAX_PICTURE_BYTES:
            break
    return bytes(encoded.data())


def _read(data: bytes) -> QImage:
    with picture_reader(data) as reader:
        size = QSizeF(reader.size())
        if size.width() > _MAX_STORED.width() or size.height() > _MAX_STORED.height():
            size.scale(_MAX_STORED, Qt.AspectRatioMode.KeepAspectRatio)
            reader.setScaledSize(size.toSize().expandedTo(QSize(1, 1)))
        return reader.read()


def rounded(image: QImage, radius_px: float) -> QPixmap:
    """Return a picture with round corners."""
    result = QPixmap(image.size())
    result.setDevicePixelRatio(image.devicePixelRatio())
    result.fill(Qt.GlobalColor.transparent)
    area, outline = QRectF(QPointF(), image.deviceIndependentSize()), QPainterPath()
    outline.addRoundedRect(area, radius_px, radius_px)
    painter = QPainter(result)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setClipPath(outline)
    painter.drawImage(area, image)
    painter.end()
    return result


def picture_button(name: str, image: QImage) -> QPushButton:
    """Return a button that is a picture; a click shows it large."""
    button = push_button("", f"Picture {name}", kind="picture")
    button.setToolTip(f"Show {name}")
    button.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
    button.setIcon(QIcon(rounded(image, 8)))
    fit_picture(button, image.deviceIndependentSize().toSize())
    return button


def fit_picture(button: QPushButton, size: QSize) -> None:
    """Give a picture a size; its left edge is the button's."""
    button.setIconSize(size)
    button.setFixedSize(size + QSize(2, 2))


class _ScaledPicture(QWidget):
    """A picture in the middle of the widget, as large as there is room, and no larger."""

    def __init__(self) -> None:
        super().__init__()
        self.image = QImage()
        self.setMinimumSize(200, 120)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        size = QSizeF(self.image.size()) / self.devicePixelRatioF()
        if size.width() > self.width() or size.height() > self.height():
            size.scale(QSizeF(self.size()), Qt.AspectRatioMode.KeepAspectRatio)
        area = QRectF(0, 0, size.width(), size.height())
        area.moveCenter(QRectF(self.rect()).center())
        painter.drawImage(area, self.image)


class PictureDialog(OwnDialog):
    """Shows a picture large; Escape closes it."""

    def __init__(self, name: str, path: Path, parent: QWidget) -> None:
        super().__init__(name, parent)
        self.picture = _ScaledPicture()
        self.picture.setAccessibleName(f"Picture {name}")
        self._size = label("", "muted", 0.93)
        self.copy = QPushButton("Copy")
        self.copy.setAccessibleName(f"Copy {name}")
        self.copy.clicked.connect(lambda: self._copy(path))
        self.open_elsewhere = QPushButton("Open in Another App…")
        for button in (self.copy, self.open_elsewhere):
            button.setAutoDefault(False)
        self.close_button = QPushButton("Close")
        self.close_button.setDefault(True)
        buttons = row(self._size, STRETCH, self.copy, self.open_elsewhere, self.close_button)
        column((self.picture, 1), buttons, spacing=10, margins=14, on=self)
        self.open_elsewhere.clicked.connect(lambda: confirm_file(self, name, path, "Picture"))
        self.close_button.clicked.connect(self.close)
        area = self.screen().availableGeometry().size() * 0.8
        size = QImageReader(str(path)).size() / self.devicePixelRatioF()
        self.resize((size + QSize(40, 90)).expandedTo(QSize(420, 300)).boundedTo(area))
        start_task(self, self._read(name, path, QSizeF(area)), "show a picture")

    def _copy(self, path: Path) -> None:
        QGuiApplication.clipboard().setImage(QImage(str(path)))
        show_copied(self.copy)

    async def _read(self, name: str, path: Path, maximum: QSizeF) -> None:
        image = await asyncio.to_thread(picture_from, path, maximum)
        if not shiboken6.isValid(self):
            return
        if image is None:
            self._size.setText("This picture cannot be shown here.")
            return
        image.setDevicePixelRatio(1.0)
        self.picture.image = image
        size = QImageReader(str(path)).size()
        self._size.setText(f"{size.width():,} × {size.height():,} pixels")
        self.picture.setAccessibleName(f"Picture {name}, {self._size.text()}")
        self.picture.update()


def show_picture(parent: QWidget, name: str, path: Path) -> None:
    """Show a picture large; say so if it is not on this computer."""
    if path.is_symlink() or not path.is_file():
        confirm_file(parent, name, path, "Picture")
    else:
        PictureDialog(name, path, parent).show()

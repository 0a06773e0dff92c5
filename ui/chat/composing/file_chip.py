"""An attached file: its name and size, and a button that removes it or shows its text.

Main thread.
"""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy

from engine import size_in_words
from ui.kit.controls.buttons import IconButton
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.text.labels import ElidedLabel, label
from ui.records.attachments import Attachment

_WIDEST_NAME_PX = 220
_ICON = 15


class FileChip(QFrame):
    """A small card with an icon, the name, the size and one button.

    Args:
        theme: The look.
        file: The file.
        icon: What the button shows.
        says: What the button does, for the tool tip and for screen readers.
    """

    def __init__(self, theme: Theme, file: Attachment, icon: str, says: str) -> None:
        super().__init__()
        name, words = file.name, size_in_words(len(file.text.encode(errors="replace")))
        self._theme = theme
        self.setObjectName("file_chip")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(f"File {name}, {words}")
        self.setToolTip(f"{name}, {words}")
        self._picture = QLabel()
        self._name = ElidedLabel(name, mode=Qt.TextElideMode.ElideMiddle)
        self._name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self.button = IconButton(theme, icon, says, size=14)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 3, 2)
        row.setSpacing(6)
        row.addWidget(self._picture)
        row.addWidget(self._name, 1)
        row.addWidget(label(words, "faint", 0.92))
        row.addWidget(self.button)
        theme.follow(self, self._tint)

    def show_button(self, icon: str, says: str) -> None:
        """Show another icon on the button."""
        self.button.show_icon(icon, says)

    def sizeHint(self) -> QSize:
        """Return room for the name, up to a limit."""
        name = self.fontMetrics().horizontalAdvance(self._name.text()) + 2
        wanted = min(name, self._theme.px(_WIDEST_NAME_PX))
        hint = super().sizeHint()
        return QSize(hint.width() - self._name.sizeHint().width() + wanted, hint.height())

    def _tint(self) -> None:
        size = self._theme.px(_ICON)
        self._picture.setPixmap(icons.pixmap("report", self._theme.colors.muted, size))
        self.updateGeometry()

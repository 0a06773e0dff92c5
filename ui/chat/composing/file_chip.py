"""An attached file: its name, its size and tokens, and a button that removes or unfolds it.

Main thread.
"""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QSizePolicy

from engine import counted, size_in_words
from ui.kit.controls.buttons import IconButton
from ui.kit.look import icons
from ui.kit.look.theme import Theme
from ui.kit.text.labels import ElidedLabel, label, plain_tool_tip
from ui.records.attachments import Attachment

_WIDEST_NAME_PX = 220
_ICON = 15
_OPENING = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
_REMOVING = (Qt.Key.Key_Delete, Qt.Key.Key_Backspace)


class FileChip(QFrame):
    """A small card with an icon, the name, a few words and one button.

    Signals:
        opened: It was clicked, or Enter or Space was pressed on it.
        removed: Delete or Backspace was pressed on it.
    """

    opened = Signal()
    removed = Signal()

    def __init__(self, theme: Theme, name: str, words: str, icon: str, says: str) -> None:
        super().__init__()
        self._theme = theme
        self.setObjectName("file_chip")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        self._picture = QLabel()
        self.name = ElidedLabel(name, mode=Qt.TextElideMode.ElideMiddle)
        self.name.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Preferred)
        self._words = label("", "faint", 0.92)
        self.button = IconButton(theme, icon, says, size=14)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 3, 2)
        row.setSpacing(6)
        row.addWidget(self._picture)
        row.addWidget(self.name, 1)
        row.addWidget(self._words)
        row.addWidget(self.button)
        self.say(words)
        theme.follow(self, self._tint)

    def say(self, words: str, more: str = "") -> None:
        """Change the words beside the name."""
        name = self.name.text()
        self._words.setText(words)
        self.setAccessibleName(f"File {name}, {words}")
        self.setAccessibleDescription(more)
        self.setToolTip(plain_tool_tip("\n".join(filter(None, (f"{name}, {words}", more)))))
        self.updateGeometry()

    def show_progress(self, done: int, total: int) -> None:
        """Show how much of the file has been read."""
        self.say(f"{done:,} of {total:,} pages" if total else "reading…")

    def take_keys(self) -> None:
        """Let Tab reach the chip, and a click open it."""
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.button.setCursor(Qt.CursorShape.ArrowCursor)

    def show_button(self, icon: str, says: str) -> None:
        """Show another icon on the button."""
        self.button.show_icon(icon, says)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Open or remove the file."""
        if event.key() in _OPENING:
            self.opened.emit()
        elif event.key() in _REMOVING:
            self.removed.emit()
        else:
            super().keyPressEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Open the file."""
        is_within = self.rect().contains(event.position().toPoint())
        if event.button() == Qt.MouseButton.LeftButton and is_within:
            self.opened.emit()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Accept the press, so that the chip gets the release."""
        event.accept()

    def sizeHint(self) -> QSize:
        """Return room for the name, up to a limit."""
        name = self.fontMetrics().horizontalAdvance(self.name.text()) + 2
        wanted = min(name, self._theme.px(_WIDEST_NAME_PX))
        hint = super().sizeHint()
        return QSize(hint.width() - self.name.sizeHint().width() + wanted, hint.height())

    def _tint(self) -> None:
        size = self._theme.px(_ICON)
        self._picture.setPixmap(icons.pixmap("report", self._theme.colors.muted, size))
        self.updateGeometry()


def words_of(file: Attachment, tokens: int | None = None) -> str:
    """Return the words of a chip: the file's pages or size, and its tokens if they are known."""
    if file.picture_file:
        return "picture"
    size = size_in_words(len(file.text.encode(errors="replace")))
    parts = [size if file.pages is None else str(file.pages)]
    if tokens is not None:
        parts.append(counted(tokens, "token"))
    return " · ".join(parts)

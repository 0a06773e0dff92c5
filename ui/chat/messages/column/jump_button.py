"""The button over the messages that scrolls to the end of the conversation. Main thread."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtWidgets import QPushButton, QWidget

from ui.kit.look import icons
from ui.kit.look.theme import Theme, restyle

_ICON_PX = 15
_ABOVE_FOOT_PX = 12
_LATEST, _NEW_TEXT = "Jump to Latest", "New Text Below"


class JumpButton(QPushButton):
    """Floats at the bottom of its parent while the end is out of sight.

    Its shortcut belongs to the menu; clicking it does not move the focus.
    """

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self._theme = theme
        self._around = parent
        self._has_news = False
        self.setProperty("kind", "jump")
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        theme.changed.connect(self._say)
        self._say()
        self.hide()

    @property
    def has_news(self) -> bool:
        """Whether text was added below the visible part."""
        return self._has_news

    def show_place(self, is_end_seen: bool) -> None:
        """Show the button, or hide it once the reader is at the end."""
        if is_end_seen:
            self._tell(has_news=False)
        if self.isHidden() != is_end_seen:
            self.setVisible(not is_end_seen)
            self.raise_()

    def tell_of_news(self) -> None:
        """Show that there is new text, if the end is out of sight."""
        if not self.isHidden():
            self._tell(has_news=True)

    def place(self) -> None:
        """Move to the bottom of the parent."""
        around = self._around
        size = self.sizeHint()
        self.resize(size)
        self.move(
            (around.width() - size.width()) // 2,
            around.height() - size.height() - self._theme.gap(_ABOVE_FOOT_PX),
        )

    def _tell(self, has_news: bool) -> None:
        if has_news != self._has_news:
            self._has_news = has_news
            restyle(self, "has_news", has_news)
            self._say()

    def _say(self) -> None:
        words = _NEW_TEXT if self._has_news else _LATEST
        self.setText(f"\u2009{words}")
        self.setAccessibleName("New text below: jump to the latest" if self._has_news else words)
        self.setToolTip("Jump to the latest message (Ctrl+J)")
        colors, size = self._theme.colors, self._theme.px(_ICON_PX)
        color = colors.on_accent if self._has_news else colors.muted
        self.setIconSize(QSize(size, size))
        self.setIcon(icons.icon("down", color, size))
        self.place()

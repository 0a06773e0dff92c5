"""Adds icons to text fields, in the theme's colors and in proportion to the text.

Qt's own icons in fields have a fixed size, and its clear button has a fixed color.
Main thread.
"""

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, QSize, Qt
from PySide6.QtWidgets import QLabel, QLineEdit, QToolButton, QWidget

from ui.kit.look import icons
from ui.kit.look.theme import Theme

_SIZE, _EDGE_PX, _GAP_PX = 16, 7, 4
_FRAME_PX = 8  # padding and border of a field and of a tool button, from the style sheet


def add_clear_button(theme: Theme, field: QLineEdit, says: str) -> QToolButton:
    """Give a field a button that empties it, shown while there is text.

    Args:
        theme: The look.
        field: The field.
        says: The button's accessible name.
    """
    button = QToolButton(field)
    button.setAccessibleName(says)
    button.setToolTip(says)
    button.setFocusPolicy(Qt.FocusPolicy.NoFocus)
    button.setCursor(Qt.CursorShape.ArrowCursor)
    button.clicked.connect(field.clear)
    button.setVisible(bool(field.text()))
    field.textChanged.connect(lambda text: button.setVisible(bool(text)))

    def tint() -> None:
        size = theme.px(_SIZE)
        button.setIconSize(QSize(size, size))
        button.setIcon(icons.icon("close", theme.colors.muted, size))

    _InField(theme, field, button, tint, is_at_end=True)
    return button


def add_leading_icon(theme: Theme, field: QLineEdit, name: str) -> QLabel:
    """Show an icon before a field's text.

    Args:
        theme: The look.
        field: The field.
        name: The name of the icon.
    """
    picture = QLabel(field)
    picture.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)

    def tint() -> None:
        size = theme.px(_SIZE)
        icon = icons.icon(name, theme.colors.faint, size)
        picture.setPixmap(icon.pixmap(QSize(size, size), field.devicePixelRatioF()))

    _InField(theme, field, picture, tint, is_at_end=False)
    return picture


class _InField(QObject):
    """Keeps a widget at an end of a field and the text beside it."""

    def __init__(
        self,
        theme: Theme,
        field: QLineEdit,
        inner: QWidget,
        tint: Callable[[], None],
        *,
        is_at_end: bool,
    ) -> None:
        super().__init__(field)
        self._theme, self._field, self._inner = theme, field, inner
        self._tint, self._is_at_end = tint, is_at_end
        field.installEventFilter(self)
        theme.follow(field, self._fit)

    def eventFilter(  # noqa: N802 - Qt's name
        self, watched: QObject, event: QEvent
    ) -> bool:
        """Follow the field's size."""
        if event.type() in (QEvent.Type.Resize, QEvent.Type.Show):
            self._place()
        return False

    def _fit(self) -> None:
        self._tint()
        room = self._theme.px(_SIZE) + _GAP_PX + _EDGE_PX - _FRAME_PX
        margins = self._field.textMargins()
        if self._is_at_end:
            margins.setRight(room + _FRAME_PX)
        else:
            margins.setLeft(room)
        self._field.setTextMargins(margins)
        self._place()

    def _place(self) -> None:
        size = self._inner.sizeHint()
        left = self._field.width() - size.width() - 2 if self._is_at_end else _EDGE_PX
        top = (self._field.height() - size.height()) // 2
        self._inner.setGeometry(left, top, size.width(), size.height())

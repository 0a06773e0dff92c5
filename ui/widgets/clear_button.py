"""A button in a text field that empties it, in the colors of the theme. Main thread."""

from PySide6.QtGui import QAction
from PySide6.QtWidgets import QLineEdit, QToolButton

from ui import icons
from ui.theme import Theme

_SIZE = 16


def add_clear_button(theme: Theme, field: QLineEdit, says: str) -> None:
    """Give a field a button that empties it; Qt's own has a picture of one color for all themes.

    Args:
        theme: The look.
        field: The field.
        says: What a screen reader calls the button.
    """
    before = set(field.findChildren(QToolButton))
    field.setClearButtonEnabled(True)
    for button in set(field.findChildren(QToolButton)) - before:
        button.setAccessibleName(says)
        button.setToolTip(says)
    action = field.findChild(QAction, "_q_qlineeditclearaction")
    if action is not None:
        theme.follow(
            field,
            lambda: action.setIcon(icons.icon("close", theme.colors.muted, theme.px(_SIZE))),
        )

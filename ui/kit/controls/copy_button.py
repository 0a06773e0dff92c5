"""A button that copies a text and then shows "Copied". Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QTimer

from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme
from ui.kit.system.clipboard import SAID_MS, copy_text


class CopyButton(IconButton):
    """Copies what ``text`` returns when it is pressed; None and empty text are not copied.

    Args:
        theme: The look.
        says: Its accessible name.
        text: Returns the text to copy.
    """

    def __init__(self, theme: Theme, says: str, text: Callable[[], str | None]) -> None:
        super().__init__(theme, "copy", says)
        self._says = says
        self._text = text
        self.clicked.connect(self._copy)

    def _copy(self) -> None:
        text = self._text()
        if not text:
            return
        copy_text(text)
        self.show_icon("tick", "Copied")
        QTimer.singleShot(SAID_MS, self, lambda: self.show_icon("copy", self._says))

"""A button that copies a text and says that it did. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QTimer
from PySide6.QtGui import QGuiApplication

from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import Theme

_SAID_MS = 1_500


class CopyButton(IconButton):
    """Copies what ``text`` returns at that moment; None or nothing is not copied."""

    def __init__(
        self, theme: Theme, says: str, text: Callable[[], str | None], size: int = 16
    ) -> None:
        super().__init__(theme, "copy", says, size=size)
        self._says = says
        self._text = text
        self.clicked.connect(self._copy)

    def _copy(self) -> None:
        text = self._text()
        if not text:
            return
        QGuiApplication.clipboard().setText(text)
        self.show_icon("tick", "Copied")
        QTimer.singleShot(_SAID_MS, self, lambda: self.show_icon("copy", self._says))

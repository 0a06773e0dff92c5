"""The copy buttons at the corners of code cards. Main thread."""

from collections.abc import Callable, Iterable

from PySide6.QtCore import QRectF, Qt
from PySide6.QtWidgets import QToolButton, QWidget

from ui.kit.markdown.writing.markdown_style import Decoration
from ui.kit.system.clipboard import copy_from


class CodeButton(QToolButton):
    """Copies a text, and shows "Copied" for a moment."""

    def __init__(self, parent: QWidget, text: str, says: str) -> None:
        super().__init__(parent)
        self.setText("Copy")
        self.setProperty("kind", "code")
        self.setAccessibleName(f"Copy {says}")
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.clicked.connect(lambda: copy_from(self, text))
        self.show()

    def place(self, card: QRectF, head_px: float) -> None:
        """Place the button at the right of a card's head."""
        self.adjustSize()
        x = round(card.right()) - self.width() - 6
        self.move(x, round(card.top()) + (round(head_px) - self.height()) // 2)


class CodeButtons:
    """A button for each code card of a text."""

    def __init__(self, parent: QWidget) -> None:
        self._parent = parent
        self.shown: tuple[CodeButton, ...] = ()

    def show(self, decorations: Iterable[Decoration]) -> None:
        """Replace the buttons by those for the code cards of another text."""
        for button in self.shown:
            button.deleteLater()
        self.shown = tuple(
            CodeButton(self._parent, one.text, one.label or "code") for one in _code(decorations)
        )

    def place(
        self,
        decorations: Iterable[Decoration],
        area: Callable[[Decoration], QRectF],
        head_px: float,
    ) -> None:
        """Put each button at the corner of its card."""
        for button, card in zip(self.shown, _code(decorations), strict=False):
            button.place(area(card), head_px)


def _code(decorations: Iterable[Decoration]) -> list[Decoration]:
    return [one for one in decorations if one.kind == "code"]

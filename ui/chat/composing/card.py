"""A small card over the window that exists only while it is needed. Main thread."""

from collections.abc import Callable
from typing import Generic, TypeVar

import shiboken6
from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ui.kit.look.theme import Theme

Content = TypeVar("Content", bound=QWidget)


class Card(QObject, Generic[Content]):
    """Makes a card when it is first opened, and anew once colors or sizes have changed.

    A hidden card would be styled and laid out again with each step of text zoom.

    Args:
        theme: The look.
        make: Makes the card.
        parent: Owns this object.
    """

    def __init__(self, theme: Theme, make: Callable[[], Content], parent: QObject) -> None:
        super().__init__(parent)
        self._make = make
        self.made: Content | None = None
        theme.changing.connect(self._delete_hidden)

    @property
    def content(self) -> Content:
        """The card."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def _delete_hidden(self) -> None:
        if self.made is not None and self.made.isHidden():
            made, self.made = self.made, None
            shiboken6.delete(made)

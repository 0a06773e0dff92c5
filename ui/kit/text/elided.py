"""Buttons and chips that cut long text and show all of it in the tool tip.

Main thread.
"""

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QHelpEvent, QResizeEvent
from PySide6.QtWidgets import QLabel, QPushButton, QSizePolicy, QStyle, QStyleOptionButton, QToolTip

from ui.kit.text.labels import plain_tool_tip

_LEAST_CHARACTERS = 4


class ElidedButton(QPushButton):
    """A button that shortens its words if there is no room for them."""

    def __init__(self) -> None:
        super().__init__()
        self._whole = ""
        policy = self.sizePolicy()
        policy.setHorizontalPolicy(QSizePolicy.Policy.Maximum)
        self.setSizePolicy(policy)

    def text(self) -> str:
        """Return all words, even if they are shown shortened."""
        return self._whole

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Show other words."""
        self._whole = text
        self.updateGeometry()
        self._elide()

    def sizeHint(self) -> QSize:
        """Return room for all words."""
        return self._size_of(self._whole)

    def minimumSizeHint(self) -> QSize:
        """Return the width of a few characters."""
        least = self.fontMetrics().averageCharWidth() * _LEAST_CHARACTERS
        hint = self._size_of("…")
        return QSize(min(hint.width() + least, self.sizeHint().width()), hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten the words to the width."""
        super().resizeEvent(event)
        self._elide()

    def _size_of(self, words: str) -> QSize:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        metrics = self.fontMetrics()
        inner = QSize(metrics.horizontalAdvance(words) + 2, metrics.height())
        if not self.icon().isNull():
            inner.setWidth(inner.width() + self.iconSize().width() + 4)
            inner.setHeight(max(inner.height(), self.iconSize().height()))
        kind = QStyle.ContentsType.CT_PushButton
        return self.style().sizeFromContents(kind, option, inner, self)

    def _elide(self) -> None:
        room = self.width() - (self.sizeHint().width() - self._words_px(self._whole))
        shown = self._whole
        if self._words_px(shown) > max(0, room):
            side = Qt.TextElideMode.ElideRight
            shown = self.fontMetrics().elidedText(self._whole, side, max(0, room))
        super().setText(shown)

    def event(self, event: QEvent) -> bool:
        """Show all words in a tool tip if they are shortened and there is no other tool tip."""
        is_asked = event.type() == QEvent.Type.ToolTip and not self.toolTip()
        if is_asked and isinstance(event, QHelpEvent) and super().text() != self._whole:
            QToolTip.showText(event.globalPos(), plain_tool_tip(self._whole), self)
            return True
        return super().event(event)

    def _words_px(self, words: str) -> int:
        return self.fontMetrics().horizontalAdvance(words) + 2


class ElidedChip(QLabel):
    """A chip that shortens long text; the visible part can be selected."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._whole = text
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setProperty("role", "chip")
        self.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Fixed)
        super().setText(text)

    def text(self) -> str:
        """Return the whole text."""
        return self._whole

    def sizeHint(self) -> QSize:
        """Return room for the whole text, up to a limit."""
        hint = super().sizeHint()
        metrics = self.fontMetrics()
        # The difference is the frame around the words.
        around = hint.width() - metrics.horizontalAdvance(super().text())
        words = metrics.horizontalAdvance(self._whole[:_LONGEST_CHIP])
        return QSize(around + words, hint.height())

    def minimumSizeHint(self) -> QSize:
        """Return the width of a few characters."""
        least = self.fontMetrics().averageCharWidth() * 2 * _LEAST_CHARACTERS
        return QSize(min(self.sizeHint().width(), least), super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Shorten the text to the width."""
        super().resizeEvent(event)
        metrics = self.fontMetrics()
        around = QLabel.sizeHint(self).width() - metrics.horizontalAdvance(super().text())
        room = max(0, self.width() - around)
        shown = self._whole
        if metrics.horizontalAdvance(shown) > room:
            shown = metrics.elidedText(shown, Qt.TextElideMode.ElideRight, room)
        if shown != super().text():
            super().setText(shown)
        self.setToolTip("" if shown == self._whole else plain_tool_tip(self._whole))


_LONGEST_CHIP = 400

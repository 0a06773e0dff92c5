"""Labels in the window's text sizes. Main thread."""

import re
from html import escape

from PySide6.QtCore import QEvent, QSize, Qt
from PySide6.QtGui import QColor, QFont, QHelpEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QLabel, QSizePolicy, QToolTip, QWidget

_BREAK = "\u200b"
_LONG_WORD = re.compile(r"\S{25,}")


def label(
    text: str = "",
    role: str = "",
    scale: float = 1.0,
    is_wrapped: bool = False,
    weight: QFont.Weight | None = None,
) -> QLabel:
    """Return a plain-text label.

    Args:
        text: Its text; never read as markup.
        role: ``title``, ``heading``, ``muted``, ``faint``, ``fault`` or ``chip``.
        scale: Size relative to the application's font.
        is_wrapped: Whether it takes several lines.
        weight: A font weight that replaces the role's; None keeps that one.
    """
    made = WrappedLabel(text) if is_wrapped else QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if role:
        made.setProperty("role", role)
    rescale(made, scale, weight)
    return made


class WrappedLabel(QLabel):
    """Text of several lines that also breaks long words, so that it never needs more width."""

    def __init__(self, text: str = "") -> None:
        super().__init__()
        self._whole = ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        policy = QSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Minimum)
        policy.setHeightForWidth(True)
        self.setSizePolicy(policy)
        self.setText(text)

    def text(self) -> str:
        """Return the text without the added break points."""
        return self._whole

    def setText(self, text: str) -> None:  # noqa: N802 - Qt's name
        """Show another text."""
        self._whole = text
        super().setText(breakable(text))


def breakable(text: str) -> str:
    """Return a text with zero-width spaces, so that long words can break anywhere."""
    return _LONG_WORD.sub(lambda found: _BREAK.join(found[0]), text)


def rescale(widget: QWidget, scale: float, weight: QFont.Weight | None = None) -> None:
    """Give a widget the application's font, ``scale`` times as large.

    Args:
        widget: The widget.
        scale: The factor of the text size.
        weight: The weight of the font; None keeps it.
    """
    font = QFont(widget.font())
    font.setPointSizeF(font.pointSizeF() * scale)
    if weight is not None:
        font.setWeight(weight)
    widget.setFont(font)


def clear_layout_of(widget: QWidget) -> None:
    """Remove everything from a widget's layout."""
    layout = widget.layout()
    while layout is not None and (item := layout.takeAt(0)) is not None:
        inner = item.widget()
        if inner is not None:
            inner.hide()
            inner.deleteLater()


_LONGEST_TOOL_TIP = 1_000


def plain_tool_tip(text: str) -> str:
    """Return a tool tip that shows a text without markup, wrapped, and of limited length."""
    shown = text if len(text) <= _LONGEST_TOOL_TIP else f"{text[:_LONGEST_TOOL_TIP]}…"
    return f"<p style='white-space: pre-wrap'>{escape(breakable(shown))}</p>"


class ElidedLabel(QLabel):
    """A line of text that is shortened with an ellipsis; the tool tip shows the whole line.

    Args:
        text: The line.
        parent: The widget that it belongs to.
        mode: Where it is shortened.
    """

    def __init__(
        self,
        text: str = "",
        parent: QWidget | None = None,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(text, parent)
        self._mode = mode
        self._found = "", ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def show_found(self, background: str, color: str) -> None:
        """Mark the text as found, in two colors; empty colors remove the mark."""
        if (background, color) != self._found:
            self._found = background, color
            self.update()

    @property
    def is_found(self) -> bool:
        """Whether the text is marked as found."""
        return bool(self._found[0])

    def minimumSizeHint(self) -> QSize:
        """Allow any width."""
        return QSize(24, super().minimumSizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Show the whole text in a tool tip if it is shortened."""
        if event.type() == QEvent.Type.ToolTip and not self.toolTip():
            is_cut = self.fontMetrics().horizontalAdvance(self.text()) > self.contentsRect().width()
            if is_cut and isinstance(event, QHelpEvent):
                QToolTip.showText(event.globalPos(), plain_tool_tip(self.text()), self)
                return True
        return super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw as much as fits."""
        painter = QPainter(self)
        painter.setPen(self.palette().color(self.foregroundRole()))
        area = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), self._mode, area.width())
        background, color = self._found
        if background:
            painter.fillRect(area, QColor(background))
            painter.setPen(QColor(color))
        painter.drawText(area, int(self.alignment()) | Qt.AlignmentFlag.AlignVCenter, text)
        painter.end()

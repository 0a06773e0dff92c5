"""Labels, chips, pills and rows of facts, in the window's text sizes. Main thread."""

import re
from collections.abc import Sequence
from html import escape

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QFont, QHelpEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QLabel,
    QLayout,
    QProgressBar,
    QPushButton,
    QSizePolicy,
    QStyle,
    QStyleOptionButton,
    QToolTip,
    QWidget,
)

from ui.kit import icons
from ui.kit.theme import current_theme
from ui.words import Tone

_BREAK = "\u200b"
_LONG_WORD = re.compile(r"\S{25,}")
_PIECES = re.compile(r"(?<=[-/_.:=&?·⏎])")

_ICON, _PAD, _GAP = 14, 9, 5


def label(text: str = "", role: str = "", scale: float = 1.0, is_wrapped: bool = False) -> QLabel:
    """Return a plain-text label; the style sheet has the color and the weight of its role."""
    made = WrappedLabel(text) if is_wrapped else QLabel(text)
    made.setTextFormat(Qt.TextFormat.PlainText)
    if role:
        made.setProperty("role", role)
    rescale(made, scale)
    return made


def show_text(shown: QLabel, text: str) -> None:
    """Show a text; a label without one takes no room."""
    shown.setText(text)
    shown.setVisible(bool(text))


def thin_bar(accessible_name: str) -> QProgressBar:
    """Return a progress bar of four pixels, without text."""
    bar = QProgressBar()
    bar.setTextVisible(False)
    bar.setFixedHeight(4)
    bar.setAccessibleName(accessible_name)
    return bar


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
        self._whole = text
        super().setText(breakable(text))


def breakable(text: str) -> str:
    """Return a text with zero-width spaces, so that long words, paths and names can break."""

    def broken(word: re.Match[str]) -> str:
        parts = _PIECES.split(word[0])
        return _BREAK.join(
            _LONG_WORD.sub(lambda part: _BREAK.join(part[0]), part) for part in parts
        )

    return _LONG_WORD.sub(broken, text)


def rescale(widget: QWidget, scale: float) -> None:
    """Give a widget the application's font, ``scale`` times as large."""
    font = QFont(widget.font())
    font.setPointSizeF(font.pointSizeF() * scale)
    widget.setFont(font)


def clear_layout(layout: QLayout | None) -> None:
    """Remove everything from a layout."""
    while layout is not None and (item := layout.takeAt(0)) is not None:
        if (inner := item.widget()) is not None:
            inner.hide()
            inner.deleteLater()


def plain_tooltip(text: str) -> str:
    """Return a tooltip that shows a text without markup, wrapped, and of limited length."""
    shown = text if len(text) <= 1_000 else f"{text[:1_000]}…"
    # A label that may wrap is narrow, and wraps short lines, too.
    space = "pre" if max(map(len, text.split("\n"))) <= 60 else "pre-wrap"
    return f"<div style='white-space: {space}'>{escape(breakable(shown))}</div>"


def _show_whole(widget: QWidget, event: QEvent, text: str) -> bool:
    """Show a text that is cut, if a tooltip is wanted and there is no other."""
    if not isinstance(event, QHelpEvent) or event.type() != QEvent.Type.ToolTip or widget.toolTip():
        return False
    QToolTip.showText(event.globalPos(), plain_tooltip(text), widget)
    return True


class ElidedLabel(QLabel):
    """A line of text that is shortened with an ellipsis; the tooltip shows the whole line."""

    def __init__(
        self,
        text: str = "",
        role: str = "",
        scale: float = 1.0,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__(text)
        if role:
            self.setProperty("role", role)
        rescale(self, scale)
        self._mode = mode
        self._found = "", ""
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def show_found(self, background: str, color: str) -> None:
        """Mark the text as found, in two colors; empty colors remove the mark."""
        if (background, color) != self._found:
            self._found = background, color
            self.update()

    def minimumSizeHint(self) -> QSize:
        return QSize(24, super().minimumSizeHint().height())

    def event(self, event: QEvent) -> bool:
        """Show the whole text in a tooltip if it is shortened."""
        text_px = self.fontMetrics().horizontalAdvance(self.text())
        is_cut = text_px > self.contentsRect().width()
        return (is_cut and _show_whole(self, event, self.text())) or super().event(event)

    def paintEvent(self, event: QPaintEvent) -> None:
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
        self._whole = text
        self.updateGeometry()
        self._elide()

    def sizeHint(self) -> QSize:
        return self._size_of(self._whole)

    def minimumSizeHint(self) -> QSize:
        minimum = self.fontMetrics().averageCharWidth() * 4
        hint = self._size_of("…")
        return QSize(min(hint.width() + minimum, self.sizeHint().width()), hint.height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._elide()

    def _size_of(self, text: str) -> QSize:
        option = QStyleOptionButton()
        self.initStyleOption(option)
        metrics = self.fontMetrics()
        inner = QSize(metrics.horizontalAdvance(text) + 2, metrics.height())
        if not self.icon().isNull():
            inner.setWidth(inner.width() + self.iconSize().width() + 4)
            inner.setHeight(max(inner.height(), self.iconSize().height()))
        kind = QStyle.ContentsType.CT_PushButton
        return self.style().sizeFromContents(kind, option, inner, self)

    def _elide(self) -> None:
        available_px = self.width() - (self.sizeHint().width() - self._text_px(self._whole))
        shown = self._whole
        if self._text_px(shown) > max(0, available_px):
            side = Qt.TextElideMode.ElideRight
            shown = self.fontMetrics().elidedText(self._whole, side, max(0, available_px))
        super().setText(shown)

    def event(self, event: QEvent) -> bool:
        """Show all words in a tooltip if they are shortened and there is no other tooltip."""
        is_cut = super().text() != self._whole
        return (is_cut and _show_whole(self, event, self._whole)) or super().event(event)

    def _text_px(self, text: str) -> int:
        return self.fontMetrics().horizontalAdvance(text) + 2


class StatusPill(QWidget):
    """Shows one state; its accessible name contains the state."""

    def __init__(self, accessible_name: str) -> None:
        super().__init__()
        self._label = accessible_name
        self.word = ""
        self._icon = "mark"
        self._tone: Tone = "quiet"
        rescale(self, 0.92)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_state(self, word: str, icon: str, tone: Tone) -> None:
        self.word, self._icon, self._tone = word, icon, tone
        self.setAccessibleName(f"{self._label}: {word}")
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        width = self.fontMetrics().horizontalAdvance(self.word) + _ICON + _GAP + 2 * _PAD
        return QSize(width, self.fontMetrics().height() + 8)

    def paintEvent(self, event: QPaintEvent) -> None:
        area, (color, soft) = QRectF(self.rect()), current_theme().colors.tone(self._tone)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(soft))
        painter.drawRoundedRect(area, area.height() / 2, area.height() / 2)
        corner = QPointF(_PAD, area.center().y() - _ICON / 2)
        icons.draw(painter, QRectF(corner, QSizeF(_ICON, _ICON)), self._icon, color)
        painter.setPen(QColor(color))
        inner = area.adjusted(_PAD + _ICON + _GAP, 0, 2 - _PAD, 0)
        painter.drawText(inner, int(Qt.AlignmentFlag.AlignVCenter), self.word)
        painter.end()


class FactTable(QWidget):
    """Names at the left, values at the right; a value can be selected and copied."""

    def __init__(self, fixed: QFont) -> None:
        super().__init__()
        self._fixed = fixed
        self._grid = QGridLayout(self)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setHorizontalSpacing(14)
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnStretch(1, 1)
        self._grid.setColumnMinimumWidth(0, 84)

    def clear(self) -> None:
        clear_layout(self.layout())

    def add(self, name: str, value: str, is_code: bool = False, tip: str = "") -> QLabel:
        row = self._grid.count() // 2  # rows of a cleared grid are used again
        title, shown = _fact(name, value, "chip" if is_code else "")
        if is_code:
            shown.setFont(self._fixed)
            title.setContentsMargins(0, 3, 0, 0)
        for part in (title, shown):
            part.setToolTip(tip)
        self._grid.addWidget(title, row, 0, Qt.AlignmentFlag.AlignTop)
        # Without an alignment a chip would be as wide as the whole column.
        side = Qt.AlignmentFlag.AlignLeft if is_code else Qt.AlignmentFlag(0)
        self._grid.addWidget(shown, row, 1, side)
        return shown

    def add_figures(self, figures: Sequence[tuple[str, str]]) -> None:
        """Add short values as the last group: two in a row, below each other by their ends."""
        block = QWidget()
        grid = QGridLayout(block)
        grid.setContentsMargins(0, 8, 0, 0)
        grid.setVerticalSpacing(6)
        for number, (name, value) in enumerate(figures):
            row, column = divmod(number, 2)
            title, shown = _fact(name, value)
            title.setContentsMargins(12 * column, 0, 0, 0)
            font = shown.font()
            font.setFeature(QFont.Tag("tnum"), 1)
            shown.setFont(font)
            shown.setAlignment(Qt.AlignmentFlag.AlignRight)
            grid.addWidget(title, row, 2 * column, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(shown, row, 2 * column + 1)
            grid.setColumnStretch(2 * column + 1, 1)
        if figures:
            self._grid.addWidget(block, self._grid.rowCount(), 0, 1, 2)


def _fact(name: str, value: str, role: str = "") -> tuple[QLabel, QLabel]:
    shown = label(value, role, 0.95, is_wrapped=True)
    # Word-wrapped labels report the height at minimum width as their minimum height.
    shown.setMinimumHeight(1)
    shown.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    shown.setAccessibleName(f"{name}: {value}")
    return label(name, "muted", 0.95), shown

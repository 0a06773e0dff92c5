"""The style of rendered Markdown, and the decorations beneath its text. Main thread."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from PySide6.QtGui import QBrush, QColor, QFont, QFontInfo, QFontMetricsF, QTextCharFormat

from ui.kit.markdown.writing.highlighting import CodeColors

_USUAL_FONT_PX = 14
_CODE_SCALE = 0.94


@dataclass(frozen=True, slots=True)
class MarkdownStyle:
    """Fonts and colors of rendered Markdown; all lengths follow the size of the font."""

    font: QFont
    fixed: QFont
    text: str
    muted: str
    link: str
    code_background: str
    line: str
    code: CodeColors
    em: float = field(init=False, compare=False)
    plain: QTextCharFormat = field(init=False, compare=False, repr=False)
    _metrics: QFontMetricsF = field(init=False, compare=False, repr=False)
    _fixed_metrics: QFontMetricsF = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        plain = QTextCharFormat()
        plain.setFont(self.font)
        plain.setForeground(QBrush(QColor(self.text)))
        object.__setattr__(self, "em", float(QFontInfo(self.font).pixelSize()))
        object.__setattr__(self, "plain", plain)
        object.__setattr__(self, "_metrics", _metrics(self.font.key()))
        object.__setattr__(self, "_fixed_metrics", _metrics(self.fixed.key()))

    def width(self, text: str) -> float:
        """Return the width of a text."""
        return self._metrics.horizontalAdvance(text)

    def fixed_width(self, code: str) -> float:
        """Return the width of code."""
        return self._fixed_metrics.horizontalAdvance(code)

    def px(self, usual: float) -> float:
        """Return a length in proportion to the text; ``usual`` is the length at the usual size."""
        return round(usual * self.em / _USUAL_FONT_PX)

    @property
    def inline_code(self) -> QFont:
        """The font of code within a line."""
        font = QFont(self.fixed)
        font.setPointSizeF(self.font.pointSizeF() * _CODE_SCALE)
        return font

    @property
    def code_head_px(self) -> float:
        """The height of a code card's head."""
        return self.px(30)

    @property
    def code_foot_px(self) -> float:
        """The space below the last line of a code card."""
        return self.px(12)

    @property
    def code_pad_px(self) -> float:
        """The space at both sides of a code card's lines."""
        return self.px(14)

    @property
    def cell_pad_px(self) -> float:
        """The space around the text of a table's cell."""
        return self.px(7)

    @property
    def gap_px(self) -> float:
        """The space around cards and tables."""
        return self.px(10)


@lru_cache(maxsize=32)
def _metrics(key: str) -> QFontMetricsF:
    font = QFont()
    font.fromString(key)
    return QFontMetricsF(font)


def text_width(font: QFont, text: str) -> float:
    """Return the width of a text."""
    return _metrics(font.key()).horizontalAdvance(text)


@dataclass(frozen=True, slots=True)
class Decoration:
    """Something painted beneath the text from one document position to another."""

    kind: Literal["code", "quote", "rule", "table", "formula"]
    start: int
    end: int
    left_px: float = 0.0
    label: str = ""
    text: str = ""
    width_px: float = 0.0
    columns: tuple[tuple[float, float], ...] = ()

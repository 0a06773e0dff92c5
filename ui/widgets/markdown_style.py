"""How rendered Markdown looks, and what is painted beneath its text. Main thread."""

from dataclasses import dataclass
from typing import Literal

from PySide6.QtGui import QFont

from ui.widgets.highlighting import CodeColors


@dataclass(frozen=True, slots=True)
class MarkdownStyle:
    """Fonts and colours of rendered Markdown."""

    font: QFont
    fixed: QFont
    text: str
    muted: str
    link: str
    code_background: str
    line: str
    code: CodeColors


@dataclass(frozen=True, slots=True)
class Decoration:
    """Something painted beneath the text from one document position to another."""

    kind: Literal["code", "quote", "rule"]
    start: int
    end: int
    left_px: float = 0.0
    label: str = ""
    text: str = ""

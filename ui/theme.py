"""Colours and type: two palettes, and the theme that follows the system or is forced.

Main thread. Knows no panels: widgets read ``Theme.colors`` and repaint on ``changed``.
"""

from typing import Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from ui.colors import DARK, LIGHT, Colors, strengthened
from ui.stylesheet import stylesheet

ThemeMode = Literal["system", "light", "dark"]


def fixed_font(base: QFont, scale: float = 0.94) -> QFont:
    """Return the best monospace font here, ``scale`` times the size of ``base``."""
    available = set(QFontDatabase.families())
    wanted = ("SF Mono", "Menlo", "JetBrains Mono", "Cascadia Mono", "DejaVu Sans Mono")
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    for family in wanted:
        if family in available:
            font.setFamilies([family])
            break
    font.setPointSizeF(base.pointSizeF() * scale)
    for ligatures in ("calt", "liga"):
        font.setFeature(QFont.Tag(ligatures), 0)  # "->" is two characters and has to look so
    font.setStyleHint(QFont.StyleHint.Monospace)
    return font


class Theme(QObject):
    """The look of the application: follows the system unless a mode is forced.

    Signals:
        changed: Colours are others now; repaint.
    """

    changed = Signal()

    def __init__(self, app: QApplication, mode: ThemeMode = "system") -> None:
        super().__init__(app)
        self._app = app
        self._mode: ThemeMode = mode
        self._has_high_contrast = False
        self._usual_points = app.font().pointSizeF()
        self._text_percent = 100
        self.colors: Colors = LIGHT
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._refresh)
        if hasattr(app.styleHints(), "accessibility"):
            app.styleHints().accessibility().contrastPreferenceChanged.connect(self._refresh)
        self.set_mode(mode)

    @property
    def mode(self) -> ThemeMode:
        """What was asked for: the system's scheme, or one of the two."""
        return self._mode

    @property
    def text_percent(self) -> int:
        """The size of all text, as a share of the usual one."""
        return self._text_percent

    def set_mode(self, mode: ThemeMode) -> None:
        """Follow the system, or force light or dark."""
        self._mode = mode
        schemes = {
            "system": Qt.ColorScheme.Unknown,
            "light": Qt.ColorScheme.Light,
            "dark": Qt.ColorScheme.Dark,
        }
        self._app.styleHints().setColorScheme(schemes[mode])
        self._refresh()

    def set_high_contrast(self, is_on: bool) -> None:
        """Draw lines and lesser texts stronger; where the system asks for it, it is always so."""
        if is_on != self._has_high_contrast:
            self._has_high_contrast = is_on
            self._refresh()

    def set_text_size(self, percent: int) -> None:
        """Draw all text at this share of the usual size, in windows that are open too."""
        if percent == self._text_percent:
            return
        ratio = percent / self._text_percent
        self._text_percent = percent
        # Read before the application's font changes: some sizes follow it, others are their own.
        sizes = self._sizes()
        font = self._app.font()
        font.setPointSizeF(self._usual_points * percent / 100)
        self._app.setFont(font)
        self._refresh()
        _resize(sizes, ratio)

    def _refresh(self) -> None:
        system_is_dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        is_dark = system_is_dark if self._mode == "system" else self._mode == "dark"
        colors = DARK if is_dark else LIGHT
        is_strong = self._has_high_contrast or _system_wants_contrast(self._app)
        self.colors = strengthened(colors) if is_strong else colors
        # A style sheet gives widgets the fonts back that they had when it was first applied.
        sizes = self._sizes() if self._text_percent != 100 else []
        self._app.setPalette(_qt_palette(self.colors))
        self._app.setStyleSheet(stylesheet(self.colors))
        self.changed.emit()
        _resize(sizes, 1.0)

    def _sizes(self) -> list[tuple[QWidget, float]]:
        return [(widget, widget.font().pointSizeF()) for widget in self._app.allWidgets()]


def _resize(sizes: list[tuple[QWidget, float]], ratio: float) -> None:
    """Give widgets the sizes that they had, times a ratio; those that have them stay untouched."""
    for widget, points in sizes:
        font = widget.font()
        if points > 0 and abs(font.pointSizeF() - points * ratio) > 0.01:
            font.setPointSizeF(points * ratio)
            widget.setFont(font)


def _system_wants_contrast(app: QApplication) -> bool:
    hints = app.styleHints()
    if not hasattr(hints, "accessibility"):  # before Qt 6.10
        return False
    return hints.accessibility().contrastPreference() == Qt.ContrastPreference.HighContrast


def _qt_palette(colors: Colors) -> QPalette:
    palette = QPalette()
    role = QPalette.ColorRole
    pairs = {
        role.Window: colors.canvas,
        role.WindowText: colors.text,
        role.Base: colors.raised,
        role.AlternateBase: colors.sunken,
        role.Text: colors.text,
        role.PlaceholderText: colors.faint,
        role.Button: colors.raised,
        role.ButtonText: colors.text,
        role.Highlight: colors.accent,
        role.HighlightedText: colors.on_accent,
        role.Link: colors.accent,
        role.ToolTipBase: colors.raised,
        role.ToolTipText: colors.text,
        role.Mid: colors.line,
        role.Light: colors.raised,
        role.Dark: colors.strong_line,
    }
    for key, value in pairs.items():
        palette.setColor(key, QColor(value))
    for key in (role.Text, role.ButtonText, role.WindowText):
        palette.setColor(QPalette.ColorGroup.Disabled, key, QColor(colors.faint))
    return palette

"""The theme: colors and fonts, as the system has them or as a person chose. Main thread."""

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import ClassVar, NamedTuple

import shiboken6
from PySide6.QtCore import QObject, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from ui.kit.colors import DARK, LIGHT, Colors, ThemeMode, of_gaps, of_glyphs, strengthened
from ui.kit.stylesheet import stylesheet

HEAD_PX = 52  # the height of the three columns' heads
_TITLE_BAR_PX = 32  # what a desktop adds to the height of a window
# Rounds of the event loop: scroll areas need one, and columns that are then hidden another one.
_SETTLED_AFTER = 4


@lru_cache(maxsize=1)
def _fixed_family() -> str:
    available = set(QFontDatabase.families())
    wanted = ("SF Mono", "Menlo", "JetBrains Mono", "Cascadia Mono", "DejaVu Sans Mono")
    return next((family for family in wanted if family in available), "")


def fixed_font(base: QFont, scale: float = 0.94) -> QFont:
    """Return the best monospace font here, ``scale`` times the size of ``base``."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    family = _fixed_family()
    if family:
        font.setFamilies([family])
    font.setPointSizeF(base.pointSizeF() * scale)
    for ligatures in ("calt", "liga"):
        font.setFeature(QFont.Tag(ligatures), 0)  # no ligatures: "->" must look like two characters
    font.setStyleHint(QFont.StyleHint.Monospace)
    return font


class CodeLook(NamedTuple):
    """How blocks of code are shown.

    Attributes:
        wraps: Whether long lines wrap; otherwise they scroll sideways.
        has_numbers: Whether their lines are numbered.
    """

    wraps: bool = False
    has_numbers: bool = False


def current_theme() -> "Theme":
    """Return the application's theme, which is the one made last.

    Whoever draws asks for it where it is needed; nobody is given it.
    """
    assert Theme.current is not None, "no theme was made yet"
    return Theme.current


class Theme(QObject):
    """The colors and text size of the application; follows the system unless a mode is chosen.

    Signals:
        changing: Colors or sizes are about to change.
        changed: They changed; repaint.
        code_look_chosen: A person chose how code is shown; carries the ``CodeLook``.
        columns_chosen: A person chose the columns of a table; carries ``columns``.
    """

    changing = Signal()
    changed = Signal()
    code_look_chosen = Signal(object)
    columns_chosen = Signal(object)
    current: "ClassVar[Theme | None]" = None

    def __init__(self, app: QApplication, mode: ThemeMode = "system") -> None:
        super().__init__(app)
        Theme.current = self
        self._app = app
        self._mode: ThemeMode = mode
        self._has_high_contrast = False
        self._usual_points = app.font().pointSizeF()
        self._text_percent = 100
        self.code_look = CodeLook()
        # Tables, each with the name of a column that a person chose to see in it.
        self.columns: tuple[tuple[str, str], ...] = ()
        self.colors: Colors = LIGHT
        # While this holds, no layout may be forced: with columns that move, Qt deletes the lines
        # between them, which it may be about to style.
        self.is_changing = False
        self._held: list[QWidget] = []  # windows whose painting is paused
        self._rounds = 0
        self._settling = QTimer(self, singleShot=True, interval=0)
        self._settling.timeout.connect(self._settle)
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(lambda: self._refresh())
        if hasattr(app.styleHints(), "accessibility"):
            app.styleHints().accessibility().contrastPreferenceChanged.connect(
                lambda: self._refresh()
            )
        self.set_mode(mode)

    @property
    def mode(self) -> ThemeMode:
        """The chosen mode: the system's scheme, or one of the two palettes."""
        return self._mode

    @property
    def text_percent(self) -> int:
        """The size of all text, as a share of the usual one."""
        return self._text_percent

    def px(self, usual: float) -> int:
        """Return the size of an icon, a switch or a row in proportion to the text, in pixels."""
        return round(usual * of_glyphs(self._text_percent))

    def gap(self, usual: float) -> int:
        """Return the size of a gap or a margin; it grows half as fast as the text."""
        return round(usual * of_gaps(self._text_percent))

    def set_mode(self, mode: ThemeMode) -> None:
        """Follow the system, or use the light or dark palette."""
        self._mode = mode
        schemes = {
            "system": Qt.ColorScheme.Unknown,
            "light": Qt.ColorScheme.Light,
            "dark": Qt.ColorScheme.Dark,
        }
        self._app.styleHints().setColorScheme(schemes[mode])
        self._refresh()

    def set_high_contrast(self, is_on: bool) -> None:
        """Strengthen lines and muted texts; always on if the system asks for high contrast."""
        if is_on != self._has_high_contrast:
            self._has_high_contrast = is_on
            self._refresh()

    def set_text_size(self, percent: int) -> None:
        """Draw all text in this percentage of the usual size, also in windows that are open."""
        if percent == self._text_percent:
            return
        ratio = percent / self._text_percent
        self._text_percent = percent
        self._hold_frames()
        self._refresh(ratio)

    def set_code_look(self, look: CodeLook) -> None:
        """Wrap the lines of code, or number them, in all windows."""
        if look != self.code_look:
            self.code_look = look
            self.changed.emit()

    def choose_code_look(self, look: CodeLook) -> None:
        """Show code as a person wants it, and tell who remembers that."""
        self.set_code_look(look)
        self.code_look_chosen.emit(look)

    def columns_of(self, table: str) -> list[str]:
        """Return the columns that a person chose for a table; none while nobody chose any."""
        return [column for name, column in self.columns if name == table]

    def choose_columns(self, table: str, columns: Iterable[str]) -> None:
        """Show these columns in a table from now on, and tell who remembers that.

        Args:
            table: The name of the table.
            columns: The names of the columns; none for the usual ones.
        """
        others = [pair for pair in self.columns if pair[0] != table]
        self.columns = (*others, *((table, column) for column in columns))
        self.columns_chosen.emit(self.columns)

    def open_size(self, widget: QWidget, width: int, height: int) -> None:
        """Set the initial size of a window: it grows with the text, and fits the screen.

        Args:
            widget: The window.
            width: Its width in pixels at the usual size of text.
            height: Its height, likewise.
        """
        room = widget.screen().availableSize() - QSize(4, _TITLE_BAR_PX)
        widget.resize(QSize(self.gap(width), self.gap(height)).boundedTo(room))

    def follow(self, widget: QWidget, fit: Callable[[], None]) -> None:
        """Call ``fit`` now and whenever colors or sizes change, as long as a widget lives."""
        _Follower(self, widget, fit)
        fit()

    def _refresh(self, ratio: float = 1.0) -> None:
        system_is_dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        is_dark = system_is_dark if self._mode == "system" else self._mode == "dark"
        colors = DARK if is_dark else LIGHT
        is_strong = self._has_high_contrast or _system_wants_contrast(self._app)
        self.is_changing = True
        self.changing.emit()
        self.colors = strengthened(colors) if is_strong else colors
        # Read the fonts before anything changes: some sizes follow the application's font, others
        # do not, and a style sheet restores the fonts that widgets had when first polished.
        fonts = self._fonts()
        if ratio != 1.0:
            font = self._app.font()
            font.setPointSizeF(self._usual_points * self._text_percent / 100)
            self._app.setFont(font)
        self._app.setPalette(_qt_palette(self.colors))
        # Another sheet in the place of one would style each widget anew for each widget around it.
        self._app.setStyleSheet("")
        self._app.setStyleSheet(stylesheet(self.colors, self._text_percent))
        _resize(fonts, ratio)
        self.is_changing = False
        self.changed.emit()

    def _hold_frames(self) -> None:
        """Pause painting until the layouts are settled.

        The content of a scroll area or a dock is laid out level by level; the frames in between
        would show larger text in places of the former height.
        """
        for window in self._app.topLevelWidgets():
            if window.isVisible() and window.updatesEnabled():
                window.setUpdatesEnabled(False)
                self._held.append(window)
        self._rounds = _SETTLED_AFTER
        self._settling.start()

    def _settle(self) -> None:
        self._rounds -= 1
        if self._rounds:
            self._settling.start()
            return
        held, self._held = self._held, []
        for window in held:
            if shiboken6.isValid(window):
                window.setUpdatesEnabled(True)

    def _fonts(self) -> list[tuple[QWidget, float]]:
        return [(widget, widget.font().pointSizeF()) for widget in self._app.allWidgets()]


class _Follower(QObject):
    """A child of a widget that is deleted with it and ends its connection to the theme."""

    def __init__(self, theme: Theme, widget: QWidget, fit: Callable[[], None]) -> None:
        super().__init__(widget)
        self._fit = fit
        theme.changed.connect(self._follow)

    def _follow(self) -> None:
        self._fit()


def _resize(fonts: list[tuple[QWidget, float]], ratio: float) -> None:
    """Scale the fonts of widgets by a ratio, except those that already have the new size."""
    for widget, points in fonts:
        font = widget.font()
        if points > 0 and abs(font.pointSizeF() - points * ratio) > 0.01:
            font.setPointSizeF(points * ratio)
            widget.setFont(font)


def restyle(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet reads, and restyle the widget if it changed.

    Args:
        widget: The widget.
        name: The property.
        value: Its value.
    """
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    # Restyling restores the font that the widget had when the style sheet first reached it.
    font = QFont(widget.font())
    widget.style().unpolish(widget)
    widget.style().polish(widget)
    if widget.font().pointSizeF() != font.pointSizeF():
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
        role.PlaceholderText: colors.hint,
        role.Button: colors.raised,
        role.ButtonText: colors.text,
        role.Highlight: colors.accent,
        role.HighlightedText: colors.on_accent,
        role.Link: colors.link,
        role.ToolTipBase: colors.raised,
        role.ToolTipText: colors.text,
        role.Mid: colors.line,
        role.Light: colors.raised,
        role.Dark: colors.strong_line,
    }
    for key, value in pairs.items():
        palette.setColor(key, QColor(value))
    for key in (role.Text, role.ButtonText, role.WindowText):
        palette.setColor(QPalette.ColorGroup.Disabled, key, QColor(colors.hint))
    return palette

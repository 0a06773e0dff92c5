"""The theme: colors and fonts, as the system has them or as the user chose, and the style sheet.

Main thread.
"""

from collections.abc import Iterable
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from string import Template
from typing import ClassVar

from PySide6.QtCore import QObject, QSettings, Qt, QTemporaryDir, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QFontInfo, QFontMetricsF, QPalette
from PySide6.QtWidgets import QApplication, QWidget

from ui.kit import icons
from ui.kit.colors import DARK, LIGHT, Colors, ThemeMode, strengthened

_MESSAGE_PX, _CODE_PX = 15, 13
_PROSE = "An answer ends where a stop sequence first appears, and the sequence is cut off."
HEAD_PX = 52  # the height of the three columns' heads
CHAT_PX = 720  # the width of the column of messages, and of the message field

_SHEET = """
* { outline: none; }
QWidget { color: $text; }
QMainWindow, #canvas { background: $canvas; }
QMainWindow::separator { background: $line; width: 1px; height: 1px; }
#prompt_rule { background: $strong_line; border: none; }
QToolTip {
    background: $raised; color: $text; border: 1px solid $strong_line; border-radius: 6px;
    padding: 2px 4px;  /* Qt adds it twice */
}

QMenuBar { background: $sidebar; color: $text; border-bottom: 1px solid $line; padding: 1px 6px; }
QMenuBar::item { background: transparent; padding: 4px 9px; border-radius: 5px; }
QMenuBar::item:selected { background: $hover; }
QMenu { background: $raised; border: 1px solid $strong_line; border-radius: 8px; padding: 5px; }
QMenu::item { padding: 5px 26px 5px 12px; border-radius: 5px; }
QMenu::item:selected { background: $accent; color: $on_accent; }
QMenu::item:disabled { color: $hint; background: transparent; }
QMenu::separator { height: 1px; background: $line; margin: 5px 8px; }
QMenu::indicator { width: 14px; height: 14px; left: 6px; }

QScrollArea, QScrollArea > QWidget > QWidget#scrolled { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 11px; margin: 2px; }
QScrollBar::handle:vertical { background: $strong_line; border-radius: 3px; min-height: 36px; }
QScrollBar::handle:vertical:disabled { background: transparent; }
QScrollBar::handle:vertical:hover { background: $faint; }
QScrollBar:horizontal { background: transparent; height: 11px; margin: 2px; }
QScrollBar::handle:horizontal { background: $strong_line; border-radius: 3px; min-width: 36px; }
QScrollBar::add-line, QScrollBar::sub-line { width: 0; height: 0; }
QScrollBar::add-page, QScrollBar::sub-page { background: transparent; }
QAbstractScrollArea::corner { background: transparent; border: none; }

QLabel { background: transparent; }
QLabel[role="title"] { font-weight: 600; }
QLabel[role="heading"] { font-weight: 600; color: $text; }
QLabel[role="muted"] { color: $muted; }
QLabel[role="faint"] { color: $faint; }
QLabel[role="fault"] { color: $fault; }
QLabel[role="notice"] { color: $limit; }
QLabel[role="chip"] {
    background: $sunken; border: 1px solid $line; border-radius: 5px; padding: 1px 5px;
}

QPushButton {
    background: $raised; border: 1px solid $strong_line; border-radius: 7px;
    padding: 5px 12px; color: $text;
}
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $line; }
QPushButton:disabled { color: $hint; background: $sunken; border-color: $line; }
QPushButton[kind="primary"] {
    background: $accent; border: 1px solid $accent; color: $on_accent; font-weight: 600;
}
QPushButton[kind="primary"]:hover { background: $accent_hover; border-color: $accent_hover; }
QPushButton[kind="primary"]:disabled {
    color: $hint; background: $sunken; border: 1px solid $line;
}
QPushButton[kind="primary"]:focus { border: 1px solid $text; }
QPushButton[kind="destructive"] { color: $fault; }
QPushButton[side="left"] { border-top-right-radius: 0; border-bottom-right-radius: 0; }
QPushButton[side="right"] {
    border-top-left-radius: 0; border-bottom-left-radius: 0; border-left-width: 0;
    padding: 5px 6px;
}
QPushButton[side="right"][kind="primary"] { margin-left: 1px; }
QPushButton[kind="link"] {
    background: transparent; border: 1px solid transparent; color: $match; padding: 3px 5px;
    text-align: left; text-decoration: $underline;
}
QPushButton[kind="link"][is_flush="true"] { padding: 3px 0; }
QPushButton[kind="link"]:disabled { color: $hint; }
QPushButton[kind="link"]:hover { text-decoration: underline; }
QPushButton[kind="chip"] {
    background: transparent; border: 1px solid $line; border-radius: 9px;
    padding: 3px 9px; color: $muted;
}
QPushButton[kind="chip"]:hover { background: $hover; color: $text; }
QPushButton[kind="chip"]:checked {
    background: $accent_soft; color: $match; border: 1px solid $accent_soft;
}

#composer QPushButton[kind="chip"]:!focus { border-color: transparent; padding: 3px 7px; }
QPushButton[kind="jump"] {
    background: $raised; border: 1px solid $strong_line; border-radius: 9px;
    padding: 4px 13px 4px 10px; color: $muted;
}
QPushButton[kind="jump"]:hover { background: $hover; color: $text; }
QPushButton[kind="jump"][has_news="true"] {
    background: $accent; border: 1px solid $accent; color: $on_accent;
}
QPushButton[kind="jump"][has_news="true"]:hover { background: $accent_hover; }
QPushButton[kind="jump"][has_news="true"]:focus { border: 1px solid $text; }

QPushButton[kind="fold"] {
    background: transparent; border: 1px solid transparent; color: $muted; padding: 2px 5px 2px 0;
}
QPushButton[kind="fold"]:hover { color: $text; }
QPushButton[kind="row"] {
    background: transparent; border: 1px solid transparent; border-radius: 8px; text-align: left;
    padding: 3px 8px;
}
QPushButton[kind="row"]:hover { background: $hover; }
QPushButton[kind="row"][is_current="true"] { background: $accent_soft; }
QPushButton[kind="suggestion"] {
    background: $raised; border: 1px solid $line; border-radius: 12px; padding: 0;
}
QPushButton[kind="suggestion"]:hover { background: $hover; border-color: $strong_line; }
QPushButton[kind="suggestion"]:pressed { background: $line; }
QPushButton[kind="suggestion"] > QLabel:disabled { color: $hint; }
QPushButton[kind="wide"] { border-radius: 8px; text-align: left; padding: 7px 6px; }
QPushButton[kind="picture"] { background: transparent; border: 1px solid transparent; padding: 0; }

QToolButton {
    background: transparent; border: 1px solid transparent; border-radius: 6px; padding: 3px;
}
QToolButton:hover { background: $hover; }
QToolButton:pressed, QToolButton:checked { background: $line; }
QToolButton::menu-indicator { image: none; }
QMenuBar > QToolButton { padding: 0; border: none; background: $hover; }
QToolButton[kind="dot"] { padding: 0; }
QToolButton[kind="send"] { background: $accent; border-radius: 16px; padding: 0; }
QToolButton[kind="send"]:hover { background: $accent_hover; }
QToolButton[kind="send"]:disabled { background: $line; }
QToolButton[kind="send"]:focus { border: 2px solid $text; }
QToolButton[kind="pane"] { color: $muted; padding: 4px 8px; border-radius: 8px; }
QToolButton[kind="pane"]:checked { color: $match; background: $accent_soft; }
QToolButton[kind="pane"][is_found="true"] { color: $match; }
QToolButton[kind="code"] {
    background: transparent; color: $muted; padding: 1px 6px; border-radius: 5px;
}
QToolButton[kind="code"]:hover { background: $hover; color: $text; }
QToolButton[kind="code"]:checked { color: $match; background: $accent_soft; }

QLineEdit, QPlainTextEdit, QSpinBox, QDoubleSpinBox, QComboBox[kind="choice"] {
    background: $raised; border: 1px solid $strong_line; border-radius: 7px; padding: 5px 8px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QLineEdit, QPlainTextEdit, QTextEdit { placeholder-text-color: $hint; }
QLineEdit:focus, QPlainTextEdit:focus, QSpinBox:focus, QDoubleSpinBox:focus,
QComboBox[kind="choice"]:focus {
    border: $ring;
}
QLineEdit[invalid="true"] { border: 1px solid $fault; }
QSpinBox::up-button, QSpinBox::down-button, QDoubleSpinBox::up-button,
QDoubleSpinBox::down-button { width: 0; border: none; }
QInputDialog QAbstractSpinBox QLineEdit { padding: 0 8px; }
QAbstractSpinBox QLineEdit { background: transparent; border: none; padding: 0; }

QSlider { background: transparent; min-height: 18px; }
QSlider::groove:horizontal { background: $rail; height: 4px; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $control; height: 4px; border-radius: 2px; }
QSlider[is_set="true"]::sub-page:horizontal { background: $accent; }
QSlider::handle:horizontal {
    background: $raised; border: 1px solid $control; width: 14px; height: 14px;
    margin: -6px 0; border-radius: 7px;
}
QSlider::handle:horizontal:hover { border: 1px solid $text; }

QCheckBox, QRadioButton { spacing: 8px; background: transparent; }
QCheckBox:focus, QRadioButton:focus { color: $match; }
QCheckBox:disabled, QRadioButton:disabled { color: $hint; }
QCheckBox::indicator, QRadioButton::indicator {
    width: 15px; height: 15px; background: $raised; border: 1px solid $control;
}
QCheckBox::indicator { border-radius: 4px; }
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:hover, QRadioButton::indicator:hover { border: 1px solid $text; }
QCheckBox::indicator:checked {
    background: $accent; border: 1px solid $checked; image: url($tick);
}
QRadioButton::indicator:checked {
    border: 1px solid $checked;
    background: qradialgradient(cx: 0.5, cy: 0.5, radius: 0.5, fx: 0.5, fy: 0.5,
        stop: 0 $on_accent, stop: 0.4 $on_accent, stop: 0.48 $accent, stop: 1 $accent);
}
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled {
    background: $sunken; border: 1px solid $strong_line;
}
QCheckBox::indicator:checked:disabled { image: url($disabled_tick); }
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border: 1px solid $text; }
QComboBox { combobox-popup: 0; }
QComboBox[kind="choice"] { padding-right: 24px; }
QComboBox[kind="choice"]::drop-down { border: none; background: transparent; width: 24px; }
QComboBox[kind="choice"]::down-arrow { image: url($chevron); width: 14px; height: 14px; }
QComboBoxPrivateContainer { background: transparent; border: none; padding: 0; margin: 0; }
QComboBox QAbstractItemView {
    background: $raised; border: 1px solid $strong_line; border-radius: 8px; padding: 4px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QComboBox QAbstractItemView::item { border-radius: 5px; padding: 4px 8px; }
QComboBox QAbstractItemView::item:selected { background: $accent; color: $on_accent; }

QTextEdit[kind="page"] {
    background: $raised; border: 1px solid $line; border-radius: 8px; padding: 2px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QTableView[kind="rows"] {
    background: $raised; border: 1px solid $line; border-radius: 8px;
    gridline-color: transparent; selection-background-color: $accent_soft;
    selection-color: $text; padding: 3px;
}
QTableView[kind="rows"]::item { border: none; padding: 0 6px; }
QListView[kind="rows"] {
    background: $raised; border: 1px solid $line; border-radius: 8px; padding: 4px; outline: none;
}
QListView[kind="rows"]::item { border-radius: 6px; padding: 5px 8px; color: $text; }
QListView[kind="rows"]::item:disabled { color: $faint; }
QListView[kind="rows"]::item:selected { background: $accent_soft; color: $text; }
QListView[kind="rows"]::indicator, #stop_table::indicator {
    width: 15px; height: 15px; background: $raised; border: 1px solid $control; border-radius: 4px;
}
QListView[kind="rows"]::indicator:checked, #stop_table::indicator:checked {
    background: $accent; border: 1px solid $checked; image: url($tick);
}
QHeaderView { background: transparent; border: none; border-bottom: 1px solid $line; }
QHeaderView::section {
    background: $raised; color: $muted; border: none; padding: 6px 8px;
}
QTableView QTableCornerButton::section { background: transparent; border: none; }
QPlainTextEdit[kind="code"] {
    background: $raised; border: none; border-radius: 0; padding: 8px 12px;
}
QPlainTextEdit[kind="code"]:focus { border: none; background: $sunken; }

QTabWidget::pane { border: none; border-top: 1px solid $line; background: transparent; }
QTabWidget::tab-bar { left: 8px; }
QTabBar { background: transparent; qproperty-drawBase: 0; }
QTabBar::tab {
    background: transparent; color: $muted; border: none; border-bottom: 2px solid transparent;
    padding: 6px 10px; margin-right: 4px;
}
QTabWidget[kind="flush"]::tab-bar { left: 0; }
QTabBar[kind="flush"]::tab { padding: 6px 0; margin-right: 22px; }
QTabBar[kind="pane"]::tab { padding: 0; height: 51px; margin-right: 18px; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:selected { color: $text; border-bottom: 2px solid $accent; }
QTabBar::tab:focus { color: $match; }
QSplitter::handle { background: transparent; }

QDockWidget { color: $text; }
QDockWidget > QWidget { background: $sidebar; }

#sidebar, #right_pane { background: $sidebar; }
#sidebar { border-right: 1px solid $line; }
#server_row, #download_row { border-top: 1px solid $line; }
#chat_header { background: $canvas; border-bottom: 1px solid $line; }
#dock_title { background: $sidebar; border-bottom: 1px solid $line; }
#card { background: $raised; border: 1px solid $line; border-radius: 10px; }
#setting { border: none; border-top: 1px solid $line; }
#setting[is_first="true"] { border-top: none; }
#sunken { background: $sunken; border: 1px solid $line; border-radius: 8px; }
#bubble { background: $bubble; border-radius: 11px; }
#undo_bar { background: $text; border-radius: 8px; }
#undo_bar QLabel { color: $canvas; }
#undo_bar QPushButton { background: transparent; border: 1px solid transparent; color: $canvas;
    font-weight: 600; text-decoration: underline; padding: 2px 6px; }
#undo_bar QProgressBar { background: $muted; }
#undo_bar QPushButton:focus { border: 1px solid $canvas; }

#file_chip { background: $sunken; border: 1px solid $line; border-radius: 8px; }
#file_chip[is_flat="true"] { background: transparent; border: none; }

#composer { background: $raised; border: 1px solid $strong_line; border-radius: 16px; }
#composer[focused="true"] { border: $ring; }
#composer > QTextEdit { background: transparent; border: none; padding: 0; }

#find_bar { background: $sunken; border-bottom: 1px solid $line; }

#question_bar { background: $limit_soft; border: 1px solid $line; border-radius: 8px; }
#question_bar[is_question="false"] { background: $raised; }
#hint_bar { background: $match_soft; border: none; border-radius: 8px; }
#problem_bar { background: $fault_soft; border-bottom: 1px solid $line; }

#rule { background: $line; border: none; }
#conversation_list { background: transparent; border: none; }
#conversation_list QScrollBar:vertical { width: 8px; }  /* that of the rows' margin */
#conversation_list QScrollBar::handle:vertical { border-radius: 2px; }
#answer_text, #bubble QTextBrowser { background: transparent; border: none; }
#thinking_text { background: transparent; border: none; color: $muted; }

#stop_card { background: $raised; border: 1px solid $line; border-radius: 8px; }
#stop_card > QLineEdit { background: transparent; border: 1px solid transparent; padding: 4px; }
#stop_card > QLineEdit:focus { border: $ring; }
#stop_card > QLineEdit[invalid="true"] { border: 1px solid $fault; }
#stop_table {
    background: transparent; border: 1px solid transparent; border-radius: 8px;
    gridline-color: transparent; selection-background-color: transparent;
    selection-color: $text; padding: 2px;
}
#stop_table::item { border: none; padding: 0 4px; background: transparent; }
#stop_table QLineEdit { border-radius: 4px; padding: 1px 4px; }

#suggestion_card { background: $raised; border: 1px solid $line; border-radius: 12px; }

#popover { background: $raised; border: 1px solid $strong_line; border-radius: 12px; }
QProgressBar { background: $groove; border: none; border-radius: 2px; max-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QProgressBar[kind="score"] { background: $fault; }
QProgressBar[kind="score"]::chunk { background: $done; }
QDialog, QMessageBox { background: $canvas; }
QLabel#qt_msgbox_label { font-weight: 600; }
QLabel#qt_msgbox_label, QLabel#qt_msgbox_informativelabel { min-width: 340px; max-width: 460px; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; button-layout: 3; }
QPushButton::menu-indicator { image: none; width: 0; }
QPushButton:focus, QPushButton[kind="link"]:focus, QPushButton[kind="chip"]:focus,
QPushButton[kind="chip"]:checked:focus, QPushButton[kind="jump"]:focus,
QPushButton[kind="fold"]:focus, QPushButton[kind="picture"]:focus, QToolButton:focus,
QToolButton[kind="code"]:focus, QTextEdit[kind="page"]:focus, QTableView[kind="rows"]:focus,
QListView[kind="rows"]:focus, #file_chip:focus, #stop_table:focus,
QPushButton[kind="row"]:focus, QPushButton[kind="suggestion"]:focus {
    border: $ring;
}
"""


@lru_cache(maxsize=1)
def _fixed_family() -> str:
    available = set(QFontDatabase.families())
    preferred = ("SF Mono", "Menlo", "JetBrains Mono", "Cascadia Mono", "DejaVu Sans Mono")
    return next((family for family in preferred if family in available), "")


def fixed_font(base: QFont, scale: float = 0.94) -> QFont:
    """Return the best monospace font here, ``scale`` times the size of ``base``."""
    font = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
    family = _fixed_family()
    if family:
        font.setFamilies([family])
    font.setPointSizeF(base.pointSizeF() * scale)
    turn_off_ligatures(font)
    font.setStyleHint(QFont.StyleHint.Monospace)
    return font


def turn_off_ligatures(font: QFont) -> None:
    """Let each character look like itself: ``->`` is two of them, ``<|`` is no triangle."""
    for ligatures in ("calt", "liga"):
        font.setFeature(QFont.Tag(ligatures), 0)


def sized_font(base: QFont, px: float) -> QFont:
    """Return a font of so many pixels where ``base`` is the system's usual one, of 13 or less."""
    font = QFont(base)
    usual_px = max(13.0, QFontInfo(base).pixelSize())
    font.setPointSizeF(base.pointSizeF() * px * usual_px / 13 / QFontInfo(base).pixelSize())
    return font


def current_theme() -> "Theme":
    """Return the application's theme, which is the one made last."""
    assert Theme.current is not None, "no theme was made yet"
    return Theme.current


class Theme(QObject):
    """The colors of the application, which follow the system unless a mode is chosen.

    The style sheet, ``paintEvent`` and ``themed_icon`` take new colors by themselves, because Qt
    sends ``StyleChange`` and repaints. ``changed`` is for documents whose text has colors of its
    own, and for the size of messages.
    """

    changing = Signal()
    changed = Signal()
    code_look_chosen = Signal(bool, bool)  # whether code wraps, and has numbers
    columns_chosen = Signal(object)  # columns
    current: "ClassVar[Theme | None]" = None

    def __init__(self, app: QApplication, mode: ThemeMode = "system") -> None:
        super().__init__(app)
        Theme.current = self
        self._app = app
        self.mode: ThemeMode = mode
        self._has_high_contrast = False
        self.has_motion = False
        self.text_percent = 100
        self.code_wraps = self.code_has_numbers = False
        self.columns: tuple[tuple[str, str], ...] = ()  # (table, visible column)
        self.colors: Colors = LIGHT
        # While the style sheet is set, forcing a layout can delete a dock separator that Qt is
        # about to style.
        self.is_changing = False
        app.setStyle("Fusion")
        # As on a Mac: the key of a command acts on the open row, its menu on the one below it.
        app.setAttribute(Qt.ApplicationAttribute.AA_DontShowShortcutsInContextMenus)
        app.styleHints().colorSchemeChanged.connect(lambda: self._refresh())
        if hasattr(app.styleHints(), "accessibility"):
            app.styleHints().accessibility().contrastPreferenceChanged.connect(
                lambda: self._refresh()
            )
        self.set_mode(mode)

    def set_mode(self, mode: ThemeMode) -> None:
        self.mode = mode
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
        if percent != self.text_percent:
            self.changing.emit()
            self.text_percent = percent
            self.changed.emit()

    def message_font(self) -> QFont:
        """Return the font of messages, zoomed."""
        return sized_font(self._app.font(), _MESSAGE_PX * self.text_percent / 100)

    def code_font(self) -> QFont:
        """Return the font of code in messages, zoomed."""
        return fixed_font(self.message_font(), _CODE_PX / _MESSAGE_PX)

    def column_px(self) -> int:
        """Return the width of messages and their composer."""
        return max(CHAT_PX, self.text_px())

    def text_px(self) -> int:
        """Return the width of an answer's text: lines of some 80 characters."""
        # Fonts define their average width differently.
        width_px = QFontMetricsF(self.message_font()).horizontalAdvance(_PROSE)
        return round(width_px / len(_PROSE) * 80)

    def set_code_look(
        self, *, code_wraps: bool | None = None, code_has_numbers: bool | None = None
    ) -> None:
        """Change how code is shown; None leaves a property as it is."""
        before = self.code_wraps, self.code_has_numbers
        if code_wraps is not None:
            self.code_wraps = code_wraps
        if code_has_numbers is not None:
            self.code_has_numbers = code_has_numbers
        if before != (self.code_wraps, self.code_has_numbers):
            self.changed.emit()
            self.code_look_chosen.emit(self.code_wraps, self.code_has_numbers)

    def columns_of(self, table: str) -> list[str]:
        """Return the chosen columns of a table; empty if none were chosen."""
        return [column for name, column in self.columns if name == table]

    def choose_columns(self, table: str, columns: Iterable[str]) -> None:
        """Set the visible columns of a table and emit ``columns_chosen``."""
        others = [pair for pair in self.columns if pair[0] != table]
        self.columns = (*others, *((table, column) for column in columns))
        self.columns_chosen.emit(self.columns)

    def _refresh(self) -> None:
        system_is_dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
        is_dark = system_is_dark if self.mode == "system" else self.mode == "dark"
        colors = DARK if is_dark else LIGHT
        is_strong = self._has_high_contrast or _system_has_high_contrast(self._app)
        self.is_changing = True
        self.changing.emit()
        self.colors = strengthened(colors) if is_strong else colors
        self._app.setPalette(_qt_palette(self.colors))
        self._app.setStyleSheet(stylesheet(self.colors))
        self.is_changing = False
        self.changed.emit()


def restyle(widget: QWidget, name: str, value: object) -> None:
    """Set a property that the style sheet reads, and restyle the widget if it changed."""
    if widget.property(name) == value:
        return
    widget.setProperty(name, value)
    # Restyling restores the font that the widget had when the style sheet first reached it.
    font = QFont(widget.font())
    widget.style().unpolish(widget)
    widget.style().polish(widget)
    if widget.font().pointSizeF() != font.pointSizeF():
        widget.setFont(font)


def system_reduces_motion() -> bool:
    """Return whether the Mac reduces motion, for which Qt has no property."""
    return QSettings("apple.com", "universalaccess").value("reduceMotion") in (1, "1", True)


def _system_has_high_contrast(app: QApplication) -> bool:
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
        role.Link: colors.match,
        role.ToolTipBase: colors.canvas,  # outside the round corners
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


@lru_cache(maxsize=1)
def _icon_folder() -> QTemporaryDir:
    return QTemporaryDir()


@lru_cache(maxsize=16)
def _icon_file(name: str, color: str) -> str:
    """Return the path of an icon's file: a style sheet takes images from files alone."""
    path = Path(_icon_folder().filePath(f"{name}-{color[1:]}.svg"))
    path.write_bytes(icons.svg(name, color))
    return path.as_posix()


def stylesheet(colors: Colors) -> str:
    """Return the Qt style sheet for a palette."""
    is_strong = colors.is_strong
    computed = {
        "tick": _icon_file("tick", colors.on_accent),
        "disabled_tick": _icon_file("tick", colors.muted),
        "chevron": _icon_file("chevron-down", colors.muted),
        # High contrast: 2 px focus ring; links nearly have the color of text, so they are
        # underlined; a strong groove or rail would look like a filled bar.
        "ring": f"2px solid {colors.match}" if is_strong else f"1px solid {colors.accent}",
        "underline": "underline" if is_strong else "none",
        "groove": colors.bubble if is_strong else colors.line,
        "rail": colors.line if is_strong else colors.strong_line,
    }
    return Template(_SHEET).substitute(asdict(colors), **computed)

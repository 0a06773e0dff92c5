"""The style sheet of the application, filled with a palette. Pure text; any thread."""

import re
from dataclasses import asdict
from string import Template

from ui.kit.colors import Colors, of_gaps, of_glyphs

_LENGTH = re.compile(r"([a-z-]+):([^;{}]*?\d+px[^;{}]*);")
_PIXELS = re.compile(r"(\d+)px")
_GAPS = {"padding", "margin", "margin-right", "spacing", "left"}


def stylesheet(colors: Colors, text_percent: int = 100) -> str:
    """Return the Qt style sheet for a palette and a size of the text."""
    # Where all lines are strong, what has the keyboard stands out by a stronger one.
    ring = f"2px solid {colors.link}" if colors.is_strong else f"1px solid {colors.accent}"
    # There a link has nearly the color of plain text, too.
    underline = "underline" if colors.is_strong else "none"
    sheet = Template(_SHEET).substitute(asdict(colors), ring=ring, underline=underline)
    return sheet if text_percent == 100 else _LENGTH.sub(lambda m: _grown(m, text_percent), sheet)


def _grown(found: re.Match[str], text_percent: int) -> str:
    """Return a declaration with enlarged sizes; lines of one or two pixels stay as they are."""
    name, value = found[1], found[2]
    # A negative margin is no gap: the handle of a slider stands out by it.
    is_gap = name in _GAPS and "-" not in value
    factor = (of_gaps if is_gap else of_glyphs)(text_percent)
    # Rounded down: a radius above half the height would draw square corners.
    grown = _PIXELS.sub(lambda m: m[0] if int(m[1]) < 3 else f"{int(int(m[1]) * factor)}px", value)
    return f"{name}:{grown};"


_SHEET = """
* { outline: none; }
QWidget { color: $text; }
QMainWindow, #canvas { background: $canvas; }
QMainWindow::separator { background: $line; width: 1px; height: 1px; }
#prompt_rule { background: $strong_line; border: none; }
QToolTip {
    background: $raised; color: $text; border: 1px solid $strong_line; padding: 5px 7px;
}

QMenuBar { background: $sidebar; color: $text; border-bottom: 1px solid $line; padding: 1px 6px; }
QMenuBar::item { background: transparent; padding: 4px 9px; border-radius: 5px; }
QMenuBar::item:selected { background: $hover; }
QMenu { background: $raised; border: 1px solid $strong_line; padding: 5px; }
QMenu::item { padding: 5px 26px 5px 12px; border-radius: 5px; }
QMenu::item:selected { background: $accent; color: $on_accent; }
QMenu::item:disabled { color: $hint; background: transparent; }
QMenu::separator { height: 1px; background: $line; margin: 5px 8px; }
QMenu::indicator { width: 14px; height: 14px; left: 6px; }

QScrollArea, QScrollArea > QWidget > QWidget#scrolled { background: transparent; border: none; }
QScrollBar:vertical { background: transparent; width: 11px; margin: 2px; }
QScrollBar::handle:vertical { background: $strong_line; border-radius: 3px; min-height: 36px; }
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
QLabel[role="chip"], QLabel[role="struck"] {
    background: $sunken; border: 1px solid $line; border-radius: 5px; padding: 1px 5px;
}
QLabel[role="struck"] { color: $fault; }

QPushButton {
    background: $raised; border: 1px solid $strong_line; border-radius: 7px;
    padding: 5px 12px; color: $text;
}
QPushButton:hover { background: $hover; }
QPushButton:pressed { background: $line; }
QPushButton:focus { border: $ring; }
QPushButton:disabled { color: $hint; background: $sunken; border-color: $line; }
QPushButton[kind="primary"] {
    background: $accent; border: 1px solid $accent; color: $on_accent; font-weight: 600;
}
QPushButton[kind="primary"]:hover { background: $accent_hover; border-color: $accent_hover; }
QPushButton[kind="primary"]:disabled {
    color: $hint; background: $sunken; border: 1px solid $line;
}
QPushButton[kind="primary"]:focus { border: 1px solid $text; }
QPushButton[kind="link"] {
    background: transparent; border: 1px solid transparent; color: $link; padding: 3px 5px;
    text-align: left; text-decoration: $underline;
}
QPushButton[kind="link"][is_flush="true"] { padding: 3px 0; }
QPushButton[kind="link"]:disabled { color: $hint; }
QPushButton[kind="link"]:hover { text-decoration: underline; }
QPushButton[kind="link"]:focus { border: $ring; }
QPushButton[kind="chip"] {
    background: transparent; border: 1px solid $line; border-radius: 9px;
    padding: 3px 9px; color: $muted;
}
QPushButton[kind="chip"]:hover { background: $hover; color: $text; }
QPushButton[kind="chip"]:focus { border: $ring; }
QPushButton[kind="chip"]:checked {
    background: $accent_soft; color: $match; border: 1px solid $accent_soft;
}
QPushButton[kind="chip"]:checked:focus { border: $ring; }

QPushButton[kind="jump"] {
    background: $raised; border: 1px solid $strong_line; border-radius: 9px;
    padding: 4px 13px 4px 10px; color: $muted;
}
QPushButton[kind="jump"]:hover { background: $hover; color: $text; }
QPushButton[kind="jump"][has_news="true"] {
    background: $accent; border: 1px solid $accent; color: $on_accent;
}
QPushButton[kind="jump"][has_news="true"]:hover { background: $accent_hover; }
QPushButton[kind="jump"]:focus { border: $ring; }
QPushButton[kind="jump"][has_news="true"]:focus { border: 1px solid $text; }

QPushButton[kind="fold"] {
    background: transparent; border: 1px solid transparent; color: $muted; padding: 2px 5px 2px 0;
}
QPushButton[kind="fold"]:hover { color: $text; }
QPushButton[kind="fold"]:focus { border: $ring; }
QPushButton[kind="picture"] { background: transparent; border: 1px solid $line; padding: 3px; }
QPushButton[kind="picture"]:focus { border: $ring; }

QToolButton {
    background: transparent; border: 1px solid transparent; border-radius: 6px; padding: 3px;
}
QToolButton:hover { background: $hover; }
QToolButton:pressed, QToolButton:checked { background: $line; }
QToolButton:focus { border: $ring; }
QToolButton::menu-indicator { image: none; }
QToolButton[kind="send"] { background: $accent; border-radius: 16px; padding: 0; }
QToolButton[kind="send"]:hover { background: $accent_hover; }
QToolButton[kind="send"]:disabled { background: $line; }
QToolButton[kind="send"]:focus { border: 2px solid $text; }
QToolButton[kind="code"] {
    background: transparent; color: $muted; padding: 1px 6px; border-radius: 5px;
}
QToolButton[kind="code"]:hover { background: $hover; color: $text; }
QToolButton[kind="code"]:checked { color: $match; background: $accent_soft; }
QToolButton[kind="code"]:focus { border: $ring; }

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
QSlider::groove:horizontal { background: $strong_line; height: 4px; border-radius: 2px; }
QSlider::sub-page:horizontal { background: $control; height: 4px; border-radius: 2px; }
QSlider[is_set="true"]::sub-page:horizontal { background: $accent; }
QSlider::handle:horizontal {
    background: $raised; border: 1px solid $control; width: 14px; height: 14px;
    margin: -6px 0; border-radius: 7px;
}
QSlider::handle:horizontal:hover { border: 1px solid $text; }

QCheckBox, QRadioButton { spacing: 8px; background: transparent; }
QCheckBox:focus, QRadioButton:focus { color: $link; }
QCheckBox:disabled, QRadioButton:disabled { color: $hint; }
QCheckBox::indicator, QRadioButton::indicator {
    width: 15px; height: 15px; background: $raised; border: 1px solid $control;
}
QCheckBox::indicator { border-radius: 4px; }
QRadioButton::indicator { border-radius: 8px; }
QCheckBox::indicator:hover, QRadioButton::indicator:hover { border: 1px solid $text; }
QCheckBox::indicator:checked { background: $accent; border: 1px solid $accent; }
QRadioButton::indicator:checked {
    border: 1px solid $accent;
    background: qradialgradient(cx: 0.5, cy: 0.5, radius: 0.5, fx: 0.5, fy: 0.5,
        stop: 0 $on_accent, stop: 0.4 $on_accent, stop: 0.48 $accent, stop: 1 $accent);
}
QCheckBox::indicator:disabled, QRadioButton::indicator:disabled {
    background: $sunken; border: 1px solid $strong_line;
}
QCheckBox::indicator:focus, QRadioButton::indicator:focus { border: 1px solid $text; }
QComboBox { combobox-popup: 0; }
QComboBox[kind="choice"] { padding-right: 24px; }
QComboBox[kind="choice"]::drop-down { border: none; background: transparent; width: 0; }
QComboBox[kind="choice"]::down-arrow { image: none; width: 0; height: 0; }
QComboBoxPrivateContainer { background: $raised; border: none; padding: 0; margin: 0; }
QComboBox QAbstractItemView {
    background: $raised; border: 1px solid $strong_line; border-radius: 0; padding: 4px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QComboBox QAbstractItemView::item { border-radius: 5px; padding: 4px 8px; }
QComboBox QAbstractItemView::item:selected { background: $accent; color: $on_accent; }

QTextEdit[kind="page"] {
    background: $raised; border: 1px solid $line; border-radius: 8px; padding: 2px;
    selection-background-color: $accent; selection-color: $on_accent;
}
QTextEdit[kind="page"]:focus { border: $ring; }
QTableView[kind="rows"] {
    background: $raised; border: 1px solid $line; border-radius: 8px;
    gridline-color: transparent; selection-background-color: $accent_soft;
    selection-color: $text; padding: 3px;
}
QTableView[kind="rows"]:focus { border: $ring; }
QTableView[kind="rows"]::item { border: none; padding: 0 6px; }
QListView[kind="rows"] {
    background: $raised; border: 1px solid $line; border-radius: 8px; padding: 4px; outline: none;
}
QListView[kind="rows"]:focus { border: $ring; }
QListView[kind="rows"]::item { border-radius: 6px; padding: 5px 8px; color: $text; }
QListView[kind="rows"]::item:selected { background: $accent_soft; color: $text; }
QListView[kind="rows"]::indicator {
    width: 15px; height: 15px; background: $raised; border: 1px solid $control; border-radius: 4px;
}
QListView[kind="rows"]::indicator:checked { background: $accent; border: 1px solid $accent; }
QHeaderView { background: transparent; border: none; }
QHeaderView::section {
    background: $raised; color: $muted; border: none; border-bottom: 1px solid $line;
    padding: 6px 8px;
}
QTableView QTableCornerButton::section { background: transparent; border: none; }
QPlainTextEdit[kind="code"] {
    background: $raised; border: none; border-radius: 0; padding: 8px 12px;
}
QPlainTextEdit[kind="code"]:focus { border: none; background: $sunken; }

QTabWidget::pane { border: none; border-top: 1px solid $line; background: transparent; }
QTabWidget::tab-bar { left: 8px; }
QTabBar { background: transparent; }
QTabBar::tab {
    background: transparent; color: $muted; border: none; border-bottom: 2px solid transparent;
    padding: 6px 10px; margin-right: 4px;
}
QTabWidget[kind="flush"]::tab-bar { left: 0; }
QTabBar[kind="flush"]::tab { padding: 6px 0; margin-right: 22px; }
QTabBar::tab:hover { color: $text; }
QTabBar::tab:selected { color: $text; border-bottom: 2px solid $accent; }
QTabBar::tab:focus { color: $link; }
QSplitter::handle { background: transparent; }
QStatusBar { background: $sidebar; border-top: 1px solid $line; }
QStatusBar::item { border: none; }

QDockWidget { color: $text; }
QDockWidget > QWidget { background: $sidebar; }

#sidebar, #stop_panel { background: $sidebar; }
#sidebar { border-right: 1px solid $line; }
#chat_header { background: $canvas; border-bottom: 1px solid $line; }
#dock_title { background: $sidebar; border-bottom: 1px solid $line; }
#card { background: $raised; border: 1px solid $line; border-radius: 10px; }
#sunken { background: $sunken; border: 1px solid $line; border-radius: 8px; }
#bubble { background: $bubble; border-radius: 11px; }
#undo_bar { background: $text; border-radius: 8px; }
#undo_bar QLabel { color: $canvas; }
#undo_bar QPushButton { background: transparent; border: 1px solid transparent; color: $canvas;
    font-weight: 600; text-decoration: underline; padding: 2px 6px; }
#undo_bar QPushButton:focus { border: 1px solid $canvas; }

#file_chip { background: $sunken; border: 1px solid $line; border-radius: 8px; }
#file_chip:focus { border: $ring; }

#composer { background: $raised; border: 1px solid $strong_line; border-radius: 16px; }
#composer[focused="true"] { border: $ring; }
#composer > QPlainTextEdit { background: transparent; border: none; padding: 0; }

#find_bar { background: $sunken; border-bottom: 1px solid $line; }

#question_bar { background: $limit_soft; border: 1px solid $line; border-radius: 8px; }
#hint_bar { background: $match_soft; border: none; border-radius: 8px; }
#problem_bar { background: $fault_soft; border-bottom: 1px solid $line; }

#offer_list { background: $raised; border: 1px solid $line; border-radius: 8px; padding: 3px; }
#offer_list:focus { border: $ring; }
#rule { background: $line; border: none; }
#conversation_list { background: transparent; border: none; }
#answer_text, #bubble QTextBrowser { background: transparent; border: none; }
#thinking_text { background: transparent; border: none; color: $muted; }

#stop_table {
    background: $raised; border: 1px solid $line; border-radius: 8px;
    gridline-color: transparent; selection-background-color: $accent_soft;
    selection-color: $text; alternate-background-color: $raised; padding: 3px;
}
#stop_table:focus { border: $ring; }
#stop_table::item { border: none; padding: 0 4px; }
#stop_table QLineEdit { border-radius: 4px; padding: 1px 4px; }

#suggestion { background: $raised; border: 1px solid $line; border-radius: 12px;
    text-align: left; }
#suggestion_card { background: $match_soft; border: 1px solid $line; border-radius: 12px; }
#suggestion:hover { border: 1px solid $strong_line; background: $sunken; }
#suggestion:focus { border: $ring; }
#suggestion[primary="true"] { background: $match_soft; border: 1px solid $line; }
#suggestion[primary="true"]:hover, #suggestion[primary="true"]:focus {
    border: $ring;
}

#popover { background: $raised; border: 1px solid $strong_line; border-radius: 12px; }
QProgressBar { background: $line; border: none; border-radius: 2px; max-height: 4px; }
QProgressBar::chunk { background: $accent; border-radius: 2px; }
QDialog, QMessageBox { background: $canvas; }
QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }
QPushButton::menu-indicator { image: none; width: 0; }
"""

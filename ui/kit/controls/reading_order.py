"""Lets Tab visit controls in reading order: group by group, top to bottom, left to right.

Main thread. Qt's own order is the order in which widgets were created: widgets that a conversation
adds later would come after all others. Here the order is computed when a key is pressed.
"""

from collections.abc import Iterator

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import (
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QWidget,
)

# The widgets inside these belong to them, not to the window.
_WHOLE = (
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
)


def in_reading_order(top: QWidget) -> list[QWidget]:
    """Return the widgets that Tab can reach in a window, in order."""
    return list(_reached(top))


def move_focus(top: QWidget, is_next: bool) -> bool:
    """Move the focus to the next or previous control of a window; return whether there was one.

    Args:
        top: The window.
        is_next: Whether to go forward; otherwise back.
    """
    found = in_reading_order(top)
    if not found:
        return False
    step = 1 if is_next else -1
    focused = QApplication.focusWidget()
    place = _place_of(focused, found)
    if place is None:
        place = -1 if is_next else len(found)
    reason = Qt.FocusReason.TabFocusReason if is_next else Qt.FocusReason.BacktabFocusReason
    found[(place + step) % len(found)].setFocus(reason)
    return True


def _place_of(focused: QWidget | None, found: list[QWidget]) -> int | None:
    """Return the index of the focused widget, also if it is a part of a control."""
    while focused is not None:
        if focused in found:
            return found.index(focused)
        focused = focused.parentWidget()
    return None


def _reached(widget: QWidget) -> Iterator[QWidget]:
    if _takes_tab(widget):
        yield widget
    if isinstance(widget, _WHOLE):
        return
    children = [
        child
        for child in widget.children()
        if isinstance(child, QWidget) and not child.isWindow() and child.isVisible()
    ]
    for child in _as_read(children):
        yield from _reached(child)


def _takes_tab(widget: QWidget) -> bool:
    wants_all = QGuiApplication.styleHints().tabFocusBehavior() == (
        Qt.TabFocusBehavior.TabFocusAllControls
    )
    needed = Qt.FocusPolicy.TabFocus if wants_all else Qt.FocusPolicy.StrongFocus
    policy = widget.focusPolicy()
    return (
        not widget.isWindow()
        and widget.isEnabled()
        and widget.focusProxy() is None
        and policy & needed == needed
    )


def _as_read(widgets: list[QWidget]) -> list[QWidget]:
    """Return the widgets of one group line by line; widgets side by side are one line."""
    lines: list[tuple[QRect, list[tuple[int, QWidget]]]] = []
    for widget in sorted(widgets, key=lambda one: one.geometry().center().y()):
        area = widget.geometry()
        for number, (line, members) in enumerate(lines):
            shared = min(line.bottom(), area.bottom()) - max(line.top(), area.top())
            if shared > min(line.height(), area.height()) / 2:
                members.append((area.left(), widget))
                lines[number] = (line.united(area), members)
                break
        else:
            lines.append((area, [(area.left(), widget)]))
    lines.sort(key=lambda one: one[0].top())
    return [widget for _, members in lines for _, widget in sorted(members, key=lambda m: m[0])]

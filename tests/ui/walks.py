"""Walks through a window: by Tab, and by what a screen reader finds."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from itertools import pairwise

from PySide6.QtCore import QRect, Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QSlider,
    QTabBar,
    QTextEdit,
    QWidget,
)

from tests.ui.driving import eventually
from ui.window.main_window import MainWindow

MAX_STEPS, MAX_IN_ROW = 400, 12
ROLES = QAccessible.Role
# What a person acts on. Texts, groups and rows of lists are read by their content.
CONTROLS = frozenset({
    ROLES.Button, ROLES.CheckBox, ROLES.RadioButton, ROLES.ComboBox, ROLES.EditableText,
    ROLES.SpinBox, ROLES.Slider, ROLES.List, ROLES.Table, ROLES.Tree, ROLES.Link, ROLES.PageTab,
    ROLES.ButtonMenu, ROLES.MenuItem, ROLES.ProgressBar,
})  # fmt: skip
# Those that tell, and those that are reached as parts of a bar of tabs or of menus.
_NOT_BY_TAB = frozenset({ROLES.ProgressBar, ROLES.PageTab, ROLES.MenuItem, ROLES.Link})
SHORTCUT = re.compile(r"\b(Ctrl|Shift|Alt|Meta|Esc|Enter|Return|F\d{1,2})\b[+)]|\((Esc|Enter|Del)")
HTML = re.compile(r"</?(?:b|i|p|br|a|span|div|html|body|table|tr|td|h[1-6]|style)\b[^>]*>", re.I)
_WHOLE = QAbstractSpinBox | QComboBox | QLineEdit | QPlainTextEdit | QTextEdit | QAbstractItemView


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0.02)


async def answered(window: MainWindow) -> None:
    window.workspace.current.stops.ensure("6")
    window.workspace.current.stops.ensure(" 6")
    window.workspace.send("Count from 1 to 10, one number per line")
    await eventually(lambda: not window.workspace.current.is_running)
    await settled()


def walked(top: QWidget, back: bool = False) -> list[QWidget]:
    """Press Tab until the first control has the focus again; return all that had it."""
    top.activateWindow()
    top.setFocus()
    seen: list[QWidget] = []
    key = Qt.Key.Key_Backtab if back else Qt.Key.Key_Tab
    for _ in range(MAX_STEPS):
        before = QApplication.focusWidget()
        QTest.keyClick(before or top, key)
        now = QApplication.focusWidget()
        assert now is not None
        assert top.isAncestorOf(now), "the focus left the window"
        if isinstance(now, QTextEdit) and now is before:
            continue  # from one link to the next
        if seen and now is seen[0]:
            return seen
        assert now not in seen, f"Tab comes twice to {says(now)}"
        seen.append(now)
    assert len(seen) == 1, "Tab does not come back to the first control"
    return seen


def says(widget: QWidget) -> str:
    name = widget.accessibleName() or getattr(widget, "text", str)()
    return f"{type(widget).__name__} {name!r}"


def ancestors(widget: QWidget, top: QWidget) -> list[QWidget]:
    chain = [widget]
    while chain[-1] is not top:
        parent = chain[-1].parentWidget()
        assert parent is not None
        chain.append(parent)
    return chain[::-1]


def disorder(seen: list[QWidget], top: QWidget) -> list[str]:
    """Name the steps that go up, or to the left within a line, in the group that both are in."""
    found = []
    for one, other in pairwise(seen):
        before, after = ancestors(one, top), ancestors(other, top)
        depth = next(
            (n for n, (a, b) in enumerate(zip(before, after, strict=False)) if a is not b), None
        )
        if depth is None:  # from a group to what it holds
            continue
        a, b = before[depth].geometry(), after[depth].geometry()
        if not follows(a, b):
            found.append(f"{says(one)} → {says(other)}")
    return found


def follows(a: QRect, b: QRect) -> bool:
    """Whether b is read after a: below it, or at its right in the same line."""
    shared = min(a.bottom(), b.bottom()) - max(a.top(), b.top())
    is_beside = shared > min(a.height(), b.height()) / 2
    return b.left() >= a.left() if is_beside else b.center().y() > a.center().y()


def inside(top: QWidget) -> Iterator[QAccessibleInterface]:
    """Yield all that a screen reader finds in a window, as it is shown now."""
    root = QAccessible.queryAccessibleInterface(top)
    assert root is not None
    waiting = [root]
    while waiting:
        one = waiting.pop()
        state = one.state()
        if state.invisible and one is not root:
            continue
        yield one
        if one.role() in (ROLES.List, ROLES.Table, ROLES.Tree):
            continue  # rows are content, and there may be many
        waiting += [child for n in range(one.childCount()) if (child := one.child(n)) is not None]


def unreached(seen: list[QWidget], top: QWidget) -> list[str]:
    """Name the controls of the screen reader that can be used and that Tab passes by."""
    found = []
    for one in inside(top):
        widget, state = one.object(), one.state()
        if (
            isinstance(widget, QWidget)
            and one.role() in CONTROLS - _NOT_BY_TAB
            and not state.disabled
            and widget.window() is top
            and not any(widget is other for other in seen)
            and not is_part(widget)
            and not any(leads_to(other, widget) for other in seen)
        ):
            found.append(f"{says(widget)} ({one.role().name})")
    return found


def is_part(widget: QWidget) -> bool:
    """Whether the keyboard reaches what it does in the control that it belongs to."""
    if isinstance(widget, QSlider | QTabBar):
        return True  # the field beside a slider takes the keys; a bar of tabs is reached as such
    if isinstance(widget, QAbstractButton) and (group := widget.group()) is not None:
        return group.exclusive() and not widget.isChecked()  # by the arrow keys
    parent = widget.parentWidget()
    while parent is not None:
        if isinstance(parent, _WHOLE):
            return True
        parent = parent.parentWidget()
    return False


def leads_to(start: QWidget, widget: QWidget) -> bool:
    """Whether Right goes to a button from another one of its row, which is one stop of Tab."""
    if not isinstance(start, QAbstractButton):
        return False
    rows = (start.parentWidget(), widget.parentWidget())
    if not any(
        row is not None and {start, widget} <= set(row.findChildren(QWidget)) for row in rows
    ):
        return False
    start.setFocus()
    for _ in range(MAX_IN_ROW):
        QTest.keyClick(QApplication.focusWidget() or start, Qt.Key.Key_Right)
        if QApplication.focusWidget() is widget:
            return True
    return False


def name_of(one: QAccessibleInterface) -> str:
    return one.text(QAccessible.Text.Name)


def faults(top: QWidget) -> list[str]:
    """Name what is wrong with the names of a window's controls."""
    found = []
    named: Counter[tuple[str, str]] = Counter()
    for one in inside(top):
        name, role = name_of(one), one.role()
        widget = one.object()
        where = type(widget).__name__ if widget is not None else str(role)
        if SHORTCUT.search(name):
            found.append(f"{where} has a shortcut in its name: {name}")
        if HTML.search(name):
            found.append(f"{where} has HTML in its name: {name}")
        is_inner = widget is not None and widget.objectName().startswith("qt_")
        if (role in CONTROLS or (one.state().focusable and one.isValid())) and not is_inner:
            if not name.strip() and role in CONTROLS:
                found.append(f"{where} has no name ({role.name})")
            elif not name.strip():
                found.append(f"{where} can have the focus and has no name ({role.name})")
            elif role in CONTROLS:
                named[(role.name, name)] += 1
    return found + [f"{count} times {key}" for key, count in named.items() if count > 1]


async def wrong(top: QWidget) -> list[str]:
    """Name all that the two walks through a window find."""
    top.activateWindow()
    await settled()
    seen, back = walked(top), walked(top, back=True)
    found = disorder(seen, top)
    first = back.index(seen[-1])
    if [*back[first:], *back[:first]] != seen[::-1]:
        found.append("Shift+Tab does not go the way back")
    return [*found, *unreached(seen, top), *faults(top)]

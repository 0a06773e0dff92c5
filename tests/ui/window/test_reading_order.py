"""Tab goes through every window as it is read, and every control there has a name."""

import asyncio
from itertools import pairwise
from typing import ClassVar

import pytest
from PySide6.QtCore import QEvent, QObject, QRect, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextBrowser,
    QTextEdit,
    QWidget,
)

from engine.scheduling.service import Engine
from engine.values.request import TraceLevel
from tests.support.shown import whole_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.kit.theme import Theme
from ui.preferences.preferences_dialog import PreferencesDialog
from ui.records.attachments import Attachment
from ui.window.main_window import MainWindow
from ui.window.other_windows import ShortcutsDialog

MOST = 400
NAMED = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QTextEdit,
)


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    def make() -> MainWindow:
        window = whole_window(engine, theme)
        window.workspace.traces.level = TraceLevel.FULL
        window.stop_panel.show()
        window.resize(1280, 900)
        return window

    return enter(lambda: opened(make(), quits=True, is_ready=True))


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0.02)


async def answered(window: MainWindow) -> None:
    window.workspace.current.stops.ensure("6")
    window.workspace.current.stops.ensure(" 6")
    window.workspace.send("Count from 1 to 10, one number per line")
    await eventually(lambda: not window.workspace.current.session.is_running)
    await settled()


def walked(top: QWidget, back: bool = False) -> list[QWidget]:
    """Press Tab until the first control has the focus again; return all that had it."""
    top.activateWindow()
    top.setFocus()
    seen: list[QWidget] = []
    key = Qt.Key.Key_Backtab if back else Qt.Key.Key_Tab
    for _ in range(MOST):
        QTest.keyClick(QApplication.focusWidget() or top, key)
        now = QApplication.focusWidget()
        assert now is not None
        assert top.isAncestorOf(now), "the focus left the window"
        if seen and now is seen[0]:
            return seen
        assert now not in seen, f"Tab comes twice to {says(now)}"
        seen.append(now)
    raise AssertionError("Tab does not come back to the first control")


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


def unreached(seen: list[QWidget], top: QWidget) -> list[str]:
    """Name the buttons and fields that can be used and that Tab passes by."""
    kinds = (QAbstractButton, QLineEdit, QPlainTextEdit, QComboBox, QAbstractSpinBox)
    return [
        says(one)
        for kind in kinds
        for one in top.findChildren(kind)
        if one.isVisible()
        and one.isEnabled()
        and one.window() is top
        and one not in seen
        and one.focusPolicy() & Qt.FocusPolicy.TabFocus
        and not isinstance(one.parentWidget(), QAbstractSpinBox | QComboBox | QLineEdit)
        and not is_in_text(one)
    ]


def is_in_text(widget: QWidget) -> bool:
    """Whether it belongs to a text, whose caret and menu do the same."""
    viewport = widget.parentWidget()
    return viewport is not None and isinstance(viewport.parentWidget(), QTextBrowser)


def type_name(widget: QWidget | None) -> str:
    return "" if widget is None else str(widget.metaObject().className())


def nameless(top: QWidget) -> list[str]:
    """Name the controls that a screen reader could not."""
    inner = QAbstractSpinBox | QAbstractItemView | QComboBox | QLineEdit
    return [
        f"{type(one).__name__} in {type(one.parentWidget()).__name__}"
        for kind in NAMED
        for one in top.findChildren(kind)
        if not (one.accessibleName() or getattr(one, "text", str)())
        and not one.objectName().startswith("qt_")
        and not isinstance(one.parentWidget(), inner)
        and "QComboBoxPrivateContainer" not in type_name(one.parentWidget())
        and "ExtensionButton" not in one.metaObject().className()
    ]


async def is_in_order(top: QWidget) -> None:
    await settled()
    seen = walked(top)
    assert disorder(seen, top) == []
    assert unreached(seen, top) == []
    assert nameless(top) == []
    back = walked(top, back=True)
    first = back.index(seen[-1])
    assert [*back[first:], *back[:first]] == seen[::-1]


async def test_no_part_of_a_conversation_becomes_a_separate_window(window: MainWindow) -> None:
    class Watch(QObject):
        seen: ClassVar[list[str]] = []

        def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
            is_shown = event.type() == QEvent.Type.Show
            if is_shown and isinstance(watched, QWidget) and watched.isWindow():
                self.seen.append(type(watched).__name__)
            return False

    watch = Watch()
    application = QApplication.instance()
    assert application is not None
    application.installEventFilter(watch)
    try:
        await answered(window)
        window.chat.composer.attachments.show_files([Attachment("a.txt", "x")])
        await answered(window)
    finally:
        application.removeEventFilter(watch)
    assert watch.seen == []


async def test_tab_reads_the_main_window(window: MainWindow) -> None:
    await is_in_order(window)
    await answered(window)
    row = window.chat.composer.attachments
    row.files = (Attachment("a.txt", "x"), Attachment("b.txt", "y"))
    row._show()
    await is_in_order(window)
    seen = walked(window)
    columns = [
        next(c for c in (window.sidebar, window.chat, window.stop_panel) if c.isAncestorOf(one))
        for one in seen
        if one is not window.menuBar()
    ]
    turns = [a for a, b in zip(columns, [None, *columns], strict=False) if a is not b]
    assert turns == [window.sidebar, window.chat, window.stop_panel]


@pytest.mark.parametrize("name", ["models", "server", "inspector", "capture", "probe"])
async def test_tab_reads_every_other_window(window: MainWindow, name: str) -> None:
    await answered(window)
    getattr(window.others, f"show_{name}")()
    other = getattr(window.others, name)
    assert other is not None
    await settled()
    tabs = getattr(other, "tabs", None)
    for index in range(tabs.count() if tabs is not None else 1):
        if tabs is not None:
            tabs.setCurrentIndex(index)
        await is_in_order(other)


async def test_tab_reads_the_dialogs(window: MainWindow) -> None:
    preferences = PreferencesDialog(window.preferences, window)
    preferences.show()
    for index in range(preferences.tabs.count()):
        preferences.tabs.setCurrentIndex(index)
        await is_in_order(preferences)
    preferences.close()
    keys = ShortcutsDialog(window.menuBar(), window)
    keys.show()
    await is_in_order(keys)
    keys.close()
    window.chat.show_settings()
    card = window.chat.settings
    card._more.setChecked(True)
    await is_in_order(card)
    card.hide()


async def test_what_a_conversation_adds_comes_where_it_stands(window: MainWindow) -> None:
    await answered(window)
    seen = walked(window)
    in_chat = [one for one in seen if window.chat.isAncestorOf(one)]
    messages = [one for one in in_chat if window.chat.column.isAncestorOf(one)]
    assert messages
    assert seen.index(messages[-1]) < seen.index(window.chat.composer.input)
    assert seen.index(window.chat.composer.input) < seen.index(window.chat.composer.stops)

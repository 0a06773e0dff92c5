"""What a screen reader says in every window: each control is named once, in plain words."""

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QAccessible, QAccessibleInterface
from PySide6.QtWidgets import QTabWidget, QWidget

from app.desktop.window import server_window
from engine import quoted
from engine.scheduling.service import Engine
from engine.values.request import TraceLevel
from tests.support.kept import preferences_state
from tests.ui.driving import Enter, Living, eventually, opened
from ui.kit.theme import Theme
from ui.preferences.preferences_dialog import PreferencesDialog
from ui.records.store import MemoryConversationStore
from ui.stops.stop_rows import StopColumn
from ui.window.main_window import MainWindow
from ui.window.other_windows import ShortcutsDialog

ROLES = QAccessible.Role
# What a person acts on. Texts, groups and rows of lists are read by their content.
CONTROLS = frozenset({
    ROLES.Button, ROLES.CheckBox, ROLES.RadioButton, ROLES.ComboBox, ROLES.EditableText,
    ROLES.SpinBox, ROLES.Slider, ROLES.List, ROLES.Table, ROLES.Tree, ROLES.Link, ROLES.PageTab,
    ROLES.ButtonMenu, ROLES.MenuItem, ROLES.ProgressBar,
})  # fmt: skip
SHORTCUT = re.compile(r"\b(Ctrl|Shift|Alt|Meta|Esc|Enter|Return|F\d{1,2})\b[+)]|\((Esc|Enter|Del)")
HTML = re.compile(r"</?(?:b|i|p|br|a|span|div|html|body|table|tr|td|h[1-6]|style)\b[^>]*>", re.I)


@pytest.fixture
def window(
    enter: Enter, engine: Engine, theme: Theme, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Living[MainWindow]:
    """The window with all that belongs to it, as in the program."""
    monkeypatch.setenv("FULLSTOP_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))

    def make() -> MainWindow:
        store, loop = MemoryConversationStore(), asyncio.get_running_loop()
        window = server_window(engine, theme, store, preferences_state(), loop)
        window.workspace.traces.level = TraceLevel.FULL
        window.stop_panel.show()
        window.resize(1400, 950)
        return window

    return enter(lambda: opened(make(), quits=True, is_ready=True))


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
        if role in CONTROLS and not is_inner:
            if not name.strip():
                found.append(f"{where} has no name ({role.name})")
            else:
                named[(role.name, name)] += 1
    assert named, "the walk finds the controls"
    return found + [f"{count} times {key}" for key, count in named.items() if count > 1]


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0.02)


async def answered(window: MainWindow) -> None:
    window.workspace.current.stops.ensure("6")
    window.workspace.send("Count from 1 to 10, one number per line")
    await eventually(lambda: not window.workspace.current.session.is_running)
    await settled()


async def test_each_control_of_the_main_window_is_named_once(window: MainWindow) -> None:
    assert faults(window) == []
    await answered(window)
    assert faults(window) == []


@pytest.mark.parametrize("name", ["models", "server", "inspector", "capture", "probe"])
async def test_each_control_of_every_other_window_is_named_once(
    window: MainWindow, name: str
) -> None:
    await answered(window)
    getattr(window.others, f"show_{name}")()
    other = getattr(window.others, name)
    await settled()
    tabs = getattr(other, "tabs", None)
    wrong: list[str] = []
    for index in range(tabs.count() if isinstance(tabs, QTabWidget) else 1):
        if isinstance(tabs, QTabWidget):
            tabs.setCurrentIndex(index)
        await settled()
        wrong += faults(other)
    assert wrong == []


async def test_each_control_of_the_settings_is_named_once(window: MainWindow) -> None:
    preferences = PreferencesDialog(window.preferences, window)
    preferences.show()
    for index in range(preferences.tabs.count()):
        preferences.tabs.setCurrentIndex(index)
        assert faults(preferences) == []
    preferences.close()
    keys = ShortcutsDialog(window.menuBar(), window)
    keys.show()
    assert [one for one in faults(keys) if "shortcut" not in one] == []
    keys.close()


async def test_each_control_of_a_conversations_settings_is_named_once(window: MainWindow) -> None:
    window.chat.show_settings()
    card = window.chat.settings
    card._more.setChecked(True)
    await settled()
    assert faults(card) == []
    card.hide()


async def test_each_cell_of_a_stop_says_its_own_content(window: MainWindow) -> None:
    await answered(window)
    stops = window.workspace.current.stops
    await eventually(lambda: stops.index(0, StopColumn.TOKENS).data().isdecimal())
    said = [
        stops.index(0, column).data(Qt.ItemDataRole.AccessibleTextRole) for column in StopColumn
    ]
    assert said[:-1] == [
        "On",
        f"Stop sequence {quoted('6')}",
        "In the Answer",
        "1 token",
        "Fired 1 time",
    ]
    assert len(set(said)) == len(said)

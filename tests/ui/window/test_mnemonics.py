"""No two entries of a menu, and no two controls of a page, are chosen with the same letter."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from PySide6.QtWidgets import (
    QAbstractButton,
    QApplication,
    QLabel,
    QMenu,
    QTabBar,
    QTabWidget,
    QWidget,
)

from engine import DiskCache
from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.shown import shown, whole_window
from tests.ui.driving import eventually
from ui.kit.theme import Theme
from ui.window.preferences_dialog import PreferencesDialog

_LETTER = re.compile(r"(?<!&)&([^&\s])")


def letter_of(text: str) -> str:
    """Return the letter that chooses a control in small; empty for none."""
    found = _LETTER.search(text.replace("&&", ""))
    return found[1].lower() if found else ""


def twins(texts: list[str]) -> list[list[str]]:
    """Return the texts that share their letter."""
    count = Counter(filter(None, map(letter_of, texts)))
    return [[t for t in texts if letter_of(t) == one] for one, times in count.items() if times > 1]


def menus_of(menu: QMenu, path: str) -> Iterator[tuple[str, list[str]]]:
    menu.aboutToShow.emit()
    yield path, [action.text() for action in menu.actions() if action.isVisible()]
    for action in menu.actions():
        if isinstance(inner := action.menu(), QMenu):
            yield from menus_of(inner, f"{path} ▸ {action.text()}")


def pages_of(window: QWidget) -> Iterator[tuple[str, list[str]]]:
    """Yield the labels of each page of a window, with those that surround all of its pages."""
    tabs = window.findChildren(QTabWidget)
    pages = [(tab.tabText(n), tab.widget(n)) for tab in tabs for n in range(tab.count())]
    inside = {child for _, page in pages for child in page.findChildren(QWidget)}
    own = (one for one in window.findChildren(QWidget) if one.window() is window)
    around = labels_among(one for one in own if one not in inside)
    yield window.windowTitle(), around
    for name, page in pages:
        if page.window() is window:
            of_page = labels_among(page.findChildren(QWidget))
            yield f"{window.windowTitle()} ▸ {name}", [*around, *of_page]


def labels_among(widgets: object) -> list[str]:
    found: list[str] = []
    for one in widgets:  # type: ignore[attr-defined]
        if (isinstance(one, QAbstractButton) and not one.isHidden()) or (
            isinstance(one, QLabel) and one.buddy() is not None
        ):
            found.append(one.text())
        elif isinstance(one, QTabBar):
            found += [one.tabText(number) for number in range(one.count())]
    return found


async def test_each_letter_chooses_one_entry_of_a_menu_and_one_control_of_a_page(
    engine: Engine, theme: Theme, tmp_path: Path
) -> None:
    seen: list[tuple[str, list[str]]] = []
    async with shown(whole_window(engine, theme), quits=True) as window:
        others = window.others
        await eventually(lambda: window.workspace.models.stage == "ready")
        window.workspace.send("Count from 1 to 3")
        await eventually(lambda: not window.workspace.current.is_running)
        seen.append(("the menu bar", [one.text() for one in window.menuBar().actions()]))
        for action in window.menuBar().actions():
            menu = action.menu()
            assert isinstance(menu, QMenu)
            seen.extend(menus_of(menu, action.text()))
        for show in (others.show_models, others.show_preferences, others.show_inspector,
                     others.show_capture, others.show_probe, others.show_tool_servers):  # fmt: skip
            show()
        kept = DiskCache(tmp_path / "kept", 1_000_000)
        stored = PreferencesDialog(preferences_state(), window, kept, kept)
        stored.show()
        tops = [one for one in QApplication.topLevelWidgets() if one.isVisible()]
        tops = [one for one in tops if one.windowTitle()]
        assert len(tops) >= 7
        for top in tops:
            seen.extend(pages_of(top))
        stored.close()
        kept.close()
    assert sum(bool(letter_of(text)) for _, texts in seen for text in texts) > 60
    assert [(place, two) for place, texts in seen for two in twins(texts)] == []

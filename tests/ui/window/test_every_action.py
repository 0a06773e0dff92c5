"""Every button and menu entry of every window is connected, has a name, and does something visible.

The lists come from the widgets themselves; how each window is opened is in ``test_every_window``.
"""

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import shiboken6
from PySide6.QtCore import SIGNAL
from PySide6.QtGui import QAction, QDesktopServices
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QDialogButtonBox,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QTextEdit,
    QWidget,
)

from tests.ui.walks import answered, settled
from tests.ui.window.test_every_window import OPENED, engine, menus, shown, window
from ui.records.store import Problem
from ui.window.main_window import MainWindow

__all__ = ["engine", "window"]

State = Callable[[MainWindow, Path], Coroutine[Any, Any, None]]
# Buttons without an effect on purpose: in this state there is nothing that they could change.
IDLE = {
    "Undo", "Next Match", "Previous Match",
    "Scroll to Bottom",  # the end is in sight
    "Select All",  # of one row
    "Search",  # the picture in a field
    "Restart this MCP server",  # the scripted server restarts at once
}  # fmt: skip
ENDING = {"Quit", "Close Window", "Quit Without Saving"}


async def soon() -> None:
    """Let events and the first steps of tasks happen."""
    for _ in range(3):
        await asyncio.sleep(0.01)


async def empty(window: MainWindow, _: Path) -> None:
    window.chat.focus_composer()


async def with_answer(window: MainWindow, _: Path) -> None:
    await answered(window)
    window.pane.open(window.stop_panel)
    window.chat.composer.set_text("another question")


async def with_problem(window: MainWindow, folder: Path) -> None:
    window.chat.problem.show_problem(
        Problem("Not saved.", "The disk is full.", folder / "a.db", can_be_recovered=True)
    )


async def with_undo(window: MainWindow, _: Path) -> None:
    await answered(window)
    window.chat.handling.changes.delete(window.workspace.current.conversation.messages[0])


async def searching(window: MainWindow, _: Path) -> None:
    await answered(window)
    window.sidebar.search_field.setText("Count")
    window.chat.find_bar.begin("Count")
    await settled()


STATES: dict[str, State] = {
    "empty": empty,
    "with_answer": with_answer,
    "with_problem": with_problem,
    "with_undo": with_undo,
    "searching": searching,
}


@pytest.fixture
def opened_urls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Addresses and folders that other programs were asked to open."""
    urls: list[str] = []
    monkeypatch.setattr(
        QDesktopServices, "openUrl", lambda url: urls.append(url.toString()) or True
    )
    return urls


def visible(urls: list[str]) -> tuple[object, ...]:
    """Return what can be seen and heard now: windows, texts, states, the clipboard, the focus."""
    seen: list[object] = [QApplication.clipboard().text(), tuple(urls)]
    seen.append(id(QApplication.focusWidget()))
    for top in QApplication.topLevelWidgets():
        if not top.isVisible():
            continue
        seen.append((id(top), top.windowTitle(), top.geometry().getRect(), top.windowState()))
        for widget in top.findChildren(QWidget):
            if widget.isVisible():
                seen.append((id(widget), *_state(widget)))
    return tuple(seen)


def _state(widget: QWidget) -> Iterator[object]:
    yield widget.isEnabled()
    yield widget.accessibleName()
    yield widget.geometry().getRect()
    if isinstance(widget, QAbstractButton):
        yield widget.text()
        yield widget.isChecked()
    elif isinstance(widget, QLineEdit):
        yield widget.text()
        yield widget.selectedText()
    elif isinstance(widget, QPlainTextEdit | QTextEdit):
        yield widget.toPlainText()
    elif isinstance(widget, QAbstractItemView):
        model = widget.model()
        yield 0 if model is None else model.rowCount()
        selection = widget.selectionModel()
        yield 0 if selection is None else len(selection.selectedIndexes())
    elif callable(getattr(widget, "text", None)):
        yield str(widget.text())


def close_new(before: set[QWidget], keeps: QWidget) -> None:
    for top in QApplication.topLevelWidgets():
        if top.isVisible() and top not in before and top is not keeps:
            top.close()


def buttons(top: QWidget) -> list[QAbstractButton]:
    return [
        button
        for button in top.findChildren(QAbstractButton)
        if button.isVisible()
        and button.window() is top
        and not button.objectName().startswith("qt_")
        and type(button).__name__ != "QAbstractButton"  # the corner of a table
    ]


def name_of(button: QAbstractButton) -> str:
    return button.accessibleName() or button.text().replace("&", "")


def ends_dialog(button: QAbstractButton) -> bool:
    return isinstance(button.parentWidget(), QDialogButtonBox)


def is_connected(button: QAbstractButton) -> bool:
    signals = ("clicked(bool)", "clicked()", "toggled(bool)", "pressed()")
    parent = button.parentWidget()
    return (
        any(button.receivers(SIGNAL(signal)) > 0 for signal in signals)
        or getattr(button, "menu", lambda: None)() is not None
        or button.group() is not None
        or isinstance(parent, QDialogButtonBox)
    )


async def idle_buttons(top: QWidget, urls: list[str]) -> list[str]:
    """Press each button of a window; name those that are not connected, named or effective."""
    found: list[str] = []
    QApplication.clipboard().setText("{}")
    for button in sorted(buttons(top), key=ends_dialog):
        if not shiboken6.isValid(top):
            break  # a button has closed its dialog
        if not shiboken6.isValid(button) or not button.isVisible():
            continue  # a button before it has replaced it
        name = name_of(button)
        if not name:
            found.append(f"{type(button).__name__} has no name")
        if not button.isCheckable() and not is_connected(button):
            found.append(f"{name}: not connected")
        menu = getattr(button, "menu", lambda: None)()
        if not button.isEnabled() or isinstance(menu, QMenu) or name in IDLE | ENDING:
            continue
        if button.group() is not None and button.isChecked():
            continue
        before_tops = {one for one in QApplication.topLevelWidgets() if one.isVisible()}
        before = visible(urls)
        button.click()
        await soon()
        if visible(urls) == before:
            found.append(f"{name}: nothing visible happens")
        if not shiboken6.isValid(top):
            break
        close_new(before_tops, top)
        top.show()
        await soon()
    return found


@pytest.mark.parametrize("name", sorted(STATES))
async def test_every_button_of_the_main_window_acts(
    window: MainWindow, tmp_path: Path, opened_urls: list[str], name: str
) -> None:
    await STATES[name](window, tmp_path)
    await settled()
    assert await idle_buttons(window, opened_urls) == []


@pytest.mark.parametrize("name", sorted(OPENED))
async def test_every_button_of_another_window_acts(
    window: MainWindow, tmp_path: Path, opened_urls: list[str], name: str
) -> None:
    await answered(window)
    await OPENED[name](window, tmp_path)
    await settled()
    (top,) = shown(name)
    assert await idle_buttons(top, opened_urls) == []


@pytest.mark.parametrize("state", ["empty", "with_answer"])
async def test_every_menu_entry_acts(
    window: MainWindow, tmp_path: Path, opened_urls: list[str], state: str
) -> None:
    await STATES[state](window, tmp_path)
    window.sidebar.list.setFocus()
    found: list[str] = []
    conversation = window.workspace.current.conversation
    for title in menus(window):
        window.workspace.open(conversation)
        for number in range(len(offered(menus(window)[title]))):
            entries = offered(menus(window)[title], title)
            if number >= len(entries):
                continue
            path, action = entries[number]
            label = action.text().replace("&", "").removesuffix("…")
            if action.receivers(SIGNAL("triggered(bool)")) == 0:
                found.append(f"{path}: not connected")
            can_act = action.isEnabled() and not (action.isCheckable() and action.isChecked())
            if label in ENDING | IDLE or not can_act:
                continue
            before_tops = {one for one in QApplication.topLevelWidgets() if one.isVisible()}
            before = visible(opened_urls), len(window.workspace.conversations.every())
            action.trigger()
            await soon()
            now = visible(opened_urls), len(window.workspace.conversations.every())
            if now == before and not _has_changed(menus(window)[title], path, title):
                found.append(f"{path}: nothing visible happens")
            close_new(before_tops, window)
            window.activateWindow()
            window.sidebar.list.setFocus()
            await soon()
    assert found == [], "\n".join(found)


def offered(menu: QMenu, path: str = "") -> list[tuple[str, QAction]]:
    """Return the entries of a menu as it is when it is open, those of inner menus included."""
    menu.aboutToShow.emit()
    found: list[tuple[str, QAction]] = []
    for action in menu.actions():
        inner, name = action.menu(), f"{path} ▸ {action.text()}"
        if isinstance(inner, QMenu):
            found += offered(inner, name)
        elif not action.isSeparator() and action.isVisible():
            found.append((name, action))
    return found


def _has_changed(menu: QMenu, path: str, title: str) -> bool:
    """Return whether an entry is checked now, or has another label."""
    entries = dict(offered(menu, title))
    return path not in entries or entries[path].isChecked()

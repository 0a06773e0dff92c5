"""The one helper that fills menus."""

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot

from ui.kit.menus import add_entry, copied_text, copy_text, empty_menu, literal, passing_menu


@pytest.fixture
def parent(qtbot: QtBot) -> QWidget:
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


def test_an_entry_calls_its_intent_without_what_qt_passes(parent: QWidget) -> None:
    given: list[tuple[object, ...]] = []
    entry = add_entry(QMenu(parent), "&New", lambda *args: given.append(args), "Ctrl+N")
    entry.trigger()
    assert given == [()]
    assert entry.shortcut().toString() == "Ctrl+N"
    assert entry.shortcutContext() is Qt.ShortcutContext.WindowShortcut
    assert not entry.isCheckable()


def test_an_entry_can_have_several_keys_a_mark_and_reach_all_windows(parent: QWidget) -> None:
    menu = QMenu(parent)
    entry = add_entry(
        menu, "Larger", lambda: None, "Ctrl++", "Ctrl+=", works_everywhere=True, is_checked=True
    )
    assert [key.toString() for key in entry.shortcuts()] == ["Ctrl++", "Ctrl+="]
    assert entry.shortcutContext() is Qt.ShortcutContext.ApplicationShortcut
    assert entry.isCheckable()
    assert entry.isChecked()


def test_a_menu_that_is_filled_again_keeps_no_old_submenus(qtbot: QtBot, parent: QWidget) -> None:
    menu = QMenu(parent)
    for _ in range(3):
        empty_menu(menu)
        menu.addMenu("Delete")
    qtbot.waitUntil(lambda: len(menu.findChildren(QMenu)) == 1, timeout=30_000)


def test_a_passing_menu_is_deleted_when_it_closes(qtbot: QtBot, parent: QWidget) -> None:
    menu = passing_menu(parent, "Where it applies")
    assert menu.accessibleName() == "Where it applies"
    add_entry(menu, literal("Salt & pepper"), lambda: None)
    assert menu.actions()[0].text() == "Salt && pepper"
    with qtbot.waitSignal(menu.destroyed, timeout=30_000):
        menu.popup(parent.pos())
        menu.close()


def test_a_copied_text_is_on_the_clipboard(qapp: QApplication) -> None:
    copy_text("a\nb")
    assert copied_text() == "a\nb"

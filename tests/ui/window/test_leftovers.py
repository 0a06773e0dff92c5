"""Nothing of Qt's own look is left: dialogs, lists that drop down, fields, tables, toasts."""

import asyncio

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import (
    QApplication,
    QDialogButtonBox,
    QInputDialog,
    QLineEdit,
    QStyle,
    QTableView,
    QWidget,
)

from engine.engine import Engine
from tests.support.kept import preferences_state
from tests.support.shown import main_window
from tests.ui.driving import Enter, Living, eventually, opened
from ui.chat.composer.attachments import FileChip
from ui.kit.colors import LIGHT
from ui.kit.theme import Theme, stylesheet
from ui.records.attachments import Attachment
from ui.window.main_window import MainWindow
from ui.window.other_windows import ShortcutsDialog, show_about
from ui.window.preferences_dialog import PreferencesDialog


@pytest.fixture
def window(enter: Enter, engine: Engine, theme: Theme) -> Living[MainWindow]:
    return enter(lambda: opened(main_window(engine, theme)))


def test_buttons_of_dialogs_show_words_alone(theme: Theme, qapp: QApplication) -> None:
    parent = QWidget()
    question = QInputDialog(parent)
    dialogs = [
        PreferencesDialog(preferences_state(), parent),
        show_about(parent),
        question,
    ]
    for dialog in dialogs:
        dialog.show()
        (box,) = dialog.findChildren(QDialogButtonBox)
        hint = QStyle.StyleHint.SH_DialogButtonBox_ButtonsHaveIcons
        assert box.style().styleHint(hint, None, box) == 0
        assert all(button.icon().isNull() for button in box.buttons())
        dialog.close()
    # Platforms without a theme of icons show none anyway; the others go by the style sheet.
    assert "QDialogButtonBox { dialogbuttonbox-buttons-have-icons: 0; }" in stylesheet(LIGHT)


async def test_no_field_has_the_button_of_qt(window: MainWindow) -> None:
    window.others.show_server()
    assert [
        field.accessibleName()
        for field in window.findChildren(QLineEdit)
        if field.isClearButtonEnabled()
    ] == []


async def test_rows_end_inside_the_round_corners_of_their_table(window: MainWindow) -> None:
    window.stop_panel.show()
    window.workspace.current.stops.ensure("6")
    tables = [window.stop_panel.editor.table]
    for table in tables:
        await eventually(lambda t=table: t.isVisible())  # type: ignore[misc]
        assert_rows_inside(table)
        assert table.verticalScrollBar().maximum() == 0
        rows = sum(table.rowHeight(row) for row in range(table.model().rowCount()))
        assert table.viewport().height() >= rows


def assert_rows_inside(table: QTableView) -> None:
    """A square corner inside a round one: its distance to the circle's center is less."""
    radius, line = 8, 1
    inset = table.viewport().mapTo(table, QPoint(0, 0)).x()
    assert inset >= line
    assert (radius - inset) * 2**0.5 <= radius - line


async def test_fields_of_the_settings_have_one_left_edge(window: MainWindow) -> None:
    window.chat.show_settings()
    card = window.chat.settings
    card._more.setChecked(True)
    await asyncio.sleep(0.05)
    fields = list(card._fields().values())
    assert len({field.mapTo(card, QPoint(0, 0)).x() for field in fields}) == 1
    assert len({field.mapTo(card, field.rect().topRight()).x() for field in fields}) == 1
    card.hide()


async def test_hints_are_not_drawn_as_errors(window: MainWindow) -> None:
    bar = window.stop_panel.editor.apply_bar
    sheet = stylesheet(LIGHT)
    rule = sheet[sheet.index(f"#{bar.objectName()} {{") :]
    assert LIGHT.fault_soft not in rule[: rule.index("}")]


async def test_the_toast_goes_when_the_deletion_is_undone(window: MainWindow) -> None:
    conversations, bar = window.workspace.conversations, window.sidebar.undo_bar
    for undo in (conversations.undo_last, bar.button.click):
        window.workspace.new_conversation()
        window.sidebar.delete_current()
        assert bar.isVisible()
        undo()
        assert not bar.isVisible()


async def test_an_attached_file_is_a_chip_with_name_size_and_a_button(window: MainWindow) -> None:
    row = window.chat.composer.attachments
    row.files = (Attachment("notes.txt", "é" * 1_000), Attachment("x.md", "y"))
    row._show()
    first, second = row.findChildren(FileChip)
    assert first.accessibleName() == "File notes.txt, 2.0 kB"
    assert second.accessibleName() == "File x.md, 1 byte"
    assert first.button.accessibleName() == "Remove notes.txt"
    await eventually(lambda: first.width() > 0 and first.isVisible())
    name = first.name
    await eventually(lambda: name.width() >= name.fontMetrics().horizontalAdvance("notes.txt"))
    first.button.click()
    assert [file.name for file in row.files] == ["x.md"]


async def test_chips_go_on_in_the_next_line_and_never_widen_the_window(window: MainWindow) -> None:
    window.resize(1000, 800)
    row = window.chat.composer.attachments
    before = window.minimumSizeHint().width()
    row.files = tuple(Attachment(f"{'n' * 120}{n}.txt", "x") for n in range(12))
    row._show()
    await eventually(lambda: row.height() > 3 * row.findChildren(FileChip)[0].height())
    for chip in row.findChildren(FileChip):
        assert row.rect().contains(chip.mapTo(row, chip.rect().bottomRight()))
    assert window.minimumSizeHint().width() == before


async def test_keys_are_listed_without_glyphs_too(window: MainWindow) -> None:
    dialog = ShortcutsDialog(window.menuBar(), window)
    dialog.show()
    (box,) = dialog.findChildren(QDialogButtonBox)
    assert all(button.icon().isNull() for button in box.buttons())
    dialog.close()

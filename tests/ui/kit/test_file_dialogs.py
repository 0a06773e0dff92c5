"""The one helper that asks for files: what it offers, and what it hands on."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget
from pytestqt.qtbot import QtBot

from ui.kit.dialogs import _LAST_FOLDER, choose_file, choose_target


@pytest.fixture
def parent(qtbot: QtBot, qapp: QApplication) -> QWidget:
    qapp.setProperty(_LAST_FOLDER, None)
    widget = QWidget()
    qtbot.addWidget(widget)
    return widget


def test_a_name_without_a_suffix_gets_that_of_the_chosen_kind(
    parent: QWidget, tmp_path: Path
) -> None:
    given: list[Path] = []
    kinds = ["Conversation (*.json)", "Markdown (*.md *.txt)"]
    dialog = choose_target(parent, "Export", given.append, name="talk.json", filters=kinds)
    assert dialog.acceptMode() is QFileDialog.AcceptMode.AcceptSave
    assert dialog.defaultSuffix() == "json"
    assert [Path(name).name for name in dialog.selectedFiles()] == ["talk.json"]
    dialog.filterSelected.emit(kinds[1])
    assert dialog.defaultSuffix() == "md"
    dialog.filterSelected.emit(kinds[0])
    assert dialog.defaultSuffix() == "json"
    dialog.setDirectory(str(tmp_path))
    dialog.selectFile("other")
    dialog.accept()
    assert given == [tmp_path / "other.json"]


def test_the_next_dialog_begins_where_the_last_file_was(parent: QWidget, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    first = choose_file(parent, "Open", lambda path: None)
    first.filesSelected.emit([str(folder / "a.txt")])
    first.close()
    second = choose_target(parent, "Save", lambda path: None, name="run.json")
    assert Path(second.directory().absolutePath()) == folder
    second.close()

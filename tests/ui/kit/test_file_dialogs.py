"""The one helper that asks for files: what it offers, and what it hands on."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication, QFileDialog, QMessageBox, QWidget

from ui.kit.dialogs import _LAST_FOLDER, choose_file, choose_target


@pytest.fixture(autouse=True)
def no_folder_yet(qapp: QApplication) -> None:
    qapp.setProperty(_LAST_FOLDER, None)


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


@pytest.mark.parametrize(
    ("typed", "written"),
    [("Meeting 28.11", "Meeting 28.11.md"), ("a.txt", "a.txt"), ("a.json", "a.json")],
)
def test_a_dot_in_a_name_is_no_suffix_unless_a_kind_has_it(
    parent: QWidget, tmp_path: Path, typed: str, written: str
) -> None:
    given: list[Path] = []
    kinds = ["Conversation (*.json)", "Markdown (*.md *.txt)"]
    dialog = choose_target(parent, "Export", given.append, name="talk.json", filters=kinds)
    dialog.filterSelected.emit(kinds[1])
    dialog.filesSelected.emit([str(tmp_path / typed)])
    dialog.close()
    assert given == [tmp_path / written]


def test_a_file_whose_suffix_was_added_is_replaced_only_after_a_question(
    parent: QWidget, tmp_path: Path
) -> None:
    given: list[Path] = []
    existing = tmp_path / "Meeting 28.11.json"
    existing.touch()
    kinds = ["Conversation (*.json)"]
    dialog = choose_target(parent, "Export", given.append, name="talk.json", filters=kinds)
    dialog.filesSelected.emit([str(tmp_path / "Meeting 28.11")])
    dialog.close()
    box = parent.findChild(QMessageBox)
    assert given == []
    next(button for button in box.buttons() if button.text() == "Replace").click()
    assert given == [existing]


def test_the_next_dialog_begins_where_the_last_file_was(parent: QWidget, tmp_path: Path) -> None:
    folder = tmp_path / "papers"
    folder.mkdir()
    first = choose_file(parent, "Open", lambda path: None)
    first.filesSelected.emit([str(folder / "a.txt")])
    first.close()
    second = choose_target(parent, "Save", lambda path: None, name="run.json")
    assert Path(second.directory().absolutePath()) == folder
    second.close()

"""Dialogs that choose files and folders.

Each function opens a dialog, returns it at once and calls ``then`` when a person has chosen. A
dialog never blocks: ``exec`` inside a task hangs if Qt and asyncio share one loop. Main thread.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QStandardPaths, Qt
from PySide6.QtWidgets import QApplication, QFileDialog, QWidget

_ALL_FILES = "All files (*)"
_LAST_FOLDER = "last_chosen_folder"


def choose_file(
    parent: QWidget, title: str, then: Callable[[Path], object], filters: Sequence[str] = ()
) -> QFileDialog:
    """Ask for one file to read.

    Args:
        parent: The widget that the dialog belongs to.
        title: The dialog's title.
        then: Called with the chosen file.
        filters: Kinds of files, such as ``Presets (*.json)``; all files can always be shown.
    """
    dialog = _dialog(parent, title, QFileDialog.FileMode.ExistingFile)
    if filters:
        dialog.setNameFilters([*filters, _ALL_FILES])
    return _open(dialog, lambda paths: then(paths[0]))


def choose_files(parent: QWidget, title: str, then: Callable[[list[Path]], object]) -> QFileDialog:
    """Ask for files to read; ``then`` is called with all of them.

    Args:
        parent: The widget that the dialog belongs to.
        title: The dialog's title.
        then: Called with all of the files.
    """
    return _open(_dialog(parent, title, QFileDialog.FileMode.ExistingFiles), then)


def choose_folder(parent: QWidget, title: str, then: Callable[[Path], object]) -> QFileDialog:
    """Ask for a folder.

    Args:
        parent: The widget that the dialog belongs to.
        title: The dialog's title.
        then: Called with the folder.
    """
    dialog = _dialog(parent, title, QFileDialog.FileMode.Directory)
    return _open(dialog, lambda paths: then(paths[0]))


def choose_target(
    parent: QWidget,
    title: str,
    then: Callable[[Path], object],
    *,
    name: str,
    filters: Sequence[str] = (),
) -> QFileDialog:
    """Ask where to save a file.

    Args:
        parent: The widget that the dialog belongs to.
        title: The dialog's title.
        then: Called with the chosen file, which need not exist.
        name: The suggested name. A name typed without a suffix gets the suffix of this name or
            of the chosen kind of file.
        filters: Kinds of files, such as ``Markdown (*.md)``.
    """
    dialog = _dialog(parent, title, QFileDialog.FileMode.AnyFile)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    if filters:
        dialog.setNameFilters(list(filters))
    dialog.setDefaultSuffix(Path(name).suffix)
    dialog.selectFile(name)
    dialog.filterSelected.connect(lambda kind: dialog.setDefaultSuffix(_suffix(kind)))
    return _open(dialog, lambda paths: then(paths[0]))


def _dialog(parent: QWidget, title: str, mode: QFileDialog.FileMode) -> QFileDialog:
    app = QApplication.instance()
    last = None if app is None else app.property(_LAST_FOLDER)
    documents = QStandardPaths.StandardLocation.DocumentsLocation
    folder = Path(last or QStandardPaths.writableLocation(documents))
    if not folder.is_dir():  # Qt would offer its name as that of a file
        folder = Path.home()
    dialog = QFileDialog(parent, title, str(folder))
    dialog.setFileMode(mode)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog


def _open(dialog: QFileDialog, then: Callable[[list[Path]], object]) -> QFileDialog:
    def take(names: list[str]) -> None:
        paths = [Path(name) for name in names]
        app = QApplication.instance()
        if app is not None:  # the next dialog opens in the folder of this choice
            app.setProperty(_LAST_FOLDER, str(paths[0].parent))
        then(paths)

    dialog.filesSelected.connect(take)
    dialog.open()
    return dialog


def _suffix(kind: str) -> str:
    """Return the first suffix that a filter names: ``md`` of ``Markdown (*.md)``."""
    return kind.partition("*.")[2].strip(")").partition(" ")[0]

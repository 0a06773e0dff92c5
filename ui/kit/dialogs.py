"""Messages, questions, dialogs that choose files, and links out of the program. Main thread."""

import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QProcess, QStandardPaths, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import (
    QApplication,
    QDialogButtonBox,
    QFileDialog,
    QHeaderView,
    QInputDialog,
    QLabel,
    QMessageBox,
    QTreeView,
    QWidget,
)

from ui.kit import icons
from ui.kit.commands import Command
from ui.kit.theme import current_theme, restyle
from ui.words import THIS_COMPUTER

# All of them show plain text, never block (``exec`` inside a task hangs if Qt and asyncio share
# one loop), and are deleted when they are closed.

_PROGRAM = "Fullstop"

_ALL_FILES = "All files (*)"
_LAST_FOLDER = "last_chosen_folder"
_NAMES = {"darwin": "Finder", "win32": "Explorer"}
_OPENED = ("http", "https", "mailto")
_TITLE = "Open Link"


def show_message(
    parent: QWidget, text: str, detail: str = "", *, title: str = _PROGRAM
) -> QMessageBox:
    """Show a message that needs no answer."""
    box = _box(parent, text, detail, title)
    box.open()
    return box


def show_error(
    parent: QWidget, text: str, detail: str = "", *, title: str = _PROGRAM
) -> QMessageBox:
    """Show an error."""
    box = _box(parent, text, detail, title, is_warning=True)
    box.open()
    return box


def confirm(
    parent: QWidget,
    text: str,
    detail: str = "",
    *,
    answers: Sequence[Command],
    title: str = _PROGRAM,
    is_warning: bool = False,
    prefers_cancel: bool = False,
) -> QMessageBox:
    """Ask a question; Cancel and the Escape key do nothing."""
    box = _box(parent, text, detail, title, is_warning=is_warning)
    cancel = box.addButton(QMessageBox.StandardButton.Cancel)
    box.setEscapeButton(cancel)
    box.setDefaultButton(cancel)
    roles = QMessageBox.ButtonRole
    for position, answer in enumerate(answers):
        role = roles.DestructiveRole if answer.is_destructive else roles.AcceptRole
        button = box.addButton(answer.label, role)
        button.clicked.connect(lambda _=False, run=answer.run: run())
        is_default = position == 0 and not prefers_cancel
        if is_default:
            box.setDefaultButton(button)
        if answer.is_destructive or is_default:
            restyle(button, "kind", "destructive" if answer.is_destructive else "primary")
    box.open()
    return box


def prompt_text(
    parent: QWidget,
    title: str,
    question: str,
    then: Callable[[str], object],
    *,
    done: str = "OK",
    is_optional: bool = False,
    keeps_spaces: bool = False,
) -> QInputDialog:
    """Ask for one line of text; ``then`` gets it, an empty one only if it is optional."""
    dialog = _input(parent, title, question, done)

    def take(typed: str) -> None:
        text = typed if keeps_spaces else typed.strip()
        if text or is_optional:
            then(text)

    dialog.textValueSelected.connect(take)
    dialog.open()
    return dialog


def prompt_number(
    parent: QWidget,
    title: str,
    question: str,
    then: Callable[[int], object],
    *,
    done: str,
    minimum: int,
    maximum: int,
) -> QInputDialog:
    """Ask for a whole number."""
    dialog = _input(parent, title, question, done)
    dialog.setInputMode(QInputDialog.InputMode.IntInput)
    dialog.setIntRange(minimum, maximum)
    dialog.intValueSelected.connect(then)
    dialog.open()
    return dialog


def _input(parent: QWidget, title: str, question: str, done: str) -> QInputDialog:
    dialog = QInputDialog(parent)
    dialog.setWindowTitle(title)
    dialog.setLabelText(question)
    dialog.setOkButtonText(done)
    (buttons,) = dialog.findChildren(QDialogButtonBox)
    restyle(buttons.button(QDialogButtonBox.StandardButton.Ok), "kind", "primary")
    # Wide enough for its title and for some words; Qt's own is as wide as the two buttons.
    # The dialog's layout sets the dialog's own least width anew, so its label has it.
    (text,) = dialog.findChildren(QLabel)
    text.setMinimumWidth(dialog.fontMetrics().averageCharWidth() * 50)
    if (layout := dialog.layout()) is not None:
        layout.setContentsMargins(20, 16, 20, 16)
        layout.setSpacing(8)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog


def _box(
    parent: QWidget, text: str, detail: str, title: str, *, is_warning: bool = False
) -> QMessageBox:
    box = QMessageBox(parent)
    colors = current_theme().colors
    name, color = ("fault", colors.fault) if is_warning else ("stop-match", colors.match)
    box.setIconPixmap(icons.icon(name, color, 32).pixmap(32, 32))
    box.setWindowTitle(title)
    box.setTextFormat(Qt.TextFormat.PlainText)
    box.setText(text)
    box.setInformativeText(detail)
    box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    if (layout := box.layout()) is not None:
        layout.setContentsMargins(20, 20, 20, 16)
    return box


def choose_file(
    parent: QWidget, title: str, then: Callable[[Path], object], filters: Sequence[str] = ()
) -> QFileDialog:
    """Ask for one file to read."""
    dialog = _dialog(parent, title, QFileDialog.FileMode.ExistingFile)
    if filters:
        dialog.setNameFilters([*filters, _ALL_FILES])
    return _open_file_dialog(dialog, lambda paths: then(paths[0]))


def choose_files(parent: QWidget, title: str, then: Callable[[list[Path]], object]) -> QFileDialog:
    """Ask for files to read; ``then`` is called with all of them."""
    return _open_file_dialog(_dialog(parent, title, QFileDialog.FileMode.ExistingFiles), then)


def choose_folder(parent: QWidget, title: str, then: Callable[[Path], object]) -> QFileDialog:
    """Ask for a folder."""
    dialog = _dialog(parent, title, QFileDialog.FileMode.Directory)
    return _open_file_dialog(dialog, lambda paths: then(paths[0]))


def choose_target(
    parent: QWidget,
    title: str,
    then: Callable[[Path], object],
    *,
    name: str,
    filters: Sequence[str] = (),
) -> QFileDialog:
    """Ask where to save a file; without a suffix of ``filters`` its name gets the chosen one's."""
    dialog = _dialog(parent, title, QFileDialog.FileMode.AnyFile)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    if filters:
        dialog.setNameFilters(list(filters))
    dialog.setDefaultSuffix(Path(name).suffix)
    dialog.selectFile(name)
    dialog.filterSelected.connect(lambda kind: dialog.setDefaultSuffix(_suffixes(kind)[0]))

    def take(paths: list[Path]) -> None:
        path = paths[0]
        suffix = path.suffix[1:].lower()
        if any(suffix in _suffixes(kind) for kind in filters) or suffix == dialog.defaultSuffix():
            then(path)
            return
        # Qt takes the end of "Meeting 28.11" for a suffix; it did not ask for the whole name.
        named = path.with_name(f"{path.name}.{dialog.defaultSuffix()}")
        if named.exists():
            replace = Command("Replace", lambda: then(named), is_destructive=True)
            confirm(parent, f"Replace “{named.name}”?", answers=[replace], prefers_cancel=True)
        else:
            then(named)

    return _open_file_dialog(dialog, take)


def _dialog(parent: QWidget, title: str, mode: QFileDialog.FileMode) -> QFileDialog:
    app = QApplication.instance()
    last = None if app is None else app.property(_LAST_FOLDER)
    documents = QStandardPaths.StandardLocation.DocumentsLocation
    folder = Path(last or QStandardPaths.writableLocation(documents))
    if not folder.is_dir():  # Qt would offer its name as that of a file
        folder = Path.home()
    dialog = QFileDialog(parent, title, str(folder))
    dialog.setFileMode(mode)
    for view in dialog.findChildren(QTreeView):  # Qt's own dialog, where the system has none
        view.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        view.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        dialog.resize(760, 480)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return dialog


def _open_file_dialog(dialog: QFileDialog, then: Callable[[list[Path]], object]) -> QFileDialog:
    def take(names: list[str]) -> None:
        paths = [Path(name) for name in names]
        app = QApplication.instance()
        if app is not None:  # the next dialog opens in the folder of this choice
            app.setProperty(_LAST_FOLDER, str(paths[0].parent))
        then(paths)

    dialog.filesSelected.connect(take)
    dialog.open()
    for box in dialog.findChildren(QDialogButtonBox):  # Qt's own dialog
        for button in box.buttons():
            if box.buttonRole(button) is QDialogButtonBox.ButtonRole.AcceptRole:
                restyle(button, "kind", "primary")
    return dialog


def _suffixes(kind: str) -> list[str]:
    """Return the suffixes that a filter names: ``md`` and ``txt`` of ``Text (*.md *.txt)``."""
    return re.findall(r"\*\.(\w+)", kind)


def show_in_files_label() -> str:
    """Return the words for a menu entry on this system."""
    return f"Show in {_NAMES.get(sys.platform, 'Folder')}"


def show_in_files(parent: QWidget, folder: Path) -> None:
    """Open a folder; show its path if no program opens it."""
    if not QDesktopServices.openUrl(QUrl.fromLocalFile(str(folder))):
        text = "No program could show this folder."
        show_message(parent, text, str(folder), title=show_in_files_label())


def show_file(parent: QWidget, path: Path) -> None:
    """Show a file in its folder; selected, where the system has a command for that."""
    if sys.platform != "darwin" or not QProcess.startDetached("open", ["-R", str(path)])[0]:
        show_in_files(parent, path.parent)


def confirm_link(parent: QWidget, url: QUrl) -> None:
    """Ask before a link is opened, so that the user sees its address first."""
    if url.scheme() not in _OPENED:
        text = "This link is not a web address, so it was not opened."
        show_message(parent, text, url.toString(), title=_TITLE)
        return
    confirm(
        parent,
        "Open this link in your browser?",
        url.toString(),
        answers=[Command("Open", lambda: QDesktopServices.openUrl(url))],
        title=_TITLE,
        prefers_cancel=True,
    )


def confirm_file(parent: QWidget, name: str, path: Path, what: str) -> None:
    """Ask before another program opens a file that came from elsewhere."""
    title = f"Open {what}"
    if path.is_symlink() or not path.is_file():
        show_message(parent, f"This {what.lower()} is not on {THIS_COMPUTER}.", name, title=title)
        return
    url = QUrl.fromLocalFile(str(path))
    confirm(
        parent,
        f"Open this {what.lower()} in another program?",
        f"{name} belongs to this conversation.",
        answers=[Command("Open", lambda: QDesktopServices.openUrl(url))],
        title=title,
        prefers_cancel=True,
    )

"""The menu that brings stop lists in and out: files, and what was copied. Main thread."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from ui.kit.background.files import FileRefused, read_text, write_text
from ui.kit.background.tasks import Tasks
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_text import MOST_BYTES, from_json, from_lines, to_json

_FILTER = "Stop list (*.json)"


class StopExchangeMenu(QMenu):
    """Import, export, copy and paste of the list that is edited.

    Signals:
        refused: Something could not be read or written; carries why, in words.
    """

    refused = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._dialogs_on = parent
        self._model: StopListModel | None = None
        self._tasks = Tasks()
        self.paste_list = self._entry("Paste a List", self._paste_list)
        self.paste_lines = self._entry("Paste Lines, One Sequence Each", self._paste_lines)
        self.copy_list = self._entry("Copy the List", self._copy)
        self.addSeparator()
        self._entry("Import…", self._ask_import)
        self.export_list = self._entry("Export…", self._ask_export)
        self.aboutToShow.connect(self._refresh)

    def show_model(self, model: StopListModel) -> None:
        """Act on another list."""
        self._model = model

    async def finish(self) -> None:
        """Wait until nothing is being read or written."""
        await self._tasks.finish()

    def import_from(self, path: Path) -> None:
        """Add the sequences of a file."""
        self._tasks.start(self._import(path), "import a stop list")

    def export_to(self, path: Path) -> None:
        """Write the sequences that count to a file."""
        self._tasks.start(self._export(path, self._counting()), "export a stop list")

    async def _import(self, path: Path) -> None:
        model = self._model
        try:
            text = await read_text(path, MOST_BYTES, encoding="utf-8-sig")
        except FileRefused as refusal:
            self.refused.emit(str(refusal))
            return
        if self._model is model:  # else another list is edited meanwhile
            self._take(from_json, text, f"import {path.name}")

    async def _export(self, path: Path, counting: list[str]) -> None:
        try:
            await write_text(path, lambda: to_json(counting))
        except FileRefused as refusal:
            self.refused.emit(str(refusal))

    def _entry(self, words: str, intent: Callable[[], None]) -> QAction:
        action = self.addAction(words)
        action.triggered.connect(lambda: intent())
        return action

    def _refresh(self) -> None:
        has_text = bool(QGuiApplication.clipboard().text())
        self.paste_list.setEnabled(has_text)
        self.paste_lines.setEnabled(has_text)
        self.copy_list.setEnabled(bool(self._counting()))
        self.export_list.setEnabled(bool(self._counting()))

    def _counting(self) -> list[str]:
        entries = [] if self._model is None else self._model.entries()
        return [entry.sequence for entry in entries if entry.is_enabled]

    def _take(self, read: Callable[[str], list[str]], text: str, what: str) -> None:
        try:
            sequences = read(text)
        except ValueError as error:
            self.refused.emit(str(error))
            return
        if self._model is not None:
            self._model.add_all(sequences, what)

    def _paste_list(self) -> None:
        self._take(from_json, QGuiApplication.clipboard().text(), "paste a list")

    def _paste_lines(self) -> None:
        self._take(from_lines, QGuiApplication.clipboard().text(), "paste lines")

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(to_json(self._counting()))

    def _ask_import(self) -> None:
        dialog = QFileDialog(self._dialogs_on, "Import a stop list")
        dialog.setNameFilters([_FILTER, "All files (*)"])
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.import_from(Path(path)))
        dialog.open()

    def _ask_export(self) -> None:
        dialog = QFileDialog(self._dialogs_on, "Export the stop list")
        dialog.setNameFilters([_FILTER])
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix("json")
        dialog.selectFile("stops.json")
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(lambda path: self.export_to(Path(path)))
        dialog.open()

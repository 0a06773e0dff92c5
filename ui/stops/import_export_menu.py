"""The menu that imports, exports, copies and pastes stop lists. Main thread."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QMenu, QWidget

from ui.kit.background.files import FileRefused, read_text, write_text
from ui.kit.background.tasks import Tasks
from ui.kit.system.clipboard import copied_text, copy_text
from ui.kit.system.file_dialogs import choose_file, choose_target
from ui.kit.system.menus import add_entry
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_text import MOST_BYTES, from_json, from_lines, to_json

_FILTERS = ["Stop list (*.json)"]


class ImportExportMenu(QMenu):
    """Imports, exports, copies and pastes the list that the editor shows.

    Signals:
        refused: A list could not be read or written; carries the reason in words.
    """

    refused = Signal(str)

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._dialogs_on = parent
        self._model: StopListModel | None = None
        self._tasks = Tasks()
        self.paste_list = add_entry(self, "Paste a List", self._paste_list)
        self.paste_lines = add_entry(self, "Paste Lines, One Sequence Each", self._paste_lines)
        self.copy_list = add_entry(self, "Copy the List", self._copy)
        self.addSeparator()
        add_entry(self, "Import…", self._ask_import)
        self.export_list = add_entry(self, "Export…", self._ask_export)
        self.aboutToShow.connect(self._refresh)

    def show_model(self, model: StopListModel) -> None:
        """Work on another list."""
        self._model = model

    async def finish(self) -> None:
        """Wait until reading and writing have ended."""
        await self._tasks.finish()

    def import_from(self, path: Path) -> None:
        """Add the sequences of a file."""
        self._tasks.start(self._import(path), "import a stop list")

    def export_to(self, path: Path) -> None:
        """Write the enabled sequences to a file."""
        self._tasks.start(self._export(path, self._counting()), "export a stop list")

    async def _import(self, path: Path) -> None:
        model = self._model
        try:
            text = await read_text(path, MOST_BYTES, encoding="utf-8-sig")
        except FileRefused as refusal:
            self.refused.emit(str(refusal))
            return
        if self._model is model:  # otherwise the editor shows another list by now
            self._take(from_json, text, f"import {path.name}")

    async def _export(self, path: Path, counting: list[str]) -> None:
        try:
            await write_text(path, lambda: to_json(counting))
        except FileRefused as refusal:
            self.refused.emit(str(refusal))

    def _refresh(self) -> None:
        has_text = bool(copied_text())
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
        self._take(from_json, copied_text(), "paste a list")

    def _paste_lines(self) -> None:
        self._take(from_lines, copied_text(), "paste lines")

    def _copy(self) -> None:
        copy_text(to_json(self._counting()))

    def _ask_import(self) -> None:
        choose_file(self._dialogs_on, "Import a Stop List", self.import_from, _FILTERS)

    def _ask_export(self) -> None:
        choose_target(
            self._dialogs_on,
            "Export the Stop List",
            self.export_to,
            name="stops.json",
            filters=_FILTERS,
        )

"""The menu of a stop list: clipboard, files, and the lists saved by name. Main thread."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Signal
from PySide6.QtGui import QUndoStack
from PySide6.QtWidgets import QMenu, QWidget

from engine.wording import counted, quoted
from ui.kit.buttons import UndoBar
from ui.kit.commands import Command, Entry, Submenu, fill_menu
from ui.kit.dialogs import choose_file, choose_target, confirm, prompt_text
from ui.kit.menus import copied_text, copy_text, escape_mnemonics
from ui.kit.tasks import finish_tasks, read_text, start_task, write_file
from ui.records.stop_entries import StopEntry
from ui.records.stop_files import (
    MAX_BYTES,
    stops_from_file,
    stops_from_json,
    stops_from_lines,
    stops_to_file,
    stops_to_json,
)
from ui.stops.stop_list import StopListModel
from ui.stops.stop_lists import StopLists, list_name, named_list
from ui.words import FileRefused

_FILTERS = ["Stop list (*.json)", "Plain lines (*.txt)"]


class StopListMenu(QMenu):
    """Acts on the list that the editor shows, and on the saved ones; asks before one is replaced.

    Attributes:
        use_list: Replaces the shown rows by those of a saved list; gets its key.
    """

    refused = Signal(str)  # reason in words
    list_named = Signal(str)  # key of a list that was saved or renamed

    def __init__(self, parent: QWidget, lists: StopLists, undo_bar: UndoBar) -> None:
        super().__init__(parent)
        self._dialogs_on, self._lists, self._undo_bar = parent, lists, undo_bar
        self._model: StopListModel | None = None
        self.use_list: Callable[[str], object] = self._replace_rows
        fill_menu(
            self,
            [
                Command(
                    "Undo",
                    lambda: self._undo_stack.undo(),
                    enabled=lambda: self._undo_stack.canUndo(),
                    title=lambda: f"Undo {self._undo_stack.undoText()}".rstrip(),
                ),
                Command(
                    "Redo",
                    lambda: self._undo_stack.redo(),
                    enabled=lambda: self._undo_stack.canRedo(),
                    title=lambda: f"Redo {self._undo_stack.redoText()}".rstrip(),
                ),
                None,
                Command("Paste List", partial(self._paste, "Paste List"), enabled=_has_text),
                Command(
                    "Paste as Lines",
                    partial(self._paste, "Paste as Lines", has_lines=True),
                    enabled=_has_text,
                ),
                Command("Copy List", self._copy, enabled=self._has_rows),
                None,
                Command("Import…", self._ask_import),
                Command("Export…", self._ask_export, enabled=self._has_rows),
                None,
                Submenu("Saved Lists", self._saved_lists),
                Command(
                    "Save List As…", lambda: self.save_list(self._entries), enabled=self._has_rows
                ),
            ],
        )

    def save_list(self, stops: Sequence[StopEntry]) -> None:
        """Ask for a name, and save rows under it."""
        self._ask_name("Save Stop List", "", partial(self._save, stops))

    def rename_list(self, key: str) -> None:
        self._ask_name("Rename Stop List", list_name(key), partial(self._rename, key))

    def delete_list(self, key: str) -> None:
        before = self._lists.get(key)
        self._lists.keep(key, None)
        name = list_name(key)
        text = f"Deleted the stop list “{name}”" if name else "Deleted the stop list of the model"
        self._undo_bar.offer(text, partial(self._lists.keep, key, before))

    def show_model(self, model: StopListModel) -> None:
        self._model = model

    async def finish(self) -> None:
        await finish_tasks(self)

    def import_from(self, path: Path) -> None:
        start_task(self, self._import(path), "import a stop list")

    def export_to(self, path: Path) -> None:
        start_task(self, self._export(path, self._entries), "export a stop list")

    async def _import(self, path: Path) -> None:
        model = self._model
        try:
            text = await read_text(path, MAX_BYTES)
        except FileRefused as refusal:
            self.refused.emit(str(refusal))
            return
        if self._model is model:  # otherwise the editor shows another list by now
            read = partial(stops_from_file, path.name)
            self._take(read, text, f"Import {path.name}", f"{path.name}: ")

    async def _export(self, path: Path, entries: list[StopEntry]) -> None:
        try:
            text = stops_to_file(path.name, entries)
            await write_file(path, lambda: text)
        except (FileRefused, ValueError) as refusal:
            self.refused.emit(str(refusal))

    def _saved_lists(self) -> list[Entry]:
        keys = self._lists.named()
        if not keys:
            return [Command("No Saved Lists", lambda: None, enabled=lambda: False)]
        return [Submenu(escape_mnemonics(list_name(key)), self._actions(key)) for key in keys]

    def _actions(self, key: str) -> list[Entry]:
        return [
            Command("Replace List", lambda: self.use_list(key)),
            Command("Add to List", partial(self._add_rows, key)),
            None,
            Command("Rename…", partial(self.rename_list, key)),
            Command("Delete", partial(self.delete_list, key)),
        ]

    def _ask_name(self, title: str, name: str, then: Callable[[str], object]) -> None:
        def take(typed: str) -> None:
            chosen = " ".join(typed.split())
            if chosen == name:
                return
            if self._lists.get(named_list(chosen)) is None:
                then(chosen)
                return
            replace = Command("Replace", partial(then, chosen), is_destructive=True)
            text = f"Replace the stop list “{chosen}”?"
            confirm(self._dialogs_on, text, answers=[replace], prefers_cancel=True)

        done = title.split()[0]
        prompt_text(self._dialogs_on, title, "Name:", take, done=done).setTextValue(name)

    def _save(self, stops: Sequence[StopEntry], name: str) -> None:
        key = named_list(name)
        before = self._lists.get(key)
        self._lists.keep(key, stops)
        text = f"Saved {counted(len(stops), 'sequence')} as “{name}”"
        self._undo_bar.offer(text, partial(self._lists.keep, key, before))
        self.list_named.emit(key)

    def _rename(self, key: str, name: str) -> None:
        replaced, stops = self._lists.get(named_list(name)), self._lists.get(key)

        def undo() -> None:
            self._lists.keep(named_list(name), replaced)
            self._lists.keep(key, stops)

        self._lists.rename(key, name)
        self._undo_bar.offer(f"Renamed the stop list “{list_name(key)}” to “{name}”", undo)
        self.list_named.emit(named_list(name))

    def _add_rows(self, key: str) -> None:
        if self._model is not None:
            rows = self._lists.get(key) or ()
            self._model.add_all(rows, f"Add List {quoted(list_name(key), 16)}")

    def _replace_rows(self, key: str) -> None:
        if self._model is not None:
            rows = self._lists.get(key) or ()
            self._model.replace_all(rows, f"Use List {quoted(list_name(key), 16)}")

    @property
    def _undo_stack(self) -> QUndoStack:
        assert self._model is not None
        return self._model.undo_stack

    @property
    def _entries(self) -> list[StopEntry]:
        return [] if self._model is None else self._model.entries()

    def _has_rows(self) -> bool:
        return bool(self._entries)

    def _take(
        self, read: Callable[[str], list[StopEntry]], text: str, what: str, source: str = ""
    ) -> None:
        try:
            entries = read(text)
        except ValueError as error:
            self.refused.emit(f"{source}{error}")
            return
        if self._model is not None:
            self._model.add_all(entries, what)

    def _paste(self, what: str, *, has_lines: bool = False) -> None:
        self._take(stops_from_lines if has_lines else stops_from_json, copied_text(), what)

    def _copy(self) -> None:
        copy_text(stops_to_json(self._entries))

    def _ask_import(self) -> None:
        filters = ["Stop lists (*.json *.txt)"]
        choose_file(self._dialogs_on, "Import Stop List", self.import_from, filters)

    def _ask_export(self) -> None:
        host, title, name = self._dialogs_on, "Export Stop List", "stops.json"
        choose_target(host, title, self.export_to, name=name, filters=_FILTERS)


def _has_text() -> bool:
    return bool(copied_text())

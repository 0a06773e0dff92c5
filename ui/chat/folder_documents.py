"""The dialog of a folder's documents, which are searched for its conversations. Main thread."""

import asyncio
from pathlib import Path

import shiboken6
from PySide6.QtGui import QStandardItem, QStandardItemModel
from PySide6.QtWidgets import QListView, QPushButton, QWidget

from engine.helper_process import HelperClosed
from engine.wording import counted
from ui.kit.buttons import EmptyState, UndoBar
from ui.kit.dialogs import choose_files
from ui.kit.labels import label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, row
from ui.kit.rows import CONTENT, RowContent, RowDelegate, RowPart
from ui.kit.tasks import cancel_tasks, start_task
from ui.kit.theme import current_theme, restyle
from ui.kit.windows import OwnDialog
from ui.records.conversations import ConversationFolder
from ui.records.documents import MAX_FOLDER_CHARS, FileReader
from ui.records.passages import Document, IndexedDocument
from ui.records.store import ConversationStore
from ui.words import FileRefused

_ADDING = "add documents to a folder"


class FolderDocumentsDialog(OwnDialog):
    """Lists, adds and removes documents; closing it ends the adding."""

    def __init__(
        self, folder: ConversationFolder, store: ConversationStore, parent: QWidget
    ) -> None:
        super().__init__(f"Documents of {folder.name}", parent)
        self._folder, self._store = folder, store
        self._documents: list[IndexedDocument] = []
        self._reader: FileReader | None = None
        self.rows = QStandardItemModel(self)
        self.list = QListView()
        self.list.setModel(self.rows)
        self.list.setProperty("kind", "rows")
        self.list.setItemDelegate(RowDelegate(self.list))
        self.list.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.list.setSelectionMode(QListView.SelectionMode.ExtendedSelection)
        self.list.setAccessibleName(f"Documents of the folder {folder.name}")
        self.state = label("", "muted", 0.95, is_wrapped=True)
        self.progress = thin_bar("Progress of the reading")
        self.problem = label("", "fault", 0.95, is_wrapped=True)
        self.undo_bar = UndoBar()
        self.add = QPushButton("Add…")
        self.remove = QPushButton("Remove")
        self.stop = QPushButton("Stop Reading")
        self.close_button = QPushButton("Close")
        self.close_button.setDefault(True)
        self.empty = EmptyState(icon="report")
        self.empty.show_text("No Documents", "Add PDF, Word or text files.")
        column(
            label(
                "In this folder’s conversations, matching passages are sent with each question.",
                "muted",
                is_wrapped=True,
            ),
            (self.list, 1),
            (self.empty, 1),
            self.state,
            self.progress,
            self.problem,
            self.undo_bar,
            row(self.add, self.remove, self.stop, STRETCH, self.close_button, spacing=8),
            spacing=8,
            margins=(24, 20, 24, 16),
            on=self,
        )
        self.resize(560, 440)
        self.add.clicked.connect(lambda: choose_files(self, "Add Documents", self.add_files))
        self.remove.clicked.connect(self._remove)
        self.stop.clicked.connect(self._stop)
        self.close_button.clicked.connect(self.close)
        self.finished.connect(self._stop)
        self.list.selectionModel().selectionChanged.connect(self._refresh_buttons)
        self._show_state("")
        start_task(self, self._list(), "list the documents of a folder")

    def add_files(self, paths: list[Path]) -> None:
        """Read files and add them one after the other."""
        self._show_state("Reading…")
        self.problem.hide()
        start_task(self, self._add_all(paths), _ADDING)

    async def _add_all(self, paths: list[Path]) -> None:
        refused: list[str] = []
        try:
            for path in paths:
                try:
                    await self._add(path)
                except FileRefused as error:
                    refused.append(str(error))
                except HelperClosed:
                    return
                await self._list()
        finally:
            self._reader = None
            if shiboken6.isValid(self):  # it may be closed meanwhile
                self._show_state("")
                show_text(self.problem, "\n".join(refused))

    async def _add(self, path: Path) -> None:
        loop = asyncio.get_running_loop()

        def show_pages(done: int, total: int) -> None:  # on the reading thread
            loop.call_soon_threadsafe(self._show_pages, reader.name, done, total)

        reader = self._reader = FileReader(path, show_pages, max_chars=MAX_FOLDER_CHARS)
        self._show_state(f"Reading {reader.name}…")
        file = await asyncio.to_thread(reader.read)

        def show_added(passages: int) -> None:
            self._show_state(f"{file.name}: {counted(passages, 'passage')} added…")

        await self._store.add_document(self._folder.id, Document.of(file), file.remark, show_added)

    async def _list(self) -> None:
        self._documents = await self._store.folder_documents(self._folder.id)
        self.rows.clear()
        for document in self._documents:
            extent = counted(document.passages, "passage")
            item = QStandardItem(", ".join(filter(None, (document.name, extent, document.remark))))
            item.setToolTip(document.remark)
            muted = current_theme().colors.muted
            item.setData(
                RowContent(
                    RowPart(document.name),
                    right=RowPart(extent, muted),
                    subtitle=RowPart(document.remark),
                ),
                CONTENT,
            )
            self.rows.appendRow(item)
        if not self.stop.isVisibleTo(self):
            self._show_state("")
        self._refresh_buttons()

    def _remove(self) -> None:
        numbers = {index.row() for index in self.list.selectedIndexes()}
        chosen = [self._documents[number] for number in sorted(numbers)]
        start_task(self, self._show(chosen, is_shown=False), "remove documents of a folder")
        text = (
            f"“{chosen[0].name}” removed"
            if len(chosen) == 1
            else f"{len(chosen)} documents removed"
        )

        def undo() -> None:
            start_task(self, self._show(chosen, is_shown=True), "restore documents of a folder")

        self.undo_bar.offer(text, undo)

    async def _show(self, documents: list[IndexedDocument], *, is_shown: bool) -> None:
        for document in documents:
            await self._store.show_document(self._folder.id, document.id, is_shown=is_shown)
        await self._list()

    def _stop(self) -> None:
        if self._reader is not None:
            self._reader.close()
        cancel_tasks(self, _ADDING)

    def _show_pages(self, name: str, done: int, total: int) -> None:
        if self._reader is not None:
            self.progress.setRange(0, total)
            self.progress.setValue(done)
            self._show_state(f"{name}: {done:,} of {counted(total, 'page')} read…")

    def _show_state(self, state: str) -> None:
        show_text(self.state, state)
        is_empty = not self._documents and not state
        self.list.setVisible(not is_empty)
        self.empty.setVisible(is_empty)
        restyle(self.add, "kind", "primary" if is_empty else "")
        for part in (self.progress, self.stop):
            part.setVisible(bool(state))
        if not state:
            self.progress.setRange(0, 0)
        self._refresh_buttons()

    def _refresh_buttons(self) -> None:
        is_reading = self.stop.isVisibleTo(self)
        self.add.setEnabled(not is_reading)
        self.remove.setEnabled(not is_reading and self.list.selectionModel().hasSelection())

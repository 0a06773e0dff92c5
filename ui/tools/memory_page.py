"""The page of Settings that edits the kept facts. Main thread."""

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QKeySequence, QShortcut
from PySide6.QtWidgets import QAbstractItemView, QWidget

from engine.wording import counted
from ui.kit.buttons import push_button
from ui.kit.commands import Command
from ui.kit.dates import format_day
from ui.kit.dialogs import choose_target, confirm, prompt_text, show_error
from ui.kit.fields import SearchLineEdit
from ui.kit.labels import label, show_text
from ui.kit.layouts import STRETCH, card, column, row
from ui.kit.rows import Index
from ui.kit.tables import TableColumn, TableModel, TableView
from ui.kit.tasks import start_task, write_file
from ui.records.exchange.archive import ARCHIVE_BEGIN, archive_end
from ui.records.facts import MAX_FACTS, Fact
from ui.records.store import matches, query_terms
from ui.tools.memory import Memory
from ui.words import FileRefused

_EMPTY = "The model keeps facts about you where Memory is on: in Tools of a chat, or above."
_HINT = (
    "A chat that uses the memory is given these facts as data, and the model can keep others and "
    "search your conversations. The Prompt tab of the inspector shows them. The menu of a folder "
    "turns the memory off for its chats. Nothing leaves this computer."
)
_TABLE_PX = 190
_TRIGGERS = QAbstractItemView.EditTrigger


def facts_markdown(facts: Sequence[Fact]) -> str:
    """Return facts as a list in Markdown."""
    lines = (f"- {fact.text} ({_iso_day(fact)})" for fact in facts)
    return "\n".join(("# Kept Facts", "", *lines, ""))


def facts_json(facts: Sequence[Fact]) -> str:
    """Return facts as the text of an archive, which can be imported."""
    return ARCHIVE_BEGIN + archive_end(facts=facts)


class _Facts(TableModel):
    """The facts; the first column is edited in place."""

    def __init__(self, memory: Memory, parent: QWidget) -> None:
        columns = (
            TableColumn("Fact", 44, lambda fact: str(fact.text)),
            TableColumn("Chat", 18, memory.source_of),
            TableColumn("Kept", 13, lambda fact: format_day(fact.created_at), is_number=True),
        )
        super().__init__(columns, parent)
        self._memory = memory

    def flags(self, index: Index) -> Qt.ItemFlag:
        is_text = index.column() == 0
        return super().flags(index) | (
            Qt.ItemFlag.ItemIsEditable if is_text else Qt.ItemFlag.NoItemFlags
        )

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if role == Qt.ItemDataRole.EditRole:
            return self.rows[index.row()].text
        return super().data(index, role)

    def setData(self, index: Index, value: Any, role: int = Qt.ItemDataRole.EditRole) -> bool:
        try:
            self._memory.edit(self.rows[index.row()].id, str(value))
        except ValueError as error:
            view = self.parent()
            assert isinstance(view, QWidget)
            show_error(view, "The fact was not changed.", _sentence(error), title="Memory")
            return False
        return True


def _iso_day(fact: Fact) -> str:
    return datetime.fromtimestamp(fact.created_at).strftime("%Y-%m-%d")


def _sentence(error: ValueError) -> str:
    text = str(error).removeprefix("fact: ")
    return f"It {text}" if text[0].islower() else text


class MemoryPage(QWidget):
    """Reads, edits, deletes and exports the facts; each change can be undone."""

    def __init__(self, memory: Memory) -> None:
        super().__init__()
        self._memory = memory
        self.search = SearchLineEdit("Search facts", "Clear Search")
        self.search.setPlaceholderText("Search Facts")
        self.add = push_button("Add…", "Add a fact")
        self.rows = _Facts(memory, self)
        self.table = TableView(self.rows, "Kept facts")
        self.table.setEditTriggers(_TRIGGERS.DoubleClicked | _TRIGGERS.EditKeyPressed)
        self.table.setMinimumHeight(_TABLE_PX)
        self.table.verticalHeader().setDefaultSectionSize(32)
        self.empty = label(_EMPTY, "muted", is_wrapped=True)
        self.count = label("", "muted", 0.92)
        self.undo = push_button("Undo", "Undo the last change of the facts")
        self.delete = push_button("Delete", "Delete the selected facts")
        self.export = push_button("Export…", "Export the facts to a file")
        self.delete_all = push_button("Delete All…", "Delete all facts")
        title = label("No Facts Yet", "title")
        for text in (title, self.empty):
            text.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        box = self._card = card(STRETCH, title, self.empty, STRETCH, spacing=8)
        # As high as search and table, which take its place.
        box.setMinimumHeight(_TABLE_PX + 12 + self.search.sizeHint().height())
        column(
            self.search,
            self.table,
            box,
            row(
                *(self.add, self.delete, self.undo, self.count, STRETCH),
                *(self.export, self.delete_all),
                spacing=8,
            ),
            label(_HINT, "faint", 0.92, is_wrapped=True),
            spacing=12,
            on=self,
        )
        self.search.textChanged.connect(lambda _: self._refresh())
        self.add.clicked.connect(self._ask_for_fact)
        self.delete.clicked.connect(self._delete)
        self.undo.clicked.connect(memory.undo_stack.undo)
        self.export.clicked.connect(self._choose_file)
        self.delete_all.clicked.connect(self._confirm_deletion)
        self.table.selectionModel().selectionChanged.connect(self._enable)
        self.table.row_opened.connect(self._edit_current)
        inside = Qt.ShortcutContext.WidgetWithChildrenShortcut
        keys = QKeySequence.StandardKey
        QShortcut(keys.Undo, self, memory.undo_stack.undo, context=inside)
        QShortcut(keys.Redo, self, memory.undo_stack.redo, context=inside)
        for key in (keys.Delete, Qt.Key.Key_Backspace):
            QShortcut(key, self.table, self._delete, context=inside)
        memory.changed.connect(self._refresh)
        memory.undo_stack.indexChanged.connect(self._enable)
        self._refresh()

    def _refresh(self) -> None:
        facts, terms = self._memory.facts, query_terms(self.search.text())
        shown = [fact for fact in reversed(facts) if matches(fact.text, terms)]
        if shown != self.rows.rows:
            self.rows.show_rows(shown)
        self.table.setVisible(bool(facts))
        self._card.setVisible(not facts)
        for part in (self.search, self.delete, self.export, self.delete_all):
            part.setVisible(bool(facts))
        count = f"{len(facts)} of {MAX_FACTS} facts" if facts else ""
        if len(facts) >= MAX_FACTS:
            count = f"Full: {count}"
        elif terms:
            count = f"{len(shown)} of {counted(len(facts), 'fact')} found"
        show_text(self.count, count)
        self._enable()

    def _enable(self, *_: object) -> None:
        facts, stack = self._memory.facts, self._memory.undo_stack
        self.add.setEnabled(len(facts) < MAX_FACTS)
        self.delete.setEnabled(bool(self.table.selected_rows()))
        self.undo.setEnabled(stack.canUndo())
        self.undo.setVisible(bool(facts) or stack.canUndo())
        self.undo.setToolTip(f"Undo {stack.undoText()}" if stack.canUndo() else "")

    def _edit_current(self) -> None:
        index, editing = self.table.currentIndex(), QAbstractItemView.State.EditingState
        # Return also reaches the table when it ends the editing of a cell.
        if index.isValid() and self.table.state() != editing:
            self.table.edit(index.siblingAtColumn(0))

    def _ask_for_fact(self) -> None:
        prompt_text(self, "Add Fact", "A short sentence about you:", self._add, done="Add")

    def _add(self, text: str) -> None:
        try:
            self._memory.add(text)
        except ValueError as error:
            show_error(self, "The fact was not added.", _sentence(error), title="Memory")

    def _delete(self) -> None:
        self._memory.delete([self.rows.rows[row].id for row in self.table.selected_rows()])

    def _confirm_deletion(self) -> None:
        every = [fact.id for fact in self._memory.facts]
        delete = Command("Delete All", lambda: self._memory.delete(every), is_destructive=True)
        confirm(
            self,
            f"Delete {counted(len(every), 'fact')}?",
            "Undo brings them back until you quit.",
            answers=[delete],
            prefers_cancel=True,
        )

    def _choose_file(self) -> None:
        choose_target(
            self,
            "Export Facts",
            lambda path: start_task(self, self._export(path), "export facts"),
            name="Kept Facts.md",
            filters=("Markdown (*.md)", "JSON (*.json)"),
        )

    async def _export(self, path: Path) -> None:
        render = facts_json if path.suffix.lower() == ".json" else facts_markdown
        facts = self._memory.facts
        try:
            await write_file(path, lambda: render(facts))
        except FileRefused as refusal:
            show_error(self, "The facts were not exported.", str(refusal), title="Memory")

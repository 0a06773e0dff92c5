"""Shows the conversations in a file, and asks which of them to import. Main thread."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from PySide6.QtCore import QAbstractListModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QListView,
    QVBoxLayout,
    QWidget,
)

from engine import counted
from ui.chat.storage.conversation_imports import ImportPreview
from ui.kit.controls.check_box import CheckBox, CheckDelegate
from ui.kit.controls.reading_order import move_focus
from ui.kit.look.theme import Theme
from ui.kit.text.labels import label
from ui.records.exchange.archive import OURS
from ui.records.exchange.contents import ListedConversation

_WIDTH_PX, _LIST_PX = 480, 220
_MOST_DAMAGED = 5
_NO_PARENT = QModelIndex()
Take = Callable[[Sequence[ListedConversation], str], object]


class ConversationChoice(QAbstractListModel):
    """Conversations with check boxes; a file may have many thousands, and few are seen at once."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._shown: list[ListedConversation] = []
        self._unchecked: set[int] = set()

    def show(self, conversations: list[ListedConversation]) -> None:
        """Show conversations, all of them checked."""
        self.beginResetModel()
        self._shown = conversations
        self._unchecked.clear()
        self.endResetModel()

    def checked(self) -> list[ListedConversation]:
        """Return the conversations that are checked."""
        return [one for row, one in enumerate(self._shown) if row not in self._unchecked]

    @property
    def checked_count(self) -> int:
        """How many conversations are checked."""
        return len(self._shown) - len(self._unchecked)

    def rowCount(self, parent: QModelIndex | QPersistentModelIndex = _NO_PARENT) -> int:
        """Return the number of conversations."""
        return 0 if parent.isValid() else len(self._shown)

    def flags(self, index: QModelIndex | QPersistentModelIndex) -> Qt.ItemFlag:
        """Return what can be done with an item."""
        can_check = Qt.ItemFlag.ItemIsUserCheckable if index.isValid() else Qt.ItemFlag.NoItemFlags
        return super().flags(index) | can_check

    def data(
        self, index: QModelIndex | QPersistentModelIndex, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Return the words of an item, or whether it is checked."""
        if not index.isValid():
            return None
        one = self._shown[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            said = counted(one.messages, "message")
            return f"{one.title}  ·  {said}, {_day(one.updated_at)}"
        if role == Qt.ItemDataRole.CheckStateRole:
            is_checked = index.row() not in self._unchecked
            return Qt.CheckState.Checked if is_checked else Qt.CheckState.Unchecked
        return None

    def setData(
        self,
        index: QModelIndex | QPersistentModelIndex,
        value: Any,
        role: int = Qt.ItemDataRole.EditRole,
    ) -> bool:
        """Check an item, or uncheck it."""
        if role != Qt.ItemDataRole.CheckStateRole or not index.isValid():
            return False
        if Qt.CheckState(value) is Qt.CheckState.Checked:
            self._unchecked.discard(index.row())
        else:
            self._unchecked.add(index.row())
        self.dataChanged.emit(index, index, [role])
        return True


class ImportDialog(QDialog):
    """Lists the conversations of the file with check boxes; those already here are optional."""

    def __init__(self, theme: Theme, preview: ImportPreview, take: Take, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Import Conversations")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._preview = preview
        self._take = take
        program = preview.found.program
        self.words = label(_sentence(preview), is_wrapped=True)
        self.rows = ConversationChoice(self)
        self.list = QListView()
        self.list.setModel(self.rows)
        self.list.setUniformItemSizes(True)
        self.list.setLayoutMode(QListView.LayoutMode.Batched)
        self.list.setProperty("kind", "rows")
        self.list.setItemDelegate(CheckDelegate(theme, self.list))
        self.list.setAccessibleName("Conversations to import")
        self.copies = CheckBox(theme, "Also import conversations that are already here, as copies")
        self.copies.setVisible(bool(preview.here))
        self.folder = CheckBox(theme, f"Put them into a folder “{program}”")
        self.folder.setVisible(program != OURS)
        self.damage = label(_damage(preview), "fault", 0.95, is_wrapped=True)
        self.damage.setVisible(bool(preview.found.damaged))
        left_out = preview.found.left_out_words
        self.left_out = label(left_out, "muted", 0.95, is_wrapped=True)
        self.left_out.setVisible(bool(left_out))
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        self.accept_button = self.buttons.addButton(
            "Import", QDialogButtonBox.ButtonRole.AcceptRole
        )
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.copies.toggled.connect(self._fill)
        self.rows.dataChanged.connect(self._count)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 16, 18, 16)
        layout.setSpacing(10)
        rows = (self.words, self.list, self.copies, self.folder, self.damage, self.left_out)
        for part in (*rows, self.buttons):
            layout.addWidget(part)
        theme.follow(self, lambda: self._fit(theme))
        self._fill()

    def accept(self) -> None:
        """Import the checked conversations."""
        self._take(self.wanted(), self._preview.found.program if self.folder.isChecked() else "")
        super().accept()

    def wanted(self) -> list[ListedConversation]:
        """Return the checked conversations."""
        return self.rows.checked()

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _fill(self) -> None:
        copies = self._preview.here if self.copies.isChecked() else []
        self.rows.show([*self._preview.new, *copies])
        self._count()

    def _count(self) -> None:
        count = self.rows.checked_count
        words = f"Import {counted(count, 'Conversation')}" if count else "Import"
        self.accept_button.setText(words)
        found = self._preview.found
        is_bare = not found.listed and bool(found.folders)
        self.accept_button.setEnabled(bool(count or found.presets or is_bare))

    def _fit(self, theme: Theme) -> None:
        self.setMinimumWidth(theme.px(_WIDTH_PX))
        self.list.setMinimumHeight(theme.px(_LIST_PX))


def _day(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s).strftime("%d %b %Y").lstrip("0")


def _sentence(preview: ImportPreview) -> str:
    found = preview.found
    parts = [f"{preview.name} holds {counted(len(found.listed), 'conversation')}"]
    parts[0] += f" from {found.program}"
    if found.folders:
        parts.append(f"in {counted(len(found.folders), 'folder')}")
    if found.presets:
        parts.append(f"with {counted(len(found.presets), 'preset')}")
    if count := len(found.traces.members):
        link = "and" if found.presets else "with"
        parts.append(f"{link} the recorded tokens of {counted(count, 'answer')}")
    words = " ".join(parts) + "."
    if here := len(preview.here):
        is_one = here == 1
        words += f" {here:,} of them {'is' if is_one else 'are'} here already."
    return words


def _damage(preview: ImportPreview) -> str:
    damaged = preview.found.damaged
    if not damaged:
        return ""
    named = "\n".join(f"• {words}" for words in damaged[:_MOST_DAMAGED])
    more = len(damaged) - _MOST_DAMAGED
    tail = f"\n• and {counted(more, 'more part')}" if more > 0 else ""
    verb = "is" if len(damaged) == 1 else "are"
    parts = f"{counted(len(damaged), 'part')} {verb} damaged"
    return f"{parts} and left out:\n{named}{tail}"

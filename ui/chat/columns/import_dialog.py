"""Shows the conversations in a file, and asks which of them to import. Main thread."""

from collections.abc import Callable, Sequence
from datetime import datetime

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QListWidget,
    QListWidgetItem,
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
from ui.records.exchange.found import ListedConversation

_WIDTH_PX, _LIST_PX = 480, 220
_MOST_DAMAGED = 5
Take = Callable[[Sequence[ListedConversation], str], object]


class ImportDialog(QDialog):
    """Lists the conversations of the file with check boxes; those already here are optional.

    Args:
        theme: The look.
        preview: The contents of the file.
        take: Called with the chosen conversations, and the name of a folder for them or "".
        parent: The window that it belongs to.
    """

    def __init__(self, theme: Theme, preview: ImportPreview, take: Take, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Import Conversations")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._preview = preview
        self._take = take
        program = preview.found.program
        self.words = label(_sentence(preview), is_wrapped=True)
        self.list = QListWidget()
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
        self.list.itemChanged.connect(self._count)
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
        shown = self._shown()
        rows = range(self.list.count())
        return [
            shown[row] for row in rows if self.list.item(row).checkState() is Qt.CheckState.Checked
        ]

    def focusNextPrevChild(self, is_next: bool) -> bool:  # noqa: N802 - Qt's name
        """Move the focus by Tab in reading order."""
        return move_focus(self, is_next)

    def _shown(self) -> list[ListedConversation]:
        copies = self._preview.here if self.copies.isChecked() else []
        return [*self._preview.new, *copies]

    def _fill(self) -> None:
        self.list.blockSignals(True)
        self.list.clear()
        for one in self._shown():
            said = counted(one.messages, "message")
            item = QListWidgetItem(f"{one.title}  ·  {said}, {_day(one.updated_at)}")
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsUserCheckable)
            item.setCheckState(Qt.CheckState.Checked)
            self.list.addItem(item)
        self.list.blockSignals(False)
        self._count()

    def _count(self) -> None:
        count = len(self.wanted())
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

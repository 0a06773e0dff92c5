"""The dialog that chooses which conversations of a file are imported. Main thread."""

from PySide6.QtCore import (
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSignalBlocker,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QColor, QPainter, QStandardItem, QStandardItemModel
from PySide6.QtWidgets import (
    QCheckBox,
    QListView,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine.wording import counted
from ui.chat.session.transfers import Transfers
from ui.kit.buttons import push_button
from ui.kit.dates import format_day
from ui.kit.labels import label, thin_bar
from ui.kit.layouts import STRETCH, column, row
from ui.kit.theme import current_theme
from ui.kit.windows import OwnDialog
from ui.records.exchange.archive import OURS
from ui.records.exchange.contents import FileContents, ListedConversation

Index = QModelIndex | QPersistentModelIndex
_ROW_PX = 32
_ABOUT = Qt.ItemDataRole.UserRole
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter


class _RowDelegate(QStyledItemDelegate):
    """Draws a title, and at the right how long and how old its conversation is."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        about, area = str(index.data(_ABOUT)), QRect(option.rect)
        if isinstance(view := option.widget, QListView):  # an item is as wide as the widest title
            area.setRight(view.viewport().width() - 4)
        width = option.fontMetrics.horizontalAdvance(about)
        option.rect = area.adjusted(0, 0, -width - 24, 0)
        super().paint(painter, option, index)
        painter.setPen(QColor(current_theme().colors.muted))
        painter.drawText(area.adjusted(0, 0, -8, 0), _RIGHT, about)


class ImportDialog(OwnDialog):
    """Lists the conversations of a file with check boxes; known ones are optional."""

    chosen = Signal(list, str)  # conversations, folder name or ""

    def __init__(self, contents: FileContents, transfers: Transfers, parent: QWidget) -> None:
        super().__init__("Import Conversations", parent)
        self._contents, self._transfers = contents, transfers
        self._is_importing = False
        heading = f"{counted(len(contents.listed), 'Conversation')} from {contents.program}"
        self.heading = label(heading, "title", 1.08, is_wrapped=True)
        self.summary = label(_summary(contents), "muted", is_wrapped=True)
        self.rows = QStandardItemModel(self)
        self.list = QListView()
        self.list.setModel(self.rows)
        self.list.setItemDelegate(_RowDelegate(self.list))
        self.list.setUniformItemSizes(True)
        self.list.setLayoutMode(QListView.LayoutMode.Batched)
        self.list.setProperty("kind", "rows")
        self.list.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        self.list.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.list.setAccessibleName("Conversations to import")
        self.every = QCheckBox("All of these conversations")
        self.copies = QCheckBox("Also import conversations that are already here, as copies")
        self.copies.setVisible(bool(contents.here))
        self.folder = QCheckBox(f"Import into folder “{contents.program}”")
        self.folder.setVisible(contents.program != OURS)
        self.damage = label(contents.damage_sentence, "fault", 0.95, is_wrapped=True)
        self.damage.setVisible(bool(contents.damaged))
        self.left_out = label(contents.left_out_sentence, "muted", 0.95, is_wrapped=True)
        self.left_out.setVisible(bool(contents.left_out_sentence))
        self.progress = thin_bar("Progress of the import")
        self.progress.hide()
        transfers.changed.connect(self._show_progress)
        transfers.ended.connect(self._end)
        self.cancel_button = push_button("Cancel")
        self.accept_button = push_button("Import", kind="primary")
        self.accept_button.setDefault(True)
        self.accept_button.clicked.connect(self.accept)
        self.cancel_button.clicked.connect(self.reject)
        self.every.clicked.connect(self._check_all)
        self.copies.toggled.connect(self._fill)
        self.rows.itemChanged.connect(self._refresh)
        notes = (self.damage, self.left_out, self.progress)
        column(
            column(self.heading, self.summary, spacing=4),
            self.every,
            self.list,
            column(self.copies, self.folder, spacing=8),
            *notes,
            STRETCH,
            row(STRETCH, self.cancel_button, self.accept_button, spacing=8),
            spacing=12,
            margins=(24, 20, 24, 16),
            on=self,
        )
        self.setMinimumWidth(560)
        self._fill()
        self.accept_button.setFocus()

    def accept(self) -> None:
        """Begin the import; the dialog stays until its end, and Cancel ends it."""
        program = self._contents.program
        for control in (self.every, self.list, self.copies, self.folder, self.accept_button):
            control.setEnabled(False)
        self._is_importing = True
        self.progress.show()
        self.chosen.emit(self.checked(), program if self.folder.isChecked() else "")

    def reject(self) -> None:
        if self._is_importing:
            self._transfers.cancel()
        else:
            super().reject()

    def _show_progress(self) -> None:
        now = self._transfers.now
        if self._is_importing and now is not None:
            self.summary.setText(now.position)
            self.progress.setRange(0, now.total if now.total > 1 else 0)
            self.progress.setValue(now.done)

    def _end(self) -> None:
        if self._is_importing:
            super().accept()

    def _fill(self) -> None:
        copies = self._contents.here if self.copies.isChecked() else []
        self._listed = [*self._contents.new, *copies]
        self.rows.clear()
        for conversation in self._listed:
            messages = counted(conversation.messages, "message")
            about = f"{messages} · {format_day(conversation.updated_at)}"
            item = QStandardItem(conversation.title)
            item.setData(about, _ABOUT)
            item.setAccessibleText(f"{conversation.title}, {about}")
            item.setEditable(False)
            item.setSizeHint(QSize(0, _ROW_PX))
            item.setCheckable(True)
            item.setCheckState(Qt.CheckState.Checked)
            self.rows.appendRow(item)
        self.list.setFixedHeight(min(max(len(self._listed), 3), 9) * _ROW_PX + 12)
        self._refresh()

    def _check_all(self, are_checked: bool) -> None:
        with QSignalBlocker(self.rows):
            for number in range(self.rows.rowCount()):
                state = Qt.CheckState.Checked if are_checked else Qt.CheckState.Unchecked
                self.rows.item(number).setCheckState(state)
        self.list.viewport().update()
        self._refresh()

    def checked(self) -> list[ListedConversation]:
        checked = Qt.CheckState.Checked
        pairs = enumerate(self._listed)
        return [one for at, one in pairs if self.rows.item(at).checkState() is checked]

    def _refresh(self) -> None:
        count, shown = len(self.checked()), self.rows.rowCount()
        self.every.setChecked(count == shown)
        self.every.setVisible(shown > 1)
        self.list.setVisible(shown > 0)
        self.accept_button.setText(
            f"Import {counted(count, 'Conversation')}" if count else "Import"
        )
        contents = self._contents
        is_bare = not contents.listed and bool(contents.folders)
        self.accept_button.setEnabled(bool(count or contents.presets or is_bare))


def _summary(contents: FileContents) -> str:
    """Return what else a file contains, and how much of it is here already."""
    parts = [contents.path.name]
    if contents.folders:
        parts.append(counted(len(contents.folders), "folder"))
    if contents.presets:
        parts.append(counted(len(contents.presets), "preset"))
    if count := len(contents.traces):
        parts.append(f"recorded tokens of {counted(count, 'answer')}")
    if here := len(contents.here):
        new = len(contents.listed) - here
        parts += [f"{new:,} new, {here:,} already here" if new else "all already here"]
    return " · ".join(parts)

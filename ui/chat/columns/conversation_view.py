"""The list widget of the sidebar: opening, choosing several, dragging into folders. Main thread."""

from PySide6.QtCore import QItemSelectionModel, QModelIndex, QPersistentModelIndex, Qt, Signal
from PySide6.QtGui import (
    QDrag,
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
)
from PySide6.QtWidgets import QAbstractItemView, QListView

from ui.chat.history.sidebar_rows import MIME, FolderHead, SidebarRows
from ui.kit.controls.typing import is_typed_text
from ui.records.conversations import Conversation, ConversationFolder

Index = QModelIndex | QPersistentModelIndex
_KEYS = Qt.Key
_SEVERAL = Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.ShiftModifier


class ConversationView(QListView):
    """A list that opens the selected row, renames on F2 or a double click, and accepts drops.

    Shift and Ctrl (⌘) select several conversations without opening one.

    Signals:
        opened: A person opened a conversation; carries the ``Conversation``.
        delete_wanted: Delete or Backspace was pressed.
        dropped: Conversations were dragged; carries them and the folder, or None for no folder.
    """

    opened = Signal(object)
    delete_wanted = Signal()
    dropped = Signal(list, object)

    def __init__(self, rows: SidebarRows) -> None:
        super().__init__()
        self._rows = rows
        self.setModel(rows)
        self.setObjectName("conversation_list")
        self.setAccessibleName("Conversations")
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setDragDropMode(QAbstractItemView.DragDropMode.DragDrop)
        self.setDropIndicatorShown(False)  # the folder is marked instead
        self.setMouseTracking(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._follows_model = False
        self._was_key = False
        self._takes: ConversationFolder | None = None

    @property
    def is_walked(self) -> bool:
        """Whether a person moves through the rows with the keyboard, or has selected several."""
        return (self._was_key and self.hasFocus()) or len(self.chosen()) > 1

    @property
    def taking_folder(self) -> ConversationFolder | None:
        """The folder that a drop would put the dragged conversations into."""
        return self._takes

    def chosen(self) -> list[Conversation]:
        """Return the selected conversations, in the order of the list."""
        return self._rows.conversations_at(self.selectionModel().selectedIndexes())

    def current_folder(self) -> ConversationFolder | None:
        """Return the folder whose row is the current one."""
        index = self.currentIndex()
        row = self._rows.at(index.row()) if index.isValid() else None
        return row.folder if isinstance(row, FolderHead) else None

    def show_current(self, index: QModelIndex) -> None:
        """Make a row the current one without opening it; a selection of several rows stays."""
        if len(self.chosen()) > 1 and self.selectionModel().isSelected(index):
            return
        self._follows_model = True
        selection, alone = self.selectionModel(), QItemSelectionModel.SelectionFlag.ClearAndSelect
        if not index.isValid():
            selection.clearSelection()
        elif self.current_folder() is not None:
            selection.select(index, alone)
        else:
            # The list's own way would toggle the row while Ctrl is held, as in Ctrl+N.
            selection.setCurrentIndex(index, alone)
        self._follows_model = False

    def rowsAboutToBeRemoved(  # noqa: N802 - Qt's name
        self, parent: Index, start: int, end: int
    ) -> None:
        """Leave a row that is removed; the workspace decides which conversation to open instead."""
        self._follows_model = True
        super().rowsAboutToBeRemoved(parent, start, end)
        self._follows_model = False

    def currentChanged(self, current: Index, previous: Index) -> None:
        """Open the conversation of the current row."""
        super().currentChanged(current, previous)
        if not current.isValid() or self._follows_model or self._chooses_several():
            return
        row = self._rows.at(current.row())
        if isinstance(row, Conversation):
            self.opened.emit(row)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Note that the mouse is used, not the keyboard; open or close a folder."""
        self._was_key = False
        self._modifiers = event.modifiers()
        super().mousePressEvent(event)
        index = self.indexAt(event.position().toPoint())
        row = self._rows.at(index.row()) if index.isValid() else None
        if isinstance(row, FolderHead) and event.button() is Qt.MouseButton.LeftButton:
            self._rows.toggle(row.folder)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Open the clicked row if several were selected before."""
        super().mouseReleaseEvent(event)
        self._modifiers = Qt.KeyboardModifier.NoModifier

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete rows and fold folders by keyboard; leave letters to the composer."""
        self._was_key = True
        folder = self.current_folder()
        closes = event.key() == _KEYS.Key_Left
        if event.matches(QKeySequence.StandardKey.Delete) or event.key() == _KEYS.Key_Backspace:
            self.delete_wanted.emit()
        elif folder is not None and event.key() in (_KEYS.Key_Return, _KEYS.Key_Enter):
            self._rows.toggle(folder)
        elif folder is not None and event.key() in (_KEYS.Key_Left, _KEYS.Key_Right):
            if folder.is_open == closes:
                self._rows.toggle(folder)
        elif is_typed_text(event):
            event.ignore()
        else:
            self._modifiers = event.modifiers()
            super().keyPressEvent(event)
            self._modifiers = Qt.KeyboardModifier.NoModifier

    # -- dragging --------------------------------------------------------------------------

    def startDrag(self, supportedActions: Qt.DropAction) -> None:  # noqa: N802,N803 - Qt's names
        """Drag the selected conversations."""
        if chosen := self.chosen():
            drag = QDrag(self)
            drag.setMimeData(self._rows.carried(chosen))
            drag.exec(Qt.DropAction.MoveAction)
            self._mark(None)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept conversations only."""
        if event.mimeData().hasFormat(MIME):
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """Mark the folder below the mouse."""
        super().dragMoveEvent(event)  # this scrolls at the edges
        if event.mimeData().hasFormat(MIME):
            self._mark(self._rows.folder_at(self.indexAt(event.position().toPoint())))
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """Remove the mark from the folder."""
        super().dragLeaveEvent(event)
        self._mark(None)

    def dropEvent(self, event: QDropEvent) -> None:
        """Put the conversations into the folder below the mouse, or out of their folder."""
        if event.mimeData().hasFormat(MIME):
            folder = self._rows.folder_at(self.indexAt(event.position().toPoint()))
            event.setDropAction(Qt.DropAction.MoveAction)
            event.accept()
            self._mark(None)
            self.dropped.emit(self._rows.dropped(event.mimeData()), folder)

    # -- inside ----------------------------------------------------------------------------

    _modifiers = Qt.KeyboardModifier.NoModifier

    def _chooses_several(self) -> bool:
        return bool(self._modifiers & _SEVERAL)

    def _mark(self, folder: ConversationFolder | None) -> None:
        if folder != self._takes:
            self._takes = folder
            self.viewport().update()

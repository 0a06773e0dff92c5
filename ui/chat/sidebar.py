"""The list of conversations with its search, folders and orders. Main thread."""

import functools
import re
from dataclasses import replace

from PySide6.QtCore import (
    QItemSelection,
    QItemSelectionModel,
    QModelIndex,
    QPoint,
    QRect,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import (
    QColor,
    QDrag,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
)
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialogButtonBox,
    QFrame,
    QLineEdit,
    QListView,
    QWidget,
)

from engine.wording import counted
from ui.chat.conversation_actions import ConversationActions
from ui.chat.file_dialogs import FileDialogs
from ui.chat.folder_documents import FolderDocumentsDialog
from ui.chat.search_box import SearchResults
from ui.chat.session.workspace import Workspace
from ui.chat.sidebar_rows import ConversationDelegate, SidebarRows
from ui.kit.buttons import IconButton, UndoBar, push_button, with_keys
from ui.kit.commands import Command, Entry, context_menu
from ui.kit.fields import ListSearchField, TextArea, is_typed_text
from ui.kit.icon_engine import themed_icon
from ui.kit.labels import label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.theme import HEAD_PX, current_theme
from ui.kit.windows import OwnDialog
from ui.models.download_row import DownloadRow
from ui.records.conversations import Conversation, ConversationFolder
from ui.server.local_server import LocalServerState
from ui.server.server_row import ServerRow
from ui.stops.stop_list import StopListModel
from ui.stops.stop_list_editor import StopListEditor

_KEYS = Qt.Key
_NOTICE_CHARS = 40
"""Used by ``_shorten_names``: the characters beside *Undo* in the narrow sidebar."""


class FolderDialog(OwnDialog):
    """Edits a folder; the conversations in it stay unchanged."""

    def __init__(self, folder: ConversationFolder, workspace: Workspace, parent: QWidget) -> None:
        super().__init__("Folder Settings", parent)
        self._folder = folder
        self._folders = workspace.conversations.folders
        self.name = QLineEdit(folder.name)
        self.name.setAccessibleName("Folder name")
        self.prompt = TextArea(
            "System prompt of new conversations in the folder",
            "Same as default",
            96,
            folder.system_prompt,
        )
        self.stops = StopListModel(list(folder.stops), self)
        self.editor = StopListEditor(workspace.stop_lists)
        self.editor.show_model(self.stops)
        buttons = QDialogButtonBox(
            QDialogButtonBox.StandardButton.Save | QDialogButtonBox.StandardButton.Cancel
        )
        buttons.button(QDialogButtonBox.StandardButton.Save).setProperty("kind", "primary")
        buttons.accepted.connect(self.accept)
        buttons.rejected.connect(self.reject)
        hint = "New conversations in this folder begin with these. Existing ones do not change."
        column(
            label("Name"),
            self.name,
            label("System prompt"),
            self.prompt,
            label("Stop sequences"),
            (self.editor, 1),
            label(hint, "faint", 0.92, is_wrapped=True),
            buttons,
            spacing=8,
            margins=(18, 16, 18, 16),
            on=self,
        )
        self.setMinimumWidth(460)
        self.name.selectAll()

    def accept(self) -> None:
        # A stop sequence that was typed but not added yet belongs to the list.
        if self.editor.input.text():
            self.editor.add_typed()
            if self.editor.input.text():
                return  # the typed sequence is invalid; the editor shows the reason
        name = " ".join(self.name.text().split()) or self._folder.name
        prompt, stops = self.prompt.text, tuple(self.stops.entries())
        self._folders.keep(replace(self._folder, name=name, system_prompt=prompt, stops=stops))
        super().accept()


class ConversationView(QListView):
    """A list that opens the selected row, renames on F2 or a double click, and accepts drops.

    Shift and Ctrl (⌘) select several conversations, of which none is opened.
    """

    selected = Signal(object)  # the Conversation, if it is the only one
    delete_requested = Signal()

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
        self.setDragDropOverwriteMode(True)  # a drop is on a row, never between two
        self.setDropIndicatorShown(False)  # the frame of the target is its own
        self._drop_area = QRect()
        self.setMouseTracking(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)  # the right button leaves it where it is
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)

    @property
    def is_walked(self) -> bool:
        """Whether the user moves through the rows with the keyboard, or has selected several."""
        return self.hasFocus() or len(self.chosen()) > 1

    def resizeEvent(self, event: QResizeEvent) -> None:
        current = self.currentIndex()
        was_seen = QRect(QPoint(), event.oldSize()).contains(self.visualRect(current))
        super().resizeEvent(event)
        if was_seen and current.isValid():
            self.scrollTo(current)

    def startDrag(self, actions: Qt.DropAction) -> None:  # noqa: N802 - Qt's name
        """Drag a name beside the pointer, where it does not cover that of the target."""
        chosen, metrics = self.chosen(), self.fontMetrics()
        text = chosen[0].title if len(chosen) == 1 else counted(len(chosen), "conversation")
        text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, self.width() // 2)
        size, ratio = QSize(metrics.horizontalAdvance(text) + 24, 28), self.devicePixelRatioF()
        image = QPixmap(size * ratio)
        image.setDevicePixelRatio(ratio)
        image.fill(Qt.GlobalColor.transparent)
        painter, colors = QPainter(image), current_theme().colors
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(self.font())
        painter.setPen(QColor(colors.accent))
        painter.setBrush(QColor(colors.accent_soft))
        area = QRect(QPoint(), size).adjusted(0, 0, -1, -1)
        painter.drawRoundedRect(area, 8, 8)
        painter.setPen(QColor(colors.text))
        painter.drawText(area, Qt.AlignmentFlag.AlignCenter, text)
        painter.end()
        drag = QDrag(self)
        drag.setMimeData(self._rows.mimeData(self.selectedIndexes()))
        drag.setPixmap(image)
        drag.setHotSpot(QPoint(-16, -18))
        drag.exec(actions)

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        super().dragMoveEvent(event)
        target = self._rows.folder_at(self.indexAt(event.position().toPoint()))
        areas = map(self.visualRect, self._rows.rows_of(target))
        self._show_drop(functools.reduce(QRect.united, areas, QRect()))

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        super().dragLeaveEvent(event)
        self._show_drop(QRect())

    def dropEvent(self, event: QDropEvent) -> None:
        super().dropEvent(event)
        self._show_drop(QRect())

    def _show_drop(self, area: QRect) -> None:
        if area != self._drop_area:
            self._drop_area = area
            self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Frame the folder, or the list outside folders, that takes the dragged rows."""
        super().paintEvent(event)
        painter = QPainter(self.viewport())
        if not self._rows.rowCount():
            painter.setPen(QColor(current_theme().colors.faint))
            area = self.viewport().rect().adjusted(18, 8, -18, 0)
            text = "Nothing archived" if self._rows.shows_archive else "No conversations yet"
            painter.drawText(area, Qt.AlignmentFlag.AlignTop, text)
        if self._drop_area.isValid():
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(QPen(QColor(current_theme().colors.accent), 2))
            delegate = self.itemDelegate()
            assert isinstance(delegate, ConversationDelegate)
            painter.drawRoundedRect(delegate.ground(self._drop_area).adjusted(1, 1, -1, -1), 8, 8)
        painter.end()

    def chosen(self) -> list[Conversation]:
        return self._rows.conversations_at(self.selectionModel().selectedIndexes())

    def current_folder(self) -> ConversationFolder | None:
        index = self.currentIndex()
        row = self._rows.at(index.row()) if index.isValid() else None
        return row if isinstance(row, ConversationFolder) else None

    def show_current(self, index: QModelIndex) -> None:
        """Make a row the current one; a selection of several rows stays."""
        if len(self.chosen()) > 1 and self.selectionModel().isSelected(index):
            return
        selection, alone = self.selectionModel(), QItemSelectionModel.SelectionFlag.ClearAndSelect
        if not index.isValid():
            selection.clearSelection()
        elif self.current_folder() is not None:
            selection.select(index, alone)
        else:
            # The list's own way would toggle the row while Ctrl is held, as in Ctrl+N.
            selection.setCurrentIndex(index, alone)

    def selectionChanged(  # noqa: N802 - Qt's name
        self, selected: QItemSelection, deselected: QItemSelection
    ) -> None:
        super().selectionChanged(selected, deselected)
        chosen = self.chosen()
        if len(chosen) == 1:
            self.selected.emit(chosen[0])

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Open or close a folder, too; the right button only opens the menu."""
        if event.button() is Qt.MouseButton.RightButton:
            return
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        position = event.position().toPoint()
        index = self.indexAt(position)
        row = self._rows.at(index.row()) if index.isValid() else None
        delegate = self.itemDelegate()
        if (
            isinstance(delegate, ConversationDelegate)
            and isinstance(row, Conversation | ConversationFolder)
            and delegate.more_area(self.visualRect(index)).contains(position)
        ):
            self.customContextMenuRequested.emit(position)
            return
        super().mousePressEvent(event)
        if isinstance(row, ConversationFolder) and event.button() is Qt.MouseButton.LeftButton:
            self._rows.toggle(row)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if self.state() == QAbstractItemView.State.EditingState:
            return  # the Return that ends a name is not for the current folder
        folder = self.current_folder()
        closes = event.key() == _KEYS.Key_Left
        if event.matches(QKeySequence.StandardKey.Delete) or event.key() == _KEYS.Key_Backspace:
            self.delete_requested.emit()
        elif folder is not None and event.key() in (_KEYS.Key_Return, _KEYS.Key_Enter):
            self._rows.toggle(folder)
        elif folder is not None and event.key() in (_KEYS.Key_Left, _KEYS.Key_Right):
            if folder.is_open == closes:
                self._rows.toggle(folder)
        elif is_typed_text(event):
            event.ignore()
        else:
            super().keyPressEvent(event)


class Sidebar(QFrame):
    """Creates, opens, finds and organizes conversations; every change can be undone."""

    writing_requested = Signal()
    changing = Signal()  # before it is shown or hidden
    opened = Signal()
    closed = Signal()

    def __init__(self, workspace: Workspace, files: FileDialogs, server: LocalServerState) -> None:
        super().__init__()
        self.setObjectName("sidebar")
        self._workspace = workspace
        self.rows = SidebarRows(workspace.conversations, self)
        self.list = ConversationView(self.rows)
        self.conversation_actions = ConversationActions(workspace, files, self)
        self.archive = QWidget()
        done = IconButton("close", "Done")
        done.clicked.connect(lambda: self.rows.show_archive(False))
        row(
            label("Archived conversations", "muted", 0.95),
            STRETCH,
            done,
            margins=(18, 0, 8, 4),
            on=self.archive,
        )
        self.archive.hide()
        self.list.setItemDelegate(ConversationDelegate(self.list))
        self.search_field = ListSearchField("Search conversations", "Clear Search")
        self.search_field.setPlaceholderText("Search")
        self.search_field.setMinimumHeight(32)
        self.search_field.setToolTip(with_keys("Search conversations", "Ctrl+Alt+F"))
        self.results = SearchResults(workspace.search, workspace.conversations)
        self.undo_bar = UndoBar()
        self.downloads = DownloadRow(workspace.library.downloads)
        self.server = ServerRow(server)
        new = push_button("\u2002New Chat", "New Chat", "wide")
        new.setIcon(themed_icon("plus", "text"))
        new.clicked.connect(lambda: workspace.new_conversation())
        new.clicked.connect(self.writing_requested)
        keys = label(with_keys("", "Ctrl+N").strip(" ()"), "faint", 0.92)
        keys.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        row(STRETCH, keys, margins=(0, 0, 10, 0), on=new)
        head = row(new, margins=(8, 0, 8, 0))
        head.addStrut(HEAD_PX)
        column(
            head,
            row(self.search_field, margins=(8, 0, 8, 8)),
            self.archive,
            (self.list, 1),
            (self.results, 1),
            self.undo_bar,
            self.downloads,
            self.server,
            spacing=0,
            on=self,
        )
        self._connect_signals()
        self._show_current()
        self._show_search()

    def minimumSizeHint(self) -> QSize:
        return super().minimumSizeHint().expandedTo(QSize(200, 0))

    def setVisible(self, is_visible: bool) -> None:  # noqa: N802 - Qt's name
        self.changing.emit()
        super().setVisible(is_visible)
        (self.opened if is_visible else self.closed).emit()

    def toggle(self) -> None:
        """Show or hide the sidebar."""
        self.setVisible(not self.isVisible())

    def search(self) -> None:
        self.show()
        self.search_field.setFocus()
        self.search_field.selectAll()

    def rename(self, row: Conversation | ConversationFolder) -> None:
        """Edit the title of a conversation, or the name of a folder, in its row."""
        self.show()
        self.search_field.clear()
        is_archived = isinstance(row, Conversation) and row.placement.is_archived
        self.rows.show_archive(is_archived)  # only listed rows are edited
        folders = self._workspace.conversations.folders
        folder = folders.of(row) if isinstance(row, Conversation) else None
        if folder is not None and not folder.is_open:
            self.rows.toggle(folder)
        index = self.rows.index_of(row)
        self.list.scrollTo(index)
        self.list.edit(index)

    def chosen(self) -> list[Conversation]:
        """Return the selected conversations, or else the current one."""
        several = self.list.chosen()
        return several if len(several) > 1 else [self._workspace.selected]

    def _delete_at_keyboard(self) -> None:
        if (folder := self.list.current_folder()) is not None:
            self._workspace.conversations.delete_folder(folder)
        else:
            self._workspace.delete(*self.chosen())

    def edit_folder(self, folder: ConversationFolder) -> None:
        FolderDialog(folder, self._workspace, self.window()).open()

    def edit_documents(self, folder: ConversationFolder) -> None:
        FolderDocumentsDialog(folder, self._workspace.store, self.window()).open()

    def _connect_signals(self) -> None:
        conversations = self._workspace.conversations
        self.list.selected.connect(self._open)
        self.rows.dropped.connect(self.conversation_actions.move)
        self.conversation_actions.rename_requested.connect(self.rename)
        self.list.delete_requested.connect(self._delete_at_keyboard)
        self.list.clicked.connect(self._write_in)
        self.list.activated.connect(self._write_in)
        self.list.customContextMenuRequested.connect(self._show_menu)
        self.search_field.textChanged.connect(self._workspace.search.look_for)
        self.search_field.step_requested.connect(lambda _: self.results.enter())
        self.search_field.chosen.connect(self.results.enter)
        self.search_field.left.connect(self.search_field.clear)
        self._workspace.search.changed.connect(self._show_search)
        self.results.chosen.connect(
            lambda hit: self._workspace.open_at(hit.conversation_id, hit.message_id)
        )
        self.results.list.activated.connect(self._write_at)
        self.results.left.connect(self.search_field.setFocus)
        self._workspace.selection_changed.connect(self._show_current)
        self.rows.layoutChanged.connect(self._show_current)
        self.rows.filtered.connect(self._show_archive)
        conversations.undoable.connect(
            lambda text: self.undo_bar.offer(_shorten_names(text), conversations.undo_last)
        )
        conversations.undone.connect(self.undo_bar.hide)

    def _show_archive(self) -> None:
        search, in_archive = self._workspace.search, self.rows.shows_archive
        self.archive.setVisible(in_archive)
        self.search_field.setPlaceholderText("Search Archive" if in_archive else "Search")
        search.narrow(replace(search.filter, in_archive=in_archive))

    def _open(self, conversation: Conversation) -> None:
        if conversation is not self._workspace.selected:
            self._workspace.open(conversation)

    def _write_in(self, index: QModelIndex) -> None:
        if isinstance(self.rows.at(index.row()), Conversation) and len(self.list.chosen()) < 2:
            self.writing_requested.emit()

    def _show_current(self) -> None:
        self.rows.mark_open(self._workspace.selected)
        self.list.show_current(self.rows.index_of(self._workspace.selected))
        self.list.viewport().update()  # also the row of a folder

    def _show_search(self) -> None:
        is_searching = self._workspace.search.is_active
        self.list.setVisible(not is_searching)
        self.results.setVisible(is_searching)

    def _write_at(self, index: QModelIndex) -> None:
        if self._workspace.search.hit_at(index.row()) is not None:
            self.writing_requested.emit()

    def _show_menu(self, position: QPoint) -> None:
        index = self.list.indexAt(position)
        entries: list[Entry]
        if not index.isValid():
            entries = [Command("&New Folder", self.conversation_actions.new_folder)]
        elif isinstance(row := self.rows.at(index.row()), Conversation):
            chosen = self.list.chosen()
            targets = chosen if row in chosen else [row]
            entries = self.conversation_actions.entries(lambda: targets)
        elif isinstance(row, ConversationFolder):
            entries = self._folder_entries(row)
        else:
            return
        menu = context_menu(self, "Conversations", entries)
        menu.popup(self.list.viewport().mapToGlobal(position))

    def _folder_entries(self, folder: ConversationFolder) -> list[Entry]:
        conversations = self._workspace.conversations
        return [
            Command("New &Chat in Folder", lambda: self._begin_in(folder)),
            Command("&New Folder", self.conversation_actions.new_folder),
            None,
            Command("Re&name", lambda: self.rename(folder)),
            Command("Folder &Settings…", lambda: self.edit_folder(folder)),
            Command("&Documents…", lambda: self.edit_documents(folder)),
            Command(
                "Allow &Memory",
                lambda: conversations.folders.keep(
                    replace(folder, has_memory=not folder.has_memory)
                ),
                checked=folder.has_memory,
            ),
            None,
            Command("&Delete Folder", lambda: conversations.delete_folder(folder)),
        ]

    def _begin_in(self, folder: ConversationFolder) -> None:
        if not folder.is_open:
            self.rows.toggle(folder)
        self._workspace.new_conversation(folder)
        self.writing_requested.emit()


def _shorten_names(text: str) -> str:
    """Return a notice with its names cut, the longest first."""
    for name in sorted(re.findall("“([^”]*)”", text), key=len, reverse=True):
        kept = max(10, len(name) - 1 - max(0, len(text) - _NOTICE_CHARS))
        if len(text) > _NOTICE_CHARS and kept + 1 < len(name):
            text = text.replace(f"“{name}”", f"“{name[:kept].rstrip()}…”", 1)
    return text

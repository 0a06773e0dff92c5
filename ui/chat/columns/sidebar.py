"""The list of conversations, with the server's switch below. Main thread."""

from PySide6.QtCore import QModelIndex, QPoint, QSize, Signal
from PySide6.QtGui import QFont
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QVBoxLayout, QWidget

from ui.chat.columns.archive_head import ArchiveHead
from ui.chat.columns.conversation_view import ConversationView
from ui.chat.columns.folder_dialog import FolderDialog
from ui.chat.columns.order_menu import Ordering
from ui.chat.columns.tag_bar import TagBar
from ui.chat.history.conversation_delegate import ConversationDelegate
from ui.chat.history.search_box import SearchField, SearchResults
from ui.chat.history.sidebar_rows import SidebarRows
from ui.chat.session.workspace import Workspace
from ui.kit.controls.buttons import IconButton
from ui.kit.look.theme import HEAD_PX, Theme
from ui.kit.system.menus import add_entry, passing_menu
from ui.kit.text.labels import label
from ui.kit.text.undo_bar import UndoBar
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.store import Hit
from ui.server.server_switch import ServerCard

_LEAST_PX = 190


class Sidebar(QFrame):
    """The sidebar: creates, opens, finds and organizes conversations; every change can be undone.

    Signals:
        export_wanted: A person wants to export conversations; carries them.
        writing_wanted: A person opened or began a conversation to write in it.
    """

    export_wanted = Signal(list)
    writing_wanted = Signal()

    def __init__(self, theme: Theme, workspace: Workspace) -> None:
        super().__init__()
        self.setObjectName("sidebar")
        self._workspace = workspace
        self.theme = theme
        self.rows = SidebarRows(workspace.conversations, self)
        self.list = ConversationView(self.rows)
        self.ordering = Ordering(workspace.conversations, self)
        self.tags = TagBar(workspace.conversations, self.rows)
        self.archive = ArchiveHead(theme, self.rows)
        self.list.setItemDelegate(ConversationDelegate(theme, self.list))
        self.search_field = SearchField(theme, workspace.search)
        self.results = SearchResults(theme, workspace.search)
        self.undo_bar = UndoBar()
        self.server = ServerCard(theme, workspace.server)
        new = IconButton(theme, "plus", "New conversation (Ctrl+N)", color="text", size=20)
        new.clicked.connect(lambda: workspace.new_conversation())
        new.clicked.connect(self.writing_wanted)
        head = QHBoxLayout()
        head.setContentsMargins(16, 0, 10, 0)
        head.addWidget(label("Conversations", "title", 1.0, weight=QFont.Weight.DemiBold))
        head.addStretch(1)
        head.addWidget(new)
        head_frame = QWidget()
        theme.follow(head_frame, lambda: head_frame.setFixedHeight(theme.gap(HEAD_PX)))
        head_frame.setLayout(head)
        self._hint = label(
            "Your conversations appear here. The first question becomes the title.",
            "faint",
            0.94,
            is_wrapped=True,
        )
        self._hint.setContentsMargins(16, 4, 16, 4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(0)
        field = QHBoxLayout()
        field.setContentsMargins(12, 0, 12, 8)
        field.addWidget(self.search_field)
        layout.addWidget(head_frame)
        layout.addLayout(field)
        layout.addWidget(self.tags)
        layout.addWidget(self.archive)
        layout.addWidget(self.list, 1)
        layout.addWidget(self.results, 1)
        layout.addWidget(self._hint)
        layout.addWidget(self.undo_bar)
        layout.addWidget(self.server)
        self._connect_signals()
        self._show_current()
        self._show_search()

    def minimumSizeHint(self) -> QSize:
        """Return a width at which titles can be distinguished and all controls fit."""
        return super().minimumSizeHint().expandedTo(QSize(_LEAST_PX, 0))

    def search(self) -> None:
        """Begin a search: put the caret into the search field."""
        self.show()
        self.search_field.setFocus()
        self.search_field.selectAll()

    def rename_current(self) -> None:
        """Edit the selected conversation's title in place."""
        self.show()
        self.search_field.clear()
        self.list.edit(self.rows.index_of(self._workspace.selected))

    def chosen(self) -> list[Conversation]:
        """Return the selected conversations, or else the current one."""
        several = self.list.chosen()
        return several if len(several) > 1 else [self._workspace.selected]

    def delete_current(self) -> None:
        """Delete the selected conversations, even while one is still being loaded."""
        self._workspace.delete(*self.chosen())

    def _delete_at_keyboard(self) -> None:
        if (folder := self.list.current_folder()) is not None:
            self._workspace.conversations.delete_folder(folder)
        else:
            self.delete_current()

    def fill_order(self, menu: QMenu) -> None:
        """Add the entries that organize the selected conversations."""
        self.ordering.fill(menu, self.chosen())

    def new_folder(self) -> None:
        """Ask for a name and make a folder."""
        self.ordering.new_folder()

    def edit_folder(self, folder: ConversationFolder) -> None:
        """Show the dialog of a folder."""
        keep = self._workspace.conversations.folders.keep
        FolderDialog(self.theme, folder, keep, self.window()).open()

    def _connect_signals(self) -> None:
        conversations = self._workspace.conversations
        self.list.opened.connect(self._workspace.open)
        self.list.dropped.connect(self.ordering.move)
        self.tags.tagged.connect(self.ordering.tag)
        self.list.delete_wanted.connect(self._delete_at_keyboard)
        self.list.clicked.connect(self._write_in)
        self.list.activated.connect(self._write_in)
        self.list.customContextMenuRequested.connect(self._show_menu)
        self.search_field.entered.connect(self.results.enter)
        self._workspace.search.changed.connect(self._show_search)
        self.results.chosen.connect(self._show_hit)
        self.results.list.activated.connect(lambda _: self.writing_wanted.emit())
        self._workspace.selection_changed.connect(self._show_current)
        self.rows.rowsMoved.connect(self._show_current)
        self.rows.rowsInserted.connect(self._show_current)
        self.rows.rowsRemoved.connect(self._show_current)
        self.rows.modelReset.connect(self._show_current)
        self._workspace.answering_changed.connect(self._refresh_hint)
        conversations.undoable.connect(self.undo_bar.offer)
        conversations.undone.connect(self.undo_bar.hide)
        self.undo_bar.button.clicked.connect(conversations.undo_last)

    def _write_in(self, index: QModelIndex) -> None:
        if isinstance(self.rows.at(index.row()), Conversation) and len(self.list.chosen()) < 2:
            self.writing_wanted.emit()

    def _show_current(self) -> None:
        self.list.show_current(self.rows.index_of(self._workspace.selected))
        self._refresh_hint()

    def _refresh_hint(self) -> None:
        conversations = self._workspace.conversations
        said = any(conversations.at(r).has_messages for r in range(conversations.rowCount()))
        self._hint.setVisible(not said and not self._workspace.search.is_active)

    def _show_search(self) -> None:
        is_searching = self._workspace.search.is_active
        self.list.setVisible(not is_searching)
        self.tags.show_unless(is_searching)
        self.results.setVisible(is_searching)
        self._refresh_hint()

    def _show_hit(self, hit: Hit) -> None:
        self._workspace.open_at(hit.conversation_id, hit.message_id)

    def _show_menu(self, place: QPoint) -> None:
        index = self.list.indexAt(place)
        menu = passing_menu(self)
        if not index.isValid():
            add_entry(menu, "New Folder…", self.new_folder)
        elif isinstance(row := self.rows.at(index.row()), Conversation):
            chosen = self.list.chosen()
            self._fill_menu(menu, chosen if row in chosen else [row])
        else:
            self._fill_folder_menu(menu, row.folder)
        menu.popup(self.list.viewport().mapToGlobal(place))

    def _fill_menu(self, menu: QMenu, chosen: list[Conversation]) -> None:
        workspace, conversations = self._workspace, self._workspace.conversations
        if len(chosen) == 1:
            (one,) = chosen
            pin = "Unpin" if one.is_pinned else "Pin to the Top"
            add_entry(menu, "Rename", lambda: self.list.edit(self.rows.index_of(one)))
            add_entry(menu, pin, lambda: conversations.pin(one, not one.is_pinned))
            add_entry(menu, "Duplicate", lambda: workspace.files.duplicate(one))
        self.ordering.fill(menu, chosen)
        add_entry(menu, "Export…", lambda: self.export_wanted.emit(chosen))
        menu.addSeparator()
        add_entry(menu, "Delete", lambda: workspace.delete(*chosen))

    def _fill_folder_menu(self, menu: QMenu, folder: ConversationFolder) -> None:
        conversations = self._workspace.conversations
        add_entry(menu, "New Conversation Here", lambda: self._begin_in(folder))
        add_entry(menu, "Folder Settings…", lambda: self.edit_folder(folder))
        add_entry(menu, "New Folder…", self.new_folder)
        menu.addSeparator()
        add_entry(menu, "Delete Folder", lambda: conversations.delete_folder(folder))

    def _begin_in(self, folder: ConversationFolder) -> None:
        self._workspace.new_conversation(folder)
        self.writing_wanted.emit()

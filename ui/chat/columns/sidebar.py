"""The list of conversations, with the server's switch below. Main thread."""

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QListView,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from ui.chat.history.conversation_delegate import ConversationDelegate
from ui.chat.history.search_box import SearchField, SearchResults
from ui.chat.session.workspace import Workspace
from ui.kit.controls.buttons import IconButton
from ui.kit.controls.typing import is_typed_text
from ui.kit.look.theme import HEAD_PX, Theme
from ui.kit.system.menus import add_entry, passing_menu
from ui.kit.text.labels import ElidedLabel, label
from ui.records.conversations import Conversation
from ui.records.finding import Hit
from ui.server.server_card import ServerCard

_LEAST_PX = 190
_UNDO_SHOWN_MS = 10_000

Index = QModelIndex | QPersistentModelIndex


class Sidebar(QFrame):
    """New, open, search, rename, pin, copy and delete conversations; a deletion can be undone.

    Signals:
        export_wanted: A conversation is to be written to a file; carries it.
        writing_wanted: A conversation was picked, or a new one begun, to write in it.
    """

    export_wanted = Signal(object)
    writing_wanted = Signal()

    def __init__(self, theme: Theme, workspace: Workspace) -> None:
        super().__init__()
        self.setObjectName("sidebar")
        self._workspace = workspace
        self.list = _ConversationListView()
        self.list.setModel(workspace.conversations)
        self.list.setItemDelegate(ConversationDelegate(theme, self.list))
        self.search_field = SearchField(theme, workspace.search)
        self.results = SearchResults(theme, workspace.search)
        self.undo_bar = _UndoBar()
        self.server = ServerCard(theme, workspace.server)
        new = IconButton(theme, "plus", "New conversation (Ctrl+N)", color="text", size=20)
        new.clicked.connect(workspace.new_conversation)
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
        layout.addWidget(self.list, 1)
        layout.addWidget(self.results, 1)
        layout.addWidget(self._hint)
        layout.addWidget(self.undo_bar)
        layout.addWidget(self.server)
        self._connect_signals()
        self._show_current()
        self._show_search()

    def minimumSizeHint(self) -> QSize:
        """Return a width in which titles can be told apart, and in which all else fits."""
        return super().minimumSizeHint().expandedTo(QSize(_LEAST_PX, 0))

    def search(self) -> None:
        """Begin to search: show the field and put the caret into it."""
        self.show()
        self.search_field.setFocus()
        self.search_field.selectAll()

    def rename_current(self) -> None:
        """Edit the selected conversation's title in place."""
        self.show()
        self.search_field.clear()
        row = self._workspace.conversations.row_of(self._workspace.selected)
        self.list.edit(self._workspace.conversations.index(row))

    def delete_current(self) -> None:
        """Delete the selected conversation, also while it is still being loaded."""
        self._workspace.delete(self._workspace.selected)

    def _connect_signals(self) -> None:
        conversations = self._workspace.conversations
        self.list.opened.connect(lambda i: self._workspace.open(conversations.at(i.row())))
        self.list.delete_wanted.connect(self.delete_current)
        self.list.clicked.connect(self.writing_wanted)
        self.list.activated.connect(self.writing_wanted)
        self.list.customContextMenuRequested.connect(self._show_menu)
        self.search_field.entered.connect(self.results.enter)
        self._workspace.search.changed.connect(self._show_search)
        self.results.chosen.connect(self._show_hit)
        self._workspace.selection_changed.connect(self._show_current)
        conversations.rowsMoved.connect(self._show_current)
        conversations.rowsInserted.connect(self._show_current)
        conversations.rowsRemoved.connect(self._show_current)
        self._workspace.answering_changed.connect(self._refresh_hint)
        conversations.deleted.connect(self.undo_bar.offer)
        conversations.restored.connect(self.undo_bar.hide)
        self.undo_bar.button.clicked.connect(conversations.undo_delete)

    def _show_current(self) -> None:
        row = self._workspace.conversations.row_of(self._workspace.selected)
        if row >= 0:
            self.list.show_current(self._workspace.conversations.index(row))
        self._refresh_hint()

    def _refresh_hint(self) -> None:
        conversations = self._workspace.conversations
        said = any(conversations.at(r).has_messages for r in range(conversations.rowCount()))
        self._hint.setVisible(not said and not self._workspace.search.is_active)

    def _show_search(self) -> None:
        is_searching = self._workspace.search.is_active
        self.list.setVisible(not is_searching)
        self.results.setVisible(is_searching)
        self._refresh_hint()

    def _show_hit(self, hit: Hit) -> None:
        self._workspace.open_at(hit.conversation_id, hit.message_id)

    def _show_menu(self, place: QPoint) -> None:
        index = self.list.indexAt(place)
        if not index.isValid():
            return
        conversation: Conversation = self._workspace.conversations.at(index.row())
        workspace, conversations = self._workspace, self._workspace.conversations
        menu = passing_menu(self)
        pin = "Unpin" if conversation.is_pinned else "Pin to the top"
        add_entry(menu, "Rename", lambda: self.list.edit(index))
        add_entry(menu, pin, lambda: conversations.pin(conversation, not conversation.is_pinned))
        add_entry(menu, "Duplicate", lambda: workspace.files.duplicate(conversation))
        add_entry(menu, "Export…", lambda: self.export_wanted.emit(conversation))
        menu.addSeparator()
        add_entry(menu, "Delete", lambda: workspace.delete(conversation))
        menu.popup(self.list.viewport().mapToGlobal(place))


class _ConversationListView(QListView):
    """A list that opens on selection and renames on F2 or a double click.

    Signals:
        opened: Carries the index of the chosen row.
        delete_wanted: Delete or Backspace was pressed.
    """

    opened = Signal(QModelIndex)
    delete_wanted = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("conversation_list")
        self.setAccessibleName("Conversations")
        self.setEditTriggers(
            QAbstractItemView.EditTrigger.EditKeyPressed
            | QAbstractItemView.EditTrigger.DoubleClicked
        )
        self.setMouseTracking(True)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self._follows_model = False
        self._was_key = False

    @property
    def is_walked(self) -> bool:
        """Whether somebody goes from row to row with the keyboard."""
        return self._was_key and self.hasFocus()

    def show_current(self, index: QModelIndex) -> None:
        """Mark a row as the current one without opening it."""
        self._follows_model = True
        self.setCurrentIndex(index)
        self._follows_model = False

    def rowsAboutToBeRemoved(  # noqa: N802 - Qt's name
        self, parent: Index, start: int, end: int
    ) -> None:
        """Leave a row that is removed; the workspace decides which one is opened instead."""
        self._follows_model = True
        super().rowsAboutToBeRemoved(parent, start, end)
        self._follows_model = False

    def currentChanged(self, current: Index, previous: Index) -> None:
        """Open what was chosen."""
        super().currentChanged(current, previous)
        if current.isValid() and not self._follows_model:
            self.opened.emit(self.model().index(current.row(), 0))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Note that the mouse picks, not the keyboard."""
        self._was_key = False
        super().mousePressEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete with the keys meant for it; letters are for the composer."""
        self._was_key = True
        if event.matches(QKeySequence.StandardKey.Delete) or event.key() == Qt.Key.Key_Backspace:
            self.delete_wanted.emit()
        elif is_typed_text(event):
            event.ignore()
        else:
            super().keyPressEvent(event)


class _UndoBar(QFrame):
    """Says what was deleted and offers to undo that."""

    def __init__(self) -> None:
        super().__init__()
        card = QFrame()
        card.setObjectName("undo_bar")
        self._words = ElidedLabel()
        self.button = QPushButton("Undo")
        self.button.setAccessibleName("Undo the deletion")
        row = QHBoxLayout(card)
        row.setContentsMargins(12, 6, 6, 6)
        row.addWidget(self._words, 1)
        row.addWidget(self.button)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 4, 10, 10)
        layout.addWidget(card)
        self._timer = QTimer(self, singleShot=True, interval=_UNDO_SHOWN_MS)
        self._timer.timeout.connect(self.hide)
        self.hide()

    def offer(self, title: str) -> None:
        """Offer to undo a deletion for a while."""
        self._words.setText(f"Deleted “{title}”")
        self._words.setToolTip(title)
        self.show()
        self._timer.start()

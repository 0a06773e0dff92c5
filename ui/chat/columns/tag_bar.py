"""The tags in use, as buttons that filter the sidebar and accept dropped conversations.

Main thread.
"""

from PySide6.QtCore import Signal
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget

from ui.chat.history.conversation_list import ConversationList
from ui.chat.history.sidebar_rows import MIME, SidebarRows
from ui.kit.controls.flow_layout import FlowLayout
from ui.kit.text.elided import ElidedButton

# More tags would take the room of the conversations.
_MOST_SHOWN = 12


class TagBar(QWidget):
    """A button for each tag; the pressed one filters the list.

    Signals:
        tagged: Conversations were dropped on a tag; carries them and the tag.
    """

    tagged = Signal(list, str)

    def __init__(self, conversations: ConversationList, rows: SidebarRows) -> None:
        super().__init__()
        self._conversations = conversations
        self._rows = rows
        self._inner = QWidget()
        self._flow = FlowLayout(self._inner)
        self._tags: tuple[str, ...] = ()
        self._is_searching = False
        layout = QVBoxLayout(self)
        layout.setContentsMargins(12, 0, 12, 8)
        layout.addWidget(self._inner)
        for signal in (
            conversations.placed,
            conversations.rowsInserted,
            conversations.rowsRemoved,
            conversations.modelReset,
        ):
            signal.connect(self._refresh)
        rows.filtered.connect(self._show_chosen)
        self._refresh()

    def buttons(self) -> list[QPushButton]:
        """Return the buttons, in their order."""
        return self._inner.findChildren(QPushButton)

    def show_unless(self, is_searching: bool) -> None:
        """Hide the tags while search results replace the list."""
        self._is_searching = is_searching
        self._refresh()

    def _refresh(self) -> None:
        tags = tuple(self._conversations.tags()[:_MOST_SHOWN])
        if tags != self._tags:
            self._tags = tags
            while (item := self._flow.takeAt(0)) is not None:
                if (gone := item.widget()) is not None:
                    gone.hide()
                    gone.setParent(None)
                    gone.deleteLater()
            for tag in tags:
                self._flow.addWidget(self._button(tag))
            if self._rows.tag and self._rows.tag not in tags:
                self._rows.show_tag("")
        self.setVisible(bool(tags) and not self._is_searching)
        self._show_chosen()

    def _button(self, tag: str) -> QPushButton:
        button = _TagButton(self._rows, tag)
        button.clicked.connect(lambda: self._rows.show_tag("" if self._rows.tag == tag else tag))
        button.taken.connect(lambda conversations: self.tagged.emit(conversations, tag))
        return button

    def _show_chosen(self) -> None:
        for button in self.buttons():
            button.setChecked(button.text() == f"#{self._rows.tag}")


class _TagButton(ElidedButton):
    """A tag; accepts conversations that are dropped on it.

    Signals:
        taken: Conversations were dropped on it; carries them.
    """

    taken = Signal(list)

    def __init__(self, rows: SidebarRows, tag: str) -> None:
        super().__init__()
        self._rows = rows
        self.setProperty("kind", "chip")
        self.setCheckable(True)
        self.setAcceptDrops(True)
        self.setText(f"#{tag}")
        self.setAccessibleName(f"Show only conversations tagged {tag}")

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept conversations only."""
        if event.mimeData().hasFormat(MIME):
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Emit ``taken`` with the dropped conversations."""
        event.acceptProposedAction()
        self.taken.emit(self._rows.dropped(event.mimeData()))

"""Connects the find bar, the finder and the column of messages. Main thread."""

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from ui.chat.messages.column.message_column import MessageColumn
from ui.chat.reading.find_bar import FindBar
from ui.chat.reading.message_texts import MessageTexts
from ui.chat.reading.text_finder import TextFinder
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.kit.look.theme import Theme
from ui.records.messages import ConversationMessage


class FindingText(QObject):
    """Finds text in the open conversation.

    Args:
        theme: The look.
        workspace: What the window shows.
        column: The messages of the open conversation.
        parent: The chat.

    Attributes:
        bar: The bar, hidden until a person opens it.
        finder: The query and its places.
    """

    def __init__(
        self, theme: Theme, workspace: Workspace, column: MessageColumn, parent: QWidget
    ) -> None:
        super().__init__(parent)
        self._column = column
        self._opened: OpenConversation | None = None
        self.finder = TextFinder(
            MessageTexts(theme),
            lambda: workspace.current.conversation.messages,
            lambda: column.first_seen,
            self,
        )
        self.bar = FindBar(theme, self.finder)
        self.finder.marked.connect(self._mark)
        self.finder.place_chosen.connect(column.go_to_message)
        workspace.opened.connect(self._follow)
        self._follow(workspace.current)

    def _follow(self, opened: OpenConversation) -> None:
        """Search in the conversation that is open now."""
        finder = self.finder
        if self._opened is not None:
            session = self._opened.session
            session.message_appended.disconnect(self._look_again)
            session.path_changed.disconnect(self._look_again)
            for grown in (session.text_appended, session.thinking_appended, session.run_changed):
                grown.disconnect(self._look_again_soon)
        self._opened = opened
        session = opened.session
        session.message_appended.connect(self._look_again)
        session.path_changed.connect(self._look_again)
        for grown in (session.text_appended, session.thinking_appended, session.run_changed):
            grown.connect(self._look_again_soon)
        finder.look_again()

    def _look_again(self, _: ConversationMessage | int) -> None:
        self.finder.look_again()

    def _look_again_soon(self, *_: object) -> None:
        self.finder.look_again_soon()

    def _mark(self) -> None:
        self._column.show_query(self.finder.query, self.finder.current)

"""Connects the shown messages with their menu, changes and undo. Main thread."""

from functools import partial

from PySide6.QtCore import QObject, QPoint
from PySide6.QtWidgets import QApplication, QWidget

from ui.chat.composing.composer import Composer
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.column.message_column import MessageColumn
from ui.chat.reading.message_changes import DELETION, MessageChanges
from ui.chat.reading.message_menu import (
    MessageMenu,
    MessageView,
    defer_menus,
    quotation,
    selection_of,
)
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.kit.look.theme import Theme
from ui.kit.system.links import ask_about_picture
from ui.kit.text.undo_bar import UndoBar
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage


class MessageHandling(QObject):
    """Does the actions of the messages' menus."""

    def __init__(
        self,
        theme: Theme,
        workspace: Workspace,
        column: MessageColumn,
        composer: Composer,
        parent: QWidget,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._column = column
        self._composer = composer
        self.changes = MessageChanges(workspace, self)
        self.menu = MessageMenu(workspace, self.changes, parent)
        self.undo_bar = UndoBar()
        theme.follow(self.undo_bar, lambda: self.undo_bar.setMaximumWidth(theme.px(420)))
        column.view_made.connect(self._follow)
        self.menu.quoted.connect(self.quote)
        self.menu.answer_wanted.connect(self._answer)
        self.changes.deleted.connect(self.undo_bar.offer)
        self.changes.restored.connect(self.undo_bar.hide)
        self.undo_bar.button.clicked.connect(self._undo)
        workspace.opened.connect(self._leave)

    def quote(self, text: str) -> None:
        """Quote a text in the composer."""
        if text.strip():
            self._composer.quote(quotation(text))

    def quote_selection(self) -> None:
        """Quote what is selected in a message."""
        self.quote(self.selection)

    @property
    def selection(self) -> str:
        """What is selected in a message, first in the one that has the keyboard."""
        focused = QApplication.focusWidget()
        views = sorted(
            self._column.views,
            key=lambda view: focused is None or not view.isAncestorOf(focused),
        )
        return next(filter(None, map(selection_of, views)), "")

    def add_written(self) -> None:
        """Add the text in the composer as a message, without generating an answer."""
        composer = self._composer
        if composer.attachments.is_reading:
            return
        if self.changes.add(composer.text, composer.attachments.files):
            composer.clear()
            composer.input.setFocus()

    def _follow(self, view: MessageView) -> None:
        defer_menus(view)
        view.menu_wanted.connect(partial(self._show_menu, view))
        if isinstance(view, AnswerView):
            view.rewritten.connect(partial(self._rewrite, view.message))
            view.left.connect(self._composer.input.setFocus)
        view.picture_wanted.connect(partial(self._show_picture, view))

    def _show_menu(self, view: MessageView, place: QPoint) -> None:
        self.menu.show_at(view, place)

    def _show_picture(self, view: QWidget, picture: Attachment) -> None:
        folder = self._workspace.store.pictures_folder
        if folder is not None:
            ask_about_picture(view, picture.name, folder / picture.picture_file)

    def _rewrite(self, message: ConversationMessage, text: str) -> None:
        self.changes.rewrite(message, text)
        self._composer.input.setFocus()

    def _answer(self, message: ConversationMessage) -> None:
        self._workspace.answer(message)
        self._composer.input.setFocus()

    def _undo(self) -> None:
        """Bring back what was deleted last, unless something else was changed since."""
        stack = self._workspace.current.stops.undo_stack
        if stack.undoText() == DELETION:
            stack.undo()
        self.undo_bar.hide()
        self._composer.input.setFocus()

    def _leave(self, _: OpenConversation) -> None:
        self.undo_bar.hide()
        self.menu.speech.stop()

"""The menu of a message. Main thread."""

from functools import partial

from PySide6.QtCore import QObject, QPoint, Qt, QUrl
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from ui.chat.composer.composer import Composer
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_changes import DELETION, MessageChanges
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.question_view import QuestionView
from ui.chat.messages.speech import Speech
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import UndoBar
from ui.kit.dialogs import confirm_file, show_error
from ui.kit.flow_text import FlowText, selected_text
from ui.kit.menus import add_entry, context_menu, copy_text
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage

MessageView = QuestionView | AnswerView


def selection_of(view: MessageView) -> str:
    """Return the selected text of a message; empty for none."""
    texts = (selected_text(text) for text in view.findChildren(FlowText) if text.isVisible())
    return next((text for text in texts if text), "")


def link_at(view: MessageView, position: QPoint) -> str:
    """Return the target of the link at a place of the screen; empty for none."""
    for text in view.findChildren(FlowText):
        inside = text.viewport().mapFromGlobal(position)
        if text.isVisible() and text.viewport().rect().contains(inside):
            url = QUrl(text.anchorAt(inside))
            return url.toString() if url.scheme() in ("http", "https", "mailto") else ""
    return ""


class MessageHandling(QObject):
    """Shows the menus of messages, and runs their actions."""

    def __init__(
        self,
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
        self._parent = parent
        self.speech = Speech(self)
        self.speech.failed.connect(partial(show_error, parent))
        self.undo_bar = UndoBar()
        self.undo_bar.setMaximumWidth(420)
        column.view_made.connect(self._follow)
        self.changes.deleted.connect(self.undo_bar.offer)
        self.changes.restored.connect(self.undo_bar.hide)
        self.undo_bar.button.clicked.connect(self._undo)
        workspace.opened.connect(self._on_opened)

    def show_at(self, view: MessageView, position: QPoint) -> None:
        menu = context_menu(self._parent, "Message")
        self.fill(menu, view, position)
        menu.popup(position)

    def fill(self, menu: QMenu, view: MessageView, position: QPoint | None = None) -> None:
        message, workspace, changes = view.message, self._workspace, self.changes
        is_free, is_over = not workspace.current.is_busy, message.is_settled
        chosen = selection_of(view)
        text = chosen or (
            view.message.typed if isinstance(view, QuestionView) else view.text_view.shown_text()
        )
        link = "" if position is None else link_at(view, position)
        shown = workspace.current.conversation.messages
        is_last = shown[-1:] == [message]
        add_entry(menu, "Copy", lambda: copy_text(text)).setEnabled(bool(text))
        markdown = add_entry(menu, "Copy as Markdown", lambda: copy_text(message.content))
        markdown.setEnabled(bool(message.content))
        codes = view.text_view.copy_buttons if isinstance(view, AnswerView) else ()
        for number, button in enumerate(codes, 1):
            add_entry(menu, f"Copy Code {number}" if len(codes) > 1 else "Copy Code", button.click)
        if link:
            add_entry(menu, "Copy Link", lambda: copy_text(link))
        quote = add_entry(menu, "Quote Selection" if chosen else "Quote", lambda: self.quote(text))
        quote.setEnabled(bool(text.strip()))
        menu.addSeparator()
        if isinstance(view, QuestionView) and is_last:
            can_answer = is_free and workspace.model_selection.state.can_answer
            add_entry(menu, "Generate Reply", lambda: self._answer(message)).setEnabled(can_answer)
        add_entry(menu, "Edit…", view.begin_editing).setEnabled(is_free and is_over)
        is_pinned = message.is_pinned
        add_entry(
            menu, "Unpin" if is_pinned else "Pin", lambda: changes.pin(message, not is_pinned)
        )
        branch = add_entry(menu, "Branch to a New Conversation", lambda: changes.branch(message))
        branch.setEnabled(is_over)
        if self.speech.process is not None:
            add_entry(menu, "Stop Speaking", self.speech.stop)
        else:
            speak = add_entry(menu, "Speak", lambda: self.speech.speak(text))
            speak.setEnabled(bool(text.strip()))
        menu.addSeparator()
        delete = "Delete" if is_last else "Delete This and Following Messages"
        add_entry(menu, delete, lambda: changes.delete(message)).setEnabled(is_free and is_over)

    def quote(self, text: str) -> None:
        if text.strip():
            lines = text.strip("\n").split("\n")
            self._composer.quote("\n".join(f"> {line}".rstrip() for line in lines) + "\n\n")

    def quote_selection(self) -> None:
        self.quote(self.selection)

    @property
    def selection(self) -> str:
        """The selected text of a message, first of the focused one."""
        focused = QApplication.focusWidget()
        views = sorted(
            self._column.views,
            key=lambda view: focused is None or not view.isAncestorOf(focused),
        )
        return next(filter(None, map(selection_of, views)), "")

    @property
    def message_to_pin(self) -> ConversationMessage | None:
        """The message that has the keyboard, or else the last question."""
        focused = QApplication.focusWidget()
        views = self._column.views
        within = [view.message for view in views if focused and view.isAncestorOf(focused)]
        shown = self._workspace.current.conversation.messages
        questions = [message for message in reversed(shown) if message.role == "user"]
        return next(iter([*within, *questions]), None)

    def pin_message(self) -> None:
        if (message := self.message_to_pin) is not None:
            self.changes.pin(message, not message.is_pinned)

    def add_written(self) -> None:
        """Add the text in the composer as a message, without generating an answer."""
        composer = self._composer
        if composer.attachments.is_reading:
            return
        if self.changes.add(composer.text, composer.attachments.files):
            composer.clear()
            composer.input.setFocus()

    def _follow(self, view: MessageView) -> None:
        for text in view.findChildren(FlowText):  # the message opens the menu
            text.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)
        view.menu_requested.connect(partial(self.show_at, view))
        if isinstance(view, AnswerView):
            view.rewritten.connect(partial(self._rewrite, view.message))
            view.left.connect(self._composer.input.setFocus)
        view.picture_requested.connect(partial(self.show_picture, view))
        folder = self._workspace.store.pictures_folder
        if folder is not None and view.message.pictures:
            view.show_pictures(folder)
        view.unpin_requested.connect(lambda: self.changes.pin(view.message, False))
        if isinstance(view, QuestionView):
            view.send_all_requested.connect(self._send_all)
            view.summary_edited.connect(partial(self.changes.summarize, view.message))

    def _send_all(self) -> None:
        self._workspace.choose_when_full("ask")
        self._composer.input.setFocus()

    def show_picture(self, view: QWidget, picture: Attachment) -> None:
        folder = self._workspace.store.pictures_folder
        if folder is not None:
            what = "Recording" if picture.is_sound else "Picture"
            confirm_file(view, picture.name, folder / picture.kept_file, what)

    def _rewrite(self, message: ConversationMessage, text: str) -> None:
        self.changes.rewrite(message, text)
        self._composer.input.setFocus()

    def _answer(self, message: ConversationMessage) -> None:
        self._workspace.ask(lambda current: current.answer(message))
        self._composer.input.setFocus()

    def _undo(self) -> None:
        """Undo the last deletion, unless something else was changed since."""
        stack = self._workspace.current.undo_stack
        if stack.undoText() == DELETION:
            stack.undo()
        self.undo_bar.hide()
        self._composer.input.setFocus()

    def _on_opened(self, _: ConversationController) -> None:
        self.undo_bar.hide()
        self.speech.stop()

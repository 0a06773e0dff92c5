"""The menu of one message: copy, quote, edit, branch, speak, delete. Main thread."""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, QPoint, Qt, QUrl, Signal
from PySide6.QtWidgets import QMenu, QWidget

from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.question_view import QuestionView
from ui.chat.reading.message_changes import MessageChanges
from ui.chat.session.workspace import Workspace
from ui.kit.system.boxes import report_failure
from ui.kit.system.clipboard import copy_text
from ui.kit.system.menus import add_entry, passing_menu
from ui.kit.system.speech import Speech
from ui.kit.text.editing import selected_text
from ui.kit.text.flow_text import FlowText

MessageView = QuestionView | AnswerView


class MessageMenu(QObject):
    """Shows the actions for a message.

    Signals:
        quoted: A person wants to quote a part of a message; carries its text.
        answer_wanted: A person wants an answer to an unanswered question; carries its message.
    """

    quoted = Signal(str)
    answer_wanted = Signal(object)

    def __init__(self, workspace: Workspace, changes: MessageChanges, parent: QWidget) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._changes = changes
        self._parent = parent
        self.speech = Speech(self)
        self.speech.failed.connect(partial(report_failure, parent))

    def show_at(self, view: MessageView, place: QPoint) -> None:
        """Open the menu of a message at a place of the screen."""
        menu = passing_menu(self._parent, "Message")
        self.fill(menu, view, place)
        menu.popup(place)

    def fill(self, menu: QMenu, view: MessageView, place: QPoint | None = None) -> None:
        """Add the entries."""
        message, current = view.message, self._workspace.current
        is_free, is_over = not current.is_busy, message.is_settled
        chosen = selection_of(view)
        link = "" if place is None else link_at(view, place)
        shown = plain_text_of(view)
        copied = chosen or shown
        add = _adder(menu)
        add("Copy", lambda: copy_text(copied), bool(copied))
        add("Copy as Markdown", lambda: copy_text(markdown_of(view)), bool(message.said))
        if link:
            add("Copy Link", lambda: copy_text(link))
        quote = chosen or shown
        words = "Quote the Selection" if chosen else "Quote"
        add(words, lambda: self.quoted.emit(quote), bool(quote.strip()))
        menu.addSeparator()
        if is_unanswered(view, self._workspace):
            can_answer = is_free and self._workspace.answering.can_answer
            add("Generate an Answer", lambda: self.answer_wanted.emit(message), can_answer)
        add("Edit…", view.begin_editing, is_free and is_over)
        add("Branch to a New Conversation", lambda: self._changes.branch(message), is_over)
        if self.speech.is_speaking:
            add("Stop Speaking", self.speech.stop)
        else:
            spoken = chosen or shown
            add("Speak", lambda: self.speech.speak(spoken), bool(spoken.strip()))
        menu.addSeparator()
        is_last = current.conversation.messages[-1:] == [message]
        words = "Delete" if is_last else "Delete This and All Below"
        add(words, lambda: self._changes.delete(message), is_free and is_over)


def _adder(menu: QMenu) -> Callable[..., None]:
    def add(words: str, intent: Callable[[], object], is_enabled: bool = True) -> None:
        add_entry(menu, words, intent).setEnabled(is_enabled)

    return add


def is_unanswered(view: MessageView, workspace: Workspace) -> bool:
    """Return whether a message is a question at the end, without an answer."""
    shown = workspace.current.conversation.messages
    return isinstance(view, QuestionView) and shown[-1:] == [view.message]


def plain_text_of(view: MessageView) -> str:
    """Return the text of a message as the screen shows it."""
    if isinstance(view, QuestionView):
        return view.message.typed
    return view.text_view.shown_text()


def markdown_of(view: MessageView) -> str:
    """Return the text of a message as it was written, with its files."""
    return view.message.said


def selection_of(view: MessageView) -> str:
    """Return the selected text of a message; empty for none."""
    found = (selected_text(text) for text in view.findChildren(FlowText) if text.isVisible())
    return next((text for text in found if text), "")


def link_at(view: MessageView, place: QPoint) -> str:
    """Return the target of the link at a place of the screen; empty for none."""
    for text in view.findChildren(FlowText):
        inside = text.viewport().mapFromGlobal(place)
        if text.isVisible() and text.viewport().rect().contains(inside):
            url = QUrl(text.anchorAt(inside))
            return url.toString() if url.scheme() in ("http", "https", "mailto") else ""
    return ""


def quotation(text: str) -> str:
    """Return a text as a quotation in Markdown, followed by an empty line."""
    lines = text.strip("\n").split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines) + "\n\n"


def defer_menus(view: MessageView) -> None:
    """Let the message open the menu, not each text in it."""
    for text in view.findChildren(FlowText):
        text.setContextMenuPolicy(Qt.ContextMenuPolicy.NoContextMenu)

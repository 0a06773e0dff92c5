"""The menu of a message. Main thread."""

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, QPointF, Qt, QUrl, Signal
from PySide6.QtWidgets import QApplication, QWidget

from engine.wording import quoted
from ui.chat.composer.composer import Composer
from ui.chat.composer.pictures import show_picture
from ui.chat.messages.answer_view import AnswerView, continue_title
from ui.chat.messages.message_changes import DELETION, MessageChanges
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.question_view import QuestionView
from ui.chat.messages.speech import Speech
from ui.chat.messages.stop_selection import StopSelection, stop_selection
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import UndoBar
from ui.kit.commands import Command, Entry, Submenu, context_menu
from ui.kit.dialogs import confirm_file, show_error
from ui.kit.flow_text import FlowText, selected_text
from ui.kit.following import Following
from ui.kit.menus import copy_text, escape_mnemonics
from ui.records.attachments import Attachment
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.stops.stop_list import StopListModel
from ui.stops.stop_lists import DEFAULT_LIST, describe_list, list_title, model_list
from ui.words import display_name

MessageView = QuestionView | AnswerView

ANSWER_KEYS = {
    "Regenerate": "Ctrl+Alt+G",
    "Continue Answer": "Ctrl+Shift+Return",
    "Answer Several Times…": "Ctrl+Alt+K",
    "Fork at Token…": "Ctrl+Shift+J",
    "Inspect": "Ctrl+Shift+I",
}
"""Shortcuts of the commands that act on the last answer, also in the menu bar."""


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


def copy_at(view: MessageView, position: QPoint) -> Command | None:
    """Return the command that copies the code or the table at a place of the screen."""
    if not isinstance(view, AnswerView):
        return None
    text = view.text_view
    inside = QPointF(text.viewport().mapFromGlobal(position))
    buttons = iter(text.copy_buttons)
    for part in text.decorations:
        button = next(buttons, None) if part.kind == "code" else None
        if text.area(part).contains(inside):
            if part.kind == "table":
                return Command("Copy Table", partial(text.copy_part, part))
            if button is not None:
                return Command("Copy Code", button.click)
    return None


class MessageHandling(QObject):
    """Shows the menus of messages, and runs their actions."""

    stop_list_requested = Signal()
    several_requested = Signal(object)  # Run
    fork_requested = Signal(object)  # Run
    inspector_requested = Signal(object)  # Run

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
        self._offered = ""  # the change on the undo stack that the bar undoes, if it is one
        self._following = Following()
        column.view_made.connect(self._follow)
        self.changes.deleted.connect(self._offer_restoring)
        self.changes.restored.connect(self.undo_bar.hide)
        self.undo_bar.button.clicked.connect(lambda: composer.input.setFocus())
        workspace.opened.connect(self._on_opened)
        self._on_opened(workspace.current)

    def show_at(self, view: MessageView, position: QPoint) -> None:
        entries = self.entries(view, position)
        context_menu(self._parent, "Message", entries).popup(position)

    def entries(self, view: MessageView, position: QPoint | None = None) -> list[Entry]:
        message, workspace, changes = view.message, self._workspace, self.changes
        is_free, is_over = not workspace.current.is_busy, message.is_settled
        chosen = selection_of(view)
        text = chosen or (
            view.message.typed if isinstance(view, QuestionView) else view.text_view.shown_text()
        )
        has_text = bool(text.strip())
        link = "" if position is None else link_at(view, position)
        shown = workspace.current.conversation.messages
        is_last = shown[-1:] == [message]
        codes = view.text_view.copy_buttons if isinstance(view, AnswerView) else ()
        markdown = message.content
        # In a group: the text, the answer again, the message, its end.
        is_last_answer = is_last and isinstance(view, AnswerView)
        keys = ("Ctrl+C",) if chosen else ("Ctrl+Shift+C",) if is_last_answer else ()
        copies: list[Entry] = [
            Command("Copy", lambda: copy_text(text), keys, bool(text)),
        ]
        rare: list[Entry] = [
            Command("Copy as Markdown", lambda: copy_text(markdown), enabled=bool(markdown)),
        ]
        part = None if position is None else copy_at(view, position)
        if part is not None:
            copies.append(part)
        if part is None or part.label != "Copy Code":  # by keyboard, which has no place
            for number, button in enumerate(codes, 1):
                label = f"Copy Code {number}" if len(codes) > 1 else "Copy Code"
                rare.append(Command(label, button.click))
        if link:
            copies.append(Command("Copy Link", lambda: copy_text(link)))
        quote = "Quote Selection" if chosen else "Quote"
        copies.append(Command(quote, lambda: self.quote(text), enabled=has_text))
        again: list[Entry] = []
        if isinstance(view, QuestionView) and is_last:
            can_answer = is_free and workspace.model_selection.state.can_answer
            again.append(
                Command("Generate Reply", lambda: self._answer(message), enabled=can_answer)
            )
        if isinstance(view, AnswerView):
            copies += self._stop_entries(stop_selection(view))
            again += self._answer_entries(view, is_last=is_last, can_answer=is_free and is_over)
            rare += self._run_entries(view.run, is_last=is_last)
        is_pinned, go = message.is_pinned, partial(changes.branch, message)
        branch = Command("Branch to New Conversation", go, enabled=is_over)
        speak = Command("Speak", lambda: self.speech.speak(text), enabled=has_text)
        if self.speech.process is not None:
            speak = Command("Stop Speaking", self.speech.stop)
        return [
            *copies,
            None,
            *again,
            *([None] if again else []),
            Command("Edit…", view.begin_editing, enabled=is_free and is_over),
            Command("Unpin" if is_pinned else "Pin", lambda: changes.pin(message, not is_pinned)),
            Submenu("More", [*rare, None, branch, speak]),
            None,
            Command(
                "Delete" if is_last else "Delete This and Following Messages",
                lambda: changes.delete(message),
                enabled=is_free and is_over,
            ),
        ]

    def _answer_entries(self, view: AnswerView, *, is_last: bool, can_answer: bool) -> list[Entry]:
        """Return what an answer has beside its text; the menu bar's keys act on the last one."""
        run, keys = view.run, partial(_keys, is_last)
        again = view.regenerate_requested.emit
        entries: list[Entry] = [Command("Regenerate", again, keys("Regenerate"), can_answer)]
        if can_answer and (others := self._workspace.model_selection.others):
            models = [
                Command(
                    escape_mnemonics(display_name(model.name)),
                    partial(self._regenerate_with, view, model.folder),
                )
                for model in others
            ]
            entries.append(Submenu("Regenerate With", models))
        if run.is_over and run.can_be_continued:
            label = continue_title(run)
            proceed = view.proceed.click
            entries.append(Command(label, proceed, keys("Continue Answer"), can_answer))
        inspect = partial(self.inspector_requested.emit, run)
        return [*entries, Command("Inspect", inspect, keys("Inspect"), run.is_over)]

    def _run_entries(self, run: Run, *, is_last: bool) -> list[Entry]:
        """Return the rare commands of an answer."""
        keys = partial(_keys, is_last)
        fork = partial(self.fork_requested.emit, run)
        entries: list[Entry] = [
            None,
            Command("Fork at Token…", fork, keys("Fork at Token…"), run.is_over),
        ]
        if run.finished is not None:
            several = partial(self.several_requested.emit, run)
            label = "Answer Several Times…"
            entries.append(Command(label, several, keys(label)))
        return entries

    def _regenerate_with(self, view: AnswerView, folder: Path) -> None:
        selection = self._workspace.model_selection
        selection.remember(selection.choice_of(folder))
        view.regenerate_requested.emit()

    def quote(self, text: str) -> None:
        if text.strip():
            lines = text.strip("\n").split("\n")
            self._composer.quote("\n".join(f"> {line}".rstrip() for line in lines) + "\n\n")

    @property
    def selection(self) -> str:
        """The selected text of a message, first of the focused one."""
        return next(filter(None, map(selection_of, self._focused_first())), "")

    @property
    def stop_selection(self) -> StopSelection | None:
        """The selected text of an answer as the model wrote it, first of the focused one."""
        answers = (view for view in self._focused_first() if isinstance(view, AnswerView))
        return next(filter(None, map(stop_selection, answers)), None)

    def stop_at(self, selection: StopSelection) -> None:
        """Add a text to the conversation's stop list, and show it there."""
        if selection.problem:
            self._composer.show_notice(selection.problem)
            return
        current, name = self._workspace.current, quoted(selection.text, 40)
        before = current.stops.entries()
        self.stop_list_requested.emit()
        if not current.stops.ensure(selection.text, selection.scope):
            return  # the list shows the reason
        after = current.stops.entries()
        if after == before:
            self._composer.show_notice(f"{name} is already in the stop list.")
            return
        is_new = len(after) > len(before)
        done = "added to the stop list" if is_new else "switched on in the stop list"
        self._offer_undo(f"{name} was {done}", current.undo_stack.undoText())

    def stop_new_chats_at(self, selection: StopSelection, key: str) -> None:
        """Add a text to a list that new conversations begin with."""
        lists, where = self._workspace.stop_lists, describe_list(key)
        if selection.problem:
            self._composer.show_notice(selection.problem)
            return
        kept, name = lists.get(key), quoted(selection.text, 40)
        before = kept or ()
        stops = StopListModel(before)
        stops.refused.connect(self._composer.show_notice)
        if not stops.ensure(selection.text, selection.scope):
            return
        if tuple(stops.entries()) == before:
            self._composer.show_notice(f"{name} is already in {where}.")
            return
        lists.keep(key, stops.entries())
        self._offered = ""
        self.undo_bar.offer(f"{name} was added to {where}", partial(lists.keep, key, kept))

    def _focused_first(self) -> list[MessageView]:
        focused = QApplication.focusWidget()
        return sorted(
            self._column.views,
            key=lambda view: focused is None or not view.isAncestorOf(focused),
        )

    def _stop_entries(self, selection: StopSelection | None) -> list[Entry]:
        if selection is None:
            return []
        folder = self._workspace.model_selection.state.folder
        keys = [DEFAULT_LIST] if folder is None else [DEFAULT_LIST, model_list(folder)]
        stop = self.stop_new_chats_at
        others = [
            Command(escape_mnemonics(list_title(key)), partial(stop, selection, key))
            for key in keys
        ]
        here = Command("Always Stop Here", partial(self.stop_at, selection))
        return [here, Submenu("Always Stop Here In", others)]

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
        folder = view.pictures_folder = self._workspace.store.pictures_folder
        if folder is not None and view.message.pictures:
            view.show_pictures(folder)
        view.unpin_requested.connect(lambda: self.changes.pin(view.message, False))
        view.reading_requested.connect(self.changes.read_differently)
        if isinstance(view, QuestionView):
            view.send_all_requested.connect(self._send_all)
            view.summary_edited.connect(partial(self.changes.summarize, view.message))

    def _send_all(self) -> None:
        self._workspace.choose_when_full("ask")
        self._composer.input.setFocus()

    def show_picture(self, view: QWidget, picture: Attachment) -> None:
        folder = self._workspace.store.pictures_folder
        if folder is None:
            return
        if picture.is_sound:
            confirm_file(view, picture.name, folder / picture.kept_file, "Recording")
        else:
            show_picture(view, picture.name, folder / picture.kept_file)

    def _rewrite(self, message: ConversationMessage, text: str) -> None:
        self.changes.rewrite(message, text)
        self._composer.input.setFocus()

    def _answer(self, message: ConversationMessage) -> None:
        self._workspace.ask(lambda current: current.answer(message))
        self._composer.input.setFocus()

    def _offer_restoring(self, text: str) -> None:
        self._offer_undo(text, DELETION)

    def _offer_undo(self, text: str, change: str) -> None:
        self._offered = change
        self.undo_bar.offer(text, lambda: self._workspace.current.undo_stack.undo())

    def _withdraw_undo(self, undo_text: str) -> None:
        """Hide the bar once something else was changed, which Undo would undo first."""
        if self._offered and undo_text != self._offered:
            self.undo_bar.hide()

    def _on_opened(self, opened: ConversationController) -> None:
        self._following.follow((opened.undo_stack.undoTextChanged, self._withdraw_undo))
        self.undo_bar.hide()
        self.speech.stop()


def _keys(is_last: bool, name: str) -> tuple[str, ...]:
    return (ANSWER_KEYS[name],) if is_last else ()

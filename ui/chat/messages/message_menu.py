"""What can be done with a message: its menu, reading it aloud, and changes that can be undone.

Main thread.
"""

import shutil
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, QPoint, QProcess, Qt, QUrl, Signal
from PySide6.QtGui import QUndoCommand
from PySide6.QtWidgets import QApplication, QMenu, QWidget

from engine import counted
from ui.chat.composer.composer import Composer
from ui.chat.messages.answer_view import AnswerView
from ui.chat.messages.message_column import MessageColumn
from ui.chat.messages.question_view import QuestionView
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import UndoBar
from ui.kit.dialogs import confirm_file, show_error
from ui.kit.flow_text import FlowText, selected_text
from ui.kit.menus import add_entry, context_menu, copy_text
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, copied, question, runs_of
from ui.records.runs import Run

# The text goes to the program's standard input, so that it is never read as an option.

# The system's own voice comes first. Each program reads standard input and ends after speaking.
_MAC = (("say", "-f", "-"),)
_OTHERS = (
    ("spd-say", "--wait", "--pipe-mode"),
    ("espeak-ng", "--stdin"),
    ("espeak", "--stdin"),
)
_INSTALL = "Install speech-dispatcher (which has spd-say) or espeak-ng, and choose Speak again."
_SERVICE = "Check that the system’s speech service is running and has a voice."
DELETION = "Delete Message"  # its name on the undo stack
_Removed = list[ConversationMessage]
MessageView = QuestionView | AnswerView


def speech_command() -> tuple[str, ...] | None:
    """Return the command that reads its standard input aloud; None if there is none."""
    for name, *options in _MAC if sys.platform == "darwin" else _OTHERS:
        program = shutil.which(name)
        if program is not None:
            return (program, *options)
    return None


class Speech(QObject):
    """Reads one text at a time."""

    failed = Signal(str, str)  # reason, remedy

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self.process: QProcess | None = None  # while a text is read

    def speak(self, text: str) -> None:
        """Read a text; a text that is being read is stopped."""
        self.stop()
        command = speech_command()  # looked for each time: it may have been installed since
        if command is None:
            self.failed.emit("This computer has no program that reads text aloud.", _INSTALL)
            return
        program, *options = command
        process = self.process = QProcess(self)
        process.setStandardOutputFile(QProcess.nullDevice())
        process.finished.connect(lambda code, status: self._finish(process, code, status))
        process.errorOccurred.connect(lambda error: self._notice(process, error))
        process.start(program, options)
        process.write(text.encode(errors="replace"))
        process.closeWriteChannel()

    def stop(self) -> None:
        process = self.process
        if process is not None:
            self._end(process)
            process.terminate()
            if not process.waitForFinished(1_000):
                process.kill()
                process.waitForFinished(1_000)

    def _notice(self, process: QProcess, error: QProcess.ProcessError) -> None:
        # Every other failure ends the program, which is reported by its end.
        if error == QProcess.ProcessError.FailedToStart:
            self._finish(process, -1, QProcess.ExitStatus.CrashExit)

    def _finish(self, process: QProcess, code: int, status: QProcess.ExitStatus) -> None:
        """Report a failure of the program, unless it was stopped."""
        if self.process is process:
            program = Path(process.program()).name
            error_output = (
                bytes(process.readAllStandardError().data()).decode(errors="replace").strip()
            )
            self._end(process)
            if code or status != QProcess.ExitStatus.NormalExit:
                cause = f"{program} says: {error_output[:300]}" if error_output else ""
                why = f"{program} could not read the text aloud."
                self.failed.emit(why, cause or f"{program} ended with code {code}. {_SERVICE}")

    def _end(self, process: QProcess) -> None:
        if self.process is process:
            self.process = None
            process.deleteLater()


class MessageChanges(QObject):
    """Changes the messages of the open conversation."""

    deleted = Signal(str)  # label for the undo bar
    restored = Signal()

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def add(self, text: str, files: Sequence[Attachment] = ()) -> bool:
        """Add a question without generating an answer; return whether it was added."""
        current = self._workspace.current
        added = question(text, files)
        if current.is_busy or not added.text.strip():
            return False
        conversation = current.conversation
        conversation.add(added)
        current.message_appended.emit(added)
        title = text if text.strip() else ", ".join(file.name for file in files)
        self._workspace.conversations.name_after(conversation, title)
        self._workspace.conversations.touch(conversation)
        self._workspace.store.save_messages(conversation, [added])
        self._workspace.show_run(current.shown_run)
        return True

    def rewrite(self, answer: ConversationMessage, text: str) -> bool:
        """Replace an answer's text; the old text stays as a version."""
        current = self._workspace.current
        if current.is_busy or answer.run is None or not text.strip() or text == answer.text:
            return False
        tree = current.conversation.tree
        run = Run(state="written", text=text, pictures=answer.run.pictures)
        message = ConversationMessage("assistant", text, run)
        followers = tree.copied_after(answer, message)
        tree.add(message, answer.parent)
        for follower in followers:
            tree.add(follower, follower.parent)
        index = current.conversation.messages.index(message)
        self._workspace.traces.copy(runs_of(followers), current.conversation.id)
        self._workspace.store.save_messages(current.conversation, [message, *followers])
        current.path_changed.emit(index)
        self._workspace.show_run(run)
        self._workspace.conversations.touch(current.conversation)
        return True

    def pin(self, message: ConversationMessage, is_pinned: bool) -> None:
        """Send a message with every question, however long the conversation is, or no longer."""
        current = self._workspace.current
        if message.is_pinned != is_pinned:
            message.is_pinned = is_pinned
            self._workspace.store.save_messages(current.conversation, [message])
            current.message_changed.emit(message)
            self._workspace.meter.recount()

    def summarize(self, message: ConversationMessage, summary: str) -> None:
        """Change the summary of the messages before a question; without one they are left out."""
        message.summary = summary.strip()
        self._workspace.store.save_messages(self._workspace.current.conversation, [message])
        if not message.summary:
            self._workspace.choose_when_full("leave_out")
        self._workspace.current.message_changed.emit(message)
        self._workspace.meter.recount()

    def delete(self, message: ConversationMessage) -> bool:
        """Delete a message with the messages after it; return whether it was deleted.

        If there is another version of it, that is shown. The undo stack can restore all of them.
        """
        current = self._workspace.current
        if current.is_busy or current.conversation.tree.get(message.id) is not message:
            return False
        current.stops.undo_stack.push(_Deletion(self, current, message))
        return True

    def branch(self, message: ConversationMessage) -> None:
        source = self._workspace.current.conversation
        twin = Conversation(
            f"{source.title} (branch)", settings=source.settings, stops=source.stops
        )
        twin.model, twin.tools = source.model, source.tools
        twin.updated_at = time.time()
        path = source.tree.path_to(message)
        twin.tree.fill(copied(message for message in path if message.is_settled))
        self._workspace.traces.copy(runs_of(twin.tree), twin.id)
        self._workspace.take_in(twin)

    def remove(self, opened: ConversationController, message: ConversationMessage) -> "_Removed":
        """Remove a message from its conversation; the undo stack calls this."""
        conversation, workspace = opened.conversation, self._workspace
        index = _changed_from(conversation, message)
        removed = conversation.tree.remove(message)
        workspace.store.delete_messages(conversation, removed)
        workspace.traces.delete(_run_ids(removed))
        workspace.forget_read(conversation)
        self._show(opened, index)
        text = counted(len(removed), "message")
        self.deleted.emit(f"Deleted {text}")
        return removed

    def put_back(self, opened: ConversationController, removed: "_Removed") -> None:
        """Restore messages; the undo stack calls this."""
        conversation = opened.conversation
        conversation.tree.put_back(removed)
        self._workspace.traces.restore(_run_ids(removed))
        self._workspace.store.save_messages(conversation, removed)
        running = [message for message in conversation.tree if not message.is_settled]
        for answer in running:  # a running answer stays visible
            changed = conversation.tree.show(answer)
            self._workspace.store.save_messages(conversation, changed)
        if not running:
            self._show(opened, _changed_from(conversation, removed[0]))
        self.restored.emit()

    def _show(self, opened: ConversationController, index: int) -> None:
        opened.path_changed.emit(index)
        answers = [
            message.run for message in opened.conversation.messages if message.run is not None
        ]
        shown = answers[-1] if answers else None
        if opened is self._workspace.current:
            self._workspace.show_run(shown)
        else:
            opened.shown_run = shown
        self._workspace.conversations.changed(opened.conversation)


class _Deletion(QUndoCommand):
    """One deletion. It is not redone while an answer is running."""

    def __init__(
        self, changes: MessageChanges, opened: ConversationController, message: ConversationMessage
    ) -> None:
        super().__init__(DELETION)
        self._changes, self._opened, self._message = changes, opened, message
        self._removed: _Removed = []

    def redo(self) -> None:
        if self._opened.is_busy:
            self.setObsolete(True)
        else:
            self._removed = self._changes.remove(self._opened, self._message)

    def undo(self) -> None:
        removed, self._removed = self._removed, []
        if removed:
            self._changes.put_back(self._opened, removed)


def _run_ids(messages: _Removed) -> frozenset[str]:
    return frozenset(run.id for run in runs_of(messages))


def _changed_from(conversation: Conversation, message: ConversationMessage) -> int:
    """Return the index from which on a changed message affects the shown ones."""
    shown = conversation.messages
    return shown.index(message) if message in shown else max(0, len(shown) - 1)


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
            can_answer = is_free and workspace.model.state.can_answer
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
        user_message = [message for message in reversed(shown) if message.role == "user"]
        return next(iter([*within, *user_message]), None)

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
        self._workspace.ask(ConversationController.answer, message)
        self._composer.input.setFocus()

    def _undo(self) -> None:
        """Undo the last deletion, unless something else was changed since."""
        stack = self._workspace.current.stops.undo_stack
        if stack.undoText() == DELETION:
            stack.undo()
        self.undo_bar.hide()
        self._composer.input.setFocus()

    def _on_opened(self, _: ConversationController) -> None:
        self.undo_bar.hide()
        self.speech.stop()

"""Changes of messages, which can be undone. Main thread."""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand

from engine.wording import counted
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.records.attachments import Attachment, reading_from
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, question, runs_of
from ui.records.passages import Document
from ui.records.runs import Run

DELETION = "Delete Message"  # its name on the undo stack
_Removed = list[ConversationMessage]


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
        self._workspace.conversations.name_after(conversation, text, files)
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
        followers = tree.add_version(message, answer.parent, answer)
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

    def read_differently(self, document: str, reading: str) -> None:
        """Read a document of the conversation whole, or by passages, from the next prompt on."""
        current = self._workspace.current
        for message in current.conversation.tree:
            files = message.files if message.attached_chars else ()
            readings = tuple(
                reading_from(reading)
                if not file.kept_file and Document.of(file).id == document
                else file.reading
                for file in files
            )
            if readings != tuple(file.reading for file in files):
                message.readings = readings
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
        current.undo_stack.push(_Deletion(self, current, message))
        return True

    def branch(self, message: ConversationMessage) -> None:
        source = self._workspace.current.conversation
        twin = source.twin(f"{source.title} (branch)", source.tree.path_to(message))
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

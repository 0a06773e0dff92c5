"""Changes single messages: add, rewrite, delete with undo, branch. Main thread.

Nothing here generates an answer; the session does that.
"""

import time
from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QUndoCommand

from engine import counted
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, copied, question, runs_of
from ui.records.runs import Run, RunState

DELETION = "delete message"  # its name on the undo stack


class MessageChanges(QObject):
    """Changes the messages of the open conversation.

    Signals:
        deleted: Messages were deleted; carries the name of the action. The conversation's undo
            stack can restore them.
        restored: Deleted messages were restored.
    """

    deleted = Signal(str)
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
        current.session.message_appended.emit(added)
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
        run = Run(state=RunState.WRITTEN, text=text, pictures=answer.run.pictures)
        message = ConversationMessage("assistant", text, run)
        followers = tree.copied_after(answer, message)
        tree.add(message, answer.parent)
        for one in followers:
            tree.add(one, one.parent)
        index = current.conversation.messages.index(message)
        self._workspace.traces.copy(runs_of(followers), current.conversation.id)
        self._workspace.store.save_messages(current.conversation, [message, *followers])
        current.session.path_changed.emit(index)
        self._workspace.show_run(run)
        self._workspace.conversations.touch(current.conversation)
        return True

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
        """Begin a new conversation with the messages up to a message."""
        source = self._workspace.current.conversation
        twin = Conversation(
            f"{source.title} (branch)", settings=source.settings, stops=source.stops
        )
        twin.model, twin.tools = source.model, source.tools
        twin.updated_at = time.time()
        path = source.tree.path_to(message)
        twin.tree.fill(copied(one for one in path if one.is_settled))
        self._workspace.traces.copy(runs_of(twin.tree), twin.id)
        self._workspace.take_in(twin)

    def remove(self, opened: OpenConversation, message: ConversationMessage) -> "_Removed":
        """Remove a message from its conversation; the undo stack calls this."""
        conversation, workspace = opened.conversation, self._workspace
        index = _place(conversation, message)
        removed = conversation.tree.remove(message)
        workspace.store.delete_messages(conversation, removed)
        workspace.traces.delete(_run_ids(removed))
        workspace.forget_read(conversation)
        self._show(opened, index)
        words = counted(len(removed), "message")
        self.deleted.emit(f"Deleted {words}")
        return removed

    def put_back(self, opened: OpenConversation, removed: "_Removed") -> None:
        """Restore messages; the undo stack calls this."""
        conversation = opened.conversation
        conversation.tree.put_back(removed)
        self._workspace.traces.restore(_run_ids(removed))
        self._workspace.store.save_messages(conversation, removed)
        running = [one for one in conversation.tree if not one.is_settled]
        for one in running:  # a running answer stays visible
            changed = conversation.tree.show(one)
            self._workspace.store.save_messages(conversation, changed)
        if not running:
            self._show(opened, _place(conversation, removed[0]))
        self.restored.emit()

    def _show(self, opened: OpenConversation, index: int) -> None:
        """Update the shown messages from an index on."""
        opened.session.path_changed.emit(index)
        answers = [one.run for one in opened.conversation.messages if one.run is not None]
        shown = answers[-1] if answers else None
        if opened is self._workspace.current:
            self._workspace.show_run(shown)
        else:
            opened.shown_run = shown
        self._workspace.conversations.changed(opened.conversation)


_Removed = list[ConversationMessage]


class _Deletion(QUndoCommand):
    """One deletion. It is not redone while an answer is running."""

    def __init__(
        self, changes: MessageChanges, opened: OpenConversation, message: ConversationMessage
    ) -> None:
        super().__init__(DELETION)
        self._changes, self._opened, self._message = changes, opened, message
        self._removed: _Removed = []

    def redo(self) -> None:
        """Delete."""
        if self._opened.is_busy:
            self.setObsolete(True)
        else:
            self._removed = self._changes.remove(self._opened, self._message)

    def undo(self) -> None:
        """Restore the deleted messages."""
        removed, self._removed = self._removed, []
        if removed:
            self._changes.put_back(self._opened, removed)


def _run_ids(messages: _Removed) -> frozenset[str]:
    return frozenset(run.id for run in runs_of(messages))


def _place(conversation: Conversation, message: ConversationMessage) -> int:
    """Return the index from which on a changed message affects the shown ones."""
    shown = conversation.messages
    return shown.index(message) if message in shown else max(0, len(shown) - 1)

"""Handles the text in the composer: sends it, saves the draft, counts tokens, restores it.

Main thread. Connects the composer with the workspace.
"""

from functools import partial

from PySide6.QtCore import QObject, Qt

from ui.chat.composing.composer import Composer
from ui.chat.composing.context_meter import Counted
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.runs import Run, RunState

_MOST_PROMPTS = 200


class Writing(QObject):
    """Sends the message in the composer, and saves it as a draft until then.

    Args:
        workspace: Has the open conversation.
        composer: Has the message.
        parent: Its owner.
    """

    def __init__(self, workspace: Workspace, composer: Composer, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._composer = composer
        self._opened: OpenConversation | None = None
        self._sent: list[str] = []
        composer.prompts = self._prompts
        self._connect_signals()

    def show_draft(self, opened: OpenConversation) -> None:
        """Show the draft of a conversation; further changes of the text belong to it."""
        composer, conversation = self._composer, opened.conversation
        self._opened = None
        composer.set_text(conversation.draft)
        composer.attachments.show_files(conversation.attachments, conversation)
        composer.show_count(None)
        self._opened = opened

    def _connect_signals(self) -> None:
        workspace, composer, meter = self._workspace, self._composer, self._workspace.meter
        composer.draft_left.connect(self._note_prompt)
        composer.submitted.connect(self._send)
        composer.input.textChanged.connect(self._keep_draft)
        composer.input.textChanged.connect(meter.recount)
        composer.attachments.changed.connect(meter.recount)
        composer.attachments.changed.connect(self._keep_attachments)
        composer.attachments.read_for_another.connect(self._attach_to)
        workspace.opened.connect(meter.recount)
        workspace.settings.changed.connect(meter.recount)
        workspace.answering.changed.connect(meter.recount)
        meter.watch(self._counted_message)
        meter.counted.connect(composer.show_count)

    def _send(self) -> None:
        opened = self._workspace.current
        typed, files = self._composer.text, self._composer.attachments.files
        if not self._workspace.send(typed, files):
            return
        self._note_prompt(typed)
        self._composer.clear()
        self._composer.input.setFocus()
        opened.session.run_finished.connect(
            partial(self._give_back, opened, typed, files),
            Qt.ConnectionType.SingleShotConnection,
        )

    def _note_prompt(self, typed: str) -> None:
        self._sent = [*(one for one in self._sent if one != typed), typed][-_MOST_PROMPTS:]

    def _prompts(self) -> list[str]:
        """Return earlier questions, oldest first: those of other conversations, then this one's."""
        messages = self._workspace.current.conversation.messages
        here = [one.typed for one in messages if one.run is None]
        asked = (*(one for one in self._sent if one not in here), *here)
        # A question that was asked several times is listed at its latest place.
        return list(dict.fromkeys(one for one in reversed(asked) if one.strip()))[::-1]

    def _give_back(
        self, opened: OpenConversation, typed: str, files: tuple[Attachment, ...], run: Run
    ) -> None:
        """Restore a refused message in the composer, unless there is another draft.

        Args:
            opened: The conversation that it was sent in.
            typed: The typed text.
            files: The attached files.
            run: The run of its answer.
        """
        conversation = opened.conversation
        if run.state is not RunState.REFUSED or conversation.draft or conversation.attachments:
            return
        if opened is self._opened:
            self._composer.set_text(typed)
            self._composer.attachments.show_files(files, conversation)
        else:
            conversation.draft, conversation.attachments = typed, files
            self._workspace.conversations.changed(conversation)

    def _counted_message(self) -> Counted | None:
        current, info = self._workspace.current, self._workspace.answering.info
        typed, files = self._composer.text, self._composer.attachments.files
        if info is None or current.is_busy or not (typed.strip() or files):
            return None
        return Counted(current.conversation, info, typed, files)

    def _keep_draft(self) -> None:
        if self._opened is not None:
            self._workspace.change_draft(self._composer.draft)

    def _keep_attachments(self) -> None:
        if self._opened is not None:
            self._workspace.change_attachments(self._composer.attachments.files)

    def _attach_to(self, conversation: Conversation, file: Attachment) -> None:
        """Attach a file that was still being read when another conversation was opened."""
        if file not in conversation.attachments:
            conversation.attachments = (*conversation.attachments, file)
            self._workspace.conversations.changed(conversation)

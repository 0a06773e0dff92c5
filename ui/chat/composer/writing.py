"""Handles the text in the composer: sends it now or later, saves the draft, counts tokens.

Main thread.
"""

from functools import partial

from PySide6.QtCore import QObject

from engine import StopKind
from ui.chat.composer.composer import Composer
from ui.chat.session.context_meter import Count, Counted
from ui.chat.session.open_conversations import OpenConversation
from ui.chat.session.workspace import Workspace
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.runs import Run, RunState

_MOST_PROMPTS = 200
# A shorter message without files is sent without waiting for its count.
_SHORT_CHARS = 2_000
_WAITS = "Sent when the answer ends. Esc stops the answer and keeps this message here."
_CHANGED = "Press Return again to send it when the answer ends."
_NOT_SENT = "The answer did not end by itself, so this message was not sent. Return sends it."
_COUNTING = "Counting the tokens before sending…"


class Writing(QObject):
    """Sends the message in the composer, and saves it as a draft until then."""

    def __init__(self, workspace: Workspace, composer: Composer, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._composer = composer
        self._opened: OpenConversation | None = None
        self._sent: list[str] = []
        # The messages that are sent once the running answer of their conversation has ended.
        self._waiting: dict[OpenConversation, tuple[str, tuple[Attachment, ...]]] = {}
        self._is_sent_once_counted = False
        composer.prompts = self._prompts
        self._connect_signals()

    def show_draft(self, opened: OpenConversation) -> None:
        """Show the draft of a conversation; further changes of the text belong to it."""
        composer, conversation = self._composer, opened.conversation
        self._opened = None
        self._is_sent_once_counted = False
        typed, files = self._waiting.get(opened, (conversation.draft, conversation.attachments))
        composer.set_text(typed)
        composer.attachments.show_files(files, conversation)
        composer.show_count(None)
        composer.say("")
        if opened in self._waiting:
            composer.show_waiting(_WAITS)
        self._opened = opened

    def _connect_signals(self) -> None:
        workspace, composer, meter = self._workspace, self._composer, self._workspace.meter
        composer.draft_left.connect(self._note_prompt)
        composer.submitted.connect(self._send)
        composer.wait_ended.connect(self._keep_waiting)
        composer.input.textChanged.connect(self._keep_draft)
        composer.input.textChanged.connect(meter.recount)
        composer.attachments.changed.connect(meter.recount)
        composer.attachments.changed.connect(self._keep_attachments)
        composer.attachments.read_for_another.connect(self._attach_to)
        workspace.opened.connect(meter.recount)
        workspace.settings.changed.connect(meter.recount)
        workspace.answering.changed.connect(meter.recount)
        workspace.answering_changed.connect(meter.recount)
        meter.watch(self._counted_message)
        meter.counted.connect(self._take_count)

    def _send(self) -> None:
        """Send the message; before that, wait for the running answer, or count a long message."""
        meter, composer, opened = self._workspace.meter, self._composer, self._workspace.current
        message = (composer.text, composer.attachments.files)
        if opened.session.is_running:
            if opened not in self._waiting:
                opened.session.is_running_changed.connect(partial(self._send_waiting, opened))
            self._waiting[opened] = message
            composer.show_waiting(_WAITS)
        elif self._is_long() and not meter.is_settled and self._counted_message() is not None:
            self._is_sent_once_counted = True
            composer.say(_COUNTING)
            meter.count_now()
        elif composer.full_because:
            composer.say(composer.full_because)
        elif self._workspace.send(*message):
            self._note_prompt(composer.text)
            composer.say("")
            composer.clear()
            composer.input.setFocus()

    def _is_long(self) -> bool:
        """Return whether the message may fill the context."""
        composer = self._composer
        is_long = bool(composer.attachments.files) or len(composer.text) > _SHORT_CHARS
        return is_long or bool(composer.full_because)

    def _take_count(self, count: Count | None) -> None:
        self._composer.show_count(count)
        if self._is_sent_once_counted:
            self._is_sent_once_counted = False
            self._send()

    def _send_waiting(self, opened: OpenConversation, _is_running: bool) -> None:
        """Send the message that waited for the answer of a conversation, if that ended well."""
        if opened.is_busy or opened not in self._waiting:
            return
        typed, files = self._waiting.pop(opened)
        is_shown, ended_well = opened is self._opened, _ended_well(opened.latest_run)
        if is_shown and ended_well:
            self._send()
        elif is_shown:
            self._composer.say(_NOT_SENT)
        elif ended_well:
            self._workspace.send_unseen(opened, typed, files)

    def _keep_waiting(self) -> None:
        """Keep a waiting message as a draft, because it changes or the person wants to keep it."""
        if self._opened is not None:
            self._is_sent_once_counted = False
            was_waiting = self._waiting.pop(self._opened, None) is not None
            self._composer.say(_CHANGED if was_waiting else "")

    def _note_prompt(self, typed: str) -> None:
        self._sent = [*(prompt for prompt in self._sent if prompt != typed), typed][-_MOST_PROMPTS:]

    def _prompts(self) -> list[str]:
        """Return earlier questions, oldest first: those of other conversations, then this one's."""
        messages = self._workspace.current.conversation.messages
        here = [message.typed for message in messages if message.run is None]
        asked = (*(prompt for prompt in self._sent if prompt not in here), *here)
        # A question that was asked several times is listed at its latest place.
        return list(dict.fromkeys(prompt for prompt in reversed(asked) if prompt.strip()))[::-1]

    def _counted_message(self) -> Counted | None:
        current, info = self._workspace.current, self._workspace.answering.info
        typed, files = self._composer.text, self._composer.attachments.files
        if info is None or current.is_busy or not (typed.strip() or files):
            return None
        return Counted(current.conversation, info, typed, files)

    def _keep_draft(self) -> None:
        if self._opened is not None:
            self._workspace.drafts.change(self._opened.conversation, self._composer.draft)
            self._keep_waiting()

    def _keep_attachments(self) -> None:
        if self._opened is not None:
            files = self._composer.attachments.files
            self._workspace.drafts.attach(self._opened.conversation, files)
            self._keep_waiting()

    def _attach_to(self, conversation: Conversation, file: Attachment) -> None:
        """Attach a file that was still being read when another conversation was opened."""
        if file not in conversation.attachments:
            conversation.attachments = (*conversation.attachments, file)
            self._workspace.conversations.changed(conversation)


def _ended_well(run: Run | None) -> bool:
    """Return whether an answer ended by itself, with nothing left to do."""
    if run is None or run.finished is None or run.state is not RunState.FINISHED or run.paused_at:
        return False
    return run.finished.stop.kind not in (StopKind.CANCELLED, StopKind.ERROR)

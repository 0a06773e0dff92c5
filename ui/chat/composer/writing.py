"""The text in the composer as a draft, its count, and its sending, now or queued.

Above the composer are cards of the queued messages, and a bar about messages that do not fit into
the context. Main thread.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFrame, QPushButton, QSizePolicy, QWidget

from engine.stopping.record import StopKind
from engine.wording import counted
from ui.chat.composer.composer import Composer
from ui.chat.composer.message_editor import EditedInPlace
from ui.chat.session.context_meter import ContextUsage, CountedDraft
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.kit.buttons import IconButton, push_button
from ui.kit.labels import ElidedLabel, label
from ui.kit.layouts import FlowLayout, column, row
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation, QueuedMessage, WhenFull
from ui.records.prompt_fit import last_left_out
from ui.records.runs import LeftOut, Run

_BUTTONS: dict[WhenFull, tuple[str, str]] = {
    "leave_out": ("Drop Oldest", "Leave out the oldest messages when this is sent"),
    "summarize": ("Summarize Oldest", "Send a summary instead of the oldest messages"),
    "ask": ("Send All", "Send all messages, or none if they do not fit"),
}
_COUNTING = "Counting the tokens before sending…"


def left_out_notice(usage: ContextUsage, before: LeftOut | None) -> str:
    """Return the text of the bar for a count; empty if it has nothing new."""
    minimum = "at least " if usage.fit.is_total_lower_bound else ""
    too_many = f"{minimum}{counted(usage.too_many, 'token')}"
    if usage.is_full:
        is_requested = usage.when_full == "ask" and usage.without_files is None
        return f"The conversation is {too_many} too long for this model." if is_requested else ""
    left_out = usage.fit.left_out
    if left_out is None or (before is not None and before.until == left_out.until):
        return ""
    messages = counted(left_out.messages, "earlier message")
    is_summary = usage.when_full == "summarize"
    what = "will be sent as a summary" if is_summary else "will not be sent"
    if not usage.too_many:
        return f"The context is nearly full: {messages} {what}."
    return f"The conversation is {too_many} too long for this model: {messages} {what}."


class ContextBar(QFrame):
    """Says what will be left out, and offers the other ways."""

    chosen = Signal(object)  # WhenFull

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        self.caption = label("", "muted", 0.95, is_wrapped=True)
        self.buttons: dict[WhenFull, QPushButton] = {}
        buttons = QFrame()
        flow = FlowLayout(buttons)
        flow.setSpacing(16)  # farther apart than two words
        for choice, (text, accessible_name) in _BUTTONS.items():
            button = push_button(text, accessible_name, kind="link")
            button.setProperty("is_flush", True)
            button.clicked.connect(lambda _=False, chosen=choice: self.chosen.emit(chosen))
            self.buttons[choice] = button
            flow.addWidget(button)
        column(self.caption, buttons, spacing=2, margins=(12, 8, 12, 6), on=self)
        self.hide()

    def show_usage(self, usage: ContextUsage | None, before: LeftOut | None = None) -> None:
        text = "" if usage is None else left_out_notice(usage, before)
        self.caption.setText(text)
        if usage is not None and text:
            for choice, button in self.buttons.items():
                button.setVisible(choice != usage.when_full)
        self.setVisible(bool(text))


_ORDER = "Next", "Then"


class QueueCard(EditedInPlace):
    """One message that waits."""

    changed = Signal(object)  # QueuedMessage, or None to remove it
    send_requested = Signal()

    def __init__(self, message: QueuedMessage) -> None:
        super().__init__()
        self.setObjectName("card")
        self.message = message
        text, files = message
        names = ", ".join(file.name for file in files)
        shown = self._shown = " · ".join(filter(None, (" ".join(text.split()), names)))
        self.order = label("", "faint", 0.92)
        self.order.setMinimumWidth(max(map(self.order.fontMetrics().horizontalAdvance, _ORDER)))
        self.caption = ElidedLabel(shown)
        self.caption.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)
        self.send = push_button("Send Now", f"Stop the answer and send now: {shown}", kind="link")
        self.edit = IconButton("pencil", "Edit this message", size=16)
        self.remove = IconButton("close", "Remove this message", size=16)
        self._line = QWidget()
        row(
            self.order,
            (self.caption, 1),
            self.send,
            self.edit,
            self.remove,
            spacing=8,
            on=self._line,
        )
        self._column = column(self._line, margins=(12, 4, 6, 4), on=self)
        self.send.clicked.connect(self.send_requested)
        self.edit.clicked.connect(self.begin_editing)
        self.remove.clicked.connect(lambda: self.changed.emit(None))

    def show_position(self, number: int) -> None:
        position = _ORDER[min(number, 1)]
        self.setAccessibleName(f"{position}: {self._shown}")
        self.order.setText(position)

    def begin_editing(self) -> None:
        name = "queued message"
        self.open_editor(self._column, self._line, *self.message, accessible_name=name)

    def show_edited_part(self) -> None:
        self._line.setVisible(self.editor is None)

    def take_edited(self, text: str, files: tuple[Attachment, ...]) -> None:
        self.changed.emit((text, files))
        self.end_editing()


class QueueCards(QWidget):
    """The first messages that wait in a conversation, in their order; hidden without any."""

    changed = Signal(object)  # tuple of messages
    send_requested = Signal(int)  # index
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Queued messages")
        self.notice = label("", "muted", 0.93, is_wrapped=True)
        self.more = label("", "faint", 0.92)
        self.cards: list[QueueCard] = []
        self.pictures_folder: Path | None = None
        self._messages: tuple[QueuedMessage, ...] = ()
        self._cards = column(spacing=6)
        column(self.notice, self._cards, self.more, spacing=6, on=self)
        self.hide()

    def show_messages(self, messages: Sequence[QueuedMessage], *, waits: bool) -> None:
        if tuple(messages) != self._messages:
            self._messages = tuple(messages)
            self._show_cards()
        count = len(self._messages)
        first = "it" if count == 1 else "the first one"
        text = f"{counted(count, 'message')} not sent yet. Return sends {first}."
        self.notice.setText("" if waits else text)
        self.notice.setVisible(not waits)
        hidden = len(self._messages) - len(self.cards)
        self.more.setText(f"and {hidden:,} more")
        self.more.setVisible(hidden > 0)
        self.setVisible(bool(self._messages))

    @property
    def is_first_edited(self) -> bool:
        return bool(self.cards) and self.cards[0].editor is not None

    def _show_cards(self) -> None:
        """Show the first messages; visible cards and their editors are reused."""
        before, self.cards = self.cards, []
        for number, message in enumerate(self._messages[:3]):
            card = next((card for card in before if card.message == message), None)
            if card is None:
                card = self._new_card(message)
            else:
                before.remove(card)
            self.cards.append(card)
            self._cards.insertWidget(number, card)
            card.show_position(number)
        for card in before:
            self._cards.removeWidget(card)
            card.hide()
            card.deleteLater()

    def _new_card(self, message: QueuedMessage) -> QueueCard:
        card = QueueCard(message)
        card.pictures_folder = self.pictures_folder
        card.changed.connect(lambda changed: self._change(card, changed))
        card.send_requested.connect(lambda: self.send_requested.emit(self.cards.index(card)))
        card.left.connect(self.left)
        return card

    def _change(self, card: QueueCard, changed: QueuedMessage | None) -> None:
        number, messages = self.cards.index(card), list(self._messages)
        messages[number : number + 1] = [] if changed is None else [changed]
        self.changed.emit(tuple(messages))
        self.left.emit()


class MessageSender(QObject):
    """Sends the message in the composer, and saves it as a draft until then.

    Messages that are sent while an answer runs are queued with their conversation.
    """

    def __init__(
        self,
        workspace: Workspace,
        composer: Composer,
        queue: QueueCards,
        bar: ContextBar,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._workspace = workspace
        self._composer = composer
        self._queue = queue
        self._bar = bar
        composer.attachments.pictures_folder = workspace.store.pictures_folder
        queue.pictures_folder = workspace.store.pictures_folder
        self._opened: ConversationController | None = None
        self._sent: list[str] = []
        # Conversations whose queued messages are sent once their answer has ended.
        self._followed: set[ConversationController] = set()
        # Those whose answer the user stopped so that the next message is sent.
        self._hurried: set[ConversationController] = set()
        self._is_sent_once_counted = False
        self._is_sent_once_edited = False
        self._connect_signals()

    def show_draft(self, opened: ConversationController) -> None:
        """Show the draft of a conversation; further changes of the text belong to it."""
        composer, conversation = self._composer, opened.conversation
        self._opened = None
        self._is_sent_once_counted = self._is_sent_once_edited = False
        composer.set_text(conversation.draft)
        composer.attachments.show_files(conversation.attachments, conversation)
        composer.show_usage(None)
        self._bar.show_usage(None)
        composer.show_notice("")
        self._opened = opened
        self._show_queue()

    def _connect_signals(self) -> None:
        workspace, composer, meter = self._workspace, self._composer, self._workspace.meter
        composer.submitted.connect(self._send)
        composer.input.edge_pressed.connect(lambda by: composer.recall(by, self._prompts()))
        self._queue.changed.connect(self._take_queue)
        self._queue.send_requested.connect(self._send_now)
        self._queue.left.connect(self._leave_queue)
        self._bar.chosen.connect(self._choose_when_full)
        workspace.answering_changed.connect(self._show_queue)
        composer.input.textChanged.connect(self._keep_draft)
        for changed in (
            composer.input.textChanged,
            composer.attachments.changed,
            workspace.opened,
            workspace.settings_changed,
            workspace.model_selection.changed,
            workspace.answering_changed,
        ):
            changed.connect(self._count)
        composer.attachments.changed.connect(self._keep_draft)
        composer.attachments.read_for_another.connect(self._attach_to)
        meter.usage_changed.connect(self._show_usage)

    def _count(self) -> None:
        self._workspace.meter.count(self._counted_draft())

    def _send(self) -> None:
        """Send the message; before that, wait for the running answer, or count a long message."""
        meter, composer, opened = self._workspace.meter, self._composer, self._workspace.current
        message = (composer.text, composer.attachments.files)
        is_written = bool(message[0].strip() or message[1])
        if opened.is_answering or opened.conversation.queue:
            if is_written:
                self._note_prompt(composer.text)
                self._keep_queue(opened, (*opened.conversation.queue, message))
                self._follow(opened)
                composer.show_notice("")
                composer.clear()
                composer.input.setFocus()
            self._send_next(opened)
        elif not is_written:
            return
        elif self._is_long() and not meter.is_settled and self._counted_draft() is not None:
            self._is_sent_once_counted = True
            composer.show_notice(_COUNTING)
            meter.count_now()
        elif composer.full_because:
            composer.show_notice(composer.full_because)
        elif self._workspace.send(*message):
            self._note_prompt(composer.text)
            composer.show_notice("")
            composer.clear()
            composer.input.setFocus()

    def _is_long(self) -> bool:
        composer = self._composer
        # A shorter message without files is sent without waiting for its count.
        is_long = bool(composer.attachments.files) or len(composer.text) > 2_000
        return is_long or bool(composer.full_because)

    def _show_usage(self, usage: ContextUsage | None) -> None:
        self._composer.show_usage(usage)
        left_out = last_left_out(self._workspace.current.conversation.messages)
        self._bar.show_usage(usage, left_out)
        if self._is_sent_once_counted:
            self._is_sent_once_counted = False
            self._send()

    # -- the queue --------------------------------------------------------------------------

    def _follow(self, opened: ConversationController) -> None:
        """Send the queued messages of a conversation as its answers end."""
        if opened not in self._followed:
            self._followed.add(opened)
            opened.is_running_changed.connect(partial(self._note_end, opened))
            opened.destroyed.connect(lambda: self._followed.discard(opened))

    def _keep_queue(self, opened: ConversationController, queue: tuple[QueuedMessage, ...]) -> None:
        opened.conversation.queue = queue
        self._workspace.conversations.changed(opened.conversation)
        self._show_queue()

    def _show_queue(self) -> None:
        if self._opened is not None:
            queue = self._opened.conversation.queue
            self._composer.show_queue(bool(queue))
            self._queue.show_messages(queue, waits=self._opened.is_busy)

    def _take_queue(self, queue: tuple[QueuedMessage, ...]) -> None:
        if self._opened is not None:
            self._keep_queue(self._opened, queue)

    def _leave_queue(self) -> None:
        self._composer.input.setFocus()
        if self._is_sent_once_edited and self._opened is not None:
            self._send_next(self._opened)

    def _send_now(self, number: int) -> None:
        """Send a queued message before the others, and stop the running answer for it."""
        opened = self._opened
        if opened is None:
            return
        queue = list(opened.conversation.queue)
        queue.insert(0, queue.pop(number))
        self._keep_queue(opened, tuple(queue))
        if opened.is_answering:
            self._hurried.add(opened)
            opened.cancel()
        else:
            self._send_next(opened)
        self._composer.input.setFocus()

    def _note_end(self, opened: ConversationController, is_running: bool) -> None:
        """Send the next message once an answer has ended, unless that went wrong."""
        if is_running or opened.is_busy:
            return
        is_hurried = opened in self._hurried
        self._hurried.discard(opened)
        if is_hurried or _ended_well(opened.latest_run):
            self._send_next(opened)
        self._show_queue()

    def _send_next(self, opened: ConversationController) -> None:
        """Send the first queued message, if no answer is running."""
        queue = opened.conversation.queue
        if opened.is_busy or not queue or self._workspace.in_memory.is_closing:
            return
        self._follow(opened)
        self._is_sent_once_edited = opened is self._opened and self._queue.is_first_edited
        if self._is_sent_once_edited:
            return
        message = queue[0]
        if opened is self._workspace.current:
            was_sent = self._workspace.send(*message)
        else:
            was_sent = self._workspace.send_unseen(opened, *message)
        if was_sent:
            self._keep_queue(opened, queue[1:])

    def _choose_when_full(self, when_full: WhenFull) -> None:
        self._workspace.choose_when_full(when_full)
        self._workspace.meter.count_now()
        self._composer.input.setFocus()

    def _note_prompt(self, typed: str) -> None:
        self._sent = [*(prompt for prompt in self._sent if prompt != typed), typed][-200:]

    def _prompts(self) -> list[str]:
        """Return earlier questions, oldest first: those of other conversations, then this one's."""
        messages = self._workspace.current.conversation.messages
        here = [message.typed for message in messages if message.run is None]
        prompts = (*(prompt for prompt in self._sent if prompt not in here), *here)
        # A question that was asked several times is listed at its latest place.
        return list(dict.fromkeys(prompt for prompt in reversed(prompts) if prompt.strip()))[::-1]

    def _counted_draft(self) -> CountedDraft | None:
        current, info = self._workspace.current, self._workspace.model_selection.state.info
        typed, files = self._composer.text, self._composer.attachments.files
        if info is None or current.is_busy or not (typed.strip() or files):
            return None
        return CountedDraft(current.conversation, info, typed, files)

    def _keep_draft(self) -> None:
        if self._opened is not None:
            composer = self._composer
            self._workspace.change_draft(composer.draft, composer.attachments.files)
            # A changed message is sent only when the user presses Return again.
            self._is_sent_once_counted = False
            composer.show_notice("")

    def _attach_to(self, conversation: Conversation, file: Attachment) -> None:
        """Attach a file that was still being read when another conversation was opened."""
        if file not in conversation.attachments:
            conversation.attachments = (*conversation.attachments, file)
            self._workspace.conversations.changed(conversation)


def _ended_well(run: Run | None) -> bool:
    """Return whether an answer ended by itself, with nothing left to do."""
    if run is None or run.finished is None or run.state != "finished" or run.paused_at:
        return False
    return run.finished.stop.kind not in (StopKind.CANCELLED, StopKind.ERROR)

"""A question that is answered several times, side by side. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject, Signal

from ui.chat.session.conversation_session import (
    AnsweringEngine,
    ConversationSession,
    ModelsOnDemand,
)
from ui.chat.session.traces import Traces
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation, Variant
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.store import ConversationStore
from ui.tools.toolbox import Toolbox

# The answers are versions of one message from the beginning, so that none is lost if the program
# ends before one of them is chosen.

MOST_SIDES = 4


class Side(QObject):
    """One of the answers.

    Args:
        variant: The settings of the answer.
        session: Requests the answer.
        parent: Owns this object.

    Attributes:
        variant: The settings of the answer.
        session: Requests the answer.
        message: The answer, once it was requested; after calls of tools, the last part of it.
    """

    def __init__(self, variant: Variant, session: ConversationSession, parent: QObject) -> None:
        super().__init__(parent)
        self.variant = variant
        self.session = session
        self.message: ConversationMessage | None = None

    @property
    def run(self) -> Run | None:
        """The answer's run."""
        return None if self.message is None else self.message.run


class SideBySide(QObject):
    """Asks one question several times.

    Signals:
        is_running_changed: An answer began, or all have ended; carries whether one is running.
        side_ended: One of the answers has ended.
        run_changed: One of the answers went on or ended; carries its ``Run``.
    """

    is_running_changed = Signal(bool)
    side_ended = Signal()
    run_changed = Signal(object)

    def __init__(
        self,
        engine: AnsweringEngine,
        conversation: Conversation,
        store: ConversationStore,
        traces: Traces,
        models: ModelsOnDemand,
        toolbox: Toolbox,
        variants: Sequence[Variant],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._conversation = conversation
        self._store = store
        self.question: ConversationMessage | None = None
        self.sides = [
            Side(
                variant,
                ConversationSession(
                    engine,
                    variant.given_to(conversation),
                    store,
                    traces,
                    models,
                    self,
                    toolbox,
                    saved_as=conversation,
                ),
                self,
            )
            for variant in variants
        ]
        for side in self.sides:
            side.session.is_running_changed.connect(self._tell)
            side.session.run_changed.connect(self.run_changed)
            side.session.run_finished.connect(self.run_changed)
            side.session.message_appended.connect(partial(self._follow, side))

    @property
    def is_running(self) -> bool:
        """Whether an answer is running."""
        return any(side.session.is_running for side in self.sides)

    @property
    def runs(self) -> list[Run]:
        """The runs of the answers, the left one first."""
        return [side.run for side in self.sides if side.run is not None]

    def ask(self, text: str, files: Sequence[Attachment] = ()) -> bool:
        """Ask a new question at the conversation's end; return whether it was asked."""
        left, *others = self.sides
        if left.session.send(text, files) is None:
            return False
        left.message = self._conversation.messages[-1]
        self.question = left.message.parent
        assert self.question is not None
        for side in others:
            side.session.answer(self.question)
            side.message = self._conversation.messages[-1]
        return True

    def ask_again(self, question: ConversationMessage) -> bool:
        """Answer an existing question of the conversation again, once for each side."""
        self.question = question
        for side in self.sides:
            side.session.answer(question)
            side.message = _newest_answer(self._conversation, question)
        return True

    def answer_again(self, side: Side) -> bool:
        """Ask for one of the answers again; the one before stays as a version."""
        if self.question is None or side.session.is_running:
            return False
        if side.session.answer(self.question) is None:
            return False
        side.message = _newest_answer(self._conversation, self.question)
        return True

    def keep(self, side: Side) -> None:
        """Continue the conversation with one of the answers; the others stay as versions."""
        if side.message is not None:
            changed = self._conversation.tree.show(side.message)
            self._store.save_messages(self._conversation, changed)

    def cancel(self, *, is_closing: bool = False) -> None:
        """Stop all answers, because a person wants it or the program ends."""
        for side in self.sides:
            side.session.cancel(is_closing=is_closing)

    async def finish(self) -> None:
        """Cancel all answers, and wait for their end."""
        for side in self.sides:
            await side.session.finish()

    def _follow(self, side: Side, message: ConversationMessage) -> None:
        """Note that the answer of a side goes on after calls of tools."""
        if side.message is not None and message.parent is side.message:
            side.message = message

    def _tell(self, is_running: bool) -> None:
        if not is_running:
            self.side_ended.emit()
        if is_running or not self.is_running:
            self.is_running_changed.emit(is_running)


def _newest_answer(
    conversation: Conversation, question: ConversationMessage
) -> ConversationMessage:
    answers = (message for message in conversation.tree if message.parent is question)
    return max(answers, key=lambda message: message.shown_rank)

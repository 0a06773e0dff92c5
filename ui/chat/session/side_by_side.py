"""One question, two answers at the same time: the state of a conversation that is answered twice.

Main thread. Knows no widgets. Both answers are versions of one message from the beginning, so that
nothing is lost whatever happens before one of them is kept.
"""

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from ui.chat.session.answer.answer_keeping import AnswerStore
from ui.chat.session.answer.running_answer import AnsweringEngine
from ui.chat.session.conversation_session import ConversationSession
from ui.chat.session.models_on_demand import ModelsOnDemand
from ui.chat.session.traces import Traces
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage
from ui.records.runs import Run
from ui.records.sending.variants import Variant


class Side(QObject):
    """One of the two answers.

    Args:
        variant: What the answer runs with.
        session: Asks for it.
        parent: Owns this object.

    Attributes:
        variant: What it runs with.
        session: Asks for it.
        message: The answer, once it was asked for.
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
    """Asks one question twice.

    Signals:
        is_running_changed: An answer began, or both have ended; carries whether one is running.
        side_ended: One of the answers has ended.

    Args:
        engine: Answers.
        conversation: The conversation that the question belongs to.
        store: Keeps the answers.
        traces: Keeps the traces of both runs.
        models: Loads a side's model where it is not loaded.
        variants: What the two answers run with.
        parent: Owns this object.

    Attributes:
        sides: The left and the right one.
        question: What was asked, once it was.
    """

    is_running_changed = Signal(bool)
    side_ended = Signal()

    def __init__(
        self,
        engine: AnsweringEngine,
        conversation: Conversation,
        store: AnswerStore,
        traces: Traces,
        models: ModelsOnDemand,
        variants: tuple[Variant, Variant],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._conversation = conversation
        self._store = store
        self.question: ConversationMessage | None = None
        kept = _OneConversation(store, conversation)
        self.sides = [
            Side(
                variant,
                ConversationSession(
                    engine, variant.given_to(conversation), kept, traces, models, self
                ),
                self,
            )
            for variant in variants
        ]
        for side in self.sides:
            side.session.is_running_changed.connect(self._tell)

    @property
    def is_running(self) -> bool:
        """Whether an answer is on its way."""
        return any(side.session.is_running for side in self.sides)

    @property
    def runs(self) -> list[Run]:
        """The runs of both answers, the left one first."""
        return [side.run for side in self.sides if side.run is not None]

    def ask(self, text: str, files: Sequence[Attachment] = ()) -> bool:
        """Ask a new question at the conversation's end; returns whether it was asked."""
        left, right = self.sides
        if left.session.send(text, files) is None:
            return False
        left.message = self._conversation.messages[-1]
        self.question = left.message.parent
        assert self.question is not None
        right.session.answer(self.question)
        right.message = self._conversation.messages[-1]
        return True

    def ask_again(self, question: ConversationMessage) -> bool:
        """Answer a question of the conversation once more, twice."""
        self.question = question
        for side in self.sides:
            side.session.answer(question)
            side.message = max(
                (m for m in self._conversation.tree if m.parent is question),
                key=lambda message: message.shown_rank,
            )
        return True

    def keep(self, side: Side) -> None:
        """Let the conversation go on from one of the answers; the other stays as a version."""
        if side.message is not None:
            changed = self._conversation.tree.show(side.message)
            self._store.save_messages(self._conversation, changed)

    def cancel(self) -> None:
        """End both answers."""
        for side in self.sides:
            side.session.cancel()

    async def finish(self) -> None:
        """Cancel what runs and wait for its end."""
        for side in self.sides:
            await side.session.finish()

    def _tell(self, is_running: bool) -> None:
        if not is_running:
            self.side_ended.emit()
        if is_running or not self.is_running:
            self.is_running_changed.emit(is_running)


class _OneConversation:
    """Keeps what both sides save under the conversation that they were made from."""

    def __init__(self, store: AnswerStore, conversation: Conversation) -> None:
        self._store = store
        self._conversation = conversation

    def save(self, _twin: Conversation) -> None:
        """Keep the conversation, not what a side runs with."""
        self._store.save(self._conversation)

    def save_messages(self, _twin: Conversation, messages: Sequence[ConversationMessage]) -> None:
        """Keep messages of the conversation."""
        self._store.save_messages(self._conversation, messages)

    async def settled(self) -> None:
        """Wait until all that was saved before is kept."""
        await self._store.settled()

"""The conversations in memory, each with its controller. Main thread."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QObject, Signal

from ui.chat.session.conversation_controller import ChatContext, ConversationController
from ui.chat.session.conversation_list import ConversationList
from ui.kit.tasks import finish_tasks, start_task
from ui.records.conversations import Conversation
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry

# How many conversations stay in memory besides those with running answers.
MAX_OPEN = 6


class OpenConversations(QObject):
    """Opens conversations, and unloads them when they were not shown for a while."""

    answer_ended = Signal(object, object)  # Conversation, Run
    need_changed = Signal(object, object)  # Conversation, Run

    def __init__(
        self, context: ChatContext, conversations: ConversationList, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._conversations = conversations
        # The conversation that was opened last, which is the shown one, comes last.
        self._open: dict[str, ConversationController] = {}
        self._is_releasing = False
        self.requested: Conversation | None = None
        self.is_closing = False
        context.models.changed.connect(self.offer_tokenizer)

    def open(self, conversation: Conversation) -> ConversationController:
        """Return the controller of a loaded conversation."""
        opened = self._open.pop(conversation.id, None)
        if opened is None:
            opened = ConversationController(self._context, conversation, self)
            self._offer(opened)
            opened.is_running_changed.connect(partial(self._note_running, conversation))
            opened.run_finished.connect(partial(self.answer_ended.emit, conversation))
            opened.sides_changed.connect(partial(self._follow_sides, opened))
            opened.stops.edited.connect(lambda: self._conversations.changed(conversation))
            opened.need_changed.connect(partial(self._note_need, conversation))
        self._open[conversation.id] = opened
        return opened

    def begin_with(
        self, conversation: Conversation, stops: Sequence[StopEntry], source: str
    ) -> None:
        """Give a conversation without messages the stop list that new ones begin with."""
        conversation.stops, conversation.stops_from = list(stops), source
        if (opened := self._open.get(conversation.id)) is not None:
            opened.undo_stack.clear()
            opened.stops.show_entries(stops, -1)
        self._conversations.changed(conversation)

    @property
    def is_running(self) -> bool:
        return any(opened.is_running for opened in self._open.values())

    def cancel(self, conversation: Conversation) -> None:
        if conversation.id in self._open:
            self._open[conversation.id].cancel()

    def cancel_all(self) -> None:
        self.is_closing = True
        for opened in self._open.values():
            opened.cancel(is_closing=True)

    def release_unseen(self) -> None:
        """Unload the conversations that were not shown for a while."""
        if not self._is_releasing:
            self._is_releasing = True
            start_task(self, self._release_unseen(), "release conversations")

    async def finish(self) -> None:
        for opened in list(self._open.values()):
            await opened.finish()
        await finish_tasks(self)

    def offer_tokenizer(self) -> None:
        """Show the tokens of stops for each conversation whose model is loaded."""
        for opened in self._open.values():
            self._offer(opened)

    def _note_running(self, conversation: Conversation, _is_running: bool) -> None:
        self._conversations.changed(conversation)
        self.release_unseen()

    def _follow_sides(self, opened: ConversationController) -> None:
        for side in opened.sides:
            side.run_finished.connect(partial(self._note_side_ended, opened))

    def _note_side_ended(self, opened: ConversationController, run: Run) -> None:
        """Report the end of compared answers once, when the last of them has ended."""
        if not opened.is_running:
            self.answer_ended.emit(opened.conversation, run)

    def _note_need(self, conversation: Conversation, run: Run) -> None:
        self._conversations.repaint(conversation)
        self.need_changed.emit(conversation, run)

    async def _release_unseen(self) -> None:
        try:
            await self._context.store.flush()
        finally:
            self._is_releasing = False
        for opened in list(self._open.values())[:-MAX_OPEN]:
            is_in_use = opened.is_busy or bool(opened.stops.pending_input)
            if not is_in_use and self._release(opened.conversation):
                del self._open[opened.conversation.id]
                opened.deleteLater()
        # Imported and copied conversations were never opened.
        for conversation in self._conversations.every():
            if conversation.is_loaded and conversation.id not in self._open:
                self._release(conversation)

    def _release(self, conversation: Conversation) -> bool:
        """Unload a conversation if all of it can be loaded again; return whether it was."""
        if conversation is self.requested or not self._context.store.is_saved(conversation):
            return False
        if len(conversation.tree):
            conversation.unload()
        return True

    def _offer(self, opened: ConversationController) -> None:
        choice = opened.conversation.model
        info = self._context.models.status(None if choice is None else choice.folder).info
        opened.stops.set_special_tokens(token.text for token in (info.eos if info else ()))
        engine = self._context.engine
        tokenize = None if info is None else partial(engine.tokenize, name=info.id)
        opened.stops.set_tokenizer(tokenize)

"""The conversations in memory: those that were shown last, and those with running answers.

Main thread. Knows no widgets.
"""

from collections.abc import Callable
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine import Engine
from ui.chat.history.conversation_list import ConversationList
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.traces import Traces
from ui.kit.background.tasks import Tasks
from ui.models.model_state import ModelState
from ui.records.conversations import Conversation
from ui.records.store import ConversationStore
from ui.tools.toolbox import Toolbox

# How many conversations stay in memory besides those with running answers.
MOST_OPEN = 6


class OpenConversations(QObject):
    """Opens conversations, and unloads those that were not shown for a while.

    Signals:
        answer_ended: An answer ended; carries its ``Conversation`` and its ``Run``.
    """

    answer_ended = Signal(object, object)

    def __init__(
        self,
        engine: Engine,
        model: ModelState,
        store: ConversationStore,
        traces: Traces,
        conversations: ConversationList,
        is_wanted: Callable[[Conversation], bool],
        toolbox: Toolbox,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._toolbox = toolbox
        self._engine = engine
        self._model = model
        self._store = store
        self._traces = traces
        self._conversations = conversations
        self._is_wanted = is_wanted
        self._open: dict[str, OpenConversation] = {}  # the one that was opened last comes last
        self._tasks = Tasks()
        self._is_releasing = False
        model.changed.connect(self.offer_tokenizer)

    def open(self, conversation: Conversation) -> OpenConversation:
        """Return a loaded conversation with its session and stop list."""
        opened = self._open.pop(conversation.id, None)
        if opened is None:
            opened = OpenConversation(
                self._engine,
                conversation,
                self._store,
                self._traces,
                self._model,
                self._toolbox,
                self,
            )
            self._offer(opened)
            opened.is_running_changed.connect(lambda: self._keep(conversation))
            opened.is_running_changed.connect(self.release_unseen)
            opened.session.run_finished.connect(partial(self.answer_ended.emit, conversation))
            opened.stops.edited.connect(lambda: self._keep(conversation))
        self._open[conversation.id] = opened
        return opened

    def cancel(self, conversation: Conversation) -> None:
        """Stop the running answer of a conversation, if it has one."""
        if conversation.id in self._open:
            self._open[conversation.id].cancel()

    def cancel_all(self) -> None:
        """Stop every running answer, because the program ends."""
        for opened in self._open.values():
            opened.cancel(is_closing=True)

    def release_unseen(self) -> None:
        """Unload the conversations that were not shown for a while."""
        if not self._is_releasing:
            self._is_releasing = True
            self._tasks.start(self._release_unseen(), "release conversations")

    async def finish(self) -> None:
        """Stop every running answer, and wait until the background work has ended."""
        for opened in list(self._open.values()):
            await opened.finish()
        await self._tasks.finish()

    async def _release_unseen(self) -> None:
        try:
            await self._store.settled()
        finally:
            self._is_releasing = False
        for opened in list(self._open.values())[:-MOST_OPEN]:
            is_in_use = opened.is_busy or bool(opened.stops.half_typed)
            if not is_in_use and self._release(opened.conversation):
                del self._open[opened.conversation.id]
                opened.deleteLater()
        # Imported and copied conversations were never opened.
        for row in range(self._conversations.rowCount()):
            conversation = self._conversations.at(row)
            if conversation.is_loaded and conversation.id not in self._open:
                self._release(conversation)

    def _release(self, conversation: Conversation) -> bool:
        """Unload a conversation if all of it can be loaded again; return whether it was."""
        if self._is_wanted(conversation) or not self._store.is_kept(conversation):
            return False
        if len(conversation.tree):
            conversation.unload(conversation.preview)
        return True

    def _keep(self, conversation: Conversation) -> None:
        self._conversations.changed(conversation)

    def offer_tokenizer(self) -> None:
        """Show the tokens of stops for each conversation whose model is loaded."""
        for opened in self._open.values():
            self._offer(opened)

    def _offer(self, opened: OpenConversation) -> None:
        choice = opened.conversation.model
        info = self._model.info_of(None if choice is None else choice.folder)
        eos = () if info is None else info.eos
        opened.stops.set_special_tokens(token.text for token in eos)
        tokenize = None if info is None else partial(self._engine.tokenize, name=info.id)
        opened.stops.set_tokenizer(tokenize)

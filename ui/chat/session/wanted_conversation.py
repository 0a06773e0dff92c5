"""Loads the messages of the conversation that a person wants to open. Main thread."""

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal

from ui.kit.background.tasks import Tasks
from ui.records.conversations import Conversation
from ui.records.store import ConversationStore


class WantedConversation(QObject):
    """The conversation that a person wants to open, until it is shown.

    Signals:
        changed: Another conversation is wanted, or the wanted one cannot be read.
    """

    changed = Signal()

    def __init__(
        self,
        store: ConversationStore,
        show: Callable[[Conversation, str | None], None],
        give_up: Callable[[], None],
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.conversation: Conversation | None = None
        self._store = store
        self._show = show
        self._give_up = give_up
        self._tasks = Tasks()

    def open(self, conversation: Conversation, message_id: str | None = None) -> None:
        """Open a conversation; it is shown at once if it is in memory and its end is wanted."""
        self._want(conversation)
        if conversation.is_loaded and message_id is None:
            self._show(conversation, None)
        else:
            self._tasks.start(self._load(conversation, message_id), "open a conversation")

    def forget(self) -> None:
        """Forget the wanted conversation, because it is shown."""
        self.conversation = None

    async def finish(self) -> None:
        """Wait until loading has ended."""
        await self._tasks.finish()

    async def _load(self, conversation: Conversation, message_id: str | None) -> None:
        await self._store.fill(conversation)
        if self.conversation is not conversation:
            return  # a person wants another one meanwhile
        if conversation.is_loaded:
            self._show(conversation, message_id)
        else:
            self._want(None)  # it cannot be read; the store has reported that
            self._give_up()

    def _want(self, conversation: Conversation | None) -> None:
        self.conversation = conversation
        self.changed.emit()

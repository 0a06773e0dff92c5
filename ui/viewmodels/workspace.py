"""The whole window's state: conversations, the open one, the model, the server.

Main thread. Knows no widgets; the main window and the panels render it.
"""

from pathlib import Path

from PySide6.QtCore import QObject, Signal

from engine.service import Engine
from ui.viewmodels.chat import ChatSession
from ui.viewmodels.conversations import (
    Conversation,
    ConversationList,
    ConversationSettings,
    ConversationStore,
    MemoryConversationStore,
)
from ui.viewmodels.model_state import ModelState
from ui.viewmodels.runs import Run
from ui.viewmodels.server import ServerControl, ServerSwitch
from ui.viewmodels.stop_list import StopListModel


class OpenConversation(QObject):
    """A conversation with its session and its stop list; lives on while another one is shown."""

    def __init__(self, engine: Engine, conversation: Conversation, parent: QObject) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self.session = ChatSession(engine, conversation, self)
        self.stops = StopListModel(conversation.stops, self)
        self.shown_run: Run | None = None
        self.stops.edited.connect(self._keep_stops)

    def _keep_stops(self) -> None:
        self.conversation.stops = self.stops.entries()


class Workspace(QObject):
    """Everything the window shows.

    Signals:
        opened: Another conversation is shown; carries its ``OpenConversation``.
        run_shown: The stop panel shows another run; carries the ``Run`` or None.
        settings_changed: The open conversation's settings are others now.
    """

    opened = Signal(object)
    run_shown = Signal(object)
    settings_changed = Signal()

    def __init__(
        self,
        engine: Engine,
        server: ServerControl | None = None,
        store: ConversationStore | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self._open: dict[str, OpenConversation] = {}
        self.model = ModelState(engine, self)
        self.server = None if server is None else ServerSwitch(server, self)
        self.conversations = ConversationList(store or MemoryConversationStore(), self)
        self.model.changed.connect(self._offer_tokenizer)
        self.conversations.restored.connect(self.open)
        self.current = self._opened(self._first())

    # -- intents ---------------------------------------------------------------------------

    def load_model(self, path: Path) -> None:
        """Load the model of a folder in the background."""
        self.model.load(path)

    def new_conversation(self) -> None:
        """Show an empty conversation."""
        self.open(self.conversations.create())

    def open(self, conversation: Conversation) -> None:
        """Show a conversation."""
        if self.current.conversation is conversation:
            return
        self.current = self._opened(conversation)
        self.opened.emit(self.current)
        self.run_shown.emit(self.current.shown_run)

    def delete(self, conversation: Conversation) -> None:
        """Delete a conversation, ending its answer; another one is shown in its place."""
        row = self.conversations.row_of(conversation)
        if conversation.id in self._open:
            self._open[conversation.id].session.cancel()
        self.conversations.delete(conversation)
        if self.current.conversation is conversation:
            count = self.conversations.rowCount()
            following = self.conversations.at(min(row, count - 1)) if count else None
            self.open(following or self.conversations.create())

    def send(self, text: str) -> bool:
        """Ask the open conversation's model; returns whether it was sent."""
        current = self.current
        if self.model.stage != "ready":
            return False
        run = current.session.send(text)
        if run is None:
            return False
        self.conversations.name_after(current.conversation, text)
        self.conversations.touch(current.conversation)
        self.show_run(run)
        return True

    def cancel(self) -> None:
        """End the open conversation's running answer."""
        self.current.session.cancel()

    def show_run(self, run: Run | None) -> None:
        """Show why an answer ended."""
        self.current.shown_run = run
        self.run_shown.emit(run)

    def change_settings(self, settings: ConversationSettings) -> None:
        """Give the open conversation other settings; they count from the next answer on."""
        if settings != self.current.conversation.settings:
            self.current.conversation.settings = settings
            self.conversations.changed(self.current.conversation)
            self.settings_changed.emit()

    def cancel_all(self) -> None:
        """End every running answer."""
        for opened in self._open.values():
            opened.session.cancel()

    async def finish(self) -> None:
        """End all that is under way: answers, loading, the server."""
        for opened in list(self._open.values()):
            await opened.session.finish()
        await self.model.finish()
        if self.server is not None:
            await self.server.finish()

    # -- inside ----------------------------------------------------------------------------

    def _first(self) -> Conversation:
        if self.conversations.rowCount():
            return self.conversations.at(0)
        return self.conversations.create()

    def _opened(self, conversation: Conversation) -> OpenConversation:
        opened = self._open.get(conversation.id)
        if opened is None:
            opened = OpenConversation(self._engine, conversation, self)
            if self.model.stage == "ready":
                opened.stops.set_tokenizer(self._engine.tokenize)
            repaint = lambda *_: self.conversations.changed(conversation)  # noqa: E731
            opened.session.is_running_changed.connect(repaint)
            opened.stops.edited.connect(repaint)
            self._open[conversation.id] = opened
            answers = [m.run for m in conversation.messages if m.run is not None]
            opened.shown_run = answers[-1] if answers else None
        return opened

    def _offer_tokenizer(self) -> None:
        tokenize = self._engine.tokenize if self.model.stage == "ready" else None
        for opened in self._open.values():
            opened.stops.set_tokenizer(tokenize)

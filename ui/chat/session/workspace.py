"""The state of the whole window: conversations, the open one, the model, the server.

Main thread. Knows no widgets; the main window and the panels render it.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from PySide6.QtCore import QObject, Signal, SignalInstance

from engine import Engine
from ui.chat.composing.context_meter import ContextMeter
from ui.chat.composing.preset_list import PresetList
from ui.chat.history.conversation_list import ConversationList
from ui.chat.history.search import Search
from ui.chat.session.answering_model import AnsweringModel
from ui.chat.session.draft_keeping import DraftKeeping
from ui.chat.session.open_conversation import OpenConversation
from ui.chat.session.open_conversations import OpenConversations
from ui.chat.session.settings_in_use import SettingsInUse
from ui.chat.session.traces import Traces
from ui.chat.session.wanted_conversation import WantedConversation
from ui.chat.storage.conversation_files import ConversationFiles
from ui.chat.storage.recovery import Recovery
from ui.models.model_state import ModelState
from ui.records.attachments import Attachment
from ui.records.codec import Preset
from ui.records.conversations import Conversation, ConversationFolder
from ui.records.messages import ConversationMessage
from ui.records.requests import cache_owner
from ui.records.runs import NO_CHANGE, Run, StopChange
from ui.records.store import ConversationStore
from ui.server.server_switch import ServerControl, ServerSwitch
from ui.tools.toolbox import Toolbox


class Workspace(QObject):
    """The state behind the main window.

    Signals:
        opened: Another conversation is shown; carries its ``OpenConversation``.
        selection_changed: A person wants another conversation, which may still have to be loaded.
        run_shown: The stop panel shows another run; carries the ``Run`` or None.
        answering_changed: The open conversation began or ended an answer, or another one was
            opened; carries whether an answer is running.
        stops_edited: The stop list of the open conversation was edited.
        message_wanted: A message of the open conversation should be scrolled to; carries it.

    Args:
        engine: Generates the answers.
        server: Starts and stops the local server.
        store: Keeps conversations.
        toolbox: The tool servers, their limits and approvals.
        parent: Owns this object.

    Attributes:
        in_memory: The open conversation, and others that were open or have running answers.
        settings: Changes the settings of the open conversation.
    """

    opened = Signal(object)
    selection_changed = Signal()
    run_shown = Signal(object)
    answering_changed = Signal(bool)
    stops_edited = Signal()
    message_wanted = Signal(object)

    def __init__(
        self,
        engine: Engine,
        server: ServerControl,
        store: ConversationStore,
        toolbox: Toolbox,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self.toolbox = toolbox
        self.store = store
        self.traces = Traces(self)
        self.model = ModelState(engine, self)
        self.answering = AnsweringModel(self.model, self)
        self.server = ServerSwitch(server, self)
        self.conversations = ConversationList(store, self)
        self.meter = ContextMeter(engine, self, toolbox.offered_to)
        self.search = Search(store, self)
        self.presets = PresetList(store, self)
        self.settings = SettingsInUse(lambda: self.current, self.conversations, self.presets, self)
        self.files = ConversationFiles(store, self.conversations, self.presets, self.traces, self)
        self.recovery = Recovery(store, self.files.transfers, self)
        self._wanted = WantedConversation(store, self._show_at, self._replace_deleted, self)
        self._wanted.changed.connect(self.selection_changed)
        self.in_memory = OpenConversations(
            engine,
            self.model,
            store,
            self.traces,
            self.conversations,
            lambda one: one is self.current.conversation or one is self._wanted.conversation,
            toolbox,
            self,
        )
        self._drafts = DraftKeeping(self.conversations.changed, self)
        store.on_found(self._take_found)
        self.conversations.restored.connect(self.open)
        self.files.added.connect(self.open)
        self.files.grown.connect(self.in_memory.release_unseen)
        self.answering.chosen.connect(self._keep_choice)
        self.current = self.in_memory.open(self._first())
        self._follow_current()
        self.answering.look_again()

    # -- intents ---------------------------------------------------------------------------

    def new_conversation(self, folder: ConversationFolder | None = None) -> None:
        """Show an empty conversation, in a folder if one is given."""
        self.open(self.conversations.create(folder))

    def take_in(self, conversation: Conversation) -> None:
        """Add a conversation to the list and show it."""
        self.conversations.insert(conversation)
        self.open(conversation)

    @property
    def selected(self) -> Conversation:
        """The conversation that a person opened last; it may still be loading."""
        return self._wanted.conversation or self.current.conversation

    def open(self, conversation: Conversation) -> None:
        """Show a conversation, at once if its messages are in memory."""
        self._wanted.open(conversation)

    def open_at(self, conversation_id: str, message_id: str | None) -> None:
        """Show a conversation at one of its messages, in any version."""
        conversation = self.conversations.with_id(conversation_id)
        if conversation is not None:
            self._wanted.open(conversation, message_id)

    def delete(self, *conversations: Conversation) -> None:
        """Delete conversations and stop their answers; another conversation is shown."""
        row = min(map(self.conversations.row_of, conversations), default=-1)
        for conversation in conversations:
            self.in_memory.cancel(conversation)
            self._engine.forget(cache_owner(conversation))
        is_selected = self.selected in conversations
        self.conversations.delete(*conversations)
        if is_selected:
            left = [one for one in self.conversations.every() if not one.placement.is_archived]
            below = [one for one in left if self.conversations.row_of(one) >= row]
            following = below or left[-1:]
            self.open(following[0] if following else self.conversations.create())

    def forget_read(self, conversation: Conversation) -> None:
        """Delete the cached prompts of a conversation, because some of it was deleted."""
        self._engine.forget(cache_owner(conversation))

    def answer(self, question: ConversationMessage) -> bool:
        """Answer a question that has no answer yet; return whether an answer was begun."""
        return self._can_ask() and self._begun(self.current.session.answer(question))

    def send(
        self, text: str, files: Sequence[Attachment] = (), change: StopChange = NO_CHANGE
    ) -> bool:
        """Send a message in the open conversation; return whether it was sent.

        Args:
            text: The message.
            files: The files that are attached to it.
            change: How the stops of its answer differ from the conversation's list.
        """
        if not self._can_ask():
            return False
        title = text if text.strip() else ", ".join(file.name for file in files)
        return self._begun(self.current.session.send(text, files, change), title)

    def send_unseen(self, opened: OpenConversation, text: str, files: Sequence[Attachment]) -> None:
        """Send a message in a conversation that is not shown; its draft is over."""
        conversation = opened.conversation
        run = opened.session.send(text, files)
        if run is not None:
            if conversation.draft == text:
                conversation.draft, conversation.attachments = "", ()
            opened.shown_run = run
            self.conversations.touch(conversation)

    def edit(
        self, question: ConversationMessage, text: str, files: Sequence[Attachment] = ()
    ) -> bool:
        """Replace a question and answer the new one; return whether it was sent.

        Args:
            question: The question.
            text: The new text.
            files: The new files.
        """
        can_ask = self._can_ask()
        return can_ask and self._begun(self.current.session.edit(question, text, files))

    def regenerate(self, answer: ConversationMessage) -> bool:
        """Answer a question again; return whether an answer was begun."""
        return self._can_ask() and self._begun(self.current.session.regenerate(answer))

    def continue_answer(self, answer: ConversationMessage) -> bool:
        """Continue an answer, past the stop that ended it if one did.

        Returns:
            Whether an answer was begun.
        """
        can_ask = self._can_ask()
        return can_ask and self._begun(self.current.session.continue_answer(answer))

    def answer_without_stop(self, answer: ConversationMessage) -> bool:
        """Answer again without the stop that ended an answer; return whether one was begun."""
        can_ask = self._can_ask()
        return can_ask and self._begun(self.current.session.answer_without_stop(answer))

    def show_version(self, message: ConversationMessage, step: int) -> None:
        """Show the previous (-1) or next (1) version of a shown message."""
        if self.current.step_version(message, step):
            self.show_run(self.current.latest_run)
            self.conversations.repaint(self.current.conversation)

    def change_draft(self, text: str) -> None:
        """Note the text of the composer; it is saved a moment later."""
        self._drafts.change(self.current.conversation, text)

    def change_attachments(self, files: tuple[Attachment, ...]) -> None:
        """Note the files of the composer; they are saved a moment later."""
        self._drafts.attach(self.current.conversation, files)

    def keep_draft(self) -> None:
        """Save the draft now."""
        self._drafts.keep()

    def show_run(self, run: Run | None) -> None:
        """Show why an answer ended."""
        self.current.shown_run = run
        self.run_shown.emit(run)

    def _keep_choice(self, conversation: Conversation) -> None:
        self.conversations.changed(conversation)
        self.in_memory.offer_tokenizer()

    def cancel_all(self) -> None:
        """Stop every running answer."""
        self.in_memory.cancel_all()

    async def finish(self) -> None:
        """Stop answers, loading and the server, and wait for their end."""
        self.keep_draft()
        await self.in_memory.finish()
        await self._wanted.finish()
        await self.search.finish()
        await self.meter.finish()
        await self.files.finish()
        await self.presets.finish()
        await self.store.settled()
        await self.answering.finish()
        await self.model.finish()
        await self.server.finish()

    def _take_found(self, conversations: list[Conversation], presets: list[Preset]) -> None:
        self.conversations.take_found(conversations)
        self.presets.take_found(presets)

    # -- inside ----------------------------------------------------------------------------

    def _can_ask(self) -> bool:
        return self.current.sides is None and self.answering.settle()

    def _begun(self, run: Run | None, question: str = "") -> bool:
        """Show a run, if one was begun; return whether one was."""
        if run is None:
            return False
        self.conversations.name_after(self.current.conversation, question)
        self.conversations.touch(self.current.conversation)
        self.show_run(run)
        return True

    def _replace_deleted(self) -> None:
        """Show a new conversation if the open one was deleted and the wanted one cannot be read."""
        if self.conversations.row_of(self.current.conversation) < 0:
            self.new_conversation()

    def _show_at(self, conversation: Conversation, message_id: str | None) -> None:
        self._show(conversation)
        message = conversation.tree.get(message_id) if message_id else None
        if message is not None:
            self.current.session.show_version(message)
            self.message_wanted.emit(message)

    def _show(self, conversation: Conversation) -> None:
        self._wanted.forget()
        if self.current.conversation is conversation:
            return
        self.keep_draft()
        self._leave_current()
        self.current = self.in_memory.open(conversation)
        self._follow_current()
        self.selection_changed.emit()
        self.opened.emit(self.current)
        self.answering.look_again()
        self.run_shown.emit(self.current.shown_run)
        self.in_memory.release_unseen()

    def _first(self) -> Conversation:
        """Return the conversation that was used last, if it is in memory, or a new one."""
        loaded = [one for one in self.conversations.every() if one.is_loaded]
        latest = max(loaded, key=lambda one: one.updated_at, default=None)
        return self.conversations.create() if latest is None else latest

    def _follow_current(self) -> None:
        for signal, slot in self._connections():
            signal.connect(slot)
        self.answering.follow(self.current.conversation)

    def _leave_current(self) -> None:
        for signal, slot in self._connections():
            signal.disconnect(slot)

    def _connections(self) -> Iterator[tuple[SignalInstance, Any]]:
        yield self.current.is_running_changed, self.answering_changed
        yield self.current.stops.edited, self.stops_edited
        yield self.current.went_on, self.show_run

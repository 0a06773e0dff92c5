"""The state of the whole window: conversations, the open one, the model, the server.

Main thread.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, SignalInstance

from engine import Engine, quoted
from ui.chat.session.answering_model import AnsweringModel
from ui.chat.session.context_meter import ContextMeter
from ui.chat.session.conversation_files import ConversationFiles
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.open_conversations import OpenConversation, OpenConversations
from ui.chat.session.presets import PresetList
from ui.chat.session.recovery import Recovery
from ui.chat.session.search import Search
from ui.chat.session.side_by_side import Side
from ui.chat.session.titles import Titles
from ui.chat.session.traces import Traces
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_state import ModelState
from ui.records.attachments import Attachment
from ui.records.codec import Preset
from ui.records.conversations import (
    Conversation,
    ConversationFolder,
    ConversationSettings,
    Variant,
    WhenFull,
)
from ui.records.messages import ConversationMessage
from ui.records.requests import cache_owner
from ui.records.runs import NO_CHANGE, Run, StopChange
from ui.records.store import ConversationStore
from ui.records.tools import ToolsInUse
from ui.server.server_switch import ServerControl, ServerSwitch
from ui.tools.toolbox import Toolbox

_KEPT_AFTER_MS = 400


class DraftKeeping(QObject):
    """Saves the draft of the open conversation."""

    def __init__(self, save: Callable[[Conversation], None], parent: QObject) -> None:
        super().__init__(parent)
        self._save = save
        self._changed: Conversation | None = None
        self._later = QTimer(self, singleShot=True, interval=_KEPT_AFTER_MS)
        self._later.timeout.connect(self.keep)

    def change(self, conversation: Conversation, text: str) -> None:
        """Note the typed text; it is saved a moment later."""
        if conversation.draft != text:
            conversation.draft = text
            self._keep_soon(conversation)

    def attach(self, conversation: Conversation, files: tuple[Attachment, ...]) -> None:
        """Note the files of the draft; they are saved a moment later."""
        if conversation.attachments != files:
            conversation.attachments = files
            self._keep_soon(conversation)

    def _keep_soon(self, conversation: Conversation) -> None:
        self._changed = conversation
        # The time does not begin again: some people type for minutes without a pause.
        if not self._later.isActive():
            self._later.start()

    def keep(self) -> None:
        """Save unsaved changes of the draft now."""
        self._later.stop()
        changed, self._changed = self._changed, None
        if changed is not None:
            self._save(changed)


class SettingsInUse(QObject):
    """The settings of the open conversation; a change applies from the next answer on.

    Signals:
        changed: The settings or the tools of the open conversation were changed.
    """

    changed = Signal()

    def __init__(
        self,
        current: Callable[[], OpenConversation],
        conversations: ConversationList,
        presets: PresetList,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self._current = current
        self._conversations = conversations
        self._presets = presets

    def change(self, settings: ConversationSettings) -> None:
        """Change the settings of the open conversation."""
        conversation = self._current().conversation
        if settings != conversation.settings:
            conversation.settings = settings
            self._conversations.changed(conversation)
            self.changed.emit()

    def change_tools(self, tools: ToolsInUse) -> None:
        """Change the tools of the open conversation."""
        conversation = self._current().conversation
        if tools != conversation.tools:
            conversation.tools = tools
            self._conversations.changed(conversation)
            self.changed.emit()

    def use_preset(self, preset: Preset) -> None:
        """Use a preset's settings and stop list in the open conversation; this can be undone."""
        self.change(preset.settings)
        current = self._current()
        current.conversation.stops_from = f"preset:{preset.name}"
        current.stops.replace_all(preset.stops, f"Use Preset {quoted(preset.name, 16)}")

    def save_preset(self, name: str) -> None:
        """Save the open conversation's settings and stop list as a preset."""
        conversation = self._current().conversation
        self._presets.keep(Preset(name, conversation.settings, tuple(conversation.stops)))


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
        titles: Lets the model name conversations.
        drafts: Saves the text and the files of the composer.
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
        self.drafts = DraftKeeping(self.conversations.changed, self)
        self._wanted: Conversation | None = None
        self.in_memory = OpenConversations(
            engine,
            self.model,
            store,
            self.traces,
            self.conversations,
            lambda conversation: (
                conversation is self.current.conversation or conversation is self._wanted
            ),
            toolbox,
            self,
        )
        self.meter.when_full = lambda: self.in_memory.when_full
        self.titles = Titles(engine, self.in_memory, self.conversations, self.model, self)
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
        return self._wanted or self.current.conversation

    def open(self, conversation: Conversation) -> None:
        """Show a conversation, at once if its messages are in memory."""
        self._want(conversation)
        if conversation.is_loaded:
            self._show(conversation)
        else:
            start_task(self, self._load(conversation, None), "open a conversation")

    def open_at(self, conversation_id: str, message_id: str | None) -> None:
        """Show a conversation at one of its messages, in any version."""
        conversation = self.conversations.with_id(conversation_id)
        if conversation is not None:
            self._want(conversation)
            start_task(self, self._load(conversation, message_id), "open a conversation")

    def delete(self, *conversations: Conversation) -> None:
        """Delete conversations and stop their answers; another conversation is shown."""
        gone, before = set(conversations), self.conversations.every()
        row = next((row for row, one in enumerate(before) if one in gone), 0)
        for conversation in conversations:
            self.in_memory.cancel(conversation)
            self._engine.forget(cache_owner(conversation))
        is_selected = self.selected in gone
        self.conversations.delete(*conversations)
        if is_selected:
            every = self.conversations.every()
            nearest = (*every[row:], *reversed(every[:row]))
            following = (one for one in nearest if not one.placement.is_archived)
            self.open(next(following, None) or self.conversations.create())

    def forget_read(self, conversation: Conversation) -> None:
        """Delete the cached prompts of a conversation, because some of it was deleted."""
        self._engine.forget(cache_owner(conversation))

    def ask(self, action: Callable[..., Run | None], *told: Any) -> bool:
        """Have an answer begun by an action of ``ConversationSession``; return whether it was.

        Args:
            action: ``ConversationSession.regenerate``, for instance.
            told: Its arguments.
        """
        return self._can_ask() and self._begun(action(self.current.session, *told))

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

    def send_unseen(self, opened: OpenConversation, text: str, files: Sequence[Attachment]) -> bool:
        """Send a message in a conversation that is not shown; return whether it was sent."""
        run = opened.session.send(text, files)
        if run is not None:
            opened.shown_run = run
            self.conversations.touch(opened.conversation)
        return run is not None

    def choose_when_full(self, when_full: WhenFull | None) -> None:
        """Choose what becomes of the open conversation's oldest messages when it is too long."""
        conversation = self.current.conversation
        if conversation.when_full is not when_full:
            conversation.when_full = when_full
            self.conversations.changed(conversation)
            self.settings.changed.emit()

    def show_version(self, message: ConversationMessage, step: int) -> None:
        """Show the previous (-1) or next (1) version of a shown message."""
        if self.current.step_version(message, step):
            self.show_run(self.current.latest_run)
            self.conversations.repaint(self.current.conversation)

    def show_run(self, run: Run | None) -> None:
        """Show why an answer ended."""
        self.current.shown_run = run
        self.run_shown.emit(run)

    def _keep_choice(self, conversation: Conversation) -> None:
        self.conversations.changed(conversation)
        self.in_memory.offer_tokenizer()

    async def finish(self) -> None:
        """Stop answers, loading and the server, and wait for their end."""
        self.drafts.keep()
        await self.titles.finish()
        await self.in_memory.finish()
        await finish_tasks(self)
        await self.search.finish()
        await self.meter.finish()
        self.files.transfers.cancel_imports()
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
        if run is None:
            return False
        self.conversations.name_after(self.current.conversation, question)
        self.conversations.touch(self.current.conversation)
        self.show_run(run)
        return True

    def _want(self, conversation: Conversation | None) -> None:
        self._wanted = conversation
        self.selection_changed.emit()

    async def _load(self, conversation: Conversation, message_id: str | None) -> None:
        """Load the messages of a conversation, and show it, at one of them if one is named."""
        await self.store.fill(conversation)
        if self._wanted is not conversation:
            return  # a person wants another one meanwhile
        if not conversation.is_loaded:
            self._want(None)  # it cannot be read; the store has reported that
            if self.conversations.row_of(self.current.conversation) < 0:
                self.new_conversation()  # the open one was deleted
            return
        self._show(conversation)
        message = conversation.tree.get(message_id) if message_id else None
        if message is not None:
            self.current.session.show_version(message)
            self.message_wanted.emit(message)

    def _show(self, conversation: Conversation) -> None:
        self._wanted = None
        if self.current.conversation is conversation:
            return
        self.drafts.keep()
        self._leave_current()
        self.current = self.in_memory.open(conversation)
        self._follow_current()
        # The next start shows it again.
        conversation.shown_at = time.time()
        self.conversations.changed(conversation)
        self.selection_changed.emit()
        self.opened.emit(self.current)
        self.answering.look_again()
        self.run_shown.emit(self.current.shown_run)
        self.in_memory.release_unseen()

    def _first(self) -> Conversation:
        """Return the conversation that was used last, if it is in memory, or a new one."""
        loaded = [
            conversation for conversation in self.conversations.every() if conversation.is_loaded
        ]
        latest = max(loaded, key=lambda conversation: conversation.used_at, default=None)
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


class AskingSides(QObject):
    """Begins several answers in the open conversation, and keeps one of them.

    Args:
        workspace: What the window shows.
        parent: Its owner.
    """

    def __init__(self, workspace: Workspace, parent: QObject) -> None:
        super().__init__(parent)
        self._workspace = workspace

    def begin(
        self, variants: Sequence[Variant], text: str, files: Sequence[Attachment] = ()
    ) -> bool:
        """Answer a question with the conversation's own settings, and with others beside it.

        Args:
            variants: The settings of the other answers.
            text: The question; the last one is answered again if this is empty.
            files: The files of the question.

        Returns:
            Whether the answers were begun.
        """
        workspace, current = self._workspace, self._workspace.current
        asked = [message for message in current.conversation.messages if message.run is None]
        is_new = bool(text.strip() or files)
        if current.is_busy or not (is_new or asked) or not workspace.answering.settle():
            return False
        sides = current.begin_sides((Variant.of(current.conversation), *variants))
        if not (sides.ask(text, files) if is_new else sides.ask_again(asked[-1])):
            current.end_sides(None)
            return False
        workspace.conversations.name_after(current.conversation, text)
        workspace.conversations.touch(current.conversation)
        for side in sides.sides:
            side.session.run_changed.connect(self._show_again)
            side.session.run_finished.connect(self._show_again)
        workspace.show_run(sides.runs[0])
        current.sides_changed.emit()
        return True

    def keep(self, side: Side | None) -> None:
        """Continue with one of the answers, its model, settings and stops; None keeps all."""
        workspace, current = self._workspace, self._workspace.current
        sides = current.sides
        if sides is None or sides.is_running:
            return
        kept = side or sides.sides[0]
        current.end_sides(kept)
        if kept.variant.model is not None:
            workspace.answering.remember(kept.variant.model)
        workspace.settings.change(kept.variant.settings)
        current.stops.replace_all(kept.variant.stops, "Keep an Answer’s Stops")
        workspace.show_run(kept.run)
        workspace.conversations.repaint(current.conversation)

    def _show_again(self, run: Run) -> None:
        """Update the shown run, if it is the run of one of the answers."""
        if run is self._workspace.current.shown_run:
            self._workspace.run_shown.emit(run)

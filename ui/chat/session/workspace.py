"""The state of the whole window: conversations, the open one, the model.

Main thread.
"""

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import fields, replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QUndoCommand

from engine import Engine
from engine.wording import quoted
from ui.chat.session.context_meter import ContextMeter
from ui.chat.session.conversation_controller import ChatContext, ConversationController
from ui.chat.session.conversation_files import ConversationFiles
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.model_selection import ModelSelection
from ui.chat.session.open_conversations import OpenConversations
from ui.chat.session.presets import PresetList
from ui.chat.session.search import Search
from ui.chat.session.titles import Titles
from ui.chat.session.traces import Traces, TraceStore
from ui.kit.commands import ValueChange
from ui.kit.following import Following
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_library import ModelLibrary
from ui.preferences import Preferences
from ui.records.attachments import Attachment
from ui.records.codec import Preset
from ui.records.conversations import (
    Conversation,
    ConversationFolder,
    ConversationSettings,
    WhenFull,
)
from ui.records.messages import ConversationMessage
from ui.records.requests import cache_owner
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.records.store import ConversationStore
from ui.records.tool_choice import ToolsInUse
from ui.records.variants import Variant
from ui.stops.stop_lists import StopLists, list_name
from ui.tools.memory import Memory
from ui.tools.toolbox import Toolbox


class _SettingChange(QUndoCommand):
    """Changes of the same setting, one after another, are undone together; others stay."""

    def __init__(
        self,
        show: Callable[[ConversationSettings], object],
        conversation: Conversation,
        after: ConversationSettings,
        text: str,
    ) -> None:
        super().__init__(text)
        self._show, self._conversation = show, conversation
        before = conversation.settings
        names = [one.name for one in fields(after)]
        differ = [name for name in names if getattr(before, name) != getattr(after, name)]
        self.before = {name: getattr(before, name) for name in differ}
        self.after = {name: getattr(after, name) for name in differ}

    def redo(self) -> None:
        self._show(replace(self._conversation.settings, **self.after))

    def undo(self) -> None:
        self._show(replace(self._conversation.settings, **self.before))

    def id(self) -> int:
        return 1

    def mergeWith(self, other: QUndoCommand) -> bool:  # noqa: N802 - Qt's name
        if not isinstance(other, _SettingChange) or other.text() != self.text():
            return False
        self.before, self.after = other.before | self.before, self.after | other.after
        return True


class Workspace(QObject):
    """The state behind the main window."""

    opened = Signal(object)  # ConversationController
    selection_changed = Signal()
    settings_changed = Signal()
    run_shown = Signal(object)  # Run or None
    answering_changed = Signal(bool)  # whether the open conversation is answering
    stops_edited = Signal()
    message_requested = Signal(object)  # ConversationMessage

    def __init__(
        self,
        engine: Engine,
        library: ModelLibrary,
        store: ConversationStore,
        toolbox: Toolbox,
        trace_store: TraceStore | None = None,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._engine = engine
        self.toolbox = toolbox
        self.store = store
        self.traces = Traces(trace_store, self)
        self.library, self.models = library, library.models
        self.stop_lists = StopLists(library.preferences, library.choices)
        self.model_selection = ModelSelection(library, self)
        self.conversations = ConversationList(store, self)
        listed = self.conversations
        self.memory = Memory(store, toolbox.preferences, listed.folders.all, listed.with_id, self)
        toolbox.attach_memory(self.memory)
        self.context = ChatContext(engine, store, self.traces, self.models, toolbox)
        self.meter = ContextMeter(self.context, self)
        self.search = Search(store, self)
        self.presets = PresetList(store, self)
        self.files = ConversationFiles(
            store, self.conversations, self.presets, self.traces, self.memory, self
        )
        self._edited: Conversation | None = None  # with a draft that is not saved yet
        self._following = Following()
        self._save_draft = QTimer(self, singleShot=True, interval=400)
        self._save_draft.timeout.connect(self.save_draft)
        self.in_memory = OpenConversations(self.context, self.conversations, self)
        self.titles = Titles(engine, self.in_memory, self.conversations, self.models, self)
        store.on_found(self._take_found)
        self.conversations.restored.connect(self.open)
        self.files.added.connect(self.open)
        self.files.grown.connect(self.in_memory.release_unseen)
        self.files.imports.undo_requested.connect(
            lambda imported, folders: self.delete(*imported, folders=folders)
        )
        self.model_selection.chosen.connect(self._keep_choice)
        self.current = self.in_memory.open(self._first())
        self._follow_current()
        self.model_selection.refresh()
        self.model_selection.changed.connect(self._apply_beginnings)
        toolbox.changed.connect(self._follow_servers)
        toolbox.added.connect(self._use_server)
        self._follow_servers()

    def apply(self, preferences: Preferences) -> None:
        """Use preferences in all conversations, and for new ones."""
        self.conversations.sort_by(preferences.list_order)
        self.titles.is_on = preferences.names_conversations
        self.context.planner.when_full = preferences.when_full
        self.context.ends_repetition = preferences.ends_repetition
        self.conversations.usual_settings = preferences.new_conversation.settings()
        self._apply_beginnings()

    def _follow_servers(self) -> None:
        """Let new conversations use the servers that are on."""
        servers = (server for server in self.toolbox.servers if server.config.is_on)
        self.conversations.begin_with(ToolsInUse(tuple(server.name for server in servers)))

    def _use_server(self, name: str) -> None:
        tools = self.current.conversation.tools
        if name not in tools.servers:
            self.change_tools(tools.with_server(name, is_on=True))

    def _apply_beginnings(self) -> None:
        """Apply the model's settings and stop list to new conversations, and to empty ones."""
        listed, folder = self.conversations, self.model_selection.state.folder
        saved = None if folder is None else self.library.choices.settings_of(folder)
        before = listed.new_settings
        listed.new_settings = listed.usual_settings if saved is None else saved
        current = self.current.conversation
        if not current.has_messages and current.settings == before:
            self.change_settings(listed.new_settings)
        begun, listed.new_stops = listed.new_stops, self.stop_lists.for_new_chats(folder)
        if begun != listed.new_stops:
            for conversation in listed.every():
                has_begun = (tuple(conversation.stops), conversation.stops_from) == begun
                if has_begun and not conversation.has_messages:
                    self.in_memory.begin_with(conversation, *listed.new_stops)

    # -- intents ---------------------------------------------------------------------------

    def new_conversation(self, folder: ConversationFolder | None = None) -> None:
        self.open(self.conversations.create(folder))

    def take_in(self, conversation: Conversation) -> None:
        self.conversations.insert(conversation)
        self.open(conversation)

    @property
    def selected(self) -> Conversation:
        """The conversation that the user opened last; it may still be loading."""
        return self.in_memory.requested or self.current.conversation

    def open(self, conversation: Conversation) -> None:
        """Show a conversation, at once if its messages are in memory."""
        self._request(conversation)
        if conversation.is_loaded:
            self._show(conversation)
        else:
            start_task(self, self._load(conversation, None), "open a conversation")

    def open_at(self, conversation_id: str, message_id: str | None) -> None:
        """Show a conversation at one of its messages, in any version."""
        conversation = self.conversations.with_id(conversation_id)
        if conversation is not None:
            self._request(conversation)
            start_task(self, self._load(conversation, message_id), "open a conversation")

    def delete(
        self, *conversations: Conversation, folders: Sequence[ConversationFolder] = ()
    ) -> None:
        """Delete conversations and stop their answers; the next one with a row is shown."""
        removed = set(conversations)
        row = self.row_of(removed)
        for conversation in conversations:
            self.in_memory.cancel(conversation)
            self.forget_read(conversation)
        is_selected = self.selected in removed
        self.conversations.delete(*conversations, folders=folders)
        if is_selected:
            self.open_nearest(row)

    def row_of(self, conversations: Collection[Conversation]) -> int:
        """Return the position of the first of them among all conversations."""
        every = enumerate(self.conversations.every())
        return next((row for row, one in every if one in conversations), 0)

    def open_nearest(self, row: int) -> None:
        """Open the conversation at or before a position that the list shows."""
        every = self.conversations.every()
        nearest = (*every[row:], *reversed(every[:row]))
        closed = {one.id for one in self.conversations.folders.all() if not one.is_open}
        following = (
            one
            for one in nearest
            if not one.placement.is_archived and one.placement.folder_id not in closed
        )
        self.open(next(following, None) or self.conversations.create())

    def forget_read(self, conversation: Conversation) -> None:
        self._engine.forget(cache_owner(conversation))

    def ask(
        self, begin: Callable[[ConversationController], Run | None], *, needs_model: bool = True
    ) -> bool:
        """Begin an answer in the open conversation; return whether it began."""
        can_begin = self._can_ask() if needs_model else not self.current.sides
        return can_begin and self._begun(begin(self.current))

    def send(self, text: str, files: Sequence[Attachment] = ()) -> bool:
        if not self._can_ask():
            return False
        return self._begun(self.current.send(text, files), text, files)

    def send_unseen(
        self, opened: ConversationController, text: str, files: Sequence[Attachment]
    ) -> bool:
        """Send a message in a conversation that is not shown; return whether it was sent."""
        run = opened.send(text, files)
        if run is not None:
            opened.shown_run = run
            self.conversations.touch(opened.conversation)
        return run is not None

    # -- the open conversation -----------------------------------------------------------------

    def change_draft(self, text: str, files: tuple[Attachment, ...]) -> None:
        """Note the typed text and its files; they are saved a moment later."""
        conversation = self.current.conversation
        if (conversation.draft, conversation.attachments) != (text, files):
            conversation.draft, conversation.attachments = text, files
            self._edited = conversation
            # The timer is not restarted: some users type for minutes without a pause.
            if not self._save_draft.isActive():
                self._save_draft.start()

    def save_draft(self) -> None:
        self._save_draft.stop()
        edited, self._edited = self._edited, None
        if edited is not None:
            self.conversations.changed(edited)

    def change_settings(self, settings: ConversationSettings, undo_text: str = "") -> None:
        """Change the open conversation's settings; with a text, this can be undone."""
        conversation = self.current.conversation
        if (before := conversation.settings) != settings:
            limits = (settings.max_tokens, settings.thinking_budget)
            is_presets = limits == (before.max_tokens, before.thinking_budget)
            settings = replace(settings, preset=before.preset if is_presets else "")
            show = partial(self.show_settings, conversation)
            if undo_text:
                change = _SettingChange(show, conversation, settings, undo_text)
                self.current.undo_stack.push(change)
            else:
                show(settings)

    def change_tools(self, tools: ToolsInUse) -> None:
        conversation = self.current.conversation
        if tools != conversation.tools:
            conversation.tools = tools
            self.conversations.changed(conversation)
            self.settings_changed.emit()

    def use_preset(self, preset: Preset) -> None:
        """Use a preset's settings and stop list in the open conversation; this can be undone."""
        change = f"Use Preset {quoted(preset.name, 16)}"
        settings = replace(preset.settings, preset=preset.name)
        self._replace(change, settings, preset.stops, f"preset:{preset.name}")

    def use_stop_list(self, key: str) -> None:
        """Use a saved stop list in the open conversation; this can be undone."""
        change = f"Use List {quoted(list_name(key), 16)}"
        stops = self.stop_lists.get(key) or ()
        self._replace(change, self.current.conversation.settings, stops, key)

    def save_preset(self, name: str) -> None:
        conversation = self.current.conversation
        settings = replace(conversation.settings, preset="")
        self.presets.keep(Preset(name, settings, tuple(conversation.stops)))

    def compare(self, other: Variant, text: str = "", files: Sequence[Attachment] = ()) -> bool:
        current = self.current
        if current.is_busy or not self.model_selection.ensure():
            return False
        if not current.compare(other, text, files):
            return False
        self.conversations.name_after(current.conversation, text, files)
        self.conversations.touch(current.conversation)
        for side in current.sides:
            for signal in (side.run_changed, side.run_finished):
                signal.connect(self._refresh_shown)
        self.show_run(current.running[0])
        return True

    def end_comparison(self, kept: ConversationController | None) -> None:
        """Continue with one of the answers, its model, settings and stops; None keeps both."""
        current = self.current
        if not current.sides or current.is_running:
            return
        side = kept or current.sides[0]
        variant = Variant.of(side.conversation)
        current.end_comparison(side)
        if variant.model is not None:
            self.model_selection.remember(variant.model)
        origin = current.conversation.stops_from
        self._replace("Keep Answer’s Settings", variant.settings, variant.stops, origin)
        self.show_run(current.latest_run)
        self.conversations.repaint(current.conversation)

    def _replace(
        self, change: str, settings: ConversationSettings, stops: Sequence[StopEntry], origin: str
    ) -> None:
        """Replace settings and stop list of the open conversation as one undoable change."""
        current = self.current
        before = (current.conversation.settings, current.conversation.stops_from)
        after = (settings, origin)
        if before == after and list(stops) == current.stops.entries():
            return
        current.undo_stack.beginMacro(change)
        show = partial(self.show_settings, current.conversation)
        current.undo_stack.push(ValueChange(show, before, after))
        current.stops.replace_all(stops, change)
        current.undo_stack.endMacro()

    def show_settings(
        self,
        conversation: Conversation,
        settings: ConversationSettings,
        stops_from: str | None = None,
    ) -> None:
        """Give a conversation other settings, and note where its stop list comes from."""
        conversation.settings = settings
        if stops_from is not None:
            conversation.stops_from = stops_from
        self.conversations.changed(conversation)
        self.settings_changed.emit()

    def _refresh_shown(self, run: Run) -> None:
        if run is self.current.shown_run:
            self.run_shown.emit(run)

    def choose_when_full(self, when_full: WhenFull | None) -> None:
        """Choose how the open conversation's prompt is shortened when it is too long."""
        conversation = self.current.conversation
        if conversation.when_full != when_full:
            conversation.when_full = when_full
            self.conversations.changed(conversation)
            self.settings_changed.emit()

    def show_version(self, message: ConversationMessage, step: int) -> None:
        """Show the previous (-1) or next (1) version of a shown message."""
        if self.current.step_version(message, step):
            self.show_run(self.current.latest_run)
            self.conversations.repaint(self.current.conversation)

    def show_run(self, run: Run | None) -> None:
        self.current.shown_run = run
        self.run_shown.emit(run)

    def _keep_choice(self, conversation: Conversation) -> None:
        self.conversations.changed(conversation)
        self.in_memory.offer_tokenizer()

    async def finish(self) -> None:
        self.save_draft()
        await self.library.finish()
        await self.titles.finish()
        await self.in_memory.finish()
        await finish_tasks(self)
        await self.search.finish()
        await self.meter.finish()
        await self.context.planner.finish()
        self.files.transfers.cancel_imports()
        await self.files.finish()
        await self.presets.finish()
        await self.store.flush()
        await self.model_selection.finish()
        await self.models.finish()

    def _take_found(self, conversations: list[Conversation], presets: list[Preset]) -> None:
        self.conversations.take_found(conversations)
        self.presets.take_found(presets)
        self.memory.take_found(self.store.facts())

    # -- inside ----------------------------------------------------------------------------

    def _can_ask(self) -> bool:
        return not self.current.sides and self.model_selection.ensure()

    def _begun(self, run: Run | None, question: str = "", files: Sequence[Attachment] = ()) -> bool:
        if run is None:
            return False
        self.conversations.name_after(self.current.conversation, question, files)
        self.conversations.touch(self.current.conversation)
        self.show_run(run)
        return True

    def _request(self, conversation: Conversation | None) -> None:
        self.in_memory.requested = conversation
        self.selection_changed.emit()

    async def _load(self, conversation: Conversation, message_id: str | None) -> None:
        """Load the messages of a conversation, and show it, at one of them if one is named."""
        await self.store.fill(conversation)
        if self.in_memory.requested is not conversation:
            return  # the user wants another one meanwhile
        if not conversation.is_loaded:
            self._request(None)  # it cannot be read; the store has reported that
            if self.conversations.row_of(self.current.conversation) < 0:
                self.new_conversation()  # the open one was deleted
            return
        self._show(conversation)
        message = conversation.tree.get(message_id) if message_id else None
        if message is not None:
            if message not in conversation.messages and not self.current.is_busy:
                self.current.show_version(message)
                self.show_run(self.current.latest_run)
                self.conversations.repaint(conversation)
            self.message_requested.emit(message)

    def _show(self, conversation: Conversation) -> None:
        self.in_memory.requested = None
        if self.current.conversation is conversation:
            return
        self.save_draft()
        self.current = self.in_memory.open(conversation)
        self._follow_current()
        # The next start shows it again.
        conversation.shown_at = time.time()
        self.conversations.changed(conversation)
        self.selection_changed.emit()
        self.opened.emit(self.current)
        self.model_selection.refresh()
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
        current = self.current
        self._following.follow(
            (current.is_running_changed, self.answering_changed),
            (current.stops.edited, self.stops_edited),
            (current.continued, self.show_run),
        )
        self.model_selection.follow(self.current.conversation)

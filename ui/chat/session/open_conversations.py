"""The conversations in memory, each with its session, its stops and its shown run.

Main thread.
"""

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine import Engine, ModelInfo, StopKind
from ui.chat.session.conversation_list import ConversationList
from ui.chat.session.conversation_session import ConversationSession, ModelsOnDemand
from ui.chat.session.side_by_side import Side, SideBySide
from ui.chat.session.traces import Traces
from ui.kit.tasks import finish_tasks, start_task
from ui.models.model_state import ModelState
from ui.records.conversations import Conversation, Variant, WhenFull
from ui.records.messages import ConversationMessage
from ui.records.requests import stop_rules
from ui.records.runs import Run
from ui.records.store import ConversationStore
from ui.stops.stop_list import StopListModel
from ui.stops.stop_rows import history_of
from ui.tools.toolbox import Toolbox


class OpenConversation(QObject):
    """A conversation with its session and its stop list; it stays while another one is shown.

    Signals:
        went_on: The answer continues with another stop list; carries its new ``Run``.
        is_running_changed: An answer began or ended; carries whether one is running.
        sides_changed: Answering side by side has begun or ended.
        run_changed: An answer, also one side by side, went on or ended; carries its ``Run``.

    Args:
        engine: Generates the answers.
        conversation: The conversation.
        store: Keeps conversations.
        traces: Keeps the traces of runs.
        models: Knows and loads models.
        toolbox: Runs the tools that the model calls.
        parent: Owns this object.
        when_full: Returns what becomes of the oldest messages when the context is full, if the
            conversation does not say.

    Attributes:
        sides: The answers, while a question is answered side by side; otherwise None.
    """

    went_on = Signal(object)
    is_running_changed = Signal(bool)
    sides_changed = Signal()
    run_changed = Signal(object)

    def __init__(
        self,
        engine: Engine,
        conversation: Conversation,
        store: ConversationStore,
        traces: Traces,
        models: ModelsOnDemand,
        toolbox: Toolbox,
        parent: QObject,
        when_full: Callable[[], WhenFull] = lambda: WhenFull.LEAVE_OUT,
    ) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self.session = ConversationSession(
            engine, conversation, store, traces, models, self, toolbox, when_full=when_full
        )
        self.session.went_on.connect(self._show_next)
        self.session.is_running_changed.connect(self.is_running_changed)
        self.session.run_changed.connect(self.run_changed)
        self.session.run_finished.connect(self.run_changed)
        self.sides: SideBySide | None = None
        self._make_sides = partial(SideBySide, engine, conversation, store, traces, models, toolbox)
        self.stops = StopListModel(conversation.stops, self)
        self.shown_run = self.latest_run
        self.stops.edited.connect(self._keep_stops)
        self._is_applying = False
        self._applied: Run | None = None
        self.session.run_finished.connect(self.look_back)
        self.session.is_running_changed.connect(self._go_on)
        self.session.path_changed.connect(self.look_back)
        self.look_back()

    @property
    def is_running(self) -> bool:
        """Whether an answer is running, alone or beside another one."""
        return self.session.is_running or (self.sides is not None and self.sides.is_running)

    @property
    def running(self) -> list[Run]:
        """The runs of the newest answer: one, or those that are side by side."""
        beside = [] if self.sides is None else self.sides.runs
        own = self.session.run or self.session.calling_run
        return [*beside, own] if own is not None else beside

    @property
    def is_busy(self) -> bool:
        """Whether no question can be asked: an answer runs, or one of several must be chosen."""
        return self.session.is_running or self.sides is not None

    @property
    def latest_run(self) -> Run | None:
        """The run of the last shown answer."""
        shown = reversed(self.conversation.messages)
        return next((m.run for m in shown if m.run is not None), None)

    def step_version(self, message: ConversationMessage, step: int) -> bool:
        """Show the previous (-1) or next (1) version of a message; return whether there is one."""
        versions = self.conversation.tree.versions(message)
        place = versions.index(message) + step
        if self.is_busy or not 0 <= place < len(versions):
            return False
        self.session.show_version(versions[place])
        return True

    def cancel(self, *, is_closing: bool = False) -> None:
        """Stop the running answer, or all answers side by side.

        Args:
            is_closing: Whether the program ends, so that no person stopped them.
        """
        self.session.cancel(is_closing=is_closing)
        if self.sides is not None:
            self.sides.cancel(is_closing=is_closing)

    async def finish(self) -> None:
        """Cancel the running answers, and wait for their end."""
        await self.session.finish()
        if self.sides is not None:
            await self.sides.finish()

    def begin_sides(self, variants: Sequence[Variant]) -> SideBySide:
        """Prepare answering a question several times."""
        self.sides = self._make_sides(variants, self)
        self.sides.is_running_changed.connect(self.is_running_changed)
        self.sides.run_changed.connect(self.run_changed)
        return self.sides

    def end_sides(self, kept: Side | None) -> None:
        """Continue with one of the two answers; None shows the left one and keeps the settings."""
        sides, self.sides = self.sides, None
        if sides is None:
            return
        sides.keep(kept or sides.sides[0])
        sides.deleteLater()
        self.look_back()
        self.sides_changed.emit()

    def look_back(self) -> None:
        """Count again how often the stop sequences ended answers."""
        self.stops.set_history(history_of(self.conversation))

    def has_other_stops(self, model: ModelInfo | None) -> bool:
        """Return whether the stop list has changed since the running answer began."""
        run = self.session.run
        if run is None or model is None:
            return False
        return run.rules != stop_rules(self.conversation, model, run.stop_change)

    def apply_stops(self) -> None:
        """Continue the running answer with the present stop list.

        The answer is cancelled and continued from there; the records of both parts are kept.
        """
        if self.session.is_running:
            self._is_applying, self._applied = True, self.session.run
            self.session.cancel()

    def _show_next(self, run: Run) -> None:
        self.shown_run = run
        self.went_on.emit(run)

    def _go_on(self, is_running: bool) -> None:
        if is_running or not self._is_applying:
            return
        self._is_applying = False
        answer = next((m for m in self.conversation.messages if m.run is self._applied), None)
        run, self._applied = self._applied, None
        if answer is None or run is None or run.finished is None:
            return
        if run.finished.stop.kind is not StopKind.CANCELLED:
            return  # the answer ended before it was cancelled
        if run.can_be_continued:
            begun = self.session.continue_answer(answer)
        else:
            begun = self.session.answer_without_stop(answer)
        if begun is not None:
            self.shown_run = begun
            self.went_on.emit(begun)

    def _keep_stops(self) -> None:
        self.conversation.stops = self.stops.entries()


# How many conversations stay in memory besides those with running answers.
MOST_OPEN = 6


class OpenConversations(QObject):
    """Opens conversations, and unloads those that were not shown for a while.

    Signals:
        answer_began: An answer began in one of them.
        answer_ended: An answer ended; carries its ``Conversation`` and its ``Run``.
        need_changed: An answer began or ceased to wait for a person; carries its ``Conversation``
            and its ``Run``.
    """

    answer_began = Signal()
    answer_ended = Signal(object, object)
    need_changed = Signal(object, object)

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
        self._is_releasing = False
        self.when_full = WhenFull.LEAVE_OUT
        self.is_closing = False
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
                lambda: self.when_full,
            )
            self._offer(opened)
            opened.is_running_changed.connect(lambda: self._keep(conversation))
            opened.is_running_changed.connect(self.release_unseen)
            opened.is_running_changed.connect(self._note_begin)
            opened.session.run_finished.connect(partial(self.answer_ended.emit, conversation))
            opened.stops.edited.connect(lambda: self._keep(conversation))
            opened.run_changed.connect(partial(self._note_need, conversation))
        self._open[conversation.id] = opened
        return opened

    @property
    def is_running(self) -> bool:
        """Whether an answer is running in one of them."""
        return any(opened.is_running for opened in self._open.values())

    def _note_begin(self, is_running: bool) -> None:
        if is_running:
            self.answer_began.emit()

    def cancel(self, conversation: Conversation) -> None:
        """Stop the running answer of a conversation, if it has one."""
        if conversation.id in self._open:
            self._open[conversation.id].cancel()

    def cancel_all(self) -> None:
        """Stop every running answer, because the program ends."""
        self.is_closing = True
        for opened in self._open.values():
            opened.cancel(is_closing=True)

    def release_unseen(self) -> None:
        """Unload the conversations that were not shown for a while."""
        if not self._is_releasing:
            self._is_releasing = True
            start_task(self, self._release_unseen(), "release conversations")

    async def finish(self) -> None:
        """Stop every running answer, and wait until the background work has ended."""
        for opened in list(self._open.values()):
            await opened.finish()
        await finish_tasks(self)

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

    def _note_need(self, conversation: Conversation, run: Run) -> None:
        opened = self._open.get(conversation.id)
        runs = [] if opened is None else opened.running
        waiting = next((running for running in runs if running.needs_person), None)
        if conversation.needs_person != (waiting is not None):
            conversation.needs_person = waiting is not None
            self._conversations.repaint(conversation)
            self.need_changed.emit(conversation, waiting or run)

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

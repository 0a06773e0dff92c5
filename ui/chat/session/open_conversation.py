"""A conversation that is or was shown: its session, its stop list, its shown run.

Main thread. Knows no widgets and no other conversation.
"""

from functools import partial

from PySide6.QtCore import QObject, Signal

from engine import Engine, ModelInfo, StopKind
from ui.chat.session.conversation_session import ConversationSession
from ui.chat.session.models_on_demand import ModelsOnDemand
from ui.chat.session.side_by_side import Side, SideBySide
from ui.chat.session.traces import Traces
from ui.records.conversations import Conversation, Variant
from ui.records.messages import ConversationMessage
from ui.records.requests import stop_rules
from ui.records.runs import Run
from ui.records.store import ConversationStore
from ui.stops.stop_history import history_of
from ui.stops.stop_list import StopListModel
from ui.tools.toolbox import Toolbox


class OpenConversation(QObject):
    """A conversation with its session and its stop list; it stays while another one is shown.

    Signals:
        went_on: The answer continues with another stop list; carries its new ``Run``.
        is_running_changed: An answer began or ended; carries whether one is running.
        sides_changed: Answering side by side has begun or ended.

    Args:
        engine: Generates the answers.
        conversation: The conversation.
        store: Keeps conversations.
        traces: Keeps the traces of runs.
        models: Knows and loads models.
        toolbox: Runs the tools that the model calls.
        parent: Owns this object.

    Attributes:
        sides: The two answers, while a question is answered side by side; otherwise None.
    """

    went_on = Signal(object)
    is_running_changed = Signal(bool)
    sides_changed = Signal()

    def __init__(
        self,
        engine: Engine,
        conversation: Conversation,
        store: ConversationStore,
        traces: Traces,
        models: ModelsOnDemand,
        toolbox: Toolbox,
        parent: QObject,
    ) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self.session = ConversationSession(
            engine, conversation, store, traces, models, self, toolbox
        )
        self.session.went_on.connect(self._show_next)
        self.session.is_running_changed.connect(self.is_running_changed)
        self.sides: SideBySide | None = None
        self._make_sides = partial(SideBySide, engine, conversation, store, traces, models)
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
    def is_busy(self) -> bool:
        """Whether no question can be asked: an answer is running, or one of two must be chosen."""
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
        """Stop the running answer, or both answers.

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

    def begin_sides(self, left: Variant, right: Variant) -> SideBySide:
        """Prepare answering a question twice."""
        self.sides = self._make_sides((left, right), self)
        self.sides.is_running_changed.connect(self.is_running_changed)
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

"""Forks of the shown run: a version of an answer of the chat, or a run of its own. Main thread.

An answer of another app or of a file belongs to no conversation: the inspector runs its fork, and
compares both.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from engine import Generation
from engine.errors import EngineError
from engine.recording.fork import (
    chosen_text,
    end_here,
    fork_request,
    likelihood_request,
    with_likelihoods,
)
from engine.recording.run_trace import RunTrace, trace_for
from engine.values.request import LOCAL_OWNER, Fork
from ui.chat.session.conversation_controller import ConversationController
from ui.inspector.inspector import Inspector
from ui.inspector.shown_run import ShownRun
from ui.kit.tasks import finish_tasks, start_task
from ui.records.messages import ConversationMessage
from ui.records.requests import ended_run, forked_run
from ui.records.runs import ForkOrigin, Run
from ui.words import describe_error, wrong_model

Chosen = tuple[int, ...] | str
"""The token ids, or the text, in the place of a token."""


class Forks(QObject):
    """Forks the run that an inspector shows."""

    made = Signal(object)  # ShownRun, the original of a fork that the inspector shows

    def __init__(self, inspector: Inspector, parent: QObject) -> None:
        super().__init__(parent)
        self.inspector = inspector
        self._workspace, self._engine = inspector.workspace, inspector.engine
        self._generation: Generation | None = None

    @property
    def is_running(self) -> bool:
        """Whether a fork beside the conversations is running."""
        return self._generation is not None

    def cancel(self) -> None:
        if self._generation is not None:
            self._generation.cancel()

    async def finish(self) -> None:
        self.cancel()
        await finish_tasks(self)

    # -- why not -----------------------------------------------------------------------------

    @property
    def obstacle(self) -> str:
        """Why the shown run cannot go on from one of its tokens now; empty if it can."""
        shown, state = self.inspector.shown, self._workspace.model_selection.state
        if reason := self.end_obstacle:
            return reason
        assert shown is not None
        assert shown.trace is not None
        if shown.trace.request is None:
            return "The prompt was not recorded. Regenerate the answer, and fork the new one."
        name = shown.run.model_id
        if shown.source == "chat":
            if state.info is not None and state.info.id != name:
                return wrong_model(name)
            return "" if state.can_answer else f"Load {name} to fork this answer."
        if self._loaded_id(name := shown.trace.setting.model) is None:
            return f"Load {name} to fork this answer."
        return ""

    @property
    def end_obstacle(self) -> str:
        """Why the shown run cannot end at one of its tokens; empty if it can."""
        shown, current = self.inspector.shown, self._workspace.current
        if shown is None:
            return "No answer is shown."
        if not shown.run.is_over:
            return "This answer is still running. Fork it when it has ended."
        if shown.trace is None or not shown.trace.is_whole:
            return "The first tokens of this answer are no longer recorded."
        if shown.source == "past":
            return "This answer is in another conversation. Open that one to fork it."
        if shown.source != "chat":
            return ""
        if current.sides:
            return "Choose one of the two answers first."
        if current.is_running:
            return "Another answer is running. Fork this one when that has ended."
        return "" if self._message_of(shown) is not None else "This answer is in no conversation."

    def _message_of(self, shown: ShownRun) -> ConversationMessage | None:
        """Return the message of a run, in any version of the open conversation."""
        messages = self._workspace.current.conversation.tree
        return next((message for message in messages if message.run is shown.run), None)

    def _loaded_id(self, name: str) -> str | None:
        """Return by which name requests reach a loaded model; None if it is not loaded."""
        loaded = (status for status in self._engine.models if status.is_loaded and status.info)
        return next((s.id for s in loaded if s.info and name in (s.id, s.info.id)), None)

    # -- forks -------------------------------------------------------------------------------

    def fork(self, token_index: int, chosen: Chosen, trace: RunTrace | None = None) -> None:
        """Let the shown answer go on from a token with others.

        ``trace`` has the token's likelihoods where these were looked up.
        """
        shown = self.inspector.shown
        if self.obstacle or shown is None or (trace := trace or shown.trace) is None:
            return
        message, recording = self._message_of(shown), trace
        if shown.source == "chat" and message is not None:
            self._begin(lambda current: current.fork(message, recording, token_index, chosen))
        else:
            work = self._fork_alone(shown, trace, token_index, chosen)
            start_task(self, work, "fork of a run")

    def end_at(self, token_index: int) -> None:
        """Let the shown answer end at a token; needs no model."""
        shown = self.inspector.shown
        if not self.end_obstacle and shown is not None and shown.trace is not None:
            work = self._end_at(shown, shown.trace, token_index)
            start_task(self, work, "end of a run at a token")

    async def _end_at(self, shown: ShownRun, trace: RunTrace, token_index: int) -> None:
        try:
            ended, fork = await asyncio.to_thread(end_here, trace, token_index)
        except EngineError as error:
            self.inspector.problem_met.emit(describe_error(error))
            return
        if self.inspector.shown is not shown:
            return
        message = self._message_of(shown)
        if shown.source == "chat" and message is not None:
            self._begin(lambda current: current.end_at(message, ended, fork), False)
            return
        run = ended_run(shown.run, ended, _origin(shown, fork, ""))
        self.inspector.show(ShownRun(run, ended, shown.question, "fork", shown.name))
        self.made.emit(shown)

    def _begin(
        self, begin: Callable[[ConversationController], Run | None], needs_model: bool = True
    ) -> None:
        try:
            self._workspace.ask(begin, needs_model=needs_model)
        except EngineError as error:
            self.inspector.problem_met.emit(describe_error(error))

    async def _fork_alone(
        self, shown: ShownRun, trace: RunTrace, token_index: int, chosen: Chosen
    ) -> None:
        inspector, model, text = self.inspector, self._loaded_id(trace.setting.model), chosen
        try:
            if isinstance(chosen, str):
                pieces = await self._engine.tokenize(chosen, model)
                chosen = tuple(token_id for token_id, _ in pieces)
            request = fork_request(trace, token_index, chosen)
            request = inspector.traces.traced(replace(request, cache_owner=LOCAL_OWNER))
            generation = await self._engine.generate(replace(request, model=model))
        except EngineError as error:
            inspector.problem_met.emit(describe_error(error))
            return
        assert request.fork is not None, "a fork was made"
        name = text if isinstance(text, str) else chosen_text(trace, chosen)
        run = forked_run(shown.run, trace, _origin(shown, request.fork, name))
        run.is_own = shown.run.is_own
        recording = inspector.traces.begin(run.id, generation)
        forked = ShownRun(run, recording, shown.question, "fork", shown.name)
        self.cancel()
        self._generation = generation
        inspector.show(forked)
        try:
            async for batch in generation.batches():
                for event in batch:
                    run.apply(event)
                    if recording is not None:
                        recording.take(event)
                inspector.note_growth(run)
        finally:
            if self._generation is generation:
                self._generation = None
        if inspector.shown is not None and inspector.shown.run is run:
            inspector.show(inspector.shown)
            self.made.emit(shown)

    # -- alternatives ------------------------------------------------------------------------

    def look_up(self, token_index: int, show: Callable[[RunTrace | None], None]) -> None:
        """Let the model name the likeliest tokens in the place of one of the shown run.

        ``show`` gets the run with these; None if the model cannot be asked.
        """
        shown = self.inspector.shown
        if shown is not None and shown.trace is not None:
            model = self._loaded_id(shown.trace.setting.model)
            work = self._look_up(shown.trace, model, token_index, show)
            start_task(self, work, "alternatives of a token")

    async def _look_up(
        self,
        trace: RunTrace,
        model: str | None,
        token_index: int,
        show: Callable[[RunTrace | None], None],
    ) -> None:
        found = None
        try:
            if model is not None:
                count = self.inspector.traces.top_logprobs
                request = likelihood_request(trace, token_index, count)
                request = replace(request, model=model, cache_owner=LOCAL_OWNER)
                generation = await self._engine.generate(request)
                looked_up = trace_for(generation)
                async for event in generation.events():
                    looked_up.take(event)
                found = with_likelihoods(trace, token_index, looked_up)
        except EngineError:
            found = None
        show(found)


def _origin(shown: ShownRun, fork: Fork, text: str) -> ForkOrigin:
    return ForkOrigin(shown.run.id, fork.token_index, fork.replaced_text, text)

"""The actions in one conversation: ask, edit, regenerate, continue, show a version, cancel.

Main thread.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from PySide6.QtCore import QObject, Signal

from engine import GenerationRequest, ModelInfo
from ui.chat.session.running_answer import (
    AnsweringEngine,
    AnswerKeeping,
    AnswerListeners,
    AnswerPacing,
    AnswerStore,
    ModelOfConversation,
    ModelsOnDemand,
    RequestForModel,
    RunningAnswer,
)
from ui.chat.session.tool_loop import CarryingOut, ToolLoop
from ui.chat.session.traces import Traces
from ui.kit.tasks import Tasks
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation
from ui.records.messages import ConversationMessage, question, runs_of
from ui.records.requests import (
    Adapt,
    new_run,
    request_for,
    result_cuts,
    results_of,
    sent_messages,
    with_cuts,
)
from ui.records.runs import NO_CHANGE, Run, StopChange
from ui.records.tools import Decision
from ui.tools.toolbox import Toolbox

# The actions in one conversation: ask, edit, regenerate, continue, show a version, cancel.
#
# Main thread. ``ui.chat.session.answer`` runs the answers, and ``ui.chat.calling`` runs their
# calls; the session saves the results and emits signals for the views.


class ConversationSession(QObject):
    """Sends messages, and keeps the runs of their answers up to date, here and in the store.

    Signals:
        message_appended: A message was added at the end; carries the ``ConversationMessage``.
        path_changed: Other versions are shown; carries the index of the first such message.
        text_appended: The running answer grew; carries the ``Run`` and the new text.
        thinking_appended: Its reasoning grew; carries the ``Run`` and the new text.
        run_changed: A run changed its stage, read more of its prompt, or began or ended a
            call; carries the ``Run``.
        run_finished: A run ended; carries the ``Run``.
        is_running_changed: An answer began or ended; carries whether one is running.
        went_on: The model continues with the results of its calls; carries the new ``Run``.

    Args:
        engine: Generates the answers.
        conversation: The conversation.
        store: Saves the messages.
        traces: Keeps the traces of runs.
        models: Knows and loads models.
        parent: Owns this object.
        toolbox: Runs the tools that the model calls; None for no tools.
    """

    message_appended = Signal(object)
    path_changed = Signal(int)
    text_appended = Signal(object, str)
    thinking_appended = Signal(object, str)
    run_changed = Signal(object)
    run_finished = Signal(object)
    is_running_changed = Signal(bool)
    went_on = Signal(object)

    def __init__(
        self,
        engine: AnsweringEngine,
        conversation: Conversation,
        store: AnswerStore,
        traces: Traces,
        models: ModelsOnDemand,
        parent: QObject | None = None,
        toolbox: Toolbox | None = None,
    ) -> None:
        super().__init__(parent)
        self.conversation = conversation
        self._tools = None if toolbox is None else self._tool_loop(toolbox)
        if self._tools is not None:
            self._tools.note_cut_off()
        self._model = ModelOfConversation(conversation, models)
        self._traces = traces
        self._store = store
        self._engine = engine
        self._tasks = Tasks()
        self._calls = CarryingOut(self._tasks, self._end_calls)
        listeners = AnswerListeners(
            text=self.text_appended.emit,
            thinking=self.thinking_appended.emit,
            changed=self.run_changed.emit,
            ended=self._end_answer,
        )
        keeping = AnswerKeeping(store, conversation, self)
        self._pacing = AnswerPacing(self._tasks, keeping, listeners, self)

    @property
    def is_running(self) -> bool:
        """Whether an answer or its calls are running."""
        return self._pacing.run is not None or self._calls.is_running

    @property
    def run(self) -> Run | None:
        """The running answer, if there is one."""
        return self._pacing.run

    def send(
        self, text: str, files: Sequence[Attachment] = (), change: StopChange = NO_CHANGE
    ) -> Run | None:
        """Ask a question; return the run of its answer, or None if another one is still running.

        Args:
            text: The question.
            files: The files that are attached to it.
            change: How the stops of its answer differ from the conversation's list.
        """
        asked = question(text, files)
        if self.is_running or not asked.text.strip():
            return None
        self.conversation.add(asked)
        self.message_appended.emit(asked)
        return self._begin(asked, [asked], change=change)

    def edit(
        self, replaced: ConversationMessage, text: str, files: Sequence[Attachment] = ()
    ) -> Run | None:
        """Replace a question and answer the new one; the old one stays as a version.

        Args:
            replaced: The question.
            text: The new text.
            files: The new files.
        """
        edited = question(text, files)
        if self.is_running or not edited.text.strip() or replaced.role != "user":
            return None
        self.conversation.tree.add(edited, replaced.parent)
        self.path_changed.emit(len(self.conversation.messages) - 1)
        return self._begin(edited, [edited])

    def answer(self, asked: ConversationMessage) -> Run | None:
        """Answer a question of the conversation again; existing answers stay as versions."""
        return None if self.is_running else self._begin(asked)

    def regenerate(self, answer: ConversationMessage) -> Run | None:
        """Answer a question again; the old answer stays as a version."""
        if self.is_running or answer.parent is None or answer.run is None:
            return None
        return self._begin(answer.parent)

    def continue_answer(self, answer: ConversationMessage) -> Run | None:
        """Let the model continue an answer; the short one stays as a version.

        If a stop ended it, the stop's own text comes first, and the stop is left out for the rest.
        """
        run = answer.run
        if self.is_running or answer.parent is None or run is None:
            return None
        if not run.can_be_continued:
            return None
        change = run.change_past_stop
        return self._begin(answer.parent, continued=run, change=change, replaced=answer)

    def answer_without_stop(self, answer: ConversationMessage) -> Run | None:
        """Answer a question again without the stop that ended its answer, this time only."""
        run = answer.run
        if self.is_running or answer.parent is None or run is None:
            return None
        return self._begin(answer.parent, change=run.change_past_stop, replaced=answer)

    def continue_calls(self, answer: ConversationMessage) -> bool:
        """Run the calls of an answer that was paused or cut off; return whether that was begun."""
        run = answer.run
        if self._tools is None or self.is_running or run is None:
            return False
        if not (run.paused_at or run.is_cut_off):
            return False
        self._calls.begin(self._tools, answer, is_continued=True)
        self.is_running_changed.emit(True)
        self.run_changed.emit(run)
        return True

    def decide(self, call_id: str, decision: Decision) -> None:
        """Allow or deny a call that waits for permission."""
        if self._tools is not None:
            self._tools.decide(call_id, decision)

    def show_version(self, message: ConversationMessage) -> None:
        """Show a version of a message, with the messages after it."""
        if self.is_running:
            return
        before = self.conversation.messages
        self._store.save_messages(self.conversation, self.conversation.tree.show(message))
        after = self.conversation.messages
        pairs = zip(before, after, strict=False)
        same = next((n for n, (old, new) in enumerate(pairs) if old is not new), None)
        if same is not None:
            self.path_changed.emit(same)

    def cancel(self, *, is_closing: bool = False) -> None:
        """End the running answer within one step of the model; its text is kept.

        Running calls are cancelled too, also on their server. An answer that the engine has not
        accepted yet, because its model is still loading, ends at once.

        Args:
            is_closing: Whether the program ends, so that no person stopped it.
        """
        self._calls.cancel()
        self._pacing.cancel(is_closing=is_closing)

    async def finish(self) -> None:
        """Cancel the running answer, because the program ends, and wait for its end."""
        self.cancel(is_closing=True)
        await self._tasks.finish()

    def _begin(
        self,
        asked: ConversationMessage,
        unsaved: Sequence[ConversationMessage] = (),
        continued: Run | None = None,
        change: StopChange = NO_CHANGE,
        replaced: ConversationMessage | None = None,
    ) -> Run:
        """Add an answer to a question, store what is new, and start generating it."""
        conversation, model = self.conversation, self._model.info
        begun = "" if continued is None else continued.text_past_stop(self._structure(continued))
        request = self._traces.traced(request_for(conversation, model, asked, begun, change))
        run = new_run(request, model, continued, change, begun)
        if model is None and conversation.model is not None:
            run.model_id, run.is_loading = conversation.model.name, True
        is_first = not any(m.parent is asked for m in conversation.tree)
        message = ConversationMessage("assistant", run=run)
        followers = conversation.tree.copied_after(replaced, message)
        conversation.tree.add(message, asked)
        for one in followers:
            conversation.tree.add(one, one.parent)
        self._traces.copy(runs_of(followers), conversation.id)
        tools = self._tools
        offered = None if tools is None else partial(tools.offered, run)
        fit = partial(self._fit_results, sent_messages(conversation, asked))
        asking = RequestForModel(
            request, conversation.settings, change.without, self._model.held, offered, fit
        )
        answer = RunningAnswer(self._engine, run, asking, self._traces)
        self._pacing.begin(answer, message, self._store.settled)
        if is_first:
            self.message_appended.emit(message)
        else:
            self.path_changed.emit(conversation.messages.index(message))
        self._store.save(conversation)
        self._store.save_messages(conversation, [*unsaved, message, *followers])
        self.is_running_changed.emit(True)
        return run

    def _structure(self, run: Run) -> set[str]:
        """Return texts of tokens that are no part of an answer, as far as they are known."""
        model, trace = self._model.info, self._traces.get(run.id)
        known = set() if model is None else {token.text for token in model.eos}
        if trace is not None:
            known |= {token.special for token in trace.tokens if token.special}
            known |= set(trace.setting.family.tags.values())
        return known

    def _end_answer(self, message: ConversationMessage) -> None:
        run = message.run
        assert run is not None
        message.text = run.text
        self._store.save_messages(self.conversation, [message])
        self._traces.end(run.id, self.conversation.id)
        goes_on = False
        if self._tools is not None and self._tools.takes(run):
            goes_on = True
            self._calls.begin(self._tools, message)
        self.run_finished.emit(run)
        if not goes_on:
            self.is_running_changed.emit(False)

    async def _fit_results(
        self,
        messages: Sequence[ConversationMessage],
        request: GenerationRequest,
        model: ModelInfo,
        adapt: Adapt,
    ) -> GenerationRequest:
        """Return a request whose results fit into the model's context; note what was cut."""

        async def count_tokens(text: str) -> int:
            return len(await self._engine.tokenize(text, model.id))

        results = results_of(messages)
        cuts = await result_cuts(
            request,
            results,
            model.context_length,
            adapt=adapt,
            count_prompt=self._engine.count_tokens,
            count_tokens=count_tokens,
        )
        if not cuts:
            return request
        for number, chars in cuts.items():
            run, result = results[number]
            if result is not None:
                run.results[run.results.index(result)] = replace(result, sent_chars=chars)
        cut = [one for one in messages if any(one.run is results[number][0] for number in cuts)]
        self._store.save_messages(self.conversation, cut)
        for run in runs_of(cut):
            self.run_changed.emit(run)
        return with_cuts(request, results, cuts)

    # -- calls -----------------------------------------------------------------------------

    def _tool_loop(self, toolbox: Toolbox) -> ToolLoop:
        return ToolLoop(
            self.conversation,
            toolbox,
            tell=self.run_changed.emit,
            keep=lambda answer: self._store.save_messages(self.conversation, [answer]),
            keep_conversation=lambda: self._store.save(self.conversation),
        )

    def _end_calls(self, answer: ConversationMessage, goes_on: bool) -> None:
        run = answer.run
        assert run is not None
        run.is_calling = False
        self._store.save_messages(self.conversation, [answer])
        self.run_changed.emit(run)
        if goes_on:
            self.went_on.emit(self._begin(answer, change=run.stop_change))
        else:
            self.is_running_changed.emit(False)

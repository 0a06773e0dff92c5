"""One conversation: its actions, its running answer, its stop list. Main thread, without widgets.

An asyncio task collects the engine's batches of events, and a timer takes them at 30 Hz: a token
costs only an append, and only a tick costs a signal and a repaint.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtGui import QUndoStack

from engine import Engine, Generation, merge_deltas
from engine.errors import EngineError, ModelLoadFailed, RequestCancelled
from engine.library.model_info import ModelInfo
from engine.recording.fork import chosen_text, fork_request
from engine.recording.run_trace import RunTrace
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.repetition import DEFAULT_DETECTION
from engine.values.events import (
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    Timing,
    TokenTrace,
    Usage,
)
from engine.values.request import Fork, GenerationRequest, Tool
from engine.values.verdict import UNEXPECTED
from engine.wording import counted
from ui.chat.session.background_answers import summary_of
from ui.chat.session.prompt_planner import PromptPlanner
from ui.chat.session.tool_loop import ToolLoop
from ui.chat.session.traces import HeldText, Traces
from ui.kit.tasks import finish_tasks, start_task
from ui.models.models import Models
from ui.records.attachments import Attachment
from ui.records.conversations import Conversation, ConversationSettings
from ui.records.facts import Fact
from ui.records.messages import ConversationMessage, question, runs_of
from ui.records.prompt_fit import Cuts, MakeRequest, PromptFit, cut_message, last_left_out
from ui.records.requests import (
    cache_owner,
    ended_run,
    fitted,
    forked_run,
    new_run,
    request_for,
    stop_rules,
    system_texts_of,
)
from ui.records.runs import NO_CHANGE, ForkOrigin, Run, StopChange
from ui.records.store import ConversationStore
from ui.records.tool_calls import Decision
from ui.records.tool_servers import QuestionReply
from ui.records.variants import Variant
from ui.stops.stop_list import StopListModel
from ui.stops.stop_rows import history_of
from ui.tools.toolbox import Toolbox
from ui.words import describe_error, wrong_model

# At most half a second of a running answer is lost in a crash.
SAVE_MS = 400
# Text is often held back for a token or two; only longer times are shown.
HOLD_SHOWN_S = 0.4

_log = logging.getLogger(__name__)


@dataclass
class ChatContext:
    """The parts of a window that all of its conversations use."""

    engine: Engine
    store: ConversationStore
    traces: Traces
    models: Models
    toolbox: Toolbox | None = None
    ends_repetition: bool = False

    def __post_init__(self) -> None:
        self.planner = PromptPlanner(self.engine, self.store)

    def facts_for(self, conversation: Conversation) -> tuple[Fact, ...]:
        """Return the kept facts for a conversation's prompt."""
        return () if self.toolbox is None else self.toolbox.facts_for(conversation)


class ConversationController(QObject):
    """Sends the messages of a conversation, and stores its runs as they grow."""

    message_appended = Signal(object)  # ConversationMessage
    path_changed = Signal(int)  # index of the first message that differs
    text_appended = Signal(object, str)  # Run, new text
    thinking_appended = Signal(object, str)  # Run, new text
    run_changed = Signal(object)  # Run with another stage, progress or call
    run_finished = Signal(object)  # Run
    is_running_changed = Signal(bool)  # whether an answer is running
    continued = Signal(object)  # new Run, after calls or with other stops
    message_changed = Signal(object)  # ConversationMessage
    sides_changed = Signal()
    need_changed = Signal(object)  # Run that waits for the user, or waited

    def __init__(
        self,
        context: ChatContext,
        conversation: Conversation,
        parent: QObject | None = None,
        saved_as: Conversation | None = None,
    ) -> None:
        super().__init__(parent)
        self._context = context
        self.conversation = conversation
        self._saved = saved_as or conversation
        self._models = context.models
        self._traces = context.traces
        self._store = context.store
        self._engine = context.engine
        self._answer: _RunningAnswer | None = None
        self._interrupted: Run | None = None  # by ``apply_stops``
        self._ticks = QTimer(self, interval=33)
        self._ticks.timeout.connect(self._tick)
        self._saves = QTimer(self, interval=SAVE_MS)
        self._saves.timeout.connect(self._save_growth)
        self._tools: ToolLoop | None = None
        if context.toolbox is not None:
            self._tools = ToolLoop(self._saved, context.toolbox, self._store, self)
            self._tools.changed.connect(self.run_changed)
            self._tools.ended.connect(self._end_calls)
            self._tools.note_cut_off()
        self.last_answer: ConversationMessage | None = None
        self.sides: tuple[ConversationController, ...] = ()
        self.undo_stack = QUndoStack(self)  # deleted messages, and changes of the stop list
        self.stops = StopListModel(conversation.stops, self, self.undo_stack)
        self.shown_run = self.latest_run
        self.stops.edited.connect(self._keep_stops)
        for signal in (self.run_changed, self.run_finished):
            signal.connect(self._refresh_need)
        for signal in (self.run_finished, self.path_changed):
            signal.connect(self.refresh_stop_history)
        self.refresh_stop_history()

    @property
    def is_answering(self) -> bool:
        return self._answer is not None or (self._tools is not None and self._tools.is_running)

    @property
    def is_running(self) -> bool:
        """Whether an answer is running, alone or beside another one."""
        return self.is_answering or any(side.is_answering for side in self.sides)

    @property
    def is_busy(self) -> bool:
        """Whether no question can be sent: an answer runs, or one of two must be chosen."""
        return self.is_answering or bool(self.sides)

    @property
    def running(self) -> list[Run]:
        """The runs of the newest answer: one, or two that are compared."""
        own = self.run or (None if self._tools is None else self._tools.run)
        compared = [side.last_answer.run for side in self.sides if side.last_answer is not None]
        return [run for run in (*compared, own) if run is not None]

    @property
    def latest_run(self) -> Run | None:
        shown = reversed(self.conversation.messages)
        return next((m.run for m in shown if m.run is not None), None)

    @property
    def run(self) -> Run | None:
        return None if self._answer is None else self._answer.run

    def send(self, text: str, files: Sequence[Attachment] = ()) -> Run | None:
        """Ask a question; return the run of its answer, or None if another one is still running."""
        user_message = question(text, files)
        if self.is_answering or not user_message.text.strip():
            return None
        self._leave_calls()
        self.conversation.add(user_message)
        self.message_appended.emit(user_message)
        return self._begin(user_message, [user_message])

    def edit(
        self, replaced: ConversationMessage, text: str, files: Sequence[Attachment] = ()
    ) -> Run | None:
        """Replace a question and answer the new one; the old one stays as a version."""
        edited = question(text, files)
        if self.is_answering or not edited.text.strip() or replaced.role != "user":
            return None
        self.conversation.tree.add(edited, replaced.parent)
        self.path_changed.emit(len(self.conversation.messages) - 1)
        return self._begin(edited, [edited])

    def answer(self, user_message: ConversationMessage) -> Run | None:
        """Answer a question of the conversation again; existing answers stay as versions."""
        return None if self.is_answering else self._begin(user_message)

    def regenerate(self, answer: ConversationMessage) -> Run | None:
        """Answer a question again; the old answer stays as a version."""
        if self.is_answering or answer.parent is None or answer.run is None:
            return None
        return self._begin(answer.parent)

    def continue_answer(self, answer: ConversationMessage) -> Run | None:
        """Let the model continue an answer; the short one stays as a version.

        If a stop ended it, the stop's own text comes first, and the stop is left out for the rest.
        """
        run = answer.run
        if self.is_answering or answer.parent is None or run is None:
            return None
        if not run.can_be_continued:
            return None
        change = run.change_past_stop
        return self._begin(answer.parent, continued=run, change=change, replaced=answer)

    def fork(
        self,
        answer: ConversationMessage,
        trace: RunTrace,
        token_index: int,
        chosen: tuple[int, ...] | str,
    ) -> Run | None:
        """Let an answer go on from one of its tokens with others; the old one stays as a version.

        ``chosen`` are ids, or the text of them.

        Raises:
            EngineError: The recording is not whole, or has no such token.
        """
        original = answer.run
        if self.is_answering or answer.parent is None or original is None:
            return None
        ids = () if isinstance(chosen, str) else chosen
        text = chosen if isinstance(chosen, str) else chosen_text(trace, ids)
        origin = self._origin(answer, fork_request(trace, token_index, ids).fork, text)
        self.show_version(answer)
        prepare = partial(self._prepare_fork, original, trace, token_index, chosen)
        return self._start(forked_run(original, trace, origin), answer.parent, prepare)

    def end_at(self, answer: ConversationMessage, ended: RunTrace, fork: Fork) -> Run | None:
        """Add a version that ends as a recording of ``end_here`` does; needs no model."""
        original = answer.run
        if self.is_answering or answer.parent is None or original is None:
            return None
        run = ended_run(original, ended, self._origin(answer, fork, ""))
        self.show_version(answer)
        message, changed = self._add(run, answer.parent)
        message.text = run.text
        self._traces.add(run.id, ended)
        self._traces.end(run.id, self._saved.id)
        self._report_added(message)
        self._save_messages(changed)
        return run

    def _origin(self, answer: ConversationMessage, fork: Fork | None, text: str) -> ForkOrigin:
        assert fork is not None, "a fork was made"
        assert answer.run is not None
        version = self.conversation.tree.versions(answer).index(answer) + 1
        return ForkOrigin(answer.run.id, fork.token_index, fork.replaced_text, text, version)

    def answer_without_stop(self, answer: ConversationMessage) -> Run | None:
        """Answer a question again without the stop that ended its answer, this time only."""
        run = answer.run
        if self.is_answering or answer.parent is None or run is None:
            return None
        return self._begin(answer.parent, change=run.change_past_stop, replaced=answer)

    def continue_calls(self, answer: ConversationMessage) -> bool:
        """Run the calls of an answer that was paused or cut off; return whether that was begun."""
        run = answer.run
        if self._tools is None or self.is_answering or run is None:
            return False
        is_last = self.conversation.messages[-1:] == [answer]
        if not (is_last and (run.paused_at or run.live.is_cut_off)):
            return False
        self._tools.begin(answer, is_continued=True)
        self.is_running_changed.emit(True)
        self.run_changed.emit(run)
        return True

    def _leave_calls(self) -> None:
        """Offer no continuation of the last answer's calls: another question follows it."""
        last = self.conversation.messages[-1:]
        run = last[0].run if last else None
        if run is not None and (run.paused_at or run.live.is_cut_off):
            run.paused_at, run.live.is_cut_off = 0, False
            self._save_messages(last)
            self.run_changed.emit(run)

    def reply(self, call_id: str, reply: Decision | QuestionReply) -> None:
        """Allow or deny a call that waits for permission, or answer its server's question."""
        if self._tools is not None:
            self._tools.reply(call_id, reply)

    def cut_result(self, answer: ConversationMessage, call_id: str, sent_chars: int | None) -> None:
        """Send only the beginning of a result from the next prompt on; None for all of it."""
        run = answer.run
        if run is None:
            return
        run.results = [
            replace(result, sent_chars=sent_chars) if result.call_id == call_id else result
            for result in run.results
        ]
        self._save_messages([answer])
        self.run_changed.emit(run)

    def show_version(self, message: ConversationMessage) -> None:
        if self.is_busy:
            return
        before = self.conversation.messages
        self._save_messages(self.conversation.tree.show(message))
        after = self.conversation.messages
        pairs = zip(before, after, strict=False)
        same = next((n for n, (old, new) in enumerate(pairs) if old is not new), None)
        if same is not None:
            self.path_changed.emit(same)

    def step_version(self, message: ConversationMessage, step: int) -> bool:
        """Show the previous (-1) or next (1) version of a message; return whether there is one."""
        versions = self.conversation.tree.versions(message)
        index = versions.index(message) + step
        if self.is_busy or not 0 <= index < len(versions):
            return False
        self.show_version(versions[index])
        return True

    def refresh_stop_history(self) -> None:
        self.stops.set_history(history_of(self.conversation))

    def has_other_stops(self, model: ModelInfo | None) -> bool:
        """Return whether the stop list has changed since the running answer began."""
        run = self.run
        if run is None or model is None:
            return False
        rules = stop_rules(self.conversation, model, run.stop_change)
        return run.rules != replace(rules, repetition=run.rules.repetition)

    def apply_stops(self) -> None:
        """Cancel the running answer, and continue it with the present stop list."""
        if self.is_answering:
            self._interrupted = self.run
            self.cancel()

    def compare(self, other: Variant, text: str = "", files: Sequence[Attachment] = ()) -> bool:
        """Answer a question with the conversation's settings, and with others beside it.

        The answers are versions of one message from the beginning, so that none is lost if the
        program ends before one is chosen.
        """
        questions = [message for message in self.conversation.messages if message.run is None]
        is_new = bool(text.strip() or files)
        if self.is_busy or not (is_new or questions):
            return False
        sides = [
            ConversationController(
                self._context, variant.given_to(self.conversation), self, saved_as=self._saved
            )
            for variant in (Variant.of(self.conversation), other)
        ]
        for side in sides:
            side.is_running_changed.connect(self._note_side)
            side.run_changed.connect(self._refresh_need)
            side.run_finished.connect(self._refresh_need)
        self.sides = tuple(sides)
        left, right = sides
        user_message = None if is_new else questions[-1]
        if user_message is None:
            left.send(text, files)
        else:
            left.answer(user_message)
        assert left.last_answer is not None
        assert left.last_answer.parent is not None
        right.answer(left.last_answer.parent)
        self.sides_changed.emit()
        return True

    def end_comparison(self, kept: "ConversationController | None" = None) -> None:
        """Show one of the two answers, the left one if none is given; both stay as versions."""
        sides, self.sides = self.sides, ()
        if not sides:
            return
        answer = (kept or sides[0]).last_answer
        if answer is not None:
            self._save_messages(self.conversation.tree.show(answer))
        for side in sides:
            side.deleteLater()
        self.refresh_stop_history()
        self.sides_changed.emit()

    def _note_side(self, is_running: bool) -> None:
        if is_running or not self.is_running:
            self.is_running_changed.emit(is_running)

    def cancel(self, *, is_closing: bool = False) -> None:
        """End the running answer within one step of the model; its text is kept.

        Running calls are cancelled too, also on their server. An answer that the engine has not
        accepted yet, because its model is still loading, ends at once.
        """
        for side in self.sides:
            side.cancel(is_closing=is_closing)
        if self._tools is not None:
            self._tools.cancel()
        answer = self._answer
        if answer is None or answer.run.live.is_cancelling:
            return
        answer.run.live.is_cancelling, answer.run.live.is_closing = True, is_closing
        if not answer.cancel() and answer.task is not None:
            answer.task.cancel()
        self.run_changed.emit(answer.run)

    async def finish(self) -> None:
        """Cancel the running answer, because the program ends, and wait for its end."""
        self.cancel(is_closing=True)
        for side in self.sides:
            await side.finish()
        await finish_tasks(self)

    # -- an answer begins --------------------------------------------------------------------

    @property
    def _model(self) -> ModelInfo | None:
        choice = self.conversation.model
        return self._models.status(None if choice is None else choice.folder).info

    def _begin(
        self,
        parent: ConversationMessage,
        unsaved: Sequence[ConversationMessage] = (),
        continued: Run | None = None,
        change: StopChange = NO_CHANGE,
        replaced: ConversationMessage | None = None,
    ) -> Run:
        """Answer a question, or continue an answer to it."""
        conversation, model = self.conversation, self._model
        begun = "" if continued is None else continued.text_past_stop(self._structure(continued))
        facts = self._context.facts_for(conversation)
        request = request_for(conversation, model, parent, begun, change, facts=facts)
        request = self._traces.traced(request)
        if self._context.ends_repetition and not change.goes_past_repetition:
            stops = replace(request.stops, repetition=DEFAULT_DETECTION)
            request = replace(request, stops=stops)
        run = new_run(request, model, continued, change, begun)
        run.stops_from = self.conversation.stops_from
        if continued is None:
            run.left_out = last_left_out(conversation.tree.path_to(parent))
        prepare = partial(self._prepare, request, conversation.settings, parent, continued)
        return self._start(run, parent, prepare, unsaved, replaced)

    def _start(
        self,
        run: Run,
        parent: ConversationMessage,
        prepare: "_Prepare",
        unsaved: Sequence[ConversationMessage] = (),
        replaced: ConversationMessage | None = None,
    ) -> Run:
        """Add an answer to a question, store the new messages, and start generating it."""
        conversation, model = self.conversation, self._model
        if model is None and conversation.model is not None:
            run.model_id, run.live.is_loading = conversation.model.name, True
        message, changed = self._add(run, parent, replaced)
        answer = self._answer = _RunningAnswer(run, message)
        self._ticks.start()
        self._saves.start()
        work = self._collect(answer, prepare)
        answer.task = start_task(self, work, f"answer {run.id}")
        # A task that is cancelled before its first step never runs its own ending.
        answer.task.add_done_callback(lambda _: self._end_answer(answer))
        self._report_added(message)
        self._store.save(self._saved)
        self._save_messages([*unsaved, *changed])
        self.is_running_changed.emit(True)
        return run

    def _add(
        self, run: Run, parent: ConversationMessage, replaced: ConversationMessage | None = None
    ) -> tuple[ConversationMessage, list[ConversationMessage]]:
        """Add an answer to a question; return it, and all messages that are to be stored."""
        message = ConversationMessage("assistant", run=run)
        followers = self.conversation.tree.add_version(message, parent, replaced)
        self._traces.copy(runs_of(followers), self._saved.id)
        self.last_answer = message
        return message, [message, *followers]

    def _report_added(self, message: ConversationMessage) -> None:
        if len(self.conversation.tree.versions(message)) == 1:
            self.message_appended.emit(message)
        else:
            self.path_changed.emit(self.conversation.messages.index(message))

    async def _collect(self, answer: "_RunningAnswer", prepare: "_Prepare") -> None:
        """Send the request once all is stored and its model is loaded; collect the answer."""
        run = answer.run
        try:
            await self._store.flush()
            can_call = self._model is None or self._model.can_call_tools
            tools = await self._tools.offered(run) if self._tools and can_call else ()
            async with self._models.ready(self.conversation) as model:
                request = await prepare(answer, tools, model)
                run.take_model(request.stops, run.model_id if model is None else model.id)
                generation = await self._engine.generate(request)
            run.prompt_total = generation.prompt_tokens
            answer.accept(generation, self._traces.begin(run.id, generation))
            async for batch in generation.batches():
                answer.add(batch)
        except RequestCancelled:
            pass  # the answer ends as a stopped one
        except EngineError as error:
            run.refusal = describe_error(error)
            failed = isinstance(error, ModelLoadFailed) and bool(self._models.failure)
            run.live.is_load_failure = failed
            run.state = "refused"
        except asyncio.CancelledError:
            answer.cancel()
            raise
        except Exception:
            answer.fail()
        finally:
            try:
                self._take(answer)
            except Exception:
                answer.fail()
            self._end_answer(answer)

    async def _prepare(
        self,
        request: GenerationRequest,
        settings: ConversationSettings,
        parent: ConversationMessage,
        continued: Run | None,
        answer: "_RunningAnswer",
        tools: tuple[Tool, ...],
        model: ModelInfo | None,
    ) -> GenerationRequest:
        """Return a request that fits its model."""
        request = replace(request, tools=tools)
        exact = await self._going_on(continued, request, settings, model)
        if exact is not None:
            request = exact
        elif model is not None:
            request = await self._fit(answer, parent, request, settings, model)
        return fitted(request, settings, model, answer.run.stop_change.without)

    async def _prepare_fork(
        self,
        original: Run,
        trace: RunTrace,
        token_index: int,
        chosen: tuple[int, ...] | str,
        _answer: "_RunningAnswer",
        _tools: tuple[Tool, ...],
        model: ModelInfo | None,
    ) -> GenerationRequest:
        """Return the recorded request of an answer that is forked."""
        if model is None or model.id not in (original.model_id, trace.setting.model):
            raise EngineError(wrong_model(original.model_id))
        if isinstance(chosen, str):
            pieces = await self._engine.tokenize(chosen, model.id)
            chosen = tuple(token_id for token_id, _ in pieces)
        request = replace(
            self._traces.traced(fork_request(trace, token_index, chosen)),
            model=model.id,
            cache_owner=cache_owner(self.conversation),
        )
        if not request.rendered and request.prompt is None:
            size = await self._engine.count_tokens(request)
            if size != original.prompt_total:
                raise EngineError(
                    f"The prompt of this answer was not recorded. It had "
                    f"{counted(original.prompt_total, 'token')}; rendered again it has {size:,}. "
                    "Regenerate the answer, and fork the new one."
                )
        return request

    def _structure(self, run: Run) -> set[str]:
        """Return texts of tokens that are no part of an answer, as far as they are known."""
        model, trace = self._model, self._traces.get(run.id)
        known = set() if model is None else {token.text for token in model.eos}
        if trace is not None:
            known |= {token.special for token in trace.tokens if token.special}
            known |= set(trace.setting.family.tags.values())
        return known

    async def _going_on(
        self,
        continued: Run | None,
        request: GenerationRequest,
        settings: ConversationSettings,
        model: ModelInfo | None,
    ) -> GenerationRequest | None:
        """Return a request that goes on from the recorded tokens of an answer; None without them.

        Its text alone could be divided into other tokens.
        """
        trace = None if continued is None else await self._traces.find(continued.id)
        before = None if trace is None else trace.request
        if continued is None or trace is None or before is None or model is None:
            return None
        is_whole = trace.is_whole and not trace.residue and before.model == model.id
        is_past = continued.stopped_by is None or continued.is_past_text(self._structure(continued))
        is_same_system = system_texts_of(before) == system_texts_of(request)
        if not (is_whole and is_past and is_same_system):
            return None
        exact = replace(
            request,
            messages=before.messages,
            tools=before.tools,
            begun=(*before.begun, *(token.token_id for token in trace.tokens)),
        )
        expected = fitted(exact, settings, model)
        try:
            size = await self._engine.count_tokens(expected)
        except EngineError:
            return None
        is_same = expected.thinking == before.thinking
        return exact if is_same and size < model.context_length else None

    async def _fit(
        self,
        answer: "_RunningAnswer",
        parent: ConversationMessage,
        request: GenerationRequest,
        settings: ConversationSettings,
        model: ModelInfo,
    ) -> GenerationRequest:
        """Return a request that fits into the model's context; note the left-out messages."""
        run, planner, conversation = answer.run, self._context.planner, self.conversation
        target, without = (conversation, parent, request, settings, model), run.stop_change.without
        facts = self._context.facts_for(conversation)
        fit, make = await planner.fit(*target, run.left_out, facts=facts, without=without)
        self._note_cuts(fit.cuts)
        if fit.excerpts is not None and parent.excerpts != fit.excerpts:
            parent.excerpts = fit.excerpts
            self._save_messages([parent])
            self.message_changed.emit(parent)
        run.left_out = fit.left_out
        is_summary = planner.when_full_of(conversation) == "summarize"
        if is_summary and fit.left_out and not fit.left_out.is_summarized:
            path = conversation.tree.path_to(parent)
            return await self._summarized(answer, path, fit, make, model)
        return fit.request

    async def _summarized(
        self,
        answer: "_RunningAnswer",
        path: Sequence[ConversationMessage],
        fit: PromptFit,
        make: MakeRequest,
        model: ModelInfo,
    ) -> GenerationRequest:
        """Return the request with a summary of the left-out messages, or without if it failed."""
        run, left_out = answer.run, fit.left_out
        assert left_out is not None
        boundary = path[left_out.until]
        summaries = [n for n in range(left_out.until) if path[n].summary]
        begin = summaries[-1] if summaries else 0
        named = {message.id for message in fit.messages}
        removed = [message for message in path[begin : left_out.until] if message.id not in named]

        run.live.summarizing = f"Summarizing {counted(len(removed), 'earlier message')}…"
        self.run_changed.emit(run)
        try:
            summary = await summary_of(removed, path[begin].summary, self._engine, model)
            request = make(
                [replace(message, summary=summary) for message in fit.messages], boundary.id
            )
            await self._engine.count_tokens(request)
        except EngineError as error:
            run.left_out = replace(left_out, problem=describe_error(error))
            return fit.request
        finally:
            run.live.summarizing = ""
        boundary.summary = summary
        run.left_out = replace(left_out, is_summarized=True)
        self._save_messages([boundary])
        return request

    def _note_cuts(self, cuts: Cuts) -> None:
        """Note which files and results the model gets only the beginning of."""
        if not cuts:
            return
        changed = []
        for message in self.conversation.tree:
            cut = cut_message(message, cuts)
            if cut is message:
                continue
            message.sent_chars = cut.sent_chars
            if message.run is not None and cut.run is not None:
                message.run.results = cut.run.results
            changed.append(message)
        self._save_messages(changed)
        for message in changed:
            if message.run is None:
                self.message_changed.emit(message)
            else:
                self.run_changed.emit(message.run)

    # -- it grows and ends ---------------------------------------------------------------------

    def _tick(self) -> None:
        answer = self._answer
        if answer is None:
            return
        try:
            self._take(answer)
        except Exception:
            answer.fail()
            if answer.task is not None:
                answer.task.cancel()
        if self._answer is answer and answer.note_progress():
            self.run_changed.emit(answer.run)

    def _take(self, answer: "_RunningAnswer") -> None:
        """Apply the events since the last tick, with one signal for each kind of text."""
        run = answer.run
        if run.is_over:
            return  # events after a failure are not shown
        for event in answer.take_events():
            run.apply(event)
            match event:
                case ThinkingDelta():
                    self.thinking_appended.emit(run, event.text)
                case TextDelta():
                    self.text_appended.emit(run, event.text)
                case _:
                    pass
        if answer.has_new_stage():
            self.run_changed.emit(run)

    def _save_growth(self) -> None:
        answer = self._answer
        if answer is not None and answer.has_grown:
            answer.has_grown = False
            self._save_messages([answer.message])

    def _save_messages(self, messages: Sequence[ConversationMessage]) -> None:
        self._store.save_messages(self._saved, messages)

    def _end_answer(self, answer: "_RunningAnswer") -> None:
        if self._answer is not answer:
            return  # the end was reported already
        self._ticks.stop()
        self._saves.stop()
        self._answer = None
        message, run = answer.message, answer.run
        if not run.is_over:
            # Stopped before the engine accepted it, or the loop is closing: its text is kept.
            run.apply(Finished(StopInfo(StopKind.CANCELLED), Usage(), Timing()))
        run.live.held, run.live.held_s = "", 0.0
        if run.finished is not None and run.finished.error:
            _log.error("an answer failed: %s", run.finished.error)
        message.text = run.text
        self._save_messages([message])
        self._traces.end(run.id, self._saved.id)
        goes_on = self._tools is not None and self._tools.takes(run)
        if goes_on and self._tools is not None:
            self._tools.begin(message)
        self.run_finished.emit(run)
        if not goes_on:
            self._report_idle()

    def _end_calls(self, answer: ConversationMessage, goes_on: bool) -> None:
        run = answer.run
        assert run is not None
        self._save_messages([answer])
        self.run_changed.emit(run)
        if goes_on:
            self._show_continued(self._begin(answer, change=run.stop_change))
        else:
            self._report_idle()

    def _report_idle(self) -> None:
        """Report that no answer is running; continue after ``apply_stops``."""
        self.is_running_changed.emit(False)
        run, self._interrupted = self._interrupted, None
        answer = next((m for m in self.conversation.messages if m.run is run), None)
        if run is None or answer is None or run.finished is None:
            return
        if run.finished.stop.kind is not StopKind.CANCELLED:
            return  # the answer ended before it was cancelled
        resume = self.continue_answer if run.can_be_continued else self.answer_without_stop
        begun = resume(answer)
        if begun is not None:
            self._show_continued(begun)

    def _show_continued(self, run: Run) -> None:
        self.shown_run = run
        self.continued.emit(run)

    def _refresh_need(self, run: Run) -> None:
        waiting = next((running for running in self.running if running.needs_user), None)
        if self.conversation.needs_user != (waiting is not None):
            self.conversation.needs_user = waiting is not None
            self.need_changed.emit(waiting or run)

    def _keep_stops(self) -> None:
        self.conversation.stops = self.stops.entries()


_Prepare = Callable[
    ["_RunningAnswer", tuple[Tool, ...], ModelInfo | None], Awaitable[GenerationRequest]
]
"""Returns the request of an answer once its model is loaded."""


class _RunningAnswer:
    """The answer to one request: its task, and the events that were not taken yet."""

    def __init__(self, run: Run, message: ConversationMessage) -> None:
        self.run = run
        self.message = message
        self.task: asyncio.Task[None] | None = None
        self.has_grown = False
        self._generation: Generation | None = None
        self._trace: RunTrace | None = None
        self._events: deque[Event] = deque()
        self._held = HeldText()
        self._reported_stage = self._stage

    def accept(self, generation: Generation, trace: RunTrace | None) -> None:
        self._generation, self._trace = generation, trace

    def add(self, events: Iterable[Event]) -> None:
        self._events.extend(events)

    def take_events(self) -> list[Event]:
        """Return the new events without token traces; neighbours of the same kind are joined."""
        arrived = list(self._events)
        self._events.clear()
        if self._trace is not None:
            now = time.monotonic()
            for event in arrived:
                self._trace.take(event)
                if isinstance(event, TokenTrace):
                    self._held.take(event, now)
            # Token traces between pieces of text would prevent joining these.
            arrived = [event for event in arrived if not isinstance(event, TokenTrace)]
        events = merge_deltas(arrived)
        self.has_grown = self.has_grown or bool(events)
        return events

    def has_new_stage(self) -> bool:
        """Return whether a fact changed that is shown at once; a load may end without an event."""
        before, self._reported_stage = self._reported_stage, self._stage
        return before != self._reported_stage

    @property
    def _stage(self) -> tuple[object, ...]:
        run = self.run
        calls = len(run.tool_calls), len(run.live.growing_calls)
        return run.state, run.live.is_loading, run.prompt_processed, calls

    def note_progress(self) -> bool:
        """Note speed and held text in the run; return whether there is a change to show."""
        if self._generation is None:
            return False
        has_pace = self.run.live.pace.note(self._generation.written_tokens, time.monotonic())
        return self._note_hold() or has_pace

    def _note_hold(self) -> bool:
        if self._trace is None:
            return False
        run, held, since_s = self.run, self._held.text, self._held.since_s
        age_s = time.monotonic() - since_s if held and since_s is not None else 0.0
        # Once held text is shown, it stays shown while any text is held: it must not flicker.
        is_shown = bool(held) and (age_s >= HOLD_SHOWN_S or bool(run.live.held))
        held, age_s = (held, age_s) if is_shown else ("", 0.0)
        # The time is shown in tenths of a second: smaller changes need no repaint.
        if held == run.live.held and round(age_s, 1) == round(run.live.held_s, 1):
            return False
        run.live.held, run.live.held_s = held, age_s
        return True

    def cancel(self) -> bool:
        """End the answer within one step; return False if the engine has not accepted it yet."""
        if self._generation is None:
            return False
        self._generation.cancel()
        return True

    def fail(self) -> None:
        """End the answer because of the unexpected exception that is being handled."""
        _log.exception("an answer failed unexpectedly")
        self.cancel()
        if not self.run.is_over:
            ending = Finished(StopInfo(StopKind.ERROR), Usage(), Timing(), error=UNEXPECTED)
            self.run.apply(ending)

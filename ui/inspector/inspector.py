"""The state of the inspector: the shown run, its prompt, other lists tried on it, other runs.

Main thread.
"""

import asyncio
from collections.abc import Callable, Set
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, Signal

from engine import Engine
from engine.files.json_fields import DamagedFile
from engine.recording.replay import Replayed, replay
from engine.recording.run_trace import RunTrace
from engine.recording.saved_run import MAX_FILE_BYTES, from_json, question_of, to_json
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.request import LOCAL_OWNER, GenerationRequest, TraceLevel
from engine.values.verdict import headline
from engine.wording import counted, quoted
from ui.chat.session.conversation_controller import ConversationController
from ui.chat.session.workspace import Workspace
from ui.inspector.shown_run import (
    ShownRun,
    end_label,
    shown_answer,
    shown_recording,
)
from ui.kit.following import Following
from ui.kit.tasks import cancel_tasks, finish_tasks, read_text, restart_task, start_task, write_file
from ui.records.messages import ConversationMessage
from ui.records.pictures import read_pictures
from ui.records.requests import request_for
from ui.records.runs import Run
from ui.records.stop_entries import StopEntry
from ui.server.requests import RequestEntry
from ui.stops.stop_list import StopListModel
from ui.words import FileRefused, unescaped

# The replay runs on another thread, a moment after the last change, so that typing never waits.


class WhatIf(QObject):
    """A copy of a run's stop list that may be changed at will."""

    outcome_changed = Signal()

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.stops = StopListModel(parent=self)
        self.played: Replayed | None = None
        self.rules = StopRules()  # of the replay
        self.sentence = ""
        self.recording: RunTrace | None = None
        self._typed = ""
        self._delay = QTimer(self, singleShot=True, interval=60)
        self._delay.timeout.connect(self._start)
        self.stops.edited.connect(self._delay.start)
        self.stops.mode_changed.connect(self._delay.start)

    def set_recording(self, recording: RunTrace | None) -> None:
        self.recording = recording
        self.played = None
        cancel_tasks(self)
        self.reset()  # the text that is being typed stays in its field and still counts as a stop
        self.stops.undo_stack.clear()
        self.outcome_changed.emit()

    def reset(self) -> None:
        rules = StopRules() if self.recording is None else self.recording.rules
        self.stops.replace_all(stops_of(rules), "Use Run’s List")
        self._delay.start()

    def set_typed(self, typed: str) -> None:
        """Count the typed text as one more stop."""
        if typed != self._typed:
            self._typed = typed
            self._delay.start()

    @property
    def difference(self) -> Replayed | None:
        """The outcome with the tried list; None where the run itself ended there."""
        played, recording = self.played, self.recording
        if played is None or recording is None or _end_of(played.stop) == _end_of(recording.stop):
            return None
        return played

    def case(self) -> RunTrace | None:
        """Return the run with the tried list."""
        if self.recording is None or self.played is None:
            return None
        stop = self.played.stop or self.recording.stop
        return replace(self.recording, rules=self.rules, stop=stop)

    async def finish(self) -> None:
        self._delay.stop()
        await finish_tasks(self)

    def _start(self) -> None:
        if self.recording is None:
            return
        rules = listed_rules(self.stops, self._typed, self.recording.rules)
        restart_task(self, self._play(self.recording, rules), "replay of a run")

    async def _play(self, recording: RunTrace, rules: StopRules) -> None:
        played = await asyncio.to_thread(replay, recording, rules)
        self.played, self.rules = played, rules
        listed = {entry.stop.text for entry in self.stops.entries()}
        self.sentence = what_if_sentence(recording, played, listed)
        self.outcome_changed.emit()


def stops_of(rules: StopRules) -> list[StopEntry]:
    """Return the rows of a list with the stops of these rules."""
    return [StopEntry(stop).within(rules.scope_of(stop)) for stop in rules.stops]


def listed_rules(stops: StopListModel, typed: str, rules: StopRules) -> StopRules:
    """Return rules with the enabled rows of a list and the text in its field as their stops."""
    entries = stops.entries()
    enabled = [entry.stop.text for entry in entries if entry.is_enabled]
    if typed and stops.with_escapes:
        try:
            typed = unescaped(typed)
        except ValueError:
            typed = ""  # an escape that is not yet complete
    listed = tuple(replace(entry.stop, scope=entry.scope) for entry in entries)
    texts = dict.fromkeys([*enabled, typed] if typed else enabled)
    return replace(rules, stops=listed).with_strings(texts)


def what_if_sentence(recording: RunTrace, played: Replayed, listed: Set[str]) -> str:
    """Return where a replay with other stops ended, and whether the run itself ended there."""
    kept = f"keeping {counted(len(played.text), 'character')}"
    stop = played.stop
    if stop is None:
        count = counted(len(recording.tokens), "recorded token")
        return f"Nothing would stop within the {count}, {kept}."
    at = f"at token {played.output_tokens:,}"
    match stop.kind:
        case StopKind.STOP_STRING:
            is_listed = stop.value in listed
            by = quoted(str(stop.value), 40) if is_listed else "the sequence being typed"
            sentence = f"Would stop {at} by {by}, {kept}."
        case StopKind.EOS:
            sentence = f"Would end by itself {at}, {kept}."
        case _:
            sentence = f"{headline(stop)} {at}, {kept}."
    is_same = _end_of(stop) == _end_of(recording.stop)
    return f"{sentence} The run itself ended there too." if is_same else sentence


def _end_of(stop: StopInfo | None) -> tuple[object, ...]:
    return () if stop is None else (stop.kind, stop.value, stop.token_index, stop.text_offset)


class Inspector(QObject):
    """Follows the workspace until something else is opened."""

    run_shown = Signal(object)  # ShownRun or None
    grew = Signal()
    work_begun = Signal(str)  # name
    problem_met = Signal(str)  # reason and remedy

    def __init__(self, engine: Engine, workspace: Workspace, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.workspace = workspace
        self.traces = workspace.traces
        self.shown: ShownRun | None = None
        self.what_if = WhatIf(self)
        self.engine = engine
        self.choice = 0
        self._request: RequestEntry | None = None
        self._following = Following()
        self._is_tried = False
        self._growth = QTimer(self, singleShot=True, interval=100)
        self._growth.timeout.connect(self.grew)
        workspace.opened.connect(self._follow_session)
        workspace.run_shown.connect(self._follow_workspace)
        self.traces.forgotten.connect(self._show_again)
        self._follow_session(workspace.current)
        self._show_chat(workspace.current.shown_run)

    # -- the shown run ----------------------------------------------------------------------

    def show(self, shown: ShownRun | None) -> None:
        self.shown = shown
        self._is_tried = False
        self.what_if.set_recording(None)
        self.run_shown.emit(shown)
        if shown is not None and shown.trace is None and shown.run.is_over:
            start_task(self, self._find_trace(shown), "look for the trace of a run")

    def try_lists(self) -> None:
        """Let other stop lists be tried on the shown run."""
        shown = self.shown
        if not self._is_tried and shown is not None and shown.can_be_replayed:
            self._is_tried = True
            self.what_if.set_recording(shown.trace)

    def show_open_conversation(self) -> None:
        self._show_chat(self.workspace.current.shown_run)

    def show_request(self, entry: RequestEntry, choice: int = 0) -> None:
        """Show one of the answers that another app got, if a model answered it."""
        if entry.answers:
            answer = entry.answers[choice]
            self._request = entry
            self.choice = choice
            self.show(shown_answer(entry, answer, self.traces.get(answer.run_id)))

    def choose(self, choice: int) -> None:
        if self._request is not None and choice != self.choice:
            self.show_request(self._request, choice)

    @property
    def choices(self) -> list[str]:
        """The answers to the shown request, in a few words each; one of them can be chosen."""
        shown, request = self.shown, self._request
        if request is None or shown is None or shown.source != "request":
            return []
        ends = [end_label(shown_answer(request, answer).run) for answer in request.answers]
        return [f"Answer {number} of {len(ends)}: {end}" for number, end in enumerate(ends, 1)]

    def open_file(self, path: Path) -> None:
        start_task(self, self._open(path), "open a saved run")

    def open_run(self, shown: ShownRun) -> None:
        if shown.source == "chat":
            self.workspace.show_run(shown.run)
            self._show_chat(shown.run)
        else:
            self.show(replace(shown, trace=self.traces.get(shown.run.id)))

    async def traced(self, shown: ShownRun) -> ShownRun:
        """Return a run with its trace, if that is in memory or on disk."""
        trace = shown.trace or await self.traces.find(shown.run.id)
        return replace(shown, trace=trace)

    @property
    def can_answer_again(self) -> bool:
        """Whether the shown run can be answered again with everything recorded."""
        is_busy = self.workspace.current.is_busy
        return (
            not is_busy
            and self.workspace.model_selection.state.can_answer
            and self.message() is not None
        )

    def record_everything(self) -> None:
        """Answer again, and record everything about this answer and the next ones."""
        if self.can_answer_again:
            self.traces.record(TraceLevel.FULL)
            self.answer_again()

    def answer_again(self) -> None:
        message = self.message()
        if message is not None and self.can_answer_again:
            self.workspace.ask(lambda current: current.regenerate(message))

    def runs_of_conversation(self) -> list[ShownRun]:
        """Return the runs of the open conversation, newest first."""
        runs: list[ShownRun] = []
        for message in self.workspace.current.conversation.tree:
            run = message.run
            if run is None or run.is_from_elsewhere:
                continue
            question = message.parent.text if message.parent is not None else ""
            line = " ".join(question.split())
            name = f"Answer to “{line if len(line) <= 40 else f'{line[:39]}…'}”"
            runs.append(ShownRun(run, self.traces.get(run.id), question, "chat", name))
        return runs[::-1]

    async def every_run(self) -> list[ShownRun]:
        """Return the runs of the open conversation, then recent ones of others, newest first."""
        own = self.runs_of_conversation()
        known = {run.run.id for run in own}
        here = self.workspace.current.conversation.id
        return own + [
            ShownRun(past.run, self.traces.get(past.run.id), past.question, "past", past.title)
            for past in await self.workspace.store.recent_runs(200)
            if past.run.id not in known and past.conversation_id != here
        ]

    # -- what can be done ------------------------------------------------------------------

    def repeated_request(self, shown: ShownRun) -> GenerationRequest | None:
        """Return the request that asks a run's question again; None if it is not known."""
        trace, request = shown.trace, shown.request
        if trace is not None and request is not None:
            rules, limit = trace.rules, trace.max_tokens
            request = replace(
                request, stops=rules, max_tokens=limit, rendered=tuple(trace.rendered)
            )
        elif request is None:
            conversation = self.workspace.current.conversation
            answers = (message for message in conversation.tree if message.run is shown.run)
            message = next(answers, None)
            if message is None or message.parent is None:
                return None
            model = self.workspace.model_selection.state.info
            path = conversation.tree.path_to(message.parent)
            folder = self.workspace.store.pictures_folder
            seen = read_pictures(folder, path) if model is not None and model.can_see else {}
            facts = self.workspace.toolbox.facts_for(conversation)
            request = request_for(conversation, model, message.parent, pictures=seen, facts=facts)
            if shown.run.finished is not None:
                request = replace(request, stops=shown.run.rules)
        return replace(
            request,
            model=shown.run.model_id or request.model or self.workspace.model_selection.state.name,
            fork=None,
            trace=TraceLevel.FULL,
            top_logprobs=self.traces.requested_level[1],
            cache_owner=LOCAL_OWNER,
        )

    def message(self) -> ConversationMessage | None:
        """Return the shown run's message, if it is in the open conversation."""
        if self.shown is None or self.shown.source != "chat":
            return None
        run = self.shown.run
        shown = self.workspace.current.conversation.messages
        return next((message for message in shown if message.run is run), None)

    def save_case(self, path: Path) -> None:
        """Write the run with the tried stop list as a case that ``fullstop replay`` plays."""
        case = self.what_if.case()
        if case is not None and self.shown is not None:
            start_task(self, self._save(path, case, self.shown.question), "save a case")

    def save_run(self, path: Path) -> None:
        shown = self.shown
        if shown is not None and shown.trace is not None and shown.can_be_replayed:
            start_task(self, self._save(path, shown.trace, shown.question), "save a run")

    @property
    def has_recording(self) -> bool:
        """Whether the shown run has recorded tokens here, not in a file."""
        shown = self.shown
        is_kept = shown is not None and shown.run.is_over and shown.source != "file"
        return is_kept and shown is not None and shown.trace is not None

    def delete_recording(self) -> Callable[[], None]:
        """Delete the tokens of the shown run; the returned function brings them back."""
        shown = self.shown
        assert shown is not None
        assert shown.trace is not None
        run_id, trace = shown.run.id, shown.trace
        self.traces.delete(frozenset({run_id}))
        self._show_again()

        def undo() -> None:
            self.traces.restore(frozenset({run_id}))
            self.traces.add(run_id, trace)
            if self.shown is not None and self.shown.run.id == run_id:
                self.show(shown)

        return undo

    async def finish(self) -> None:
        await self.what_if.finish()
        await finish_tasks(self)

    # -- inside ----------------------------------------------------------------------------

    def _follow_session(self, opened: ConversationController) -> None:
        self._following.follow(
            (opened.run_changed, self.note_growth),
            (opened.text_appended, self.note_growth),
            (opened.thinking_appended, self.note_growth),
            (opened.run_finished, self._note_end),
        )

    def note_growth(self, run: Run, _text: str = "") -> None:
        if self.shown is not None and run is self.shown.run:
            if self.shown.trace is None and self.traces.get(run.id) is not None:
                self._show_chat(run)  # it has been accepted, so there is a trace now
            elif not self._growth.isActive():
                self._growth.start()

    def _note_end(self, run: Run) -> None:
        if self.shown is not None and run is self.shown.run:
            self._growth.stop()
            self._show_chat(run)

    def _follow_workspace(self, run: Run | None) -> None:
        if self.shown is None or self.shown.source == "chat":
            self._show_chat(run)

    def _show_chat(self, run: Run | None) -> None:
        if run is None:
            self.show(None)
            return
        question = ""
        for message in self.workspace.current.conversation.tree:
            if message.run is run and message.parent is not None:
                question = message.parent.text
        self.show(ShownRun(run, self.traces.get(run.id), question))

    def _show_again(self) -> None:
        shown = self.shown
        if shown is None:
            return
        if shown.source == "chat":
            self._show_chat(shown.run)
        elif shown.source in ("past", "fork", "several"):
            self.show(replace(shown, trace=None))
        elif shown.source == "request" and self._request is not None:
            self.show_request(self._request, self.choice)

    async def _open(self, path: Path) -> None:
        self.work_begun.emit(f"Opening {path.name}…")
        try:
            text = await read_text(path, MAX_FILE_BYTES)
            shown = await asyncio.to_thread(_shown_file, text, path.name)
        except FileRefused as refusal:
            self.problem_met.emit(str(refusal))
        except DamagedFile as error:
            self.problem_met.emit(f"{path.name} is not a saved run. {error}.")
        else:
            self.show(shown)

    async def _save(self, path: Path, recording: RunTrace, question: str) -> None:
        try:
            await write_file(path, lambda: to_json(recording, question))
        except FileRefused as refusal:
            self.problem_met.emit(str(refusal))

    async def _find_trace(self, shown: ShownRun) -> None:
        """Show a run of an earlier session with the trace that was kept on disk."""
        if shown.source in ("chat", "past"):
            traced = await self.traced(shown)
            if traced.trace is not None and self.shown is shown:
                self.show(traced)


def _shown_file(text: str, name: str) -> ShownRun:
    """Return a saved run as it is shown. Call it on another thread: a long run takes a moment."""
    return shown_recording(from_json(text), name, question_of(text))

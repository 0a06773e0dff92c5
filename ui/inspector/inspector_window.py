"""The Stop Inspector's window: verdict and tape above, tabs below.

Main thread. The window is created when it is first opened. It follows the run that the main window
shows, and does no work while it is hidden.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from PySide6.QtCore import QPoint, Qt, Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QMenu,
    QPushButton,
    QSizePolicy,
    QSplitter,
    QTabWidget,
    QToolButton,
    QWidget,
)

from engine.stopping.record import StopKind
from engine.values.figures import figures
from engine.values.request import TraceLevel
from engine.values.verdict import steps
from engine.wording import percent, quoted
from ui.chat.verdict_view import verdict_text
from ui.inspector.fork_menu import show_fork_menu
from ui.inspector.forks import Forks
from ui.inspector.inspector import Inspector
from ui.inspector.pages import RECORD_ALL, InspectorTab
from ui.inspector.prompt_tab import PromptTab
from ui.inspector.request_tabs import ApiTab
from ui.inspector.run_tabs import CompareTab, RunsTab, TimingTab
from ui.inspector.shown_run import (
    SOURCE_LABELS,
    InspectorTools,
    ShownRun,
    Tape,
    TokenMark,
    alternatives,
    describe_token,
)
from ui.inspector.stop_tabs import EndingTab, MatcherTab, WhatIfTab
from ui.inspector.tape_view import TapeLegend, TapeView
from ui.inspector.tokens_tab import TokensTab
from ui.kit.buttons import Choice, EmptyState, IconBadge, IconButton, UndoBar, push_button
from ui.kit.commands import Command, Entry, Submenu, fill_menu
from ui.kit.dialogs import choose_file, choose_target
from ui.kit.fields import FileDrops
from ui.kit.labels import ElidedLabel, label, show_text
from ui.kit.layouts import FlowLayout, column, row, scrolling
from ui.kit.menus import copy_from
from ui.kit.theme import restyle
from ui.kit.windows import OwnWindow
from ui.records.run_report import markdown_report
from ui.records.runs import Run
from ui.words import CONTINUE_PAST, Tone

_LEVELS = (
    (TraceLevel.OFF, "Stop Reason Only", "No tokens are recorded"),
    (TraceLevel.STOPS, "Tokens", "Each token, and what was held back or cut"),
    (TraceLevel.FULL, "Everything", "Also the probability and alternatives of each token"),
)
_OPENED = "Saved runs (*.json *.fullstop-run)"


_Kind = TypeVar("_Kind", bound=InspectorTab)
_HINT = (
    "Point at a token, or use the arrow keys, to see its details. Click it, or press Return, to "
    "fork the answer there."
)


class RunBar(QWidget):
    """The choice among several answers, *Copy Report*, and the menu of recordings."""

    def __init__(self, inspector: Inspector, several: Callable[[], object]) -> None:
        super().__init__()
        self._inspector = inspector
        self.choice = Choice("Which of the answers is shown")
        self.back = QPushButton("Back to Conversation")
        self.copy = QPushButton("Copy Report")
        self.more = IconButton("more", "More actions for this run")
        self.undo_bar = UndoBar()
        self.menu = QMenu(self.more)
        self.menu.setAccessibleName("Run")
        self.more.setMenu(self.menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        row(self.choice, self.back, self.copy, self.more, spacing=8, on=self)
        self.choice.activated.connect(inspector.choose)
        self.back.clicked.connect(inspector.show_open_conversation)
        self.copy.clicked.connect(self._copy_report)
        inspector.traces.forgotten.connect(self.undo_bar.hide)
        fill_menu(self.menu, self._entries(several))

    def _entries(self, several: Callable[[], object]) -> list[Entry]:
        inspector, traces = self._inspector, self._inspector.traces
        levels = [
            Command(
                text,
                partial(traces.record, level),
                checked=partial(self._is_level, level),
                tool_tip=tip,
            )
            for level, text, tip in _LEVELS
        ]

        def can_be_saved() -> bool:
            return inspector.shown is not None and inspector.shown.can_be_replayed

        return [
            Submenu("Record", levels),
            None,
            Command(
                "Answer Several Times…",
                several,
                enabled=lambda: inspector.shown is not None and inspector.shown.run.is_over,
            ),
            None,
            Command("Open…", self.choose_file),
            Command("Save Run…", self._choose_target, enabled=can_be_saved),
            None,
            Command(
                "Delete Recording",
                self._delete,
                enabled=lambda: inspector.has_recording,
                is_destructive=True,
            ),
        ]

    def show_run(self, shown: ShownRun | None) -> None:
        self.choice.clear()
        self.choice.addItems(self._inspector.choices)
        self.choice.setCurrentIndex(self._inspector.choice)
        self.choice.setVisible(self.choice.count() > 1)
        self.back.setVisible(shown is not None and shown.source != "chat")
        self.copy.setEnabled(shown is not None)

    def _is_level(self, level: TraceLevel) -> bool:
        return self._inspector.traces.level is level

    def choose_file(self) -> None:
        choose_file(self.window(), "Open Saved Run", self._inspector.open_file, [_OPENED])

    def _choose_target(self) -> None:
        save, kinds = self._inspector.save_run, ["Saved runs (*.json)"]
        choose_target(self.window(), "Save Run", save, name="run.json", filters=kinds)

    def _delete(self) -> None:
        self.undo_bar.offer("Recording deleted.", self._inspector.delete_recording())

    def _copy_report(self) -> None:
        shown = self._inspector.shown
        if shown is not None:
            copy_from(self.copy, markdown_report(shown.run, shown.question))


class VerdictHead(QWidget):
    """Says why a run ended, or its progress, and offers the next steps."""

    def __init__(self, inspector: Inspector, forks: Forks, bar: RunBar) -> None:
        super().__init__()
        self._inspector, self._forks, self._bar = inspector, forks, bar
        self._badge = IconBadge(32)
        self.sentence = label("", "title", 1.3, is_wrapped=True)
        self.source = label("", "muted", 0.95, is_wrapped=True)
        self.steps = label("", "muted", 1.0, is_wrapped=True)
        self.figures = label("", "muted", 1.0, is_wrapped=True)
        self.keep_on = QPushButton("Continue")
        self.raise_limit = QPushButton("Raise Limit and Continue")
        self.without = QPushButton("Regenerate Without This Stop")
        self.past = QPushButton(CONTINUE_PAST)
        self.stop = QPushButton("Stop Generating")
        self.stop.clicked.connect(self._stop)
        self._actions = (self.keep_on, self.raise_limit, self.past, self.without)
        self.keep_on.clicked.connect(self._continue)
        self.raise_limit.clicked.connect(self._raise_limit)
        self.without.clicked.connect(self._answer_without)
        self.past.clicked.connect(self._continue)
        inspector.problem_met.connect(partial(show_text, self.source))
        inspector.work_begun.connect(partial(show_text, self.source))
        self._lay_out()
        self.show_run(None)

    def show_run(self, shown: ShownRun | None) -> None:
        show_text(self.source, _source(shown))
        self.refresh()

    def refresh(self) -> None:
        """Show the progress or the end of the shown run."""
        shown = self._inspector.shown
        for action in self._actions:
            action.hide()
        self.stop.setVisible(self._can_stop(shown))  # unchanged while tokens come: it is pressed
        self.figures.setText("")
        models = self._inspector.workspace.models
        icon, tone, sentence, detail = verdict_text(None if shown is None else shown.run, models)
        parts = [detail]
        if shown is not None and (finished := shown.run.finished) is not None:
            parts = why(shown.run, None if shown.trace is None else Tape(shown.trace))
            self.figures.setText(" · ".join(figures(finished)))
            self._offer(shown)
        elif shown is not None and shown.run.verdict is not None:
            is_known = shown.run.state != "unrecorded"
            self.keep_on.setVisible(is_known and self._can_continue(shown))
        elif shown is not None and (held := shown.run.live.held):
            parts = [f"Holding {quoted(held, 40)} back: it could still become a stop."]
        self._show_text(icon, tone, sentence, parts)

    # -- what can be done ------------------------------------------------------------------

    def _offer(self, shown: ShownRun) -> None:
        finished = shown.run.finished
        if finished is None or self._inspector.message() is None:
            return
        kind = finished.stop.kind
        can_continue = self._can_continue(shown)
        is_rule = shown.run.stopped_by is not None
        self.keep_on.setVisible(can_continue and kind is StopKind.CANCELLED)
        self.raise_limit.setVisible(can_continue and kind is StopKind.MAX_TOKENS)
        self.past.setVisible(can_continue and (is_rule or shown.run.is_repetitive))
        self.without.setVisible(is_rule)

    def _can_stop(self, shown: ShownRun | None) -> bool:
        if shown is None or shown.run.is_over:
            return False
        if shown.source == "fork":
            return self._forks.is_running
        return shown.source == "chat" and self._inspector.workspace.current.is_running

    def _can_continue(self, shown: ShownRun) -> bool:
        return shown.run.can_be_continued and self._inspector.message() is not None

    def _continue(self) -> None:
        message = self._inspector.message()
        if message is not None:
            self._inspector.workspace.ask(lambda current: current.continue_answer(message))

    def _stop(self) -> None:
        shown = self._inspector.shown
        if shown is not None and shown.source == "fork":
            self._forks.cancel()
        else:
            self._inspector.workspace.current.cancel()

    def _raise_limit(self) -> None:
        workspace = self._inspector.workspace
        settings = workspace.current.conversation.settings
        if settings.max_tokens is not None:
            raised = replace(settings, max_tokens=settings.max_tokens * 2)
            workspace.change_settings(raised, "Raise Maximum Length")
        self._continue()

    def _answer_without(self) -> None:
        message = self._inspector.message()
        if message is not None:
            self._inspector.workspace.ask(lambda current: current.answer_without_stop(message))

    # -- looks -----------------------------------------------------------------------------

    def _show_text(self, icon: str, tone: Tone, sentence: str, steps: list[str]) -> None:
        self._badge.show_icon(icon, tone)
        self.sentence.setText(sentence)
        *first, last = [step for step in steps if step] or [""]
        if len(last) < 64:  # its last words do not stand alone in a line
            last = last.replace(" ", "\xa0")
        show_text(self.steps, " ".join([*first, last]))

    def _lay_out(self) -> None:
        actions = FlowLayout()
        for action in (self.stop, *self._actions):
            actions.addWidget(action)
        top = Qt.AlignmentFlag.AlignTop
        head = row((self.sentence, 1), (self._bar, 0, top), spacing=12)
        # Beside two lines of text, so that the tape keeps its place when buttons come and go.
        facts = row((column(self.steps, self.figures, spacing=4), 1), actions, spacing=12)
        texts = column(head, self.source, facts, spacing=4)
        row((self._badge, 0, top), (texts, 1), spacing=12, on=self)


def _source(shown: ShownRun | None) -> str:
    """Return where a run is from; empty for a plain answer of the conversation."""
    if shown is None:
        return ""
    source = "" if shown.source == "chat" else f"From {SOURCE_LABELS[shown.source]}"
    if shown.name:
        source += f": {shown.name}"
    origin = shown.run.forked_from
    return " · ".join(filter(None, (source, origin.sentence if origin else "")))


def why(run: Run, tape: Tape | None) -> list[str]:
    """Return the steps that led to a run's end; an empty list while it is running."""
    finished, verdict = run.finished, run.verdict
    if finished is None or verdict is None:
        return []
    if run.state == "interrupted":
        return [verdict.text.detail]
    began, probability = None, ""
    if tape is not None and tape.tokens:
        if (row := tape.first_matched_row()) is not None:
            began = (tape.tokens[row].index, tape.texts[row])
        if (stats := tape.tokens[-1].stats) is not None:
            probability = percent(math.exp(stats.logprob))
    return steps(finished, run.context, began=began, probability=probability)


def make_tabs(inspector: Inspector, tools: InspectorTools) -> list[InspectorTab]:
    """Return the tabs of a window, from left to right."""
    return [
        TokensTab(),
        MatcherTab(),
        EndingTab(),
        PromptTab(inspector),
        ApiTab(inspector, tools),
        TimingTab(),
        CompareTab(inspector),
        WhatIfTab(inspector),
        RunsTab(inspector),
    ]


class InspectorWindow(OwnWindow):
    """Says why an answer stopped, how near it came otherwise, and what another list would do."""

    several_requested = Signal(object, object)  # ShownRun, StopRules to compare with or None
    writing_requested = Signal()

    def __init__(
        self,
        inspector: Inspector,
        tools: InspectorTools,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__("Stop Inspector", (1080, 960), parent)
        FileDrops(self).files_given.connect(lambda paths: inspector.open_file(paths[0]))
        self.inspector = inspector
        self.bar = RunBar(inspector, lambda: self.several_requested.emit(inspector.shown, None))
        self.forks = Forks(inspector, self)
        self.head = VerdictHead(inspector, self.forks, self.bar)
        self.tape = TapeView()
        self.legend = TapeLegend()
        self.token = ElidedLabel("")
        self._tabs = make_tabs(inspector, tools)
        self.tokens, self.ending = self.tab(TokensTab), self.tab(EndingTab)
        self.compare, self.runs = self.tab(CompareTab), self.tab(RunsTab)
        self.lacking = label("", "muted", 0.95, is_wrapped=True)
        self.again = QPushButton(RECORD_ALL)
        self.tabs = QTabWidget()
        self._upper = QWidget()
        self.tabs.setDocumentMode(True)
        for part in (self.tabs, self.tabs.tabBar()):
            part.setProperty("kind", "flush")
        self.tabs.setAccessibleName("Parts of the inspector")
        self.write = push_button("Write Message", kind="primary")
        self.past_runs = QPushButton("Show Past Runs")
        self.open = QPushButton("Open Saved Run…")
        self.empty = EmptyState(self.write, self.past_runs, self.open)
        self._shows_past = False
        self._lay_out()
        self._connect_signals()
        self._show_run(inspector.shown)

    def tab(self, kind: type[_Kind]) -> _Kind:
        return next(part for part in self._tabs if isinstance(part, kind))

    async def finish(self) -> None:
        for part in self._tabs:
            await part.finish()
        await self.forks.finish()
        await self.inspector.finish()

    # -- Qt's side -------------------------------------------------------------------------

    def compare_with(self, run: Run) -> None:
        self.compare.choose(run)
        self.tabs.setCurrentWidget(self.compare)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._show_run(self.inspector.shown)
        if not event.spontaneous() and self.tape.isVisible():
            self.tape.setFocus()  # the arrow keys choose a token

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        splitter = self._splitter = QSplitter(Qt.Orientation.Vertical)
        # Reparenting re-polishes the subtree; add widgets after the parent is set.
        inside = QWidget()
        inside.setObjectName("scrolled")
        # With large text on a small screen, not all of it fits without scrolling.
        area = self._area = scrolling(inside, "", self, goes_sideways=False)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        column((area, 1), self.bar.undo_bar, on=self)
        column((splitter, 1), (self.empty, 1), margins=(20, 16, 20, 16), on=inside)
        for tab in self._tabs:
            self.tabs.addTab(tab, tab.title)
        upper, texts = self._upper, column(self.token, self.legend, spacing=4)
        column(self.head, (self.tape, 1), texts, spacing=12, margins=(0, 0, 0, 8), on=upper)
        for number, (pane, lines) in enumerate(((upper, 24), (self._lower(), 15))):
            # Only the user moves the handle: no size hint of a run or of a tab does.
            pane.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Ignored)
            pane.setMinimumHeight(lines * self.fontMetrics().lineSpacing())
            splitter.addWidget(pane)
            splitter.setStretchFactor(number, 1)
        splitter.setSizes([1100, 900])
        splitter.setChildrenCollapsible(False)

    def _lower(self) -> QWidget:
        """Return the tabs, with the offer to answer again below."""
        self._lacking_bar = QFrame()
        self._lacking_bar.setObjectName("hint_bar")
        row((self.lacking, 1), self.again, margins=(10, 6, 6, 6), on=self._lacking_bar)
        lower = QWidget()
        column((self.tabs, 1), self._lacking_bar, spacing=8, on=lower)
        return lower

    def _connect_signals(self) -> None:
        inspector = self.inspector
        for again in (self.again, self.ending.again):
            again.clicked.connect(inspector.record_everything)
            again.clicked.connect(self.tape.setFocus)  # the button goes
        self.write.clicked.connect(self.writing_requested)
        self.past_runs.clicked.connect(self._show_past)
        self.open.clicked.connect(self.bar.choose_file)
        for reported in (inspector.problem_met, inspector.work_begun):
            reported.connect(self.empty.detail.setText)
        self.compare.runs_requested.connect(partial(self.tabs.setCurrentWidget, self.runs))
        self.tab(WhatIfTab).several.triggered.connect(
            lambda: self.several_requested.emit(inspector.shown, inspector.what_if.rules)
        )
        self.tabs.currentChanged.connect(self._offer_more)
        self.tabs.tabBarClicked.connect(lambda _: self._bring_tabs_into_view())
        self.tabs.currentChanged.connect(self._bring_tabs_into_view)
        self.tabs.currentChanged.connect(self._show_tried)
        inspector.what_if.outcome_changed.connect(self._show_tried)
        self.runs.comparison_requested.connect(self._compare_with_past)
        inspector.workspace.answering_changed.connect(self._offer_more)
        inspector.workspace.model_selection.changed.connect(self._offer_more)
        inspector.run_shown.connect(self._show_run)
        inspector.grew.connect(self._catch_up)
        inspector.workspace.models.changed.connect(self._refresh_progress)
        self.tape.token_chosen.connect(self._show_token)
        self.tape.menu_requested.connect(self._show_fork_menu)
        self.forks.made.connect(self._compare_with_past)
        self.tokens.token_chosen.connect(self.tape.choose_token)
        self.tokens.menu_requested.connect(self.tape.request_menu)
        self.ending.curve.token_chosen.connect(self.tape.choose_token)

    # -- showing ---------------------------------------------------------------------------

    def _show_run(self, shown: ShownRun | None) -> None:
        if not self.isVisible():
            return
        self._show_empty()
        self.head.show_run(shown)
        if shown is None:
            self.tape.show_trace(None)
        else:
            self.tape.show_trace(shown.trace, shown.run)
        self.tape.setPlaceholderText(_placeholder(shown))
        self._show_tried()
        for part in self._tabs:
            part.show_run(shown)
        self.bar.show_run(shown)
        self._offer_more()

    def _show_empty(self) -> None:
        """Show the next steps in place of empty parts; past runs can be chosen without a run."""
        shown = self.inspector.shown
        is_empty = shown is None and not self._shows_past
        self._upper.setVisible(shown is not None)
        self._splitter.setVisible(not is_empty)
        self.empty.setVisible(is_empty)
        _, _, title, detail = verdict_text(None, self.inspector.workspace.models)
        self.empty.show_text(title, detail)

    def _show_past(self) -> None:
        self._shows_past = True
        self._show_empty()
        self.tabs.setCurrentWidget(self.runs)

    def _show_tried(self) -> None:
        """Mark on the tape the changes by the list of What If, while its tab is shown."""
        is_tried = self.tabs.currentWidget() is self.tab(WhatIfTab)
        self.tape.show_tried(self.inspector.what_if.difference if is_tried else None)
        self._show_legend()

    def _show_legend(self) -> None:
        text = self.tape.legend
        has_copies = "alternating" in text
        self.legend.show_legend(text, TokenMark.NONE if has_copies else self.tape.marks)
        self.legend.setAccessibleName(f"Marks on the tape: {text}")

    def _bring_tabs_into_view(self) -> None:
        """Scroll to the tab that the user chose, where not all of the window fits the screen."""
        inside = self._area.widget()
        assert inside is not None
        self._area.verticalScrollBar().setValue(self.tabs.mapTo(inside, QPoint()).y())

    def _offer_more(self) -> None:
        """Offer to answer again if the tab needs data that was not recorded."""
        text = self._lacking_text(self.inspector.shown)
        self.lacking.setText(text)
        for again in (self.again, self.ending.again):
            again.setEnabled(self.inspector.can_answer_again)
            again.setVisible(self.inspector.message() is not None)
        self._lacking_bar.setVisible(bool(text))

    def _lacking_text(self, shown: ShownRun | None) -> str:
        if shown is None or not shown.run.is_over:
            return ""
        tab, trace = self._tabs[self.tabs.currentIndex()], shown.trace
        if trace is None:
            return tab.without_trace
        # One alone was looked up for a fork.
        if tab.has_odds and sum(token.stats is not None for token in trace.tokens) < min(
            2, len(trace.tokens)
        ):
            return "The probabilities of this run’s tokens were not recorded."
        return ""

    def _compare_with_past(self, other: ShownRun) -> None:
        self.compare.choose_shown(other)
        self.tabs.setCurrentWidget(self.compare)

    def _catch_up(self) -> None:
        if not self.isVisible():
            return
        self.head.refresh()
        self.tape.catch_up()
        self._show_legend()
        for part in self._tabs:
            part.catch_up()

    def _refresh_progress(self) -> None:
        """Show how far the model of a run that has not ended is."""
        shown = self.inspector.shown
        if self.isVisible() and (shown is None or not shown.run.is_over):
            self._show_empty()
            self.head.refresh()

    def choose_fork(self) -> None:
        """Give the tape the keyboard; the line below it names the keys."""
        self.tape.choose(-1)
        self.tape.setFocus()

    def _show_fork_menu(self, position: QPoint) -> None:
        if (token := self.tape.chosen_token) is not None:
            show_fork_menu(self, self.forks, token, position)

    def _show_token(self, position: int) -> None:
        shown = self.inspector.shown
        trace = None if shown is None else shown.trace
        token = self.tape.token_at(position)
        if shown is None or trace is None or token is None:
            restyle(self.token, "role", "muted")
            self.token.setText(_HINT if self.tape.token_at(0) is not None else "")
            self._show_legend()
            return
        details = describe_token(token, trace.rules, shown.run.cycles)
        restyle(self.token, "role", "")
        self.token.setText(details)
        self.tape.setAccessibleDescription(details)
        names = alternatives(token, trace.vocabulary)
        if names:  # one line, so that the tape keeps its height
            self.legend.show_legend(f"Likeliest here: {names}", TokenMark.NONE)
        self.tokens.choose_token(token.index)


def _placeholder(shown: ShownRun | None) -> str:
    if shown is None:
        return "An answer’s tokens appear here, with what was held back and what was cut off."
    if shown.trace is None and shown.run.is_over:
        return "The tokens of this run were not recorded, or have been forgotten."
    return "Tokens appear here as they are written."

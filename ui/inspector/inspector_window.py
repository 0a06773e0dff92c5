"""The Stop Inspector's window: verdict and tape above, tabs below.

Main thread. The window is created when it is first opened. It follows the run that the main window
shows, and does no work while it is hidden.
"""

import time

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QShowEvent,
)
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QPushButton,
    QSplitter,
    QTabWidget,
    QVBoxLayout,
    QWidget,
)

from ui.inspector.comparison.compare_tab import CompareTab
from ui.inspector.ending.ending_tab import EndingTab
from ui.inspector.ending.matcher_tab import MatcherTab
from ui.inspector.ending.verdict_head import VerdictHead
from ui.inspector.ending.what_if_tab import WhatIfTab
from ui.inspector.request.api_tab import ApiTab
from ui.inspector.request.prompt_tab import PromptTab
from ui.inspector.run.inspector import Inspector
from ui.inspector.run.shown_run import ShownRun
from ui.inspector.run.tools import InspectorTools
from ui.inspector.run_bar import RunBar
from ui.inspector.runs.runs_tab import RunsTab
from ui.inspector.tape.tape import alternatives, token_words
from ui.inspector.tape.tape_legend import TapeLegend
from ui.inspector.tape.tape_view import TapeView
from ui.inspector.tape.tokens_tab import TokensTab
from ui.inspector.timing.timing_tab import TimingTab
from ui.kit.controls.own_window import OwnWindow
from ui.kit.look.theme import Theme
from ui.kit.text.labels import ElidedLabel, label
from ui.records.runs import Run

_HINT = "Point at a token, or use the arrow keys, to see its details."


class InspectorWindow(OwnWindow):
    """Says why an answer stopped, how near it came otherwise, and what another list would do.

    Args:
        theme: The look.
        inspector: The shown run.
        tools: The API's part of the inspector.
        parent: The window that it belongs to.
    """

    def __init__(
        self,
        theme: Theme,
        inspector: Inspector,
        tools: InspectorTools,
        parent: QWidget | None = None,
    ) -> None:
        super().__init__(theme, "Stop Inspector", (1080, 820), parent, inspector.open_file)
        self.inspector = inspector
        self.bar = RunBar(theme, inspector)
        self.head = VerdictHead(theme, inspector)
        self.tape = TapeView(theme)
        self.legend = TapeLegend(theme)
        self.token = ElidedLabel("")
        self.others = ElidedLabel("")
        self.tokens = TokensTab()
        self.matcher = MatcherTab(theme)
        self.ending = EndingTab(theme)
        self.prompt = PromptTab(theme, inspector)
        self.timing = TimingTab(theme)
        self.compare = CompareTab(theme, inspector)
        self.what_if = WhatIfTab(theme, inspector)
        self.api = ApiTab(theme, inspector, tools)
        self.runs = RunsTab(inspector)
        self.lacking = label("", "muted", 0.95, is_wrapped=True)
        self.again = QPushButton("Record Everything and Answer Again")
        self.tabs = QTabWidget()
        self.tabs.setDocumentMode(True)
        for part in (self.tabs, self.tabs.tabBar()):
            part.setProperty("kind", "flush")
        self.tabs.setAccessibleName("Parts of the inspector")
        self._tab_parts = (
            self.tokens,
            self.matcher,
            self.ending,
            self.prompt,
            self.api,
            self.timing,
            self.compare,
            self.what_if,
            self.runs,
        )
        self._lay_out()
        self._connect_signals()
        self._show_run(inspector.shown)

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self.api.finish()
        await self.runs.finish()
        await self.matcher.finish()
        await self.inspector.finish()

    # -- Qt's side -------------------------------------------------------------------------

    def compare_with(self, run: Run) -> None:
        """Compare the shown run with another one of the conversation."""
        self.compare.choose(run)
        self.tabs.setCurrentWidget(self.compare)

    def showEvent(self, event: QShowEvent) -> None:
        """Catch up on what arrived while it was hidden."""
        super().showEvent(event)
        self._show_run(self.inspector.shown)

    # -- building --------------------------------------------------------------------------

    def _lay_out(self) -> None:
        titles = (
            "Tokens",
            "Stops",
            "Ending",
            "Prompt",
            "API",
            "Timing",
            "Compare",
            "What If",
            "Runs",
        )
        for title, tab in zip(titles, self._tab_parts, strict=True):
            self.tabs.addTab(tab, title)
        upper = QWidget()
        column = QVBoxLayout(upper)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(6)
        column.addWidget(self.tape, 1)
        column.addWidget(self.legend)
        column.addWidget(self.token)
        column.addWidget(self.others)
        self.others.setProperty("role", "muted")
        splitter = QSplitter(Qt.Orientation.Vertical)
        splitter.addWidget(upper)
        splitter.addWidget(self._lower())
        splitter.setStretchFactor(0, 2)
        splitter.setStretchFactor(1, 3)
        splitter.setChildrenCollapsible(False)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 14, 18, 16)
        layout.setSpacing(14)
        layout.addWidget(self.bar)
        layout.addWidget(self.head)
        layout.addWidget(splitter, 1)

    def _lower(self) -> QWidget:
        """Return the tabs, above what can be done where one of them lacks data: they stay there."""
        self._lacking_bar = QFrame()
        self._lacking_bar.setObjectName("hint_bar")
        bar = QHBoxLayout(self._lacking_bar)
        bar.setContentsMargins(10, 6, 6, 6)
        bar.addWidget(self.lacking, 1)
        bar.addWidget(self.again)
        lower = QWidget()
        column = QVBoxLayout(lower)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        column.addWidget(self.tabs, 1)
        column.addWidget(self._lacking_bar)
        return lower

    def _connect_signals(self) -> None:
        inspector = self.inspector
        self.again.clicked.connect(inspector.record_everything)
        self.tabs.currentChanged.connect(self._offer_more)
        self.runs.comparison_wanted.connect(self._compare_with_past)
        inspector.workspace.answering_changed.connect(self._offer_more)
        inspector.workspace.answering.changed.connect(self._offer_more)
        inspector.run_shown.connect(self._show_run)
        inspector.grew.connect(self._catch_up)
        inspector.workspace.model.changed.connect(self.head.refresh)
        self.tape.token_chosen.connect(self._show_token)
        self.tokens.token_chosen.connect(self.tape.choose_token)
        self.ending.curve.token_chosen.connect(self.tape.choose_token)

    # -- showing ---------------------------------------------------------------------------

    def _show_run(self, shown: ShownRun | None) -> None:
        if not self.isVisible():
            return
        self.head.show_run(shown)
        self.tape.show_trace(None if shown is None else shown.trace)
        self.tape.setPlaceholderText(_placeholder(shown))
        self.legend.show_kinds(self.tape.mark_kinds)
        for part in self._tab_parts:
            part.show_run(shown)
        self.bar.show_run(shown)
        self._offer_more()

    def _offer_more(self) -> None:
        """Offer to answer again where the tab lacks what was not recorded."""
        words = self._lacking_words(self.inspector.shown)
        self.lacking.setText(words)
        self.again.setEnabled(self.inspector.can_answer_again)
        can_be_made = bool(words) and self.inspector.message() is not None
        self._lacking_bar.setVisible(can_be_made)

    def _lacking_words(self, shown: ShownRun | None) -> str:
        if shown is None or not shown.run.is_over:
            return ""
        tab, trace = self.tabs.currentWidget(), shown.trace
        if trace is None and tab in (self.tokens, self.matcher, self.ending, self.what_if):
            return "The tokens of this run were not recorded."
        if trace is None and tab is self.prompt:
            return "The prompt of this run was not recorded."
        has_odds = trace is None or any(token.stats is not None for token in trace.tokens)
        if not has_odds and tab in (self.tokens, self.ending):
            return "The probabilities of this run's tokens were not recorded."
        return ""

    def _compare_with_past(self, other: ShownRun) -> None:
        self.compare.choose_shown(other)
        self.tabs.setCurrentWidget(self.compare)

    def _catch_up(self) -> None:
        if not self.isVisible():
            return
        began = time.perf_counter()
        self.head.refresh()
        self.tape.catch_up()
        self.legend.show_kinds(self.tape.mark_kinds)
        self.tokens.catch_up()
        self.ending.catch_up()
        self.inspector.slow_down((time.perf_counter() - began) * 1e3)

    def _show_token(self, place: int) -> None:
        shown = self.inspector.shown
        trace = None if shown is None else shown.trace
        token = self.tape.token_at(place)
        if trace is None or token is None:
            self.token.setText(_HINT if self.tape.token_at(0) is not None else "")
            self.others.setText("")
            return
        self.token.setText(token_words(token, trace.rules))
        names = alternatives(token, trace.vocabulary)
        self.others.setText(f"Likeliest here: {names}" if names else "")
        self.tokens.choose_token(token.index)


def _placeholder(shown: ShownRun | None) -> str:
    if shown is None:
        return ""
    if shown.trace is None and shown.run.is_over:
        return "The tokens of this run were not recorded, or have been forgotten."
    return "Tokens appear here as they are written."

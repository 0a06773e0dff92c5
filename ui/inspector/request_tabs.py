"""The tabs of the request: its prompt as tokens, and the run as each API sends it.

Main thread. They read and render only while they are visible.
"""

from itertools import groupby
from operator import itemgetter

from PySide6.QtGui import QColor, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import (
    QPlainTextEdit,
    QTextEdit,
)

from engine.errors import EngineError
from engine.values.events import CacheMiss, Usage
from engine.values.figures import describe_difference
from engine.values.request import GenerationRequest
from engine.wording import counted
from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, align
from ui.inspector.shown_run import InspectorTools, ShownRun, WireView
from ui.kit.buttons import Choice, push_button
from ui.kit.labels import label
from ui.kit.layouts import column, row
from ui.kit.menus import copy_from
from ui.kit.tasks import start_task
from ui.kit.theme import current_theme, fixed_font
from ui.words import describe_error

_MISSES = {
    CacheMiss.NOTHING_STORED: "no earlier prompt was stored",
    CacheMiss.OTHER_BEGINNING: "the stored prompts begin with other tokens",
    CacheMiss.NO_SNAPSHOT: "an earlier prompt has more of these tokens, but this model can go on "
    "only from a snapshot, and there is none in between",
    CacheMiss.EVICTED: "an earlier prompt had more of these tokens, but the memory for cached "
    "prompts was needed for others",
    CacheMiss.ON_DISK: "the rest was on disk, and was not read from there",
    CacheMiss.SCORED: "the model had to read these tokens to score them",
}

_NOTE = "API keys are left out. Ids differ each time a server answers."
_CUT = "{} more are not shown here; the copy has them."
PARTS = (
    ("Streamed Answer", "stream"),
    ("Whole Answer", "whole"),
    ("Request", "request"),
    ("curl", "curl"),
    ("Python", "python"),
)


def _reused(usage: Usage | None) -> str:
    """Return in words how many tokens came from a cache and from which; if none, why."""
    if usage is None:
        return "."
    text = "."
    if usage.cached_tokens:
        source = "on disk" if usage.disk_tokens else "in memory"
        text = f"; the first {usage.cached_tokens:,} came from the cache {source}."
    if usage.cache_miss is not None:
        amount = "Nothing more" if usage.cached_tokens else "Nothing"
        text += f" {amount} came from the cache: {_MISSES[usage.cache_miss]}."
    if (difference := usage.prompt_difference) is not None:
        here, before = (" ".join(part.split()) for part in (difference.here, difference.before))
        text += f" {describe_difference(difference)}, after {difference.token_index:,} tokens"
        text += f" that are equal: “{here}” here, “{before}” before."
    return text


def _left_out(shown: ShownRun | None) -> str:
    """Return as a sentence how many messages a run's prompt was without."""
    left_out = None if shown is None else shown.run.left_out
    if left_out is None:
        return ""
    messages = counted(left_out.messages, "earlier message")
    what = "went as a summary" if left_out.is_summarized else "did not go"
    return f" {messages} {what}: the context holds {counted(left_out.context, 'token')}."


class PromptTab(InspectorTab):
    """The rendered template: special tokens marked, what came from the cache in gray."""

    title = "Prompt"
    without_trace = "The prompt of this run was not recorded."

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._read_for: ShownRun | None = None
        self._pieces: tuple[tuple[int, str], ...] = ()
        self.note = label("", "muted", 0.95, is_wrapped=True)
        self.page = QTextEdit()
        align(self.page)
        self.page.setReadOnly(True)
        self.page.setAccessibleName("The prompt as the model read it")
        self.page.setFont(fixed_font(self.page.font(), 0.95))
        column(self.note, (self.page, 1), spacing=8, margins=(0, 12, 0, 0), on=self)

    def show_run(self, shown: ShownRun | None) -> None:
        self.page.clear()
        super().show_run(shown)

    def refresh(self) -> None:
        shown = self._inspector.shown
        if shown is None:
            self.note.setText("No answer selected.")
        elif shown.request is None:
            self.note.setText(
                "The prompt of this run was not kept: its tokens were not recorded, or have been "
                "forgotten."
            )
        elif shown is self._read_for:
            self._fill()
        else:
            self.note.setText("Reading the prompt…")
            start_task(self, self._read(shown, shown.request), "read a prompt")

    async def _read(self, shown: ShownRun, request: GenerationRequest) -> None:
        try:
            pieces = await self._inspector.engine.prompt_pieces(request)
        except EngineError as error:
            if self._inspector.shown is shown:
                self.note.setText(f"It cannot be shown now. {describe_error(error)}")
            return
        if self._inspector.shown is shown:
            self._read_for, self._pieces = shown, pieces
            self._fill()

    def _fill(self) -> None:
        shown, pieces = self._inspector.shown, self._pieces
        self.page.clear()
        if shown is not self._read_for:
            return
        usage = shown.run.finished.usage if shown and shown.run.finished else None
        cached = usage.cached_tokens if usage is not None else 0
        self.note.setText(f"{counted(len(pieces), 'token')}{_reused(usage)}{_left_out(shown)}")
        vocabulary = shown.trace.vocabulary if shown and shown.trace else None
        special = vocabulary.special if vocabulary is not None else {}
        colors = current_theme().colors
        plain, old, mark = (QTextCharFormat() for _ in range(3))
        plain.setForeground(QColor(colors.text))
        old.setForeground(QColor(colors.faint))
        mark.setForeground(QColor(colors.tool))
        mark.setBackground(QColor(colors.tool_soft))
        cursor = QTextCursor(self.page.document())
        cursor.beginEditBlock()
        first = max(0, len(pieces) - 20_000)
        if first:
            cursor.insertText(f"… {counted(first, 'token')} before these\n", old)
        looks = (
            (0 if token_id in special else 1 if position < cached else 2, text)
            for position, (token_id, text) in enumerate(pieces[first:], first)
        )
        for look, group in groupby(looks, key=itemgetter(0)):
            cursor.insertText("".join(text for _, text in group), (mark, old, plain)[look])
        cursor.endEditBlock()


class ApiTab(InspectorTab):
    """Which API, which part of the request or answer, and its text."""

    title = "API"

    def __init__(self, inspector: Inspector, tools: InspectorTools) -> None:
        super().__init__()
        self._inspector = inspector
        self._tools = tools
        self._views: list[WireView] = []
        self._rendered: ShownRun | None = None
        self.api = Choice("API")
        self.part = Choice("Part of the request or answer")
        self.part.addItems([text for text, _ in PARTS])
        for choice in (self.api, self.part):
            choice.setSizeAdjustPolicy(Choice.SizeAdjustPolicy.AdjustToContents)
        self.api.setMinimumWidth(210)
        self.copy = push_button("Copy", "Copy the shown text")
        self.note = label("", "muted", 0.95, is_wrapped=True)
        self.page = QPlainTextEdit()
        self.page.setReadOnly(True)
        align(self.page)
        self.page.setFont(fixed_font(self.page.font(), 0.95))
        self.page.setAccessibleName("What is sent")
        column(
            row(self.api, self.part, (self.note, 1), self.copy, spacing=8),
            (self.page, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self._refresh()
        self.api.currentIndexChanged.connect(lambda _: self._refresh())
        self.part.currentIndexChanged.connect(lambda _: self._refresh())
        self.copy.clicked.connect(lambda: copy_from(self.copy, self._text()))

    def show_run(self, shown: ShownRun | None) -> None:
        if shown is not self._rendered:
            self._views, self._rendered = [], None
            self._refresh()
        super().show_run(shown)

    def refresh(self) -> None:
        shown = self._inspector.shown
        if shown is None:
            self.note.setText("No answer selected.")
        elif not shown.run.is_over:
            self.note.setText("This appears when the answer has ended.")
        elif shown is not self._rendered:
            self._rendered = shown
            self.note.setText("Asking the server…")
            start_task(self, self._render(shown), "render a run for the APIs")

    async def _render(self, shown: ShownRun) -> None:
        try:
            views = list(await self._tools.wire_views(shown))
        except ValueError as error:
            views, problem = [], str(error)  # our own words
        except OSError as error:
            views, problem = [], describe_error(error)
        else:
            problem = _NOTE
        if self._rendered is not shown:
            return
        self._views = views
        self.note.setText(problem)
        chosen = max(0, self.api.currentIndex())
        self.api.blockSignals(True)
        self.api.clear()
        self.api.addItems([view.name for view in views])
        self.api.setCurrentIndex(min(chosen, len(views) - 1))
        self.api.blockSignals(False)
        self._refresh()

    def _refresh(self) -> None:
        row = self.api.currentIndex()
        has_view = 0 <= row < len(self._views)
        for choice in (self.api, self.part):
            choice.setVisible(has_view)
        self.copy.setEnabled(has_view)
        if not has_view:
            self.page.clear()
            return
        text = self._text()
        shown = text[:300_000]  # a text view lays this much out within a frame
        cut = len(text) - len(shown)
        self.page.setPlainText(shown)
        self.note.setText(_CUT.format(counted(cut, "character")) if cut > 0 else _NOTE)

    def _text(self) -> str:
        """Return the shown part of the request or answer, whole."""
        row = self.api.currentIndex()
        if not 0 <= row < len(self._views):
            return ""
        return str(getattr(self._views[row], PARTS[self.part.currentIndex()][1]))

"""Why the shown answer ended: the reason, and folded below the list all figures. Main thread."""

import re
from collections.abc import Callable

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAction
from PySide6.QtWidgets import QFrame, QToolTip, QVBoxLayout, QWidget

from engine.stopping.record import FORK_SOURCE, Channel, StopKind
from engine.stopping.rules import StopScope
from engine.values.events import Finished
from engine.values.figures import end_facts
from engine.wording import counted, quoted, visible
from ui.chat.messages.stop_selection import StopSelection, source_between
from ui.kit.buttons import IconBadge, fold_button, push_button
from ui.kit.flow_text import FlowText
from ui.kit.html import colored, element, paragraph
from ui.kit.labels import FactTable, clear_layout, label, show_text, thin_bar
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import copy_from
from ui.kit.theme import current_theme, fixed_font, sized_font
from ui.models.models import Models
from ui.records.run_report import markdown_report
from ui.records.runs import Run, progress_label
from ui.words import Tone, display_name

# The facts that the card and the end of the text show.
SHOWN_ABOVE = ("Matched", "Cut off", "Where")
# Ends whose label is the whole sentence of the card.
_SHORT = (StopKind.STOP_STRING, StopKind.STOP_TOKEN, StopKind.EOS, StopKind.MAX_TOKENS)
_STOP_FIELD = re.compile(r"(?:stops\.)?strings\[(\d+)\]")
_SELECT_FIRST = "First select the text to stop at."
_ALWAYS = "Always Stop Here"
# How much of an answer's end, and of what a stop cut off, is shown.
_TAIL_CHARS, _CUT_CHARS = 60, 240


def verdict_text(run: Run | None, models: Models) -> tuple[str, Tone, str, str]:
    """Return icon, tone, sentence and detail for a run in any state, or for none."""
    if run is None:
        match models.stage:
            case "loading":
                detail = "Answers and their reasons appear here."
                return "clock", "busy", f"{display_name(models.name)} is loading", detail
            case "failed":
                return (
                    "fault",
                    "fault",
                    f"{display_name(models.name)} could not be loaded",
                    models.message,
                )
            case "none":
                return "chat", "quiet", "No model loaded", "Open a model folder to begin."
            case _:
                detail = "The reason it stops appears here."
                return "stop-match", "quiet", "No answer yet", detail
    if run.state == "refused":
        return "fault", "fault", "This message was not sent to the model.", run.refusal
    if (verdict := run.verdict) is not None:
        return verdict.icon, verdict.tone, verdict.text.sentence, verdict.text.detail
    watched = ", ".join(quoted(stop, 16) for stop in run.stops)
    detail = f"Watching for {watched}." if watched else "This answer has no stop sequences."
    if run.state == "streaming":
        detail = f"{counted(len(run.text), 'character')} so far. {detail}"
    return "clock", "busy", progress_label(run), detail


def _card_text(run: Run | None, models: Models) -> tuple[str, Tone, str, str]:
    """Return icon, tone, a sentence of few words and one short line, for the narrow card."""
    icon, tone, sentence, detail = verdict_text(run, models)
    if run is None or run.state == "refused":
        has_bar = run is not None and run.live.is_load_failure
        return icon, tone, sentence, "" if has_bar else detail
    if (verdict := run.verdict) is None:
        chars = [counted(len(run.text), "character")] if run.state == "streaming" else []
        stops = [counted(len(run.stops), "stop")] if run.stops else []
        doing, _, progress = sentence.partition(": ")
        return icon, tone, doing, progress or " · ".join((*chars, *stops))
    finished = run.finished
    if finished is not None and run.state == "interrupted":  # by quitting
        return icon, tone, verdict.text.label, detail
    if run.state == "unrecorded":
        return icon, tone, verdict.text.label, detail
    if finished is None or finished.stop.kind not in _SHORT:
        return icon, tone, sentence, detail
    stop, details = finished.stop, finished.details
    has_more = details.repetition or details.planned_call or finished.unfinished_tool_call
    if has_more or stop.source == FORK_SOURCE:
        return icon, tone, sentence, detail
    if stop.kind is not StopKind.MAX_TOKENS and stop.token_index is not None:
        since = "more character" if run.continued_chars else "character"
        detail = f"after {counted(stop.text_offset, since)}, token {stop.token_index + 1:,}"
    return icon, tone, verdict.text.label, detail


def _named_stop(field: re.Match[str], run: Run) -> str:
    """Return the stop that a field of the request has; the field itself if it is unknown."""
    number = int(field[1])
    return quoted(run.stops[number], 20) if number < len(run.stops) else field[0]


class VerdictView(QFrame):
    """Shows one run, live while it streams.

    Attributes:
        details: The figures of the run under a heading, which stand elsewhere.
        stop_source: Returns where the stop that ended a run came from; empty for unknown.
    """

    stop_requested = Signal(object)  # StopSelection

    def __init__(self, model: Models) -> None:
        super().__init__()
        self._model = model
        self.stop_source: Callable[[Run], str] = lambda _: ""
        self.run: Run | None = None
        self._shown_end: Finished | None = None
        self._question = ""
        self._badge = IconBadge(32)
        self.sentence = label("", "title", is_wrapped=True)
        self.sentence.setFont(sized_font(self.sentence.font(), 15))
        self.detail = label("", "muted", is_wrapped=True)
        self._bar = thin_bar("Progress")
        self.tail = FlowText()
        self.tail.show_spaces()
        # A text with links loses its selection when the focus leaves it by keyboard.
        self.tail.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.tail.setFont(fixed_font(self.font(), 0.98))
        self.tail.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._selection_actions = [QAction(text, self.tail) for text in ("Copy", _ALWAYS)]
        self.tail.addActions(self._selection_actions)
        self._tail_source, self._tail_begin = "", 0
        self.always = push_button(_ALWAYS, "Add the selected text to the stop list", kind="link")
        self._tail_card = QFrame()
        self._facts = QWidget()
        QVBoxLayout(self._facts).setContentsMargins(0, 0, 0, 0)
        self.copy_report = push_button(
            "Copy Report", "Copy a report of this run as Markdown", kind="link"
        )
        self.inspect = push_button("Inspect", "Open this run in the Stop Inspector", kind="link")
        for link in (self.always, self.copy_report, self.inspect):
            link.setProperty("is_flush", True)
        self.heading = fold_button("Details")
        self.details = QWidget()
        self._lay_out()
        self.copy_report.clicked.connect(self._copy)
        self.always.clicked.connect(self._request_stop)
        for action, run_it in zip(
            self._selection_actions, (self.tail.copy, self._request_stop), strict=True
        ):
            action.triggered.connect(lambda _=False, run_it=run_it: run_it())
        self.tail.selectionChanged.connect(self._refresh_always)
        current_theme().changed.connect(self.refresh)
        model.changed.connect(self._follow_model)
        self.refresh()

    def show_run(self, run: Run | None, question: str = "") -> None:
        is_other = run is not self.run
        self.run, self._question = run, question
        if is_other:
            self.refresh()
        else:
            self.follow()

    def follow(self) -> None:
        """Show the run's progress. A shown end stays: tool calls may continue the answer."""
        run = self.run
        if run is None or run.finished is None or run.finished is not self._shown_end:
            self.refresh()

    def refresh(self) -> None:
        run = self.run
        finished = self._shown_end = None if run is None else run.finished
        facts = FactTable(fixed_font(self.font(), 0.92))
        for part in (self._bar, self._tail_card):
            part.hide()
        self._show_copy()
        self.inspect.setVisible(run is not None)
        self._show_text(*_card_text(run, self._model))
        if run is None or run.state == "refused":
            pass
        elif run.verdict is None:
            if run.state == "prefill" and run.prompt_total and run.shows_prompt_progress:
                self._bar.setRange(0, run.prompt_total)
                self._bar.setValue(run.prompt_processed)
                self._bar.show()
        elif finished is not None:
            self._show_tail(run, finished)
            self._show_figures(run, finished, facts)
        elif run.state != "unrecorded":
            self._show_circumstances(run, facts)
        elif run.model_id:
            facts.add("Model", display_name(run.model_id))
        self._arrange(facts)

    def _show_tail(self, run: Run, finished: Finished) -> None:
        stop = finished.stop
        source = run.thinking if stop.channel is Channel.THINKING else run.text
        tail, cut = source[-_TAIL_CHARS:], stop.dropped[:_CUT_CHARS]
        if not tail and not cut:
            return
        colors = current_theme().colors
        dots = "…" if len(source) > _TAIL_CHARS else ""
        # At a space, which Qt shows, a line may wrap.
        html = [colored(f"{dots}{visible(tail)}".replace("·", " "), colors.text)]
        if cut:
            more = "…" if len(stop.dropped) > _CUT_CHARS else ""
            struck = element("s", visible(cut).replace("·", " ") + more)
            html.append(colored(struck, colors.fault, colors.fault_soft))
        self._tail_source, self._tail_begin = tail + cut, len(dots)
        self.tail.setHtml(paragraph(*html, style="white-space: pre-wrap; margin: 0"))
        self._refresh_always()
        cut_text = f", then cut off: {stop.dropped}" if cut else ""
        self.tail.setAccessibleName(f"The answer ended with: {tail}{cut_text}")
        self._tail_card.show()

    def _refresh_always(self) -> None:
        has_selection = self.tail.textCursor().hasSelection()
        for action in self._selection_actions:
            action.setEnabled(has_selection)
        reason = "" if has_selection else _SELECT_FIRST
        self.always.setToolTip(reason)
        self.always.setAccessibleDescription(reason)

    @property
    def selection(self) -> StopSelection | None:
        """The selected end of the answer as the model wrote it; None for nothing."""
        run, cursor = self.run, self.tail.textCursor()
        if run is None or run.finished is None or not cursor.hasSelection():
            return None
        begin, end = (
            position - self._tail_begin
            for position in (cursor.selectionStart(), cursor.selectionEnd())
        )
        is_thinking = run.finished.stop.channel is Channel.THINKING
        scope = StopScope.TEXT_AND_THINKING if is_thinking else StopScope.TEXT
        return StopSelection(source_between(self._tail_source, begin, end), scope)

    def _request_stop(self) -> None:
        if (selection := self.selection) is not None:
            self.stop_requested.emit(selection)
        else:
            below = self.always.mapToGlobal(self.always.rect().bottomLeft())
            QToolTip.showText(below, _SELECT_FIRST, self.always)

    def _show_figures(self, run: Run, finished: Finished, facts: FactTable) -> None:
        all_facts = end_facts(finished, run.context)
        for fact in all_facts:
            if fact.name in SHOWN_ABOVE or fact.is_timing or fact.value == "nothing":
                continue
            value = "  ".join(filter(None, (visible(fact.text), fact.value)))
            if fact.name == "No effect":
                value = _STOP_FIELD.sub(lambda found: _named_stop(found, run), value)
            facts.add(fact.name, value, is_code=bool(fact.text))
        if source := self.stop_source(run):
            facts.add("Stop set by", source)
        self._show_circumstances(run, facts)
        facts.add_figures([(fact.name, fact.value) for fact in all_facts if fact.is_timing])

    def _show_circumstances(self, run: Run, facts: FactTable) -> None:
        """Show the facts from before the end: the stop list, tools, the model."""
        if run.continued_chars:
            earlier = counted(run.continued_chars, "character")
            facts.add("Continues", f"an earlier answer of {earlier}")
        if run.forked_from is not None:
            facts.add("Fork of", run.forked_from.sentence)
        facts.add("Stop list", ", ".join(quoted(stop, 24) for stop in run.stops) or "none")
        for call in run.tool_calls:
            facts.add("Tool call", f"{call.name}({call.arguments})")
        facts.add("Model", display_name(run.model_id))

    # -- pieces ----------------------------------------------------------------------------

    def _show_text(self, icon: str, tone: Tone, sentence: str, detail: str) -> None:
        self._badge.show_icon(icon, tone)
        self.sentence.setText(sentence.removesuffix("."))  # a title
        show_text(self.detail, detail)

    def _follow_model(self) -> None:
        if self.run is None:
            self.refresh()

    def _arrange(self, facts: FactTable) -> None:
        """Show the facts in the place of earlier ones, at once: Qt would do it a frame later."""
        clear_layout(self._facts.layout())
        layout = self._facts.layout()
        assert layout is not None
        layout.addWidget(facts)
        facts.show()

    def _lay_out(self) -> None:
        self.setObjectName("card")
        text = column(
            self.sentence,
            self.detail,
            (self.inspect, 0, Qt.AlignmentFlag.AlignLeft),
            self._bar,
            spacing=4,
        )
        row(
            (self._badge, 0, Qt.AlignmentFlag.AlignTop),
            (text, 1),
            spacing=12,
            margins=(12, 12, 12, 10),
            on=self,
        )
        self._tail_card.setObjectName("sunken")
        column(
            self.tail,
            (self.always, 0, Qt.AlignmentFlag.AlignLeft),
            spacing=4,
            margins=(10, 8, 10, 6),
            on=self._tail_card,
        )
        self._folded = QWidget()
        self._folded.hide()
        self.heading.toggled.connect(self._folded.setVisible)
        self.heading.toggled.connect(self._show_copy)
        self.inside = column(self._tail_card, self._facts, spacing=12, on=self._folded)
        column(
            row(self.heading, STRETCH, self.copy_report),
            self._folded,
            STRETCH,  # or the heading would move before the page is laid out again
            spacing=8,
            on=self.details,
        )

    def _show_copy(self) -> None:
        is_over = self.run is not None and self.run.is_over
        self.copy_report.setVisible(is_over and self.heading.isChecked())

    def _copy(self) -> None:
        if self.run is not None:
            copy_from(self.copy_report, markdown_report(self.run, self._question))

"""Why the shown run ended, at a glance: verdict, last text, figures. Main thread."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QFont, QShowEvent
from PySide6.QtWidgets import (
    QFrame,
    QLabel,
    QProgressBar,
    QPushButton,
    QVBoxLayout,
    QWidget,
)

from engine import (
    Channel,
    Finished,
    counted,
    end_facts,
    figure,
    has_counts,
    quoted,
    seconds,
    tokens_per_s,
    visible,
)
from ui.kit.buttons import IconBadge
from ui.kit.html import colored, element, joined
from ui.kit.labels import FactTable, FigureTile, breakable, clear_layout_of, label
from ui.kit.layouts import STRETCH, column, row
from ui.kit.menus import copy_from
from ui.kit.theme import current_theme, fixed_font
from ui.models.model_state import ModelState
from ui.records.runs import Run, RunState, markdown_report, progress_words
from ui.words import Tone

_TAIL_CHARS = 60
_CUT_CHARS = 240
# The figures that the tiles show.
_IN_TILES = ("Speed", "First token")


class VerdictView(QWidget):
    """Shows one run, live while it streams; every state has its own words.

    Attributes:
        inspect: The button that opens the run in the Stop Inspector.
        copy_report: The button that copies a report of the run.
    """

    def __init__(self, model: ModelState) -> None:
        super().__init__()
        self._model = model
        self._run: Run | None = None
        self._shown_end: Finished | None = None
        self._question = ""
        self._badge = IconBadge(38)
        self.sentence = label("", "title", 1.08, is_wrapped=True, weight=QFont.Weight.DemiBold)
        self.detail = label("", "muted", 0.96, is_wrapped=True)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setFixedHeight(4)
        self._bar.setAccessibleName("Progress")
        self._tail = QLabel()
        self._tail.setTextFormat(Qt.TextFormat.RichText)
        self._tail.setWordWrap(True)
        self._tail.setFont(fixed_font(self.font(), 0.98))
        self._tail_card = QFrame()
        self._tiles = [FigureTile(name) for name in ("Tokens", "Tokens/s", "First token")]
        self._tiles_row = QWidget()
        self._facts = QWidget()
        QVBoxLayout(self._facts).setContentsMargins(0, 0, 0, 0)
        self.copy_report = QPushButton("Copy Report")
        self.copy_report.setAccessibleName("Copy a report of this run as Markdown")
        self.inspect = QPushButton("Inspect…")
        self.inspect.setAccessibleName("Open this run in the Stop Inspector")
        self._lay_out()
        self.copy_report.clicked.connect(self._copy)
        current_theme().changed.connect(self._restyle)
        model.changed.connect(self._follow_model)
        self.refresh()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not self._is_styled:
            self.refresh()

    def _restyle(self) -> None:
        """Show the run in other colors and sizes: at once, or when it is seen next."""
        self._is_styled = False
        if self.isVisible():
            self.refresh()

    @property
    def run(self) -> Run | None:
        """The run that is shown."""
        return self._run

    def show_run(self, run: Run | None, question: str = "") -> None:
        """Show another run, or the empty state."""
        is_other = run is not self._run
        self._run, self._question = run, question
        if is_other:
            self.refresh()
        else:
            self.follow()

    def follow(self) -> None:
        """Show the run's progress. A shown end stays: tool calls may continue the answer."""
        run = self._run
        if run is None or run.finished is None or run.finished is not self._shown_end:
            self.refresh()

    def facts_text(self) -> str:
        """Return the rows of names and values as text, one per line."""
        labels = self._facts.findChildren(QLabel)
        return "\n".join(item.accessibleName() for item in labels if item.accessibleName())

    def refresh(self) -> None:
        """Show the run as it is now."""
        self._is_styled = True
        run = self._run
        finished = self._shown_end = None if run is None else run.finished
        facts = FactTable(fixed_font(self.font(), 0.92))
        for part in (self._bar, self._tail_card, self._tiles_row):
            part.hide()
        self.copy_report.setVisible(run is not None and run.is_over)
        self.inspect.setVisible(run is not None)
        if run is None:
            self._show_waiting_for_question()
        elif run.state is RunState.REFUSED:
            self._say("fault", Tone.FAULT, "This message was not sent to the model.", run.refusal)
        elif (said := run.verdict) is None:
            self._show_progress(run)
        else:
            self._say(said.icon, said.tone, said.words.sentence, said.words.detail)
            if finished is not None:
                self._show_tail(run, finished)
                self._show_figures(run, finished, facts)
            elif run.state is not RunState.UNRECORDED:
                self._show_circumstances(run, facts)
            elif run.model_id:
                facts.add("Model", run.model_id)
        self._place(facts)

    # -- states ----------------------------------------------------------------------------

    def _show_waiting_for_question(self) -> None:
        model = self._model
        if model.stage == "loading":
            words = f"{model.name} is loading", "Answers and their reasons appear here."
            self._say("clock", Tone.BUSY, *words)
        elif model.stage == "failed":
            self._say("fault", Tone.FAULT, f"{model.name} could not be loaded", model.message)
        elif model.stage == "none":
            words = "No model is loaded", "Open a model folder to begin."
            self._say("chat", Tone.QUIET, *words)
        else:
            words = "No answer yet", "When an answer ends, the reason appears here."
            self._say("stop-match", Tone.QUIET, *words)

    def _show_progress(self, run: Run) -> None:
        watched = ", ".join(quoted(stop, 16) for stop in run.stops)
        detail = f"Watching for {watched}." if watched else "This answer has no stop sequences."
        if run.state is RunState.STREAMING:
            detail = f"{counted(len(run.text), 'character')} so far. {detail}"
        self._say("clock", Tone.BUSY, progress_words(run), detail)
        if run.state is RunState.PREFILL and run.prompt_total:
            self._bar.setRange(0, run.prompt_total)
            self._bar.setValue(run.prompt_processed)
            self._bar.show()

    def _show_tail(self, run: Run, finished: Finished) -> None:
        stop = finished.stop
        source = run.thinking if stop.channel is Channel.THINKING else run.text
        tail = source[-_TAIL_CHARS:]
        if not tail and not stop.dropped:
            return
        colors = current_theme().colors
        dots = "…" if len(source) > _TAIL_CHARS else ""
        html = [colored(f"{dots}{_wrappable(visible(tail))}", colors.text)]
        if stop.dropped:
            more = "…" if len(stop.dropped) > _CUT_CHARS else ""
            cut = _wrappable(visible(stop.dropped[:_CUT_CHARS])) + more
            html.append(colored(element("s", cut), colors.fault, colors.fault_soft))
        self._tail.setText(joined(*html))
        cut_words = f", then cut off: {stop.dropped}" if stop.dropped else ""
        self._tail.setAccessibleName(f"The answer ended with: {tail}{cut_words}")
        self._tail_card.show()

    def _show_figures(self, run: Run, finished: Finished, facts: FactTable) -> None:
        usage, timing = finished.usage, finished.timing
        speed = tokens_per_s(usage, timing)
        first = timing.first_token_s
        self._tiles[0].show_value(f"{usage.output_tokens:,}" if has_counts(finished) else "–")
        self._tiles[1].show_value("–" if speed is None else figure(speed))
        self._tiles[2].show_value("–" if first is None else seconds(first))
        self._tiles_row.show()
        for fact in end_facts(finished, run.context):
            if fact.name in _IN_TILES:
                continue
            if fact.is_cut and fact.text:
                facts.add_struck(fact.name, visible(fact.text))
            else:
                value = "  ".join(filter(None, (visible(fact.text), fact.value)))
                facts.add(fact.name, value, is_code=bool(fact.text))
        self._show_circumstances(run, facts)

    def _show_circumstances(self, run: Run, facts: FactTable) -> None:
        """Show the facts from before the end: the stop list, tools, the model."""
        if run.continued_chars:
            earlier = counted(run.continued_chars, "character")
            facts.add("Continues", f"an earlier answer of {earlier}")
        stops = "  ".join(visible(stop) for stop in run.stops)
        facts.add("Stop list", stops or "none", is_code=bool(stops))
        for call in run.tool_calls:
            facts.add("Tool call", f"{call.name}({call.arguments})")
        facts.add("Model", run.model_id)

    # -- pieces ----------------------------------------------------------------------------

    def _say(self, icon: str, tone: Tone, sentence: str, detail: str) -> None:
        self._badge.show_icon(icon, tone)
        self.sentence.setText(sentence)
        self.detail.setText(detail)
        self.detail.setVisible(bool(detail))

    def _follow_model(self) -> None:
        if self._run is None:
            self.refresh()

    def _place(self, facts: FactTable) -> None:
        """Show the facts in the place of earlier ones, at once: Qt would do it a frame later."""
        clear_layout_of(self._facts)
        layout = self._facts.layout()
        assert layout is not None
        layout.addWidget(facts)
        facts.show()

    def _lay_out(self) -> None:
        head = row(
            (self._badge, 0, Qt.AlignmentFlag.AlignTop),
            (column(self.sentence, self.detail, STRETCH, spacing=3), 1),
            spacing=11,
        )
        self._tail_card.setObjectName("sunken")
        column(
            label("Where it ended", "muted", 0.88),
            self._tail,
            spacing=4,
            margins=(11, 8, 11, 9),
            on=self._tail_card,
        )
        tiles = row(spacing=8, on=self._tiles_row)
        for tile in self._tiles:
            tiles.addWidget(tile, 1)
        column(
            row(
                label("Why it stopped", "title", weight=QFont.Weight.DemiBold),
                STRETCH,
                self.inspect,
                self.copy_report,
            ),
            head,
            self._bar,
            self._tail_card,
            self._tiles_row,
            self._facts,
            STRETCH,
            spacing=11,
            on=self,
        )

    def _copy(self) -> None:
        if self._run is not None:
            copy_from(self.copy_report, markdown_report(self._run, self._question))


def _wrappable(text: str) -> str:
    """Return a text that can wrap after every character."""
    return breakable(text).replace("⏎", "⏎\u200b").replace("·", "·\u200b")

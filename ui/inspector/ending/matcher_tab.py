"""The tab that says how near each stop came. Main thread; computes only while it is visible."""

import asyncio

from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine import counted, quoted, visible
from engine.recording.run_trace import RunTrace
from ui.inspector.ending.near_misses import NearMiss, RuleReport, rule_reports
from ui.inspector.run.pages import reading_page
from ui.inspector.run.shown_run import ShownRun
from ui.inspector.tape.tape import CHANNEL_NAMES, Tape
from ui.kit.background.tasks import Tasks
from ui.kit.look.theme import Theme
from ui.kit.text.html import BREAK, SPACE, Html, code, colored, joined, paragraph, strong
from ui.kit.text.labels import label

# The number of tokens, times the number of stops, that is searched within a few milliseconds.
_AT_ONCE = 20_000


class MatcherTab(QWidget):
    """A block for each stop: how far it came, and where it nearly matched."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self._theme = theme
        self._shown: ShownRun | None = None
        self._is_stale = False
        self._asked = 0
        self._tasks = Tasks()
        self.page = reading_page("How near each stop sequence came")
        self.note = label("", "muted", 0.95, is_wrapped=True)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 12, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.note)
        layout.addWidget(self.page, 1)
        theme.changed.connect(self._refresh)

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run's stops."""
        self._shown = shown
        self.catch_up()

    def catch_up(self) -> None:
        """Compute it again, now or when the tab is next visible."""
        self._is_stale = True
        if self.isVisible():
            self._refresh()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await self._tasks.finish()

    def showEvent(self, event: QShowEvent) -> None:
        """Compute what has changed while the tab was hidden."""
        super().showEvent(event)
        if self._is_stale:
            self._refresh()

    def _refresh(self) -> None:
        self._is_stale = False
        self._asked += 1
        shown = self._shown
        trace = None if shown is None else shown.trace
        self.page.setVisible(trace is not None and bool(trace.rules.strings))
        if shown is None:
            self.note.setText("No run is shown.")
        elif trace is None:
            stops = ", ".join(quoted(one, 40) for one in shown.run.stops) or "none"
            self.note.setText(f"Its tokens were not recorded. The stop list was: {stops}.")
        elif not trace.rules.strings:
            self.note.setText("This run had no stop sequences.")
        else:
            tape = Tape(trace)
            if len(tape.tokens) * len(trace.rules.strings) <= _AT_ONCE:
                self._fill(trace, rule_reports(tape))
                return
            self.note.setText(f"Searching {counted(len(tape.tokens), 'token')}…")
            self._tasks.start(self._look_through(trace, tape, self._asked), "look for near misses")

    async def _look_through(self, trace: RunTrace, tape: Tape, asked: int) -> None:
        reports = await asyncio.to_thread(rule_reports, tape)
        if asked == self._asked:
            self._fill(trace, reports)

    def _fill(self, trace: RunTrace, reports: list[RuleReport]) -> None:
        whole = "" if trace.is_whole else " Only the newest tokens of this run are kept."
        self.note.setText(f"The longest part of each stop that was found.{whole}")
        self.page.setHtml(joined(*map(self._block, reports)))

    def _block(self, report: RuleReport) -> Html:
        colors = self._theme.colors
        color = colors.match if report.is_match else colors.text
        reached, rest = report.rule[: len(report.prefix)], report.rule[len(report.prefix) :]
        head = paragraph(
            strong(f"Stop {report.number}", style=f"color:{color}"),
            SPACE,
            " ",
            code(
                colored(visible(reached), colors.match, colors.match_soft),
                colored(visible(rest), colors.faint),
            ),
            SPACE,
            " ",
            colored(report.outcome, colors.muted),
            style="margin:10px 0 2px 0",
        )
        return joined(head, *map(self._miss, report.misses))

    def _miss(self, miss: NearMiss) -> Html:
        colors = self._theme.colors
        before = counted(miss.offset, "character")
        where = f"{CHANNEL_NAMES[miss.channel]}, after {before}"
        return paragraph(
            code(
                visible(miss.before),
                colored(visible(miss.text), colors.limit, colors.limit_soft),
                visible(miss.after),
                style=f"color:{colors.muted}",
            ),
            BREAK,
            colored(f"{where}: {miss.why}", colors.muted),
            style="margin:1px 0 1px 22px",
        )

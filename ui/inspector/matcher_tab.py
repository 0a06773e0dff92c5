"""The tab that says how near each stop came. Main thread; computes only while it is visible."""

import asyncio
import re
from dataclasses import dataclass

from PySide6.QtGui import QShowEvent

from engine import Channel, Stop, StopKind, counted, quoted, visible
from engine.recording.run_trace import RunTrace
from ui.inspector.pages import InspectorTab, ReadingPage
from ui.inspector.shown_run import ShownRun
from ui.inspector.tape import CHANNEL_NAMES, Tape
from ui.kit.html import BREAK, SPACE, Html, code, colored, joined, paragraph, strong
from ui.kit.labels import label
from ui.kit.layouts import column
from ui.kit.tasks import finish_tasks, start_task
from ui.kit.theme import current_theme

# The text is searched, not the matcher's recorded states: that also finds a beginning that
# appeared and was ruled out within one token.

MAX_MISSES = 20
_AROUND_CHARS = 24


@dataclass(frozen=True, slots=True)
class NearMiss:
    """A place where a stop nearly matched."""

    channel: Channel
    offset: int
    before: str
    text: str
    after: str
    why: str


@dataclass(frozen=True, slots=True)
class RuleReport:
    """What happened to one stop string."""

    number: int
    rule: str
    prefix: str
    count: int
    is_match: bool
    outcome: str
    misses: tuple[NearMiss, ...]


def rule_reports(tape: Tape) -> list[RuleReport]:
    """Return a report for each stop string of a run."""
    texts = {channel: tape.channel_text(channel) for channel in Channel}
    return [
        _report(tape, number, rule, texts, tape.rules.scope_of(rule).channels)
        for number, rule in enumerate(tape.rules.stops, 1)
    ]


def _report(
    tape: Tape, number: int, rule: Stop, texts: dict[Channel, str], scope: frozenset[Channel]
) -> RuleReport:
    stop = tape.stop
    is_match = (
        stop is not None and stop.kind is StopKind.STOP_STRING and stop.rule_index == number - 1
    )
    length = max(_longest_prefix(rule, texts[channel]) for channel in scope)
    if is_match:
        length = len(rule.text)
    prefix = rule.text[:length]
    count = sum(_count(texts[channel], rule, length) for channel in scope)
    alike: list[NearMiss] = []
    broken: list[NearMiss] = []
    for channel in Channel:
        text = texts[channel]
        if channel in scope:
            alike += _look_alikes(channel, text, rule)
            # A lone space is not near " END".
            if prefix.strip() or (prefix and not rule.text.strip()):
                broken += _broken_off(channel, text, rule, length)
        else:
            why = f"In the {CHANNEL_NAMES[channel].lower()}, where stops do not count."
            places = _places(text, rule, len(rule.text))
            alike += [_miss(channel, text, place, len(rule.text), why) for place in places]
    # One place is near for one reason: what looks like the whole stop says more than its beginning.
    taken = {(miss.channel, miss.offset) for miss in alike}
    broken = [miss for miss in broken if (miss.channel, miss.offset) not in taken]
    # If there are too many, those that look like the whole stop matter most.
    misses = [*alike, *broken][:MAX_MISSES]
    misses.sort(key=lambda m: (list(Channel).index(m.channel), m.offset, len(m.text)))
    if is_match and stop is not None and stop.token_index is not None:
        outcome = f"Ended the answer at token {stop.token_index + 1:,}"
    elif length == len(rule.text):
        outcome = "Occurred, but did not end the answer"
    elif length:
        outcome = f"{length} of {counted(len(rule.text), 'character')}, {_times(count)}"
    else:
        outcome = "Not found in the answer"
    return RuleReport(number, rule.text, prefix, count, is_match, outcome, tuple(misses))


def _longest_prefix(rule: Stop, text: str) -> int:
    """Return the length of the longest beginning of a rule that occurs, by binary search."""
    low, high = 0, len(rule.text)
    while low < high:
        middle = (low + high + 1) // 2
        if rule.find(text, chars=middle) >= 0:
            low = middle
        else:
            high = middle - 1
    return low


def _broken_off(channel: Channel, text: str, rule: Stop, length: int) -> list[NearMiss]:
    """Return where the longest match of a rule's beginning ended."""
    misses: list[NearMiss] = []
    if length == len(rule.text):
        return misses
    wanted = quoted(rule.text[length])
    for place in _places(text, rule, length):
        end = place + length
        came = quoted(text[end]) if end < len(text) else "the end"
        why = f"{wanted} was expected next, but {came} came."
        misses.append(_miss(channel, text, place, length, why))
    return misses


def _look_alikes(channel: Channel, text: str, rule: Stop) -> list[NearMiss]:
    """Return where a rule would occur if case and white space did not count."""
    core = rule.text.strip()
    if len(core) < 2 and core == rule.text:
        return []  # nothing else looks like one letter without white space
    letters = [re.escape(char) for char in core if not char.isspace()]
    if not letters:
        return []
    before = len(rule.text) - len(rule.text.lstrip())
    is_one = len(core) == 1  # a single letter must be the same letter: "A" is not near " a"
    misses: list[NearMiss] = []
    for match in re.finditer(r"\s*".join(letters), text, 0 if is_one else re.IGNORECASE):
        start = match.start() - before
        if start >= 0 and rule.find(text[start : start + len(rule.text)]) == 0:
            continue  # the stop itself
        if match.group() == core:
            lead = rule.text[:before]
            is_led = start >= 0 and text.startswith(lead, start)
            why = f"White space {'after' if is_led else 'before'} it differs."
        elif match.group().casefold() == core.casefold():
            why = "Upper and lower case differ."
        else:
            why = "White space inside it differs."
        misses.append(_miss(channel, text, match.start(), len(match.group()), why))
        if len(misses) == MAX_MISSES:
            break
    return misses


def _places(text: str, rule: Stop, length: int) -> list[int]:
    """Return where the first characters of a rule are in a text."""
    places: list[int] = []
    place = rule.find(text, 0, length)
    while place >= 0 and len(places) < MAX_MISSES:
        places.append(place)
        place = rule.find(text, place + 1, length)
    return places


def _count(text: str, rule: Stop, length: int) -> int:
    """Return how often the first characters of a rule are in a text, without overlaps."""
    count, place = 0, rule.find(text, 0, length) if length else -1
    while place >= 0:
        count += 1
        place = rule.find(text, place + length, length)
    return count


def _miss(channel: Channel, text: str, place: int, length: int, why: str) -> NearMiss:
    end = place + length
    before, after = text[max(0, place - _AROUND_CHARS) : place], text[end : end + _AROUND_CHARS]
    return NearMiss(channel, place, before, text[place:end], after, why)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


# The number of tokens, times the number of stops, that is searched within a few milliseconds.
_AT_ONCE = 20_000


class MatcherTab(InspectorTab):
    """A block for each stop: how far it came, and where it nearly matched."""

    def __init__(self) -> None:
        super().__init__()
        self._shown: ShownRun | None = None
        self._is_stale = False
        self._asked = 0
        self.page = ReadingPage("How near each stop sequence came")
        self.note = label("", "muted", 0.95, is_wrapped=True)
        column(self.note, (self.page, 1), spacing=8, margins=(0, 12, 0, 0), on=self)
        current_theme().changed.connect(self._refresh)

    def show_run(self, shown: ShownRun | None) -> None:
        """Show another run's stops."""
        self._shown = shown
        self._is_stale = True
        if self.isVisible():
            self._refresh()

    async def finish(self) -> None:
        """Wait until the background work has ended."""
        await finish_tasks(self)

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
        self.page.setVisible(trace is not None and bool(trace.rules.stops))
        if shown is None:
            self.note.setText("No run is shown.")
        elif trace is None:
            stops = ", ".join(quoted(stop, 40) for stop in shown.run.stops) or "none"
            self.note.setText(f"Its tokens were not recorded. The stop list was: {stops}.")
        elif not trace.rules.stops:
            self.note.setText("This run had no stop sequences.")
        else:
            tape = Tape(trace)
            if len(tape.tokens) * len(trace.rules.stops) <= _AT_ONCE:
                self._fill(trace, rule_reports(tape))
                return
            self.note.setText(f"Searching {counted(len(tape.tokens), 'token')}…")
            start_task(self, self._look_through(trace, tape, self._asked), "look for near misses")

    async def _look_through(self, trace: RunTrace, tape: Tape, asked: int) -> None:
        reports = await asyncio.to_thread(rule_reports, tape)
        if asked == self._asked:
            self._fill(trace, reports)

    def _fill(self, trace: RunTrace, reports: list[RuleReport]) -> None:
        whole = "" if trace.is_whole else " Only the newest tokens of this run are kept."
        self.note.setText(f"The longest part of each stop that was found.{whole}")
        self.page.setHtml(joined(*map(self._block, reports)))

    def _block(self, report: RuleReport) -> Html:
        colors = current_theme().colors
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
        colors = current_theme().colors
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

"""The tabs about the end: how near each stop came, how likely the model was to end, what if.

Main thread. They compute only while they are visible.
"""

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFont,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPolygonF,
    QTextCursor,
)
from PySide6.QtWidgets import QMenu, QPushButton, QToolButton, QWidget

from engine.recording.run_trace import RunTrace
from engine.stopping.record import Channel, StopKind
from engine.stopping.rules import Stop
from engine.wording import counted, percent, quoted, visible
from ui.inspector.inspector import Inspector, stops_of
from ui.inspector.pages import RECORD_ALL, InspectorTab, ReadingPage
from ui.inspector.shown_run import CHANNEL_NAMES, ShownRun, Tape, chip_text
from ui.kit.buttons import EmptyState, IconButton
from ui.kit.dialogs import choose_target
from ui.kit.html import BREAK, Html, cell, code, colored, joined, paragraph, strong, table
from ui.kit.labels import label, show_text
from ui.kit.layouts import STRETCH, column, row, scrolling
from ui.kit.tasks import cancel_tasks, start_task
from ui.kit.theme import current_theme, restyle
from ui.stops.stop_list_editor import StopListEditor

# The text is searched, not the matcher's recorded states: that also finds a beginning that
# appeared and was ruled out within one token.

MAX_MISSES = 20
_AROUND_CHARS = 24

_MAX_KEPT_CHARS = 20_000  # of the text of What If, which a page lays out at once
_REPLAYING = "Replaying the run…"
LIKELY = 0.2
_LOWEST_POWER = -4  # of ten: the lowest probability on the axis
_FLAT = 0.02  # the highest probability of ending that a curve does not show


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
            positions = _find_starts(text, rule, len(rule.text))
            alike += [_miss(channel, text, position, len(rule.text), why) for position in positions]
    # One reason for each position: a look-alike of the whole stop precedes its beginning.
    taken = {(miss.channel, miss.offset) for miss in alike}
    broken = [miss for miss in broken if (miss.channel, miss.offset) not in taken]
    # Of too many, near misses of the whole stop come first.
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
    target = quoted(rule.text[length])
    for position in _find_starts(text, rule, length):
        end = position + length
        came = quoted(text[end]) if end < len(text) else "the end"
        why = f"{target} was expected next, but {came} came."
        misses.append(_miss(channel, text, position, length, why))
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


def _find_starts(text: str, rule: Stop, length: int) -> list[int]:
    """Return where the first characters of a rule are in a text."""
    positions: list[int] = []
    position = rule.find(text, 0, length)
    while position >= 0 and len(positions) < MAX_MISSES:
        positions.append(position)
        position = rule.find(text, position + 1, length)
    return positions


def _count(text: str, rule: Stop, length: int) -> int:
    """Return how often the first characters of a rule are in a text, without overlaps."""
    count, position = 0, rule.find(text, 0, length) if length else -1
    while position >= 0:
        count += 1
        position = rule.find(text, position + length, length)
    return count


def _miss(channel: Channel, text: str, position: int, length: int, why: str) -> NearMiss:
    end = position + length
    before, after = (
        text[max(0, position - _AROUND_CHARS) : position],
        text[end : end + _AROUND_CHARS],
    )
    return NearMiss(channel, position, before, text[position:end], after, why)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count:,} times"


class MatcherTab(InspectorTab):
    """A block for each stop: how far it came, and where it nearly matched."""

    title = "Stops"
    without_trace = "The tokens of this run were not recorded."

    def __init__(self) -> None:
        super().__init__()
        self.page = ReadingPage("How near each stop sequence came")
        self.note = label("", "muted", 0.95, is_wrapped=True)
        column(self.note, (self.page, 1), spacing=8, margins=(0, 12, 0, 0), on=self)

    def refresh(self) -> None:
        cancel_tasks(self)
        shown = self.shown
        trace = None if shown is None else shown.trace
        self.page.setVisible(trace is not None and bool(trace.rules.stops))
        if shown is None:
            self.note.setText("No Answer Selected")
        elif trace is None:
            stops = ", ".join(quoted(stop, 40) for stop in shown.run.stops) or "none"
            self.note.setText(f"The stop list was: {stops}.")
        elif not trace.rules.stops:
            self.note.setText("This run had no stop sequences.")
        else:
            tape = Tape(trace)
            self.note.setText(f"Searching {counted(len(tape.tokens), 'token')}…")
            start_task(self, self._look_through(trace, tape), "look for near misses")

    async def _look_through(self, trace: RunTrace, tape: Tape) -> None:
        reports = await asyncio.to_thread(rule_reports, tape)
        whole = "" if trace.is_whole else " Only the newest tokens of this run are kept."
        self.note.setText(f"The longest part of each stop that was found.{whole}")
        self.page.setHtml(joined(*map(self._block, reports)))

    def _block(self, report: RuleReport) -> Html:
        colors = current_theme().colors
        color = colors.match if report.is_match else colors.text
        reached, rest = report.rule[: len(report.prefix)], report.rule[len(report.prefix) :]
        number = strong(f"Stop {report.number}", style=f"color:{color}")
        text = code(
            colored(visible(reached), colors.match, colors.match_soft),
            colored(visible(rest), colors.faint),
        )
        padding = "padding:4px 16px 4px 0"
        cells = (
            cell(number, style=padding, width="10%"),
            cell(text, style=padding, width="25%"),
            cell(colored(report.outcome, colors.muted), style=padding, width="65%"),
        )
        return joined(table([cells], width="100%"), *map(self._miss, report.misses))

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


class WhatIfTab(InspectorTab):
    """A copy of the list, and where the run would have ended with it; the tape shows the rest."""

    title = "What If"
    without_trace = "The tokens of this run were not recorded."

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._what_if = inspector.what_if
        self.editor = StopListEditor(inspector.workspace.stop_lists)
        self.editor.show_model(self._what_if.stops)
        self.sentence = label("", "title", 1.02, is_wrapped=True)
        self.kept = ReadingPage("Text that this list keeps", "This list keeps no text.")
        self.reset = QPushButton("Use Run’s List")
        self.use = QPushButton("Use This List in Conversation")
        self.more = IconButton("more", "More actions for this list")
        menu = QMenu(self.more)
        menu.setAccessibleName("List to try")
        self.several = menu.addAction("Compare on Several Answers…")
        self.save = menu.addAction("Save as Case…")
        self.more.setMenu(menu)
        self.more.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        self._lay_out()
        self._what_if.outcome_changed.connect(self.refresh)
        self.editor.input.textChanged.connect(self._what_if.set_typed)
        self.reset.clicked.connect(self._what_if.reset)
        self.use.clicked.connect(self._use)
        self.save.triggered.connect(self._choose_file)

    def _lay_out(self) -> None:
        head = row((self.sentence, 1), self.reset, self.use, self.more, spacing=8)
        tried = column(label("Stops to try", "muted", 0.92), self.editor, STRETCH, spacing=4)
        kept = column(label("Text that is kept", "muted", 0.92), (self.kept, 1), spacing=4)
        panes = row((tried, 2), (kept, 3), spacing=16)
        # The two panes side by side are wider than a narrow window.
        area = scrolling(panes, "", self)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._trial, self._empty = QWidget(), EmptyState()
        column(head, (area, 1), spacing=12, on=self._trial)
        column((self._trial, 1), (self._empty, 1), margins=(0, 12, 0, 0), on=self)

    def refresh(self) -> None:
        self._inspector.try_lists()
        played, recording = self._what_if.played, self._what_if.recording
        can_try = recording is not None
        self._trial.setVisible(can_try)
        self._empty.setVisible(not can_try)
        stops = self._what_if.stops.entries()
        is_changed = recording is not None and stops != stops_of(recording.rules)
        restyle(self.use, "kind", "primary" if is_changed else "")
        for part in (self.editor, self.reset, self.use, self.more):
            part.setEnabled(can_try)
        self.save.setEnabled(played is not None)
        self.sentence.setText(_REPLAYING if played is None else self._what_if.sentence)
        if not can_try:
            self._empty.show_text("Nothing to Try", self._why_not(self._inspector.shown))
        text = "" if played is None else played.text or played.thinking
        self.kept.setPlainText(text[-_MAX_KEPT_CHARS:])
        self.kept.moveCursor(QTextCursor.MoveOperation.End)  # the end is where lists differ

    @staticmethod
    def _why_not(shown: ShownRun | None) -> str:
        if shown is None:
            return "No answer is selected."
        if not shown.run.is_over:
            return "Other lists can be tried when the answer has ended."
        if shown.trace is None:
            return "The tokens of this run were not recorded, so nothing can be tried on it."
        if shown.can_be_replayed:
            return _REPLAYING  # its tokens are still being gathered
        return "Only the newest tokens of this run are kept, so it cannot be replayed."

    def _use(self) -> None:
        entries = self._what_if.stops.entries()
        self._inspector.workspace.current.stops.replace_all(entries, "Use Tried List")

    def _choose_file(self) -> None:
        save, kinds = self._inspector.save_case, ["Saved runs (*.json)"]
        choose_target(self, "Save as Case", save, name="case.json", filters=kinds)


@dataclass(frozen=True, slots=True)
class EndingOdds:
    """The EOS probabilities of a run."""

    values: tuple[float, ...]
    first_index: int
    likely: tuple[int, ...]
    sentence: str
    has_end: bool = False
    peak: tuple[int, str] | None = None  # position and text of the token nearest to ending

    @property
    def flat_sentence(self) -> str:
        """The odds in words, where a curve of them would be a line at 0%; else empty."""
        *others, last = self.values
        if not self.has_end:
            others.append(last)
        if not others or max(others) >= _FLAT:
            return ""
        tokens = counted(len(others), "token")
        where = f"each of the {tokens}" if len(others) > 1 else "the first token"
        end = f" before the last, where it was {percent(last)}" if self.has_end else ""
        return f"The probability of ending was {_format_bound(max(others))} at {where}{end}."


def ending_odds(trace: RunTrace) -> EndingOdds | None:
    """Return a run's EOS probabilities; None if they were not recorded.

    "How near the model came to ending" leaves out the end itself, and end tokens that the model
    chose but that were ignored: neither is a near miss.
    """
    known = [(token, token.stats) for token in trace.tokens if token.stats is not None]
    if not known:
        return None
    last, eos = known[-1][0], frozenset(trace.setting.eos)
    stop = trace.stop
    has_end = (
        stop is not None
        and stop.token_index == last.index
        and last.token_id in eos
        and not trace.rules.ignore_eos
    )
    ends = [token.index for token, _ in known if token.token_id in eos]
    ignored = ends[:-1] if has_end else ends
    others = [(token.index, stats) for token, stats in known if token.token_id not in eos]
    inner = range(len(known) - has_end)
    peak = max(inner, key=lambda n: known[n][1].eos_probability, default=None)
    likely = [index for index, stats in others if stats.eos_probability >= LIKELY]
    highest = max((stats.eos_probability for _, stats in others), default=None)
    return EndingOdds(
        tuple(stats.eos_probability for _, stats in known),
        known[0][0].index,
        tuple(likely[:50]),
        _sentence(likely, ignored, highest),
        has_end,
        None if peak is None else (peak, known[peak][0].piece or chip_text(known[peak][0])),
    )


def _sentence(likely: Sequence[int], ignored: Sequence[int], highest: float | None) -> str:
    parts: list[str] = []
    if ignored:
        parts.append(f"The model chose an end token at {_named_tokens(ignored)}; it was ignored.")
    if likely:
        parts.append(f"The model might have ended instead of writing {_named_tokens(likely)}.")
    elif highest is not None:
        before = "before the end" if not ignored else "elsewhere"
        parts.append(f"Ending was never likely {before}: {_format_bound(highest)}.")
    elif not ignored:
        parts.append("The model ended with its first token.")
    return " ".join(parts)


def _format_bound(value: float) -> str:
    text = percent(value)
    return f"below {text[1:].lstrip()}" if text.startswith("<") else f"at most {text}"


def _named_tokens(indexes: Sequence[int]) -> str:
    """Return tokens by their numbers: ``token 4``, ``tokens 4, 9 and 3 more``."""
    named = ", ".join(f"{index + 1:,}" for index in indexes[:5])
    more = len(indexes) - 5
    word = "token" if len(indexes) == 1 else "tokens"
    return f"{word} {named} and {more:,} more" if more > 0 else f"{word} {named}"


class EndingTab(InspectorTab):
    """A sentence and a curve."""

    title = "Ending"

    def __init__(self) -> None:
        super().__init__()
        self.note = label("", "", 0.98, is_wrapped=True)
        self.curve = OddsCurve()
        self.again = QPushButton(RECORD_ALL)
        self.empty = EmptyState(self.again)
        parts = (self.note, (self.curve, 1), (self.empty, 1), (None, 0))
        column(*parts, spacing=10, margins=(0, 12, 0, 0), on=self)

    def catch_up(self) -> None:
        self._refresh_visible()

    def refresh(self) -> None:
        shown = self.shown
        odds = None if shown is None or shown.trace is None else ending_odds(shown.trace)
        self.curve.show_odds(odds)
        flat = "" if odds is None else odds.flat_sentence
        self.curve.setVisible(odds is not None and not flat)
        show_text(self.note, "" if odds is None or flat else odds.sentence)
        self.empty.setVisible(odds is None or bool(flat))
        self.again.setVisible(not flat)
        title = "No Answer Selected" if shown is None else "No Probabilities Recorded"
        detail = "Shows how likely the answer was to end at each token."
        self.empty.show_text("Ending Was Never Likely" if flat else title, flat or detail)


def _height_of(probability: float, area: QRectF) -> float:
    """Return where a probability is on an axis whose steps are powers of ten."""
    power = math.log10(max(probability, 10.0**_LOWEST_POWER))
    return area.top() + power / _LOWEST_POWER * area.height()


class OddsCurve(QWidget):
    """The EOS probability over the tokens; a click chooses a token."""

    token_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._odds: EndingOdds | None = None
        self.setMinimumHeight(120)
        self.setMouseTracking(True)

    def show_odds(self, odds: EndingOdds | None) -> None:
        self._odds = odds
        self.setAccessibleName("Probability of ending" if odds is None else odds.sentence)
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        position = self._index_at(event.position().x())
        if position is not None and self._odds is not None:
            self.token_chosen.emit(self._odds.first_index + position)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        position = self._index_at(event.position().x())
        if position is not None and self._odds is not None:
            number = self._odds.first_index + position + 1
            is_end = self._odds.has_end and position == len(self._odds.values) - 1
            end = ", where the answer ended" if is_end else ""
            self.setToolTip(f"Token {number:,}: {percent(self._odds.values[position])}{end}")

    def paintEvent(self, event: QPaintEvent) -> None:
        odds = self._odds
        if odds is None:
            return
        colors, area = current_theme().colors, self._area()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        small = QFont(self.font())
        small.setPointSizeF(small.pointSizeF() * 0.85)
        painter.setFont(small)
        line = painter.fontMetrics().height()
        for power in range(_LOWEST_POWER, 1):
            value = 10.0**power
            y = _height_of(value, area)
            painter.setPen(QColor(colors.line))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(QColor(colors.muted))
            box = QRectF(0, y - line / 2, area.left() - 8, line)
            painter.drawText(box, int(Qt.AlignmentFlag.AlignRight), f"{value * 100:g}%")
        likely = _height_of(LIKELY, area)
        painter.setPen(QPen(QColor(colors.limit), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(area.left(), likely), QPointF(area.right(), likely))
        sides = Qt.AlignmentFlag.AlignLeft, Qt.AlignmentFlag.AlignRight
        is_late = odds.peak is not None and odds.peak[0] * 2 > len(odds.values)
        above = QRectF(area.left() + 4, likely - line - 2, area.width() - 4, line)
        text = f"Ending is likely from {percent(LIKELY)}"
        painter.drawText(above, int(sides[not is_late]), text)
        painter.setPen(QPen(QColor(colors.match), 1.6))
        points = self._points(odds, area)
        painter.drawPolyline(QPolygonF(points))
        if odds.has_end:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.done))
            painter.drawEllipse(points[-1], 3.5, 3.5)
        if odds.peak is not None:
            position, written = odds.peak
            value = odds.values[position]
            x = area.left() + position / max(1, len(odds.values) - 1) * area.width()
            dot = QPointF(x, _height_of(value, area))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(colors.match))
            painter.drawEllipse(dot, 3.5, 3.5)
            painter.setPen(QColor(colors.text))
            name = f"{percent(value)} at token {odds.first_index + position + 1:,}"
            name = f"{name} {quoted(written, 20)}"
            begin, end = (0.0, x - 8) if is_late else (x + 8, float(self.width()))
            box = QRectF(begin, dot.y() - line, end - begin, line)
            painter.drawText(box, int(sides[is_late]), name)
        painter.setPen(QColor(colors.muted))
        foot = QRectF(area.left(), area.bottom() + 4, area.width(), line)
        painter.drawText(foot, int(Qt.AlignmentFlag.AlignLeft), f"token {odds.first_index + 1:,}")
        last = odds.first_index + len(odds.values)
        painter.drawText(foot, int(Qt.AlignmentFlag.AlignRight), f"{last:,}")
        painter.end()

    def _area(self) -> QRectF:
        metrics = self.fontMetrics()
        left, line = metrics.averageCharWidth() * 8, metrics.height()
        width = max(1, self.width() - left - 12)
        return QRectF(left, line / 2, width, max(1, self.height() - line * 1.9))

    def _points(self, odds: EndingOdds, area: QRectF) -> list[QPointF]:
        """Return the curve with at most one point per pixel column: the highest value in it."""
        count = len(odds.values)
        step = max(1, count // max(1, int(area.width())))
        positions = range(0, count, step)
        span = max(1, count - 1)
        return [
            QPointF(
                area.left() + position / span * area.width(),
                _height_of(max(odds.values[position : position + step]), area),
            )
            for position in positions
        ]

    def _index_at(self, x: float) -> int | None:
        if self._odds is None:
            return None
        area, count = self._area(), len(self._odds.values)
        share = (x - area.left()) / area.width()
        return max(0, min(count - 1, round(share * (count - 1))))

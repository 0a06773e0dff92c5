"""The tab that sets two runs side by side. Main thread."""

from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent

from engine import TokenTrace, acceptance, counted, guess_sources, quoted
from ui.inspector.inspector import Inspector
from ui.inspector.pages import InspectorTab, ReadingPage
from ui.inspector.shown_run import RunSource, ShownRun, ended_words, when_words
from ui.kit.buttons import Choice
from ui.kit.html import Html, cell, code, colored, joined, paragraph, table, visible_breaks
from ui.kit.labels import label
from ui.kit.layouts import column
from ui.kit.theme import current_theme
from ui.records.runs import Run

_AROUND_CHARS = 160


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two runs have in common, and where they differ."""

    sentence: str
    common: str
    left: str
    right: str
    rows: tuple[tuple[str, str, str], ...]
    token_index: int | None = None


def compare(left: ShownRun, right: ShownRun) -> Comparison:
    """Compare the texts, tokens, settings and ends of two runs."""
    a, b = left.run.thinking + left.run.text, right.run.thinking + right.run.text
    place = _common_length(a, b)
    index = _first_token(left, right)
    if a == b:
        sentence = "Both answers are identical."
        if index is not None:
            sentence = f"Both texts are identical; the tokens differ from token {index + 1:,} on."
    elif place == len(a) or place == len(b):
        longer = "second" if len(b) > len(a) else "first"
        shared = counted(place, "character")
        sentence = f"Both are identical for {shared}; then only the {longer} continues."
    else:
        at = "" if index is None else f", at token {index + 1:,}"
        sentence = (
            f"They differ after {counted(place, 'character')}{at}: "
            f"{quoted(a[place : place + 12])} in the first, {quoted(b[place : place + 12])} in the "
            "second."
        )
    begin = max(0, place - _AROUND_CHARS)
    return Comparison(
        sentence,
        a[begin:place],
        a[place : place + _AROUND_CHARS],
        b[place : place + _AROUND_CHARS],
        _differing(left, right),
        index,
    )


def _differing(left: ShownRun, right: ShownRun) -> tuple[tuple[str, str, str], ...]:
    pairs = zip(_facts(left), _facts(right), strict=True)
    return tuple((name, one, other) for (name, one), (_, other) in pairs if one != other)


def _facts(shown: ShownRun) -> list[tuple[str, str]]:
    run, finished = shown.run, shown.run.finished
    usage = None if finished is None else finished.usage
    guesses = None if finished is None else finished.speculation
    return [
        ("Model", run.model_id),
        ("Stop list", "  ".join(map(quoted, run.stops)) or "none"),
        ("Limit", "none" if run.max_tokens is None else counted(run.max_tokens, "token")),
        ("Reason", ended_words(run)),
        ("Tokens", "" if usage is None else f"{usage.output_tokens:,}"),
        ("Guessed tokens confirmed", "" if guesses is None else acceptance(guesses) or "none"),
        ("Guessed by", "" if guesses is None else guess_sources(guesses)),
        ("Forced tokens", "" if guesses is None else f"{guesses.forced:,}"),
        ("Passes that checked guesses", "" if guesses is None else f"{guesses.passes:,}"),
        ("Prompt", "" if usage is None else counted(usage.prompt_tokens, "token")),
        ("Characters", f"{len(run.text) - run.continued_chars:,}"),
    ]


def _common_length(a: str, b: str) -> int:
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _first_token(left: ShownRun, right: ShownRun) -> int | None:
    if left.trace is None or right.trace is None:
        return None
    if left.run.model_id != right.run.model_id:
        return None  # another model's ids stand for other tokens
    if not (left.trace.is_whole and right.trace.is_whole):
        return None
    a: list[TokenTrace] = list(left.trace.tokens)
    b: list[TokenTrace] = list(right.trace.tokens)
    for one, other in zip(a, b, strict=False):
        if one.token_id != other.token_id:
            return one.index
    return None if len(a) == len(b) else min(len(a), len(b))


class CompareTab(InspectorTab):
    """The shown run compared with another one of the conversation."""

    def __init__(self, inspector: Inspector) -> None:
        super().__init__()
        self._inspector = inspector
        self._others: list[ShownRun] = []
        self._picked: ShownRun | None = None
        self._looked_for: set[str] = set()
        self.choice = Choice("Run to compare with")
        self.sentence = label("", "title", 1.0, is_wrapped=True)
        self.page = ReadingPage("The two runs from their first difference on")
        column(
            self.choice,
            (self.sentence, 0, Qt.AlignmentFlag.AlignTop),
            (self.page, 1),
            spacing=8,
            margins=(0, 12, 0, 0),
            on=self,
        )
        self.choice.currentIndexChanged.connect(lambda _: self._compare())
        current_theme().changed.connect(self._compare)

    def show_run(self, shown: ShownRun | None) -> None:
        """Offer the other runs to compare with."""
        if self.isVisible():
            self._fill()

    def choose(self, run: Run) -> None:
        """Compare with this run, if it is one of the conversation's others."""
        self._fill()
        row = next((n for n, other in enumerate(self._others) if other.run is run), -1)
        if row >= 0:
            self.choice.setCurrentIndex(row)

    def choose_shown(self, other: ShownRun) -> None:
        """Compare with a run of another conversation."""
        self._picked = other
        self._fill()
        self.choice.setCurrentIndex(0)

    def showEvent(self, event: QShowEvent) -> None:
        """List the runs that can be compared now."""
        super().showEvent(event)
        self._fill()

    def _fill(self) -> None:
        before = self._chosen()
        self._others = self._inspector.earlier_runs()
        picked, shown = self._picked, self._inspector.shown
        if picked is not None and (shown is None or shown.run.id != picked.run.id):
            others = (one for one in self._others if one.run.id != picked.run.id)
            self._others = [picked, *others]
        self.choice.blockSignals(True)
        self.choice.clear()
        self.choice.addItems([_named(other) for other in self._others])
        kept = next((n for n, o in enumerate(self._others) if before and o.run is before.run), 0)
        self.choice.setCurrentIndex(kept if self._others else -1)
        self.choice.blockSignals(False)
        self.choice.setVisible(bool(self._others))
        self._compare()

    def _chosen(self) -> ShownRun | None:
        row = self.choice.currentIndex()
        return self._others[row] if 0 <= row < len(self._others) else None

    def _compare(self) -> None:
        shown, other = self._inspector.shown, self._chosen()
        has_both = shown is not None and other is not None
        self.page.setVisible(has_both)
        if shown is None or other is None:
            self.sentence.setText(
                "No run is shown."
                if shown is None
                else "There is no other answer in this conversation to compare with. Regenerate "
                "the answer, edit the question, or pick a run of another conversation under Runs."
            )
            return
        if other.trace is None and other.run.id not in self._looked_for:
            # The trace may be on disk: tokens compare better than texts.
            self._looked_for.add(other.run.id)
            self._inspector.fetch(other, self._take_traced)
        found = compare(shown, other)
        self.sentence.setText(found.sentence)
        self.page.setHtml(self._html(found))

    def _take_traced(self, traced: ShownRun) -> None:
        if traced.trace is None:
            return
        self._others = [
            traced if other.run.id == traced.run.id else other for other in self._others
        ]
        if self._picked is not None and self._picked.run.id == traced.run.id:
            self._picked = traced
        self._compare()

    def _html(self, found: Comparison) -> Html:
        colors = current_theme().colors

        def side(name: str, text: str, color: str, ground: str) -> Html:
            common = colored(visible_breaks(found.common), colors.faint)
            other = colored(visible_breaks(text), color, ground)
            head = paragraph(name, style=f"color:{colors.muted}")
            return cell(head, paragraph(code(common, other)), style="padding:6px", width="50%")

        left = side("This run", found.left, colors.match, colors.match_soft)
        right = side("The other", found.right, colors.limit, colors.limit_soft)
        padding = "padding:2px 12px 2px 0"
        rows = [
            (
                cell(name, style=f"{padding};color:{colors.muted}"),
                # Lists of stops are not to read as one list.
                cell(code(one), style="padding:2px 40px 2px 0"),
                cell(code(two)),
            )
            for name, one, two in found.rows
        ]
        return joined(table([(left, right)], width="100%"), table(rows) if rows else "")


def _named(other: ShownRun) -> str:
    """Return a name that tells the run apart from others of the same question."""
    run, name = other.run, other.name
    if other.source is RunSource.PAST:
        name = f"{run.model_id or 'Answer'}, in “{other.name}”"
    return f"{when_words(run)} · {ended_words(run)} · {name}"

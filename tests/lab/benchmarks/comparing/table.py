"""Formats the measurements as a table for the terminal or for a page.

Pure; any thread.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from api.conformance.probe.values import CheckOutcome
from tests.lab.benchmarks.comparing.configuration import ServerCommand
from tests.lab.benchmarks.comparing.measures import MEASURES, Correctness, Measure, Values

_NOTHING = "–"
_OUTCOMES = {
    CheckOutcome.HELD: "checks of stops passed",
    CheckOutcome.FAILED: "checks of stops failed",
    CheckOutcome.UNDECIDED: "checks of stops unclear",
    CheckOutcome.SKIPPED: "checks of stops skipped",
    CheckOutcome.NOT_ASKED: "checks of stops not asked",
}


@dataclass(slots=True)
class Side:
    """The results of one server so far."""

    command: ServerCommand
    version: str = ""
    correctness: Correctness | None = None
    rounds: list[Values] = field(default_factory=list)
    problem: str = ""
    tail: tuple[str, ...] = ()

    def value(self, key: str) -> float | None:
        """Return the median of a measure over the rounds; None if it was never taken."""
        found = [values[key] for values in self.rounds if key in values]
        return median(found) if found else None

    @property
    def has_results(self) -> bool:
        """Whether there is a value for its column."""
        return self.correctness is not None or any(self.rounds)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole run."""

    sides: Sequence[Side]
    absent: Sequence[tuple[str, str]]
    machine: Mapping[str, str]


def as_text(comparison: Comparison) -> str:
    rows = _rows(comparison.sides)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(_padded(row, widths)).rstrip() for row in rows]
    lines.insert(1, "  ".join("-" * width for width in widths))
    lines.append("")
    for sentence, tail in _notes(comparison):
        lines += [sentence, *(f"    {line}" for line in tail)]
    return "\n".join([*lines, *_facts(comparison), ""])


def as_markdown(comparison: Comparison) -> str:
    rows = _rows(comparison.sides)
    lines = [f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows]
    lines.insert(1, f"|---|{'---:|' * (len(rows[0]) - 1)}")
    lines.append("")
    notes = _notes(comparison)
    for sentence, tail in notes:
        lines.append(f"- {sentence}")
        if tail:
            lines += ["", "  ```text", *(f"  {line}" for line in tail), "  ```", ""]
    return "\n".join([*lines, *([""] if notes else []), f"{'; '.join(_facts(comparison))}.", ""])


def _rows(sides: Sequence[Side]) -> list[tuple[str, ...]]:
    shown = [side for side in sides if side.has_results]
    head = ("", *(" ".join(filter(None, (one.command.name, one.version))) for one in shown))
    rows: list[tuple[str, ...]] = [head]
    if any(side.correctness for side in shown):
        rows += [
            (title, *(_count(side, outcome) for side in shown))
            for outcome, title in _OUTCOMES.items()
        ]
    rows += [
        (measure.title, *(_cell(measure, side, reference(side, sides)) for side in shown))
        for measure in MEASURES
        if any(side.value(measure.key) is not None for side in shown)
    ]
    return rows


def reference(side: Side, sides: Sequence[Side]) -> Side | None:
    """Return the reference of a side: Fullstop, asked in the same dialect."""
    ours = (one for one in sides if one.command.name.startswith("Fullstop"))
    found = next((one for one in ours if one.command.dialect is side.command.dialect), None)
    return None if found is side else found


def _count(side: Side, outcome: CheckOutcome) -> str:
    return _NOTHING if side.correctness is None else str(side.correctness.counts.get(outcome, 0))


def _cell(measure: Measure, side: Side, other: Side | None) -> str:
    value = side.value(measure.key)
    if value is None:
        return _NOTHING
    text = f"{value:,.{measure.decimals}f}"
    base = other.value(measure.key) if other is not None else None
    return f"{text} (× {value / base:.2f})" if base else text


def _padded(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    first, *others = row
    cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
    return [first.ljust(widths[0]), *cells]


def _notes(comparison: Comparison) -> list[tuple[str, Sequence[str]]]:
    """Return the notes below the table: sentences, and the lines that belong to each."""
    notes: list[tuple[str, Sequence[str]]] = []
    for side in comparison.sides:
        name = side.command.name
        if side.correctness is not None and side.correctness.failed:
            notes.append((f"{name} fails: {'; '.join(side.correctness.failed)}.", ()))
        if side.problem:
            notes.append((f"{name} was given up: {side.problem}.", side.tail))
    for name, program in comparison.absent:
        notes.append((f"{name} is left out: {program} is not installed.", ()))
    return notes


def _facts(comparison: Comparison) -> list[str]:
    return [f"{name}: {value}" for name, value in comparison.machine.items()]

"""Counts how several answers to one question ended. Pure; any thread."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Event, Finished, TextDelta, TokenTrace
from engine.values.verdict import shortest

# The commonest texts that a stop cut, for each stop.
_MAX_CUTS = 5


@dataclass(slots=True)
class SeededAnswer:
    """One of several answers to a question: its text so far, and its end once it has one.

    ``eos_probability``, from 0 to 1, is that of an end token in the place of its last token; None
    where it is not known.
    """

    seed: int
    text: str = ""
    eos_probability: float | None = None
    finished: Finished | None = None

    @property
    def is_whole(self) -> bool:
        """Whether it has ended, and was not cancelled: only then does it count."""
        return self.finished is not None and self.stop.kind is not StopKind.CANCELLED

    @property
    def stop(self) -> StopInfo:
        assert self.finished is not None, "it has ended"
        return self.finished.stop

    @property
    def output_tokens(self) -> int:
        assert self.finished is not None, "it has ended"
        return self.finished.usage.output_tokens

    def take(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self.text += event.text
        elif isinstance(event, TokenTrace) and event.stats is not None:
            self.eos_probability = event.stats.eos_probability
        elif isinstance(event, Finished):
            self.finished = event


@dataclass(frozen=True, slots=True)
class Spread:
    """The least and the greatest of some numbers, and the quartiles between them."""

    min: float
    lower: float
    median: float
    upper: float
    max: float


@dataclass(frozen=True, slots=True)
class EndGroup:
    """The answers that ended for one reason; ``tokens`` are the numbers of their last tokens."""

    kind: StopKind
    value: str | int | None
    label: str
    seeds: tuple[int, ...]
    tokens: Spread


@dataclass(frozen=True, slots=True)
class StopCount:
    """How often a stop ended an answer; ``cuts`` are the texts behind it that were cut off."""

    text: str
    fired: int
    cuts: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class EndCounts:
    """How some answers ended; ``ends`` begin with the commonest, ``stops`` are those requested."""

    answers: int
    ends: tuple[EndGroup, ...]
    stops: tuple[StopCount, ...]
    lengths: Spread | None
    eos_odds: Spread | None


def count_ends(answers: Sequence[SeededAnswer], rules: StopRules) -> EndCounts:
    """Count the ends of whole answers to a request with these stops."""
    answers = [answer for answer in answers if answer.is_whole]
    groups: dict[tuple[StopKind, str | int | None], list[SeededAnswer]] = defaultdict(list)
    for answer in answers:
        groups[answer.stop.kind, answer.stop.value].append(answer)
    odds = [a.eos_probability for a in answers if a.eos_probability is not None]
    return EndCounts(
        len(answers),
        tuple(sorted(map(_group, groups.values()), key=lambda group: -len(group.seeds))),
        tuple(_stop_count(text, answers) for text in rules.strings),
        spread([answer.output_tokens for answer in answers]),
        spread(odds),
    )


def spread(values: Sequence[float]) -> Spread | None:
    """Return the spread of some numbers; None without any."""
    if not values:
        return None
    least, greatest = min(values), max(values)
    if len(values) == 1:
        return Spread(least, least, least, least, least)
    lower, median, upper = statistics.quantiles(values, method="inclusive")
    return Spread(least, lower, median, upper, greatest)


def _group(answers: list[SeededAnswer]) -> EndGroup:
    stop = answers[0].stop
    tokens = spread([answer.output_tokens for answer in answers])
    assert tokens is not None, "a group has an answer"
    seeds = tuple(answer.seed for answer in answers)
    return EndGroup(stop.kind, stop.value, shortest(stop), seeds, tokens)


def _stop_count(text: str, answers: Sequence[SeededAnswer]) -> StopCount:
    stops = [answer.stop for answer in answers if answer.stop.kind is StopKind.STOP_STRING]
    fired = [stop for stop in stops if stop.value == text]
    behind = Counter(stop.dropped.removeprefix(text) for stop in fired)
    cuts = [cut for cut in behind.most_common() if cut[0]]
    return StopCount(text, len(fired), tuple(cuts[:_MAX_CUTS]))

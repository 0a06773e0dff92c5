"""Counts how several answers to one question ended. Pure; any thread."""

import dataclasses
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from engine.recording.run_trace import RunTrace
from engine.stopping.record import StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import (
    Event,
    Finished,
    TextDelta,
    ThinkingDelta,
    TokenTrace,
    ToolCallCompleted,
)
from engine.values.request import GenerationRequest, ToolCall
from engine.values.verdict import headline_of_several, shortest
from engine.wording import counted, quoted

# The commonest texts that a stop cut, for each stop.
_MAX_CUTS = 5


@dataclass(slots=True)
class SeededAnswer:
    """One of several answers to a question: its text so far, and its end once it has one.

    ``eos_probability``, from 0 to 1, is that of an end token in the place of its last token; None
    where it is not known. ``trace`` is None where its tokens are not recorded.
    """

    seed: int
    text: str = ""
    eos_probability: float | None = None
    finished: Finished | None = None
    thinking: str = ""
    tool_calls: list[ToolCall] = field(default_factory=list)
    trace: RunTrace | None = None

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
        """The tokens so far; while it runs, those of its trace."""
        if self.finished is not None:
            return self.finished.usage.output_tokens
        return self.trace.tokens[-1].index + 1 if self.trace and self.trace.tokens else 0

    def take(self, event: Event) -> None:
        if self.trace is not None:
            self.trace.take(event)
        match event:
            case TextDelta():
                self.text += event.text
            case ThinkingDelta():
                self.thinking += event.text
            case ToolCallCompleted():
                self.tool_calls.append(event.call)
            case TokenTrace() if event.stats is not None:
                self.eos_probability = event.stats.eos_probability
            case Finished():
                self.finished = event

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "text": self.text,
            "stop": dataclasses.asdict(self.stop),
            "output_tokens": self.output_tokens,
            "eos_probability": self.eos_probability,
        }


@dataclass(frozen=True, slots=True)
class Spread:
    """The least and the greatest of some numbers, and the quartiles between them."""

    min: float
    lower: float
    median: float
    upper: float
    max: float

    @property
    def cells(self) -> tuple[str, ...]:
        return tuple(f"{value:,.0f}" for value in dataclasses.astuple(self))


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

    @property
    def cells(self) -> tuple[str, ...]:
        """The stop, its count and its cuts as a table shows them."""
        cuts = ", ".join(f"{quoted(text, 24)} × {times:,}" for text, times in self.cuts)
        return quoted(self.text, 24), f"{self.fired:,}", cuts or "nothing"


@dataclass(frozen=True, slots=True)
class EndCounts:
    """How some answers ended; ``ends`` begin with the commonest, ``stops`` are those requested."""

    answers: int
    ends: tuple[EndGroup, ...]
    stops: tuple[StopCount, ...]
    lengths: Spread | None
    eos_odds: Spread | None


@dataclass(slots=True)
class Side:
    """The answers with one list of stops and one setting, with a seed each."""

    name: str
    request: GenerationRequest
    answers: list[SeededAnswer] = field(default_factory=list)

    @property
    def whole(self) -> list[SeededAnswer]:
        return [answer for answer in self.answers if answer.is_whole]

    @property
    def counts(self) -> EndCounts:
        return count_ends(self.answers, self.request.stops)

    @property
    def are_equal(self) -> bool:
        """Whether several answers are the same, so that a higher temperature may be meant."""
        texts = [(answer.text, answer.output_tokens) for answer in self.whole]
        return len(texts) > 1 and len(set(texts)) == 1

    def requests(self) -> list[GenerationRequest]:
        sampling = self.request.sampling
        return [
            replace(self.request, sampling=replace(sampling, seed=answer.seed))
            for answer in self.answers
        ]

    def as_json(self) -> dict[str, Any]:
        counts, each = dataclasses.asdict(self.counts), [one.as_json() for one in self.whole]
        return {"name": self.name, **counts, "each": each}


def make_sides(
    request: GenerationRequest, other: GenerationRequest, seeds: Iterable[int]
) -> list[Side]:
    """Return the side of a request, and that of another one if it differs; no answer has begun."""
    requests = [request] if other == request else [request, other]
    seeds = list(seeds)
    return [Side(_name(r, requests), r, [SeededAnswer(seed) for seed in seeds]) for r in requests]


def sides_to_json(sides: Sequence[Side], *, is_complete: bool) -> dict[str, Any]:
    """Return the ends and texts of one side, with those of another one as ``versus``."""
    first, *others = (side.as_json() for side in sides)
    values = {**first, "is_complete": is_complete}
    return values | ({"versus": others[0]} if others else {})


def compare_sides(one: Side, other: Side) -> str:
    """Return the greatest difference of two sides in a sentence; empty without ended answers.

    For example ``14 of 20 stopped by "User:", 3 with the other list; 12 seeds end differently,
    median length 26 and 40 tokens.``
    """
    pairs = [
        (first, second)
        for first, second in zip(one.answers, other.answers, strict=True)
        if first.is_whole and second.is_whole
    ]
    if not pairs:
        return ""
    stops = {_end_of(answer): answer.stop for pair in pairs for answer in pair}
    ends = [Counter(map(_end_of, side)) for side in zip(*pairs, strict=True)]

    def difference(end: tuple[StopKind, str | int | None]) -> tuple[int, int]:
        return abs(ends[0][end] - ends[1][end]), ends[0][end]  # of none, the commonest end

    end = max(ends[0], key=difference)
    differing = sum(
        (_end_of(first), first.output_tokens) != (_end_of(second), second.output_tokens)
        for first, second in pairs
    )
    lengths = [
        statistics.median(answer.output_tokens for answer in side)
        for side in zip(*pairs, strict=True)
    ]
    seeds = f"{counted(differing, 'seed')} {'ends' if differing == 1 else 'end'}"
    return (
        f"{ends[0][end]} of {len(pairs)} {headline_of_several(stops[end])}, {ends[1][end]} with "
        f"the other {_difference(one.request, other.request)}; "
        f"{seeds if differing else 'no seed ends'} differently, "
        f"median length {lengths[0]:g} and {lengths[1]:g} tokens."
    )


def _end_of(answer: SeededAnswer) -> tuple[StopKind, str | int | None]:
    return answer.stop.kind, answer.stop.value


def _difference(request: GenerationRequest, other: GenerationRequest) -> str:
    stops = request.stops.stops, other.stops.stops
    if stops[0] == stops[1]:
        return "setting"
    same_stops = replace(other, stops=replace(other.stops, stops=stops[0]))
    return "list" if same_stops == request else "list and setting"


def _name(request: GenerationRequest, compared: Sequence[GenerationRequest]) -> str:
    """Return the stops of a request, and the settings that are set or differ from one another."""
    sampling, limit = request.sampling, request.max_tokens
    parts = [", ".join(map(quoted, request.stops.strings)) or "no stops"]
    if sampling.temperature is not None:
        parts.append(f"temperature {sampling.temperature:g}")
    if sampling.top_p is not None and len({one.sampling.top_p for one in compared}) > 1:
        parts.append(f"top p {sampling.top_p:g}")
    if limit is not None and len({one.max_tokens for one in compared}) > 1:
        parts.append(f"at most {counted(limit, 'token')}")
    if len({one.stops.repetition for one in compared}) > 1:
        parts.append("repetition ends it" if request.stops.repetition else "repetition goes on")
    return ", ".join(parts)


def count_ends(answers: Sequence[SeededAnswer], rules: StopRules) -> EndCounts:
    """Count the ends of whole answers to a request with these stops."""
    answers = [answer for answer in answers if answer.is_whole]
    groups: dict[tuple[StopKind, str | int | None], list[SeededAnswer]] = defaultdict(list)
    for answer in answers:
        groups[_end_of(answer)].append(answer)
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

"""Where an answer ends: every stop is tried at every position, token by token."""

from dataclasses import dataclass, replace

from engine.stopping.record import Channel, StopKind
from engine.stopping.repetition import RECORDED, Repetition, RepetitionDetection
from engine.stopping.rules import StopRules, StopScope
from tests.engine.contract.reading import Reading
from tests.engine.contract.reading_state import Tag
from tests.engine.contract.writing.case import Case, first_reading
from tests.engine.contract.writing.cycles import cycle_at_end
from tests.engine.contract.writing.vocabularies import EOS


@dataclass(frozen=True)
class Match:
    """A stop string and where it is: positions in the list of known characters."""

    number: int
    string: str
    start: int
    end: int


def find_match(reading: Reading, rules: StopRules, since: int) -> Match | None:
    """Return the stop that completes first at or after a position, of several the longest."""
    chars = reading.chars
    for end in range(since + 1, len(chars) + 1):
        found: list[Match] = []
        for number, stop in enumerate(rules.stops):
            start = end - len(stop.text)
            if start < 0 or chars[start].part != chars[end - 1].part:
                continue
            if chars[start].channel not in rules.scope_of(stop).channels:
                continue
            text = "".join(char.char for char in chars[start:end])
            if text == stop.text:
                found.append(Match(number, text, start, end))
        if found:
            return min(found, key=lambda match: (-len(match.string), match.number))
    return None


def held_back(reading: Reading, rules: StopRules) -> str:
    """Return the text at the end that could still become a stop, or a tag."""
    if reading.in_header:
        return ""
    stops = [stop for stop in rules.stops if reading.channel in rules.scope_of(stop).channels]
    text = reading.part_text
    depth = max(
        (
            n
            for stop in stops
            for n in range(1, min(len(stop.text), len(text) + 1))
            if stop.text.startswith(text[-n:])
        ),
        default=0,
    )
    return text[len(text) - depth :] + reading.undecided_text


@dataclass(frozen=True)
class End:
    """What ended an answer, before its outcome is worked out.

    Attributes:
        kind: What ended it.
        base: The state in which it ended, its last characters not yet flushed.
        before: The state before the last token.
        token: The last token; None for a cancel.
        count: Tokens in all.
        value: See ``StopInfo``.
        rule_index: See ``StopInfo``.
        tag: The tag that was the stop.
        match: The stop string that was found in the text.
        cycle: The cycle with which the tokens end.
    """

    kind: StopKind
    base: Reading
    before: Reading
    token: int | None
    count: int
    value: str | int | None = None
    rule_index: int | None = None
    tag: Tag | None = None
    match: Match | None = None
    cycle: Repetition | None = None


class Stretch:
    """The tokens of the open channel: those behind the token that opened it."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._begin = 0
        self._tokens: list[int] = []
        self._channel = first_reading(case).channel

    def add(self, token: int, after: Reading, index: int) -> None:
        if after.channel is self._channel:
            self._tokens.append(token)
        else:
            self._begin, self._tokens, self._channel = index + 1, [], after.channel

    def _cycle(self, detection: RepetitionDetection) -> Repetition | None:
        found = None
        if self._channel is not Channel.TOOL:
            found = cycle_at_end(self._tokens, detection)
        return found and replace(found, token_index=self._begin + found.token_index)

    @property
    def is_reasoning(self) -> bool:
        return self._channel is Channel.THINKING

    @property
    def ending(self) -> Repetition | None:
        """The cycle that the request's figures find."""
        figures = self._case.rules.repetition
        return None if figures is None else self._cycle(figures)

    @property
    def recorded(self) -> Repetition | None:
        """The cycle that a record names."""
        return self._cycle(RECORDED)


def ends_reasoning(case: Case) -> bool:
    """Return whether a cycle ends reasoning somewhere in the script."""
    reading, stretch = first_reading(case), Stretch(case)
    for index, token in enumerate(case.script):
        reading = reading.add(token)
        stretch.add(token, reading, index)
        if stretch.is_reasoning and stretch.ending is not None:
            return True
    return False


def end_of(case: Case) -> End:
    eos = case.model.ids[EOS]
    reading, stretch = first_reading(case), Stretch(case)
    for index in range(5000):
        if case.cancel_after == index:
            end = End(StopKind.CANCELLED, reading, reading, None, index)
            return replace(end, cycle=stretch.recorded)
        token = case.script[index] if index < len(case.script) else eos
        end_by_stop = _end_on(case, reading, token, index)
        if end_by_stop is not None:
            return replace(end_by_stop, cycle=stretch.recorded)
        before, reading, count = reading, reading.add(token), index + 1
        stretch.add(token, reading, index)
        cycle = stretch.ending if index >= case.rules.min_tokens else None
        # In reasoning a cycle ends the reasoning alone, which a script does not show.
        if cycle is not None and not stretch.is_reasoning:
            return End(StopKind.REPETITION, reading, before, token, count, cycle=cycle)
        for kind, limit in (
            (StopKind.MAX_TOKENS, case.max_tokens),
            (StopKind.CONTEXT_FULL, case.room),
        ):
            if count == limit:
                return End(kind, reading, before, token, count, cycle=stretch.recorded)
    raise AssertionError("a case that ignores EOS needs a limit")


def _end_on(case: Case, before: Reading, token: int, index: int) -> End | None:
    """Return how the answer ends with a token that is a stop; None if it continues."""
    rules, made = case.rules, case.model
    is_last = token in made.eos and not rules.ignore_eos
    after = before.silent() if is_last else before.add(token)
    count = index + 1
    if index >= rules.min_tokens:
        match = find_match(after, rules, len(before.chars))
        named = _named(case, before, after, token)
        tag = None if named is None else named[1]
        if match is not None and (tag is None or match.end <= tag.known):
            return End(StopKind.STOP_STRING, after, before, token, count, match=match)
        if named is not None:
            number, tag = named
            if token not in made.special and tag is None:
                # Text held for a tag can become none any more, together with this token's own.
                match = find_match(after.settled(), rules, len(before.chars))
                whole = after.flushed()
                if match is not None:
                    return End(StopKind.STOP_STRING, whole, before, token, count, match=match)
            return End(
                StopKind.STOP_TOKEN if number is None else StopKind.STOP_STRING,
                before if tag is None else after,
                before,
                token,
                count,
                value=token if number is None else rules.stops[number].text,
                rule_index=number,
                tag=tag,
            )
    if is_last:
        return End(StopKind.EOS, before, before, token, count)
    return None


def _named(
    case: Case, before: Reading, after: Reading, token: int
) -> tuple[int | None, Tag | None] | None:
    """Return the stop that a token is: its number (None for an id) and the tag it stands for."""
    rules, made = case.rules, case.model
    is_eos = token in made.eos
    in_header = before.in_header
    tags = () if is_eos else after.tags
    own = made.special.get(token)

    def counts(scope: StopScope) -> bool:
        """Return whether a stop of this scope counts at a token that is not a tag."""
        if in_header:
            return scope is StopScope.ALL and own is not None
        return before.channel in scope.channels

    for number, stop in enumerate(rules.stops):
        string, scope = stop.text, rules.scope_of(stop)
        for tag in tags:
            if string == tag.text and scope is StopScope.ALL:
                return number, tag
        if string == own and not tags and counts(scope):
            return number, None
    if token not in rules.token_ids:
        return None
    if is_eos:
        return None, None
    if tags:
        exact = [tag for tag in tags if before.tag_of(token) == tag.text]
        return (None, exact[0]) if exact and rules.scope is StopScope.ALL else None
    return (None, None) if counts(rules.scope) else None

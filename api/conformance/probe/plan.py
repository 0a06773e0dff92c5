"""Plans a run: finds places for stops in a plain answer of the server.

Pure; any thread.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, pairwise, product

from api.conformance.captures.values import Capture, CapturedEnding, first_occurrence
from api.conformance.probe.dialects import Ask
from api.conformance.probe.values import Exchange, Fault

# A server's answers without stops, and their parts that never change.

LEAST_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class Baseline:
    """The answer to one prompt without stops.

    Attributes:
        ask: The request.
        text: The text of the whole answer.
        stable: The text that all its answers have in common.
        thinking: The thinking before it.
        bounds: The ends of a stream's pieces; () if they say nothing about tokens.
        tokens: The tokens of the whole answer.
        ending: Why it ended.
        is_repeatable: Whether the same request gets the same text.
        total_s: How long it took.
        wait_s: How long an answer of one token takes.
        output_ids: The ids of its tokens.
        streamed_text: The text of streams, if it always differs.
        streamed_tokens: The tokens of the streamed answer.
    """

    ask: Ask
    text: str
    stable: str
    thinking: str = ""
    bounds: tuple[int, ...] = ()
    tokens: int | None = None
    ending: CapturedEnding | None = None
    is_repeatable: bool = True
    total_s: float = 0.0
    wait_s: float = 0.0
    output_ids: tuple[int, ...] = ()
    streamed_text: str | None = None
    streamed_tokens: int | None = None

    def text_in(self, *, is_streamed: bool) -> str:
        """Return the answer in one mode."""
        if is_streamed and self.streamed_text is not None:
            return self.streamed_text
        return self.text

    def tokens_in(self, *, is_streamed: bool) -> int | None:
        """Return the token count of the answer in one mode."""
        return self.streamed_tokens if is_streamed else self.tokens

    @property
    def inline_thinking(self) -> str:
        """The text of streams before the answer, if they include the thinking in their text."""
        streamed, answer = self.streamed_text, self.text.strip()
        if streamed is None or not streamed.rstrip().endswith(answer):
            return ""
        return streamed[: streamed.rindex(answer)]

    @property
    def is_usable(self) -> bool:
        """Whether there is enough text to choose stops from."""
        return len(self.stable.strip()) >= LEAST_CHARACTERS


@dataclass(frozen=True, slots=True)
class Baselines:
    """The answers without stops."""

    usable: tuple[Baseline, ...]
    runs: tuple[Exchange, ...]
    faults: tuple[Fault, ...]
    conclusions: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()

    @property
    def is_deterministic(self) -> bool:
        """Whether every prompt got the same answer each time."""
        return all(baseline.is_repeatable for baseline in self.usable)


def bounds(capture: Capture) -> tuple[int, ...]:
    """Return the ends of a stream's pieces; a few large pieces say nothing about tokens."""
    ends: list[int] = []
    seen = 0
    for event in capture.events:
        if event.text:
            seen += len(event.text)
            ends.append(seen)
    return tuple(ends) if len(ends) >= 4 else ()


# Finds the offsets of an answer at which stops can be chosen.

_FROM, _TO = 0.15, 0.6


def places(given: Baseline) -> range:
    """Return the offsets at which a stop may begin; some text must be before and after it."""
    size = len(given.stable)
    return range(max(1, int(size * _FROM)), max(2, int(size * _TO)))


def pieces(given: Baseline, ends: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield those pieces of a stream from which stops may be chosen."""
    allowed = places(given)
    begin = 0
    for end in ends:
        if begin in allowed and end <= len(given.stable):
            yield begin, end
        begin = end


def word_ends(text: str) -> tuple[int, ...]:
    """Return the ends of words; a word includes the space before it, as in most tokenizers."""
    return (*(at for at, char in enumerate(text) if char.isspace() and at), len(text))


def is_plain(char: str) -> bool:
    """Return whether a character is neither white space nor invisible."""
    return char.isprintable() and not char.isspace() and char != "\ufffd"


def is_solid(given: Baseline, start: int, end: int) -> bool:
    """Return whether a text has no white space at its ends and occurs here first."""
    chosen = given.stable[start:end]
    return (
        end <= len(given.stable)
        and is_plain(chosen[0])
        and is_plain(chosen[-1])
        and "\ufffd" not in chosen
        and is_first(given, start, end)
    )


def is_first(given: Baseline, start: int, end: int) -> bool:
    """Return whether this is the first occurrence of a text."""
    return given.stable.find(given.stable[start:end]) == start


# Chooses stops from answers without stops, so that the effect of each is known.

# Looked at for each kind and answer.
_MOST_CHOSEN = 64
# Occurs in no answer.
NEVER = "#~never~"
_JOINER = "\u200d"
_LONGEST_END = 12


@dataclass(frozen=True, slots=True)
class StopCase:
    """Stops for one prompt, and their expected effect.

    Attributes:
        code: The kind of stop.
        baseline: The answer without stops.
        stops: The stops.
        text: The expected text.
        matched: The stop that fires; None if none does.
        why: Why this one fires and no other.
        is_thought: Whether a stop occurs in the thinking too.
    """

    code: str
    baseline: Baseline
    stops: tuple[str, ...]
    text: str
    matched: str | None
    why: str = ""
    is_thought: bool = False

    @property
    def end(self) -> int:
        """The end of the stop in the baseline's text; the text's length if none fires."""
        if self.matched is None:
            return len(self.baseline.text)
        return len(self.text) + len(self.matched)

    def in_mode(self, *, is_streamed: bool) -> "StopCase | None":
        """Return the case for answers of one mode; None if the effect is not known.

        If streams have a different text than whole answers, that is one fault; stops are then
        judged by their effect on the streams' text.
        """
        text = self.baseline.text_in(is_streamed=is_streamed)
        if text == self.baseline.text:
            return self
        occurrence = first_occurrence(text, self.stops)
        if (occurrence.stop if occurrence is not None else None) != self.matched:
            return None
        end = len(text) if occurrence is None else occurrence.start
        behind = self.baseline.text[len(self.text) :]
        if occurrence is not None and self.text != text[:end] and behind != text[end:]:
            return None  # this is another place, or nobody knows which
        return replace(self, baseline=replace(self.baseline, text=text), text=text[:end])


_Chosen = tuple[str, ...]
_Choose = Callable[[Baseline], Iterator[_Chosen]]


def plan(baselines: Sequence[Baseline]) -> list[StopCase]:
    """Return the cases for which an answer has suitable stops, each with the first such answer.

    Stops that occur in the answer alone come first: some servers stop in the thinking, too.
    """
    cases: list[StopCase] = []
    for code, choose, why in _KINDS:
        found = [
            _case(code, baseline, stops, why)
            for baseline in baselines
            for stops in islice(choose(baseline), _MOST_CHOSEN)
            if not any(stop in baseline.inline_thinking or "\ufffd" in stop for stop in stops)
        ]
        case = min(found, key=lambda each: each.is_thought, default=None)
        if case is not None:
            cases.append(case)
    return cases


def missing(cases: Sequence[StopCase]) -> list[str]:
    """Return the codes of the kinds for which no answer has suitable stops."""
    there = {case.code for case in cases}
    return [code for code, _, _ in _KINDS if code not in there]


def _case(code: str, baseline: Baseline, stops: _Chosen, why: str) -> StopCase:
    occurrence = first_occurrence(baseline.text, stops)
    text = baseline.text if occurrence is None else baseline.text[: occurrence.start]
    is_thought = any(stop in baseline.thinking for stop in stops)
    return StopCase(
        code, baseline, stops, text, occurrence.stop if occurrence else None, why, is_thought
    )


# -- choosing ---------------------------------------------------------------------------------


def _one_character(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        if is_plain(given.stable[start]) and is_first(given, start, start + 1):
            yield (given.stable[start],)


def _token_ends(given: Baseline) -> tuple[tuple[int, ...], ...]:
    """Return where tokens end, as the pieces of a stream show it, or as most tokenizers do it.

    A server may send many tokens as one piece, or one in several; tokens seldom cross words.
    """
    is_counted = given.tokens is not None and abs(given.tokens - len(given.bounds)) <= 1
    return (given.bounds,) if is_counted else (given.bounds, word_ends(given.stable))


def _inside_token(given: Baseline) -> Iterator[_Chosen]:
    for begin, end in chain.from_iterable(pieces(given, ends) for ends in _token_ends(given)):
        # Neither the first nor the last character of a piece; else at least not the first.
        for start, stop in ((begin + 1, end - 1), (begin + 1, end)):
            if start < stop and is_solid(given, start, stop):
                yield (given.stable[start:stop],)
                break


def _begins_inside(given: Baseline) -> Iterator[_Chosen]:
    for ends in _token_ends(given):
        for (begin, end), (_, after) in pairwise(pieces(given, ends)):
            for start, stop in product(range(begin + 1, end), range(end + 1, after + 2)):
                if is_solid(given, start, stop):
                    yield (given.stable[start:stop],)
                    break


def _across_tokens(given: Baseline) -> Iterator[_Chosen]:
    for ends in _token_ends(given):
        for here, there in pairwise(end for _, end in pieces(given, ends)):
            # A word includes the space before it.
            for start, stop in ((here - 1, there + 1), (here - 1, here + 1), (here - 1, here + 2)):
                if start > 0 and is_solid(given, start, stop):
                    yield (given.stable[start:stop],)
                    break


def _across_newline(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        chosen = given.stable[start : start + 3]
        is_across = len(chosen) == 3 and [char == "\n" for char in chosen] == [False, True, False]
        if is_across and is_first(given, start, start + 3):
            yield (chosen,)


def _leading_space(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        chosen = given.stable[start : start + 2]
        is_led = len(chosen) == 2 and chosen[0] == " " and is_plain(chosen[1])
        if is_led and is_first(given, start, start + 2):
            yield (chosen,)


def _trailing_space(given: Baseline) -> Iterator[_Chosen]:
    # Without its white space the stop occurs earlier, so that who cuts it stops there.
    for start, length in product(range(1, len(given.stable)), (1, 2, 3)):
        end = start + length
        solid, space = given.stable[start:end], given.stable[end : end + 1]
        is_led = space.isspace() and is_plain(solid[0]) and is_plain(solid[-1])
        if is_led and not is_first(given, start, end) and is_first(given, start, end + 1):
            yield (solid + space,)


def _overlapping(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        first, second = given.stable[start : start + 3], given.stable[start + 2 : start + 5]
        stops = (second, first)
        if len(second) == 3 and _fires(given, stops, first, start):
            yield stops


def _shadowed(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        short, long = given.stable[start : start + 2], given.stable[start : start + 4]
        stops = (long, short)
        if len(long) == 4 and _fires(given, stops, short, start):
            yield stops


def _nested(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        short = given.stable[start + 1 : start + 3]
        stops = (given.stable[start : start + 3] + NEVER, short)
        is_clean = len(short) == 2 and is_solid(given, start, start + 3)
        if is_clean and is_first(given, start + 1, start + 3):
            yield stops


def _after_space(given: Baseline) -> Iterator[_Chosen]:
    for start in places(given):
        if given.stable[start - 1] == " " and is_solid(given, start, start + 2):
            yield (given.stable[start : start + 2],)


def _among_others(given: Baseline) -> Iterator[_Chosen]:
    for (chosen,) in _one_character(given):
        yield (f"{NEVER}1", f"{NEVER}2", chosen, f"{NEVER}3")


def _alike(given: Baseline) -> Iterator[_Chosen]:
    # Longer than any token, so that a part of it could be left.
    for length in (9, 7, 5):
        for start in places(given):
            chosen = given.stable[start : start + length]
            if len(chosen) == length and is_solid(given, start, start + length):
                yield (chosen + NEVER, chosen, chosen[:-1] + NEVER)


def _recurring_prefix(given: Baseline) -> Iterator[_Chosen]:
    counts = {char: given.text.count(char) for char in set(given.text) if char != "\ufffd"}
    often = max(counts, key=lambda char: (counts[char], char), default="")
    if often and given.is_repeatable:
        yield (often + NEVER,)


def _held_at_the_end(given: Baseline) -> Iterator[_Chosen]:
    if given.is_repeatable and len(given.text) >= 2 and "\ufffd" not in given.text[-2:]:
        yield (given.text[-2:] + NEVER,)


def _last_characters(given: Baseline) -> Iterator[_Chosen]:
    text = given.text
    if not given.is_repeatable or given.ending is CapturedEnding.LIMIT or "\ufffd" in text:
        return
    for length in range(1, min(_LONGEST_END, len(text))):
        if text.find(text[-length:]) == len(text) - length:
            yield (text[-length:],)


def _alike_at_the_end(given: Baseline) -> Iterator[_Chosen]:
    for (last,) in _last_characters(given):
        yield (last + NEVER, last)


def _very_first(given: Baseline) -> Iterator[_Chosen]:
    # White space before it may be that of the prompt, which no stop can match.
    first = given.stable.lstrip()[0]
    if is_plain(first):
        yield (first,)


def _unicode(given: Baseline) -> Iterator[_Chosen]:
    for start, char in enumerate(given.stable):
        if start and not char.isascii() and is_plain(char) and is_first(given, start, start + 1):
            yield (char,)


def _ideograph(given: Baseline) -> Iterator[_Chosen]:
    for (char,) in _unicode(given):
        if 0x2E80 < ord(char) <= 0xFFFF:
            yield (char,)


def _emoji(given: Baseline) -> Iterator[_Chosen]:
    for (char,) in _unicode(given):
        if ord(char) > 0xFFFF:
            yield (char,)


def _joined(given: Baseline) -> Iterator[_Chosen]:
    # The second half of what is shown as one character.
    for at, char in enumerate(given.stable):
        half = given.stable[at + 1 : at + 2]
        if at and char == _JOINER and half and is_first(given, at + 1, at + 2):
            yield (half,)


def _after_emoji(given: Baseline) -> Iterator[_Chosen]:
    # Beyond the basic plane: two units of UTF-16, four bytes of UTF-8.
    first = next((at for at, char in enumerate(given.stable) if ord(char) > 0xFFFF), None)
    for start in range(len(given.stable)):
        if first is not None and start > first + 1 and is_solid(given, start, start + 2):
            yield (given.stable[start : start + 2],)


def _fires(given: Baseline, stops: _Chosen, wanted: str, start: int) -> bool:
    """Whether a stop fires before the others, at its offset, without white space around it."""
    occurrence = first_occurrence(given.stable, stops)
    is_clean = all(is_plain(stop[0]) and is_plain(stop[-1]) for stop in stops)
    is_there = all(stop in given.stable for stop in stops)
    return (
        occurrence is not None
        and is_clean
        and is_there
        and (occurrence.stop, occurrence.start) == (wanted, start)
        and len(set(stops)) == len(stops)
    )


_KINDS: tuple[tuple[str, _Choose, str], ...] = (
    ("one_character", _one_character, ""),
    ("inside_token", _inside_token, ""),
    ("begins_inside", _begins_inside, ""),
    ("across_tokens", _across_tokens, ""),
    ("across_newline", _across_newline, ""),
    ("leading_space", _leading_space, ""),
    ("trailing_space", _trailing_space, ""),
    (
        "overlapping",
        _overlapping,
        "the one whose last character comes first",
    ),
    (
        "shadowed",
        _shadowed,
        "the shorter one is complete before the longer one can be",
    ),
    ("nested", _nested, "the longer one around it is never complete"),
    ("after_space", _after_space, ""),
    ("among_others", _among_others, ""),
    ("alike", _alike, "the others that begin like it are never complete"),
    ("recurring_prefix", _recurring_prefix, ""),
    ("held_at_the_end", _held_at_the_end, ""),
    ("last_characters", _last_characters, ""),
    ("alike_at_the_end", _alike_at_the_end, "the longer one is never complete"),
    ("very_first", _very_first, ""),
    ("unicode", _unicode, ""),
    ("ideograph", _ideograph, ""),
    ("emoji", _emoji, ""),
    ("joined", _joined, ""),
    ("after_emoji", _after_emoji, ""),
)


def consecutive_cases(given: Baseline) -> Iterator[tuple[StopCase, StopCase]]:
    """Yield two cases each, whose stops are completed by consecutive pieces of the stream."""
    if not given.is_repeatable:
        return
    cases = (_within(given, begin, end) for begin, end in pieces(given, given.bounds))
    for first, second in pairwise(cases):
        if first is not None and second is not None:
            yield first, second


def _within(given: Baseline, begin: int, end: int) -> StopCase | None:
    """Return a case whose stop is within a piece and occurs in the answer alone."""
    thinking = given.thinking + given.inline_thinking
    for start, stop in product(range(begin, end), range(begin + 1, end + 1)):
        if start < stop and is_solid(given, start, stop):
            chosen = given.stable[start:stop]
            if chosen not in thinking:
                return StopCase("within", given, (chosen,), given.text[:start], chosen)
    return None


def simple_case(given: Baseline, *, is_thinking_safe: bool = False) -> StopCase | None:
    """Return a case of one character, if the answer is repeatable and has one.

    Where every character of the answer occurs in the thinking, too, the stop has two to four. A
    stop that occurs in both is chosen last, and only if the server does not stop in the thinking.
    """
    if not given.is_repeatable:
        return None
    thoughts = [given.thinking + given.inline_thinking]
    thoughts += [given.inline_thinking] if is_thinking_safe else []
    for thinking in thoughts:
        for length in (1, 2, 3, 4):
            for at in (*places(given), *range(1, len(given.stable))):
                end = at + length
                stop = given.stable[at:end]
                is_new = len(stop) == length and stop not in thinking and is_first(given, at, end)
                if is_new and stop[0].isalnum() and stop[-1].isalnum() and "\ufffd" not in stop:
                    return StopCase("simple", given, (stop,), given.text[:at], stop)
    return None

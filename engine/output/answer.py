"""Decides for which of its tokens an answer ends, and makes the record.

The scheduler decides the ends that no token brings, by ``AnswerBuilder.end``: a cancel, an error,
``MEMORY_FULL`` while memory is short, and ``MAX_TOKENS`` of a request that only reads its prompt.

The engine thread feeds an answer one token id at a time and forwards its events. A reader asks what
each id means, splits the text into channels and looks for stops in it. At the end, everything held
is released the same way, the open call is closed, and the reason is chosen by precedence.
"""

import copy
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from engine.output.channel_text import ChannelText
from engine.output.channels import Beginning, Part, Switch
from engine.output.detokenizer import Detokenizer
from engine.output.families import PLAIN, Family
from engine.output.spans import SpanTracker
from engine.output.tool_calls.call_text import CallEnd, NewReader, not_a_call
from engine.output.tool_calls.calls import OpenCalls
from engine.output.vocabulary import Vocabulary
from engine.stopping.matcher import Match, StopMatcher, matcher_of
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.repetition import Repetition, RepetitionDetector, RepetitionScope
from engine.stopping.rules import StopRules, StopScope
from engine.values.events import Event, TextDelta, ThinkingDelta, TokenTrace
from engine.values.tokens import TokenOrigin, TokenStats

_log = logging.getLogger(__name__)

# Read at every token: looking up a name is faster than a member of an enumeration.
_THINKING = Channel.THINKING


@dataclass(frozen=True, slots=True)
class DecodingSetting:
    """The context for reading the answer of a run again without its model.

    Attributes:
        eos_sources: Where each of ``eos`` is named; empty where that is not known.
        context_budget: Tokens that the model's context left for the answer.
        memory_budget: Tokens for which memory was left, where that was less; otherwise None.
        has_bytes: Whether the model's tokens are known byte strings.
        strips_first_space: Whether its decoder drops one space at the very beginning.
    """

    model: str = ""
    family: Family = PLAIN
    beginning: Beginning = field(default_factory=Beginning)
    eos: tuple[int, ...] = ()
    eos_sources: tuple[str, ...] = ()
    context_budget: int = 0
    memory_budget: int | None = None
    has_bytes: bool = True
    strips_first_space: bool = False
    repetition: RepetitionScope = RepetitionScope.ANSWER


@dataclass(frozen=True, slots=True)
class EndToken:
    """The end of an answer by one token, unless text before it ended the answer already."""

    kind: StopKind
    is_eos: bool = False
    rule: int = -1


class EndTokens:
    """The ids and tags that can end one answer."""

    def __init__(self, rules: StopRules, vocabulary: Vocabulary, tags: Mapping[int, str]) -> None:
        self._rules = rules
        self._tags = tags
        self._specials = vocabulary.special
        self._eos = vocabulary.ends(rules)
        self._all_eos = vocabulary.eos if rules.ignore_eos else self._eos
        self._stop_ids = frozenset(rules.token_ids)
        self._rule_of = {stop.text: number for number, stop in enumerate(rules.stops)}
        texts = {
            **{token_id: vocabulary.text_of(token_id) for token_id in self._eos},
            **vocabulary.special,
            **tags,
        }
        # Stop strings that are exactly one token whose text never appears as text.
        self._named = {
            token_id: self._rule_of[text]
            for token_id, text in texts.items()
            if text in self._rule_of
        }
        self.ids = self._eos | self._stop_ids | frozenset(self._named)

    def by_id(
        self, token_id: int, channel: Channel, *, is_armed: bool, in_header: bool
    ) -> EndToken | None:
        is_eos = token_id in self._all_eos
        if is_armed:
            rule = self._named.get(token_id)
            if rule is not None:
                scope = self._rules.scope_of(self._rules.stops[rule])
                if self._counts(token_id, scope, channel, in_header):
                    return EndToken(StopKind.STOP_STRING, is_eos, rule)
            if token_id in self._stop_ids and (
                is_eos or self._counts(token_id, self._rules.scope, channel, in_header)
            ):
                return EndToken(StopKind.STOP_TOKEN, is_eos)
        return EndToken(StopKind.EOS, is_eos) if token_id in self._eos else None

    def _counts(self, token_id: int, scope: StopScope, channel: Channel, in_header: bool) -> bool:
        if token_id in self._tags and token_id not in self._all_eos:
            return scope is StopScope.ALL
        if in_header:
            return scope is StopScope.ALL and token_id in self._specials
        return channel in scope.channels

    def by_tag(self, tag: str) -> EndToken | None:
        rule = self._rule_of.get(tag)
        if rule is None or self._rules.scope_of(self._rules.stops[rule]) is not StopScope.ALL:
            return None
        return EndToken(StopKind.STOP_STRING, rule=rule)


class TokenReader:
    """Reads the tokens of one answer.

    First checks whether an id ends the answer or is a tag. Text goes through the splitter to the
    stop matcher of its channel. Finds that the answer ends; ``AnswerBuilder`` decides why.
    """

    def __init__(
        self,
        text: ChannelText,
        setting: DecodingSetting,
        rules: StopRules,
        vocabulary: Vocabulary,
        detokenizer: Detokenizer,
    ) -> None:
        self.count = 0
        self.thinking_tokens = 0
        # Whether reasoning is open before the last token or after one of its tags.
        self._is_thinking = False
        self.piece = ""
        self.residue = ""
        self.end_token: EndToken | None = None
        self.is_closed_by_tag = False
        self.text = text
        self.splitter = splitter = setting.family.splitter(setting.beginning)
        self._vocabulary = vocabulary
        self._detokenizer = detokenizer
        self._spans = text.spans
        self._min_tokens = rules.min_tokens
        self._end_tokens = EndTokens(rules, vocabulary, splitter.tags)
        # Ids that are more than their text, or have no text.
        self._marked = self._end_tokens.ids.union(splitter.tags, vocabulary.special)
        self._held = ""
        # The end of the text that was sent at the end: it was held back as a possible tag.
        self.undecided = ""
        self._rest: list[str] = []
        text.enter(splitter.channel, strips_space=setting.beginning.strips_space)

    def take(self, token_id: int) -> bool:
        """Take the next sampled id; return whether a stop or an EOS ends the answer."""
        text = self.text
        text.begin_token(is_armed=self.count >= self._min_tokens)
        self.count += 1
        self._is_thinking = text.channel is _THINKING
        if token_id in self._marked:
            self._take_marked(token_id)
        elif self._spans is not None or self.splitter.scans_text:
            self._take_text(self._detokenizer.add(token_id))
        else:  # the usual case
            self.piece = piece = self._detokenizer.add(token_id)
            if piece:
                text.deliver(piece)
        if self._is_thinking:
            self.thinking_tokens += 1
        return text.match is not None or self.end_token is not None

    @property
    def held(self) -> str:
        return self.text.held + self.splitter.held

    def _is_over(self) -> bool:
        return self.text.match is not None or self.end_token is not None

    # -- ids with a meaning ----------------------------------------------------------------

    def _take_marked(self, token_id: int) -> None:
        """Take an id that can be an end, a tag, or a token whose text is skipped."""
        splitter = self.splitter
        ending = self._end_tokens.by_id(
            token_id, self.text.channel, is_armed=self.text.is_armed, in_header=splitter.in_header
        )
        is_tag = token_id in splitter.tags
        special = self._vocabulary.special.get(token_id)
        part = splitter.parts.get(token_id) if self.text.channel is not Channel.TOOL else None
        winner = None if ending is None else self._text_match_before(token_id, ending, part)
        if ending is not None and winner is None:
            self._end_by(ending, token_id if is_tag else None)
        elif is_tag and not self._is_text(token_id):
            self.piece = ""
            truncated = self._detokenizer.cut(token_id)
            if truncated:
                self._take_text("", truncated=truncated)
            self._split(splitter.take_tag(token_id))
        elif part is not None:
            self.piece = ""
            self._split(splitter.feed(part))
        elif is_tag or (special and self._is_part_of_call(token_id)):
            truncated = self._detokenizer.cut(token_id)
            self._take_text(self._name(token_id), truncated=truncated)
        elif special is not None:
            self.piece = self._detokenizer.add(token_id)
            self._deliver(self.piece)
        else:
            self._take_text(self._detokenizer.add(token_id))
        if winner is StopKind.STOP_STRING and self.text.match is None:
            # The stop completes in text that was held back for a tag, which can no longer follow.
            self.release()

    def _own_text(self, token_id: int) -> str | None:
        """Return the text that a token would add; None if it is a tag or has no text here."""
        if token_id in self.splitter.tags:
            return self._name(token_id) if self._is_text(token_id) else None
        if token_id in self._vocabulary.special:
            return self._name(token_id) if self._is_part_of_call(token_id) else None
        return self._detokenizer.peek(token_id)

    def _is_text(self, token_id: int) -> bool:
        """Whether a tag is text here: of a call, or of a call that is quoted in its value."""
        in_call = self.text.channel is Channel.TOOL
        return self.splitter.is_text(token_id) or (in_call and self.text.calls.is_in_nested_call)

    def _name(self, token_id: int) -> str:
        return self.splitter.tags.get(token_id) or self._vocabulary.special[token_id]

    def _is_part_of_call(self, token_id: int) -> bool:
        return (
            self.text.channel is Channel.TOOL
            and self.splitter.keeps_specials
            and token_id not in self._vocabulary.eos
        )

    def _text_match_before(
        self, token_id: int, ending: EndToken, part: str | None
    ) -> StopKind | None:
        """Return what the text of an ending token completes: it wins over the token's id."""
        if ending.is_eos:
            return None
        if part is None:
            part = self._own_text(token_id)
        if part is None:
            return None
        splitter = copy.deepcopy(self.splitter)
        text = ""
        for found in splitter.feed(part):
            if isinstance(found, str):
                text += found
            elif found.tag or found.to is not self.splitter.channel:
                return StopKind.TOOL_CALL
        return StopKind.STOP_STRING if self.text.would_match(text + splitter.held) else None

    def _end_by(self, ending: EndToken, tag_id: int | None) -> None:
        """Note the end; first send the text that was held back before its token."""
        self.piece = ""
        opening = None if tag_id is None else self.splitter.opens(tag_id)
        if tag_id is not None:
            for part in copy.deepcopy(self.splitter).take_tag(tag_id):
                self._count_thinking(part)
        self._held = self.release()
        if self.text.match is not None:
            if opening is not None:
                self._drop(opening)
            return
        if opening is not None:
            self._switch(opening)
        self.is_closed_by_tag = tag_id is not None and opening is None
        self.end_token = ending

    # -- text ------------------------------------------------------------------------------

    def _take_text(self, text: str, *, truncated: str = "") -> None:
        self.piece = piece = truncated + text
        if self._spans is not None and not self.splitter.in_header:
            if truncated:
                self._spans.add_truncated(truncated)
            if text or not truncated:
                self._spans.add(text)
        self._deliver(piece)

    def _deliver(self, piece: str) -> None:
        if self.splitter.scans_text:
            self._split(self.splitter.feed(piece))
        elif piece:
            self.text.deliver(piece)

    def _split(self, parts: Iterable[Part]) -> None:
        for part in parts:
            self._count_thinking(part)
            if self._is_over():
                self._drop(part)
            elif isinstance(part, Switch):
                self._switch(part)
            elif part:
                self.text.deliver(part)

    def _count_thinking(self, part: Part) -> None:
        """Count the tokens of a tag that leads to reasoning, also where a stop ends the answer."""
        if isinstance(part, Switch) and part.to is _THINKING:
            self.thinking_tokens += part.tokens
            self._is_thinking = True

    def _drop(self, part: Part) -> None:
        self._rest.append(part if isinstance(part, str) else part.tag)

    def _switch(self, switch: Switch) -> None:
        if self._spans is not None:
            self._spans.skip(switch.visible)
        held = self.text.flush()
        ending = self._end_tokens.by_tag(switch.tag) if switch.tag and self.text.is_armed else None
        if ending is not None:
            self._held = held
        is_closing = switch.to is Channel.TEXT or (
            self.text.channel is Channel.TOOL and switch.to is _THINKING
        )
        if ending is None or not is_closing:
            # If a closing tag ends the answer, the channel that it would close stays open.
            self._change(switch)
        if self.text.match is None:
            self.end_token = ending

    def _change(self, switch: Switch) -> None:
        is_call = self.text.channel is Channel.TOOL
        is_text = is_call and self.text.close_call(CallEnd.TAG) is not None
        if self.text.match is not None:
            return
        if not (is_text and switch.to is self.text.channel):
            self.text.flush()
            self.text.enter(switch.to, strips_space=switch.strips_space)
        if switch.to is Channel.TOOL:
            self.text.open_call(switch.tool_name)

    def release(self) -> str:
        """Send the text that is held back, in the same way as all text; return it."""
        if self._is_over():
            return self._held
        self.undecided = self.splitter.held
        held = self.text.held + self.undecided
        self.residue = self._detokenizer.finish()
        if self.residue:
            if self._spans is not None and not self.splitter.in_header:
                self._spans.add_truncated(self.residue)
            self._split(self.splitter.feed(self.residue))
        rest = self.splitter.finish()
        if self._is_over():
            self._rest.append(rest)
        elif rest:
            self.text.deliver(rest)
        if self._is_over():
            return ""
        self.text.flush()
        return held

    def take_rest(self) -> str:
        """Return the text after the stop in its last piece, or held back as a possible tag."""
        return "".join(self._rest) + self.splitter.finish()


class AnswerBuilder:
    """One answer, from its tokens to its events and its record.

    Args:
        max_tokens: The request's limit; None for as many tokens as the context has room for.
        reports_spans: Whether to track which tokens the answer's text comes from.
    """

    def __init__(
        self,
        *,
        setting: DecodingSetting,
        rules: StopRules,
        max_tokens: int | None,
        vocabulary: Vocabulary,
        detokenizer: Detokenizer,
        new_reader: NewReader = not_a_call,
        reports_spans: bool = False,
    ) -> None:
        self.vocabulary = vocabulary
        self.spans = SpanTracker() if reports_spans else None
        self._rules = rules
        self._max_tokens = max_tokens
        self._is_short_of_memory = setting.memory_budget is not None
        budget = setting.context_budget if setting.memory_budget is None else setting.memory_budget
        self._limit = min(budget, max_tokens or budget)
        self.calls = OpenCalls(new_reader, _guard(rules))
        self.text = ChannelText(rules, self.calls, self.spans)
        self.reader = TokenReader(self.text, setting, rules, vocabulary, detokenizer)
        self._call_has_stop = False
        self._cycle: Repetition | None = None
        self._can_end_reasoning = setting.repetition is RepetitionScope.REASONING
        self._watched = self.text.channel
        self._detector: RepetitionDetector | None = None
        if setting.repetition is not RepetitionScope.NOTHING:
            self._detector = RepetitionDetector(rules.repetition, rules.min_tokens)
        beginning = setting.beginning
        if beginning.channel is Channel.TOOL:
            self.text.open_call(beginning.tool_name, beginning.call)

    def add(self, token_id: int) -> StopInfo | None:
        """Take the next sampled id; return the record if the answer ends with it."""
        reader = self.reader
        is_over = reader.take(token_id)
        if self._detector is not None and not is_over:
            is_over = self._completes_cycle(self._detector, token_id)
        if is_over or reader.count >= self._limit:
            return self._decide(token_id)
        return None

    def _completes_cycle(self, detector: RepetitionDetector, token_id: int) -> bool:
        """Return whether the answer ends with this token, because it completes a cycle."""
        channel = self.text.channel
        if channel is not self._watched:
            self._watched = channel
            detector.restart(self.reader.count)
            return False
        if channel is Channel.TOOL or (found := detector.add(token_id)) is None:
            return False
        if channel is _THINKING and self._can_end_reasoning:
            return False
        self._cycle = found
        return True

    @property
    def repetition(self) -> Repetition | None:
        """The cycle that ended the answer, or with which its tokens end so far."""
        if self._detector is None or self.text.channel is Channel.TOOL:
            return None
        return self._cycle or self._detector.recorded()

    def end(self, kind: StopKind) -> StopInfo:
        """End the answer for a reason that no token brings; return the record."""
        held = dropped = ""
        length = 0
        self.text.begin_token(is_armed=self.text.is_armed)
        try:
            held = self.reader.release()
            if self.text.channel is Channel.TOOL:
                self.text.cut_call()
            if self.text.match is not None:
                dropped = self._kept(self.text.match).dropped
            length = self.text.length
        except Exception:
            # What ended the answer may happen again; its reader must get an end in any case.
            _log.exception("held text could not be released")
            held = dropped = ""
        return StopInfo(
            kind,
            channel=self.text.channel,
            text_offset=length,
            token_index=self.reader.count - 1 if self.reader.count else None,
            held=held,
            dropped=dropped,
        )

    def take_events(self) -> list[Event]:
        events, self.text.events = self.text.events, []
        return events

    # -- deciding --------------------------------------------------------------------------

    def _decide(self, token_id: int) -> StopInfo:
        held = self.reader.release()
        if self.text.channel is Channel.TOOL:
            held = self._end_call(token_id, held)
        kind = self._kind()
        match = self.text.match
        if kind is StopKind.STOP_TOKEN or (kind is StopKind.STOP_STRING and match is None):
            match = self._matched_by_id(token_id)
        elif match is not None:
            held = ""
            match = self._kept(match)
        value: str | int | None = None
        if kind is StopKind.STOP_STRING and match is not None:
            value = match.value
        elif kind is StopKind.STOP_TOKEN:
            value = token_id
        is_stop = match is not None and kind in (StopKind.STOP_STRING, StopKind.STOP_TOKEN)
        return StopInfo(
            kind=kind,
            value=value,
            token_id=token_id,
            token_text=self.vocabulary.text_of(token_id),
            channel=self.text.channel,
            text_offset=match.offset if match and is_stop else self.text.length,
            token_index=self.reader.count - 1,
            rule_index=match.rule if match and kind is StopKind.STOP_STRING else None,
            held=held,
            dropped=match.dropped if match else "",
            source=self.vocabulary.eos_sources.get(token_id) if kind is StopKind.EOS else None,
        )

    def _kind(self) -> StopKind:
        ending = self.reader.end_token
        by_eos = ending is not None and ending.is_eos
        if self.text.has_new_call or (self.calls.count and by_eos and self.text.match is None):
            return StopKind.TOOL_CALL
        if self.text.match is not None:
            return StopKind.STOP_STRING
        if ending is not None:
            return ending.kind
        if self._cycle is not None:
            return StopKind.REPETITION
        if self._max_tokens is not None and self.reader.count >= self._max_tokens:
            return StopKind.MAX_TOKENS
        return StopKind.MEMORY_FULL if self._is_short_of_memory else StopKind.CONTEXT_FULL

    def _end_call(self, token_id: int, held: str) -> str:
        """End the open call with the answer: it is complete, or is plain text, or was cut short.

        Takes the held text as a part of the call, and returns the text held in the end.
        """
        ending = self.reader.end_token
        if ending is None and self.text.match is None and self.reader.splitter.closes_calls:
            self.text.cut_call()  # by a limit, before its end
        elif self.calls.is_blank and not (
            self.reader.is_closed_by_tag or (ending is not None and ending.is_eos)
        ):
            self.text.cut_call()  # by a stop, before its arguments
        elif ending is None or not ending.is_eos:
            by = CallEnd.TAG if self.reader.is_closed_by_tag else CallEnd.CUT
            self._call_has_stop = self.text.end_call(by, self._kept_stop(token_id))
        else:
            text_held = self.text.close_call(CallEnd.EOS, self.reader.undecided)
            held = held if text_held is None else text_held
            if self.text.match is None:
                self.text.flush()
        return held

    def _kept_stop(self, token_id: int) -> str:
        """Return the stop that ends the answer, where it is kept."""
        match, ending = self.text.match, self.reader.end_token
        if not self._rules.include_stop:
            return ""
        if match is not None:
            return match.value
        return "" if ending is None else self._text_of_stop(ending, token_id)

    def _text_of_stop(self, ending: EndToken, token_id: int) -> str:
        if ending.kind is StopKind.STOP_STRING:
            return self._rules.stops[ending.rule].text
        return self.vocabulary.text_of(token_id)

    def _kept(self, match: Match) -> Match:
        """Keep or drop the matched stop; drop the rest of its last piece."""
        dropped = match.dropped + self.reader.take_rest()
        if self._call_has_stop:
            dropped = dropped[len(match.value) :]
        elif self._rules.include_stop and not self.text.has_new_call:
            self.text.keep(match.value)
            dropped = dropped[len(match.value) :]
        return Match(match.rule, match.value, match.offset, dropped)

    def _matched_by_id(self, token_id: int) -> Match:
        """Return the match of a stop by token or tag; keep or drop its text."""
        ending = self.reader.end_token
        assert ending is not None, "decided by the ending"
        rule = ending.rule
        text = self._text_of_stop(ending, token_id)
        offset = self.text.length
        dropped = self.reader.take_rest()
        if self._rules.include_stop and not self.reader.splitter.in_header:
            if self.spans is not None:
                self.spans.add(text)
                self.spans.deliver(len(text), self.text.channel)
            self.reader.piece += text
            self.text.keep(text)
        else:
            dropped = text + dropped
        return Match(rule, text, offset, dropped)


def _guard(rules: StopRules) -> StopMatcher | None:
    """Return the matcher for calls that may turn out to be text; None if no stop counts there."""
    in_text = rules.counting_in(Channel.TEXT)
    if not in_text or in_text == rules.counting_in(Channel.TOOL):
        return None
    return matcher_of(rules, in_text)


def feed_traced(
    builder: AnswerBuilder,
    token_id: int,
    time_s: float,
    stats: TokenStats | None,
    origin: TokenOrigin = TokenOrigin.SAMPLED,
) -> StopInfo | None:
    """Feed a token to an answer, with a ``TokenTrace`` among its events; return as ``add`` does."""
    before = builder.text.channel
    count = len(builder.text.events)
    spans = builder.spans
    raw = builder.vocabulary.bytes_of(token_id)
    if spans is not None:
        spans.begin(builder.reader.count, token_id, raw, stats)
    stop = builder.add(token_id)
    released = 0
    for event in builder.text.events[count:]:
        if isinstance(event, (TextDelta, ThinkingDelta)):
            released += len(event.text)
    builder.text.events.append(
        TokenTrace(
            index=builder.reader.count - 1,
            token_id=token_id,
            piece=builder.reader.piece,
            raw=raw,
            channel=builder.text.channel if before is Channel.TEXT else before,
            time_s=time_s,
            released=released,
            held="" if stop is not None else builder.reader.held,
            progress=builder.text.progress,
            special=builder.vocabulary.special.get(token_id),
            stats=stats,
            settled=() if spans is None else spans.settle(is_over=stop is not None),
            origin=origin,
        )
    )
    return stop

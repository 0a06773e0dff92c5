"""Turns the sampled tokens of one answer into events and decides why the answer ends.

The only place where a ``StopInfo`` is made. Pure: knows no MLX, no thread, no clock. The engine
thread feeds it one token id at a time and sends on what it has written to ``events``.
"""

from dataclasses import dataclass

from engine.calls import CallParser, OpenCalls
from engine.channels import Splitter, Switch
from engine.detokenizer import Detokenizer
from engine.events import Event, TextDelta, ThinkingDelta
from engine.stopping.matcher import Match, StopMatcher
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class AnswerLimits:
    """How long an answer may get, in tokens: what was asked for, and what the context leaves."""

    max_tokens: int | None
    context_room: int

    @property
    def most(self) -> int:
        """The smaller of the two."""
        return min(self.context_room, self.max_tokens or self.context_room)

    def reached(self, count: int) -> StopKind:
        """Say which limit ends an answer of ``count`` tokens."""
        asked = self.max_tokens is not None and count >= self.max_tokens
        return StopKind.MAX_TOKENS if asked else StopKind.CONTEXT_FULL


class AnswerBuilder:
    """The pipeline of one answer: ids → text → channels → stop matching → events.

    Attributes:
        events: What is to be sent on; the caller takes and clears it.
        count: Tokens fed so far.
        thinking_tokens: Those of them that belong to reasoning.
        vocabulary: What token ids stand for.
        piece: The text that the last token completed.
        residue: The text that appeared only when the detokenizer was finalised.
    """

    def __init__(
        self,
        *,
        vocabulary: Vocabulary,
        detokenizer: Detokenizer,
        splitter: Splitter,
        rules: StopRules,
        limits: AnswerLimits,
        parse_calls: CallParser,
    ) -> None:
        self.events: list[Event] = []
        self.count = 0
        self.thinking_tokens = 0
        self.piece = ""
        self.residue = ""
        self.vocabulary = vocabulary
        self._detokenizer = detokenizer
        self._splitter = splitter
        self._rules = rules
        self._limits = limits
        self._most = limits.most
        self._calls = OpenCalls(parse_calls)
        self._counting: tuple[int, ...] = ()
        self._stop_ids = frozenset(rules.token_ids)
        self._special_stops = _special_stops(rules, vocabulary)
        eos = frozenset() if rules.ignore_eos else vocabulary.eos
        self._eos = eos
        self._ending_ids = eos | self._stop_ids | frozenset(self._special_stops)
        self._boundary_ids = splitter.boundary_ids
        self._lengths = dict.fromkeys(Channel, 0)
        self._strips_space = False
        self._match: Match | None = None
        self._matcher: StopMatcher | None = None
        self._channel = splitter.channel
        self._open_matcher()

    # -- feeding ---------------------------------------------------------------------------

    def add(self, token_id: int) -> StopInfo | None:
        """Take the next sampled id; return the record if the answer ends with it."""
        is_armed = self.count >= self._rules.min_tokens
        self.count += 1
        thinks = self._channel is Channel.THINKING
        ending: StopKind | None = None
        value: int | None = None
        if token_id in self._ending_ids:
            ending, value, piece = self._ended_by_id(token_id, is_armed)
        else:
            piece = self._detokenizer.add(token_id)
            if not piece and self._channel is Channel.TOOL:
                # Parsers of calls read the special tokens between a call's parts.
                piece = self.vocabulary.special.get(token_id, "")
        self.piece = piece
        if token_id in self._boundary_ids or self._splitter.scans_text:
            self._split(token_id, piece, is_armed)
            thinks = thinks or self._channel is Channel.THINKING
        elif piece:
            self._deliver(piece, is_armed)
        if thinks:
            self.thinking_tokens += 1
        if ending is None and self._match is None and self.count < self._most:
            self._calls.is_fresh = False
            return None
        return self._decide(token_id, ending, value, is_armed)

    @property
    def unfinished_call(self) -> str:
        """Raw text of a tool call that the end cut short."""
        return self._calls.unfinished

    @property
    def channel(self) -> Channel:
        """The channel that is open now."""
        return self._channel

    @property
    def held(self) -> str:
        """The text that the matcher holds back now."""
        return self._matcher.held if self._matcher is not None else ""

    @property
    def progress(self) -> tuple[int, ...]:
        """For each stop string, how many of its first characters the text now ends with."""
        count = len(self._rules.strings)
        if self._matcher is None:
            return (0,) * count
        if len(self._counting) == count:
            return self._matcher.progress
        found = dict(zip(self._counting, self._matcher.progress, strict=True))
        return tuple(found.get(number, 0) for number in range(count))

    def end(self, kind: StopKind) -> StopInfo:
        """End the answer from outside (``CANCELLED`` or ``ERROR``) and return the record."""
        self._release_residue(is_armed=True)
        held = self._flush_held()
        self._close_call(may_parse=False)
        return StopInfo(
            kind,
            channel=self._channel,
            text_offset=self._lengths[self._channel],
            token_index=self.count - 1 if self.count else None,
            held=held,
            dropped=self._match.dropped if self._match else "",
        )

    def _ended_by_id(
        self, token_id: int, is_armed: bool
    ) -> tuple[StopKind | None, int | None, str]:
        """Judge an id that can end the answer; return kind, value and the text to deliver."""
        rule = self._special_stops.get(token_id)
        if rule is not None and is_armed and rule in self._counting:
            self._match_special(rule)
            return StopKind.STOP_STRING, None, ""
        if token_id in self._stop_ids and is_armed:
            piece = self._detokenizer.peek(token_id)
            if self._would_match(piece):
                return None, None, self._detokenizer.add(token_id)
            return StopKind.STOP_TOKEN, token_id, ""
        if token_id in self._eos:
            return StopKind.EOS, None, ""
        return None, None, self._detokenizer.add(token_id)

    def _would_match(self, piece: str) -> bool:
        return self._matcher is not None and self._matcher.would_match(piece)

    def _match_special(self, rule: int) -> None:
        """A special token whose text is a stop string: release what was held, then stop there."""
        self._flush_held()
        value = self._rules.strings[rule]
        offset = self._lengths[self._channel]
        keep = self._rules.include_stop
        if keep:
            self._emit(value)
        self._match = Match(rule, value, offset, "" if keep else value)

    def _split(self, token_id: int, piece: str, is_armed: bool) -> None:
        for part in self._splitter.feed(token_id, piece):
            if isinstance(part, Switch):
                self._switch(part, is_armed)
            elif part:
                self._deliver(part, is_armed)
            if self._match is not None:
                return

    def _deliver(self, text: str, is_armed: bool) -> None:
        if self._strips_space:
            text = text.lstrip()
            if not text:
                return
            self._strips_space = False
        matcher = self._matcher
        if matcher is None:
            self._emit(text)
            return
        self._emit(matcher.feed(text, is_armed=is_armed))
        found = matcher.match
        if found is not None:
            rule, offset = self._counting[found.rule], self._base + found.offset
            self._match = Match(rule, found.value, offset, found.dropped)

    def _emit(self, text: str) -> None:
        if not text:
            return
        channel = self._channel
        self._lengths[channel] += len(text)
        if channel is Channel.TEXT:
            self.events.append(TextDelta(text))
        elif channel is Channel.THINKING:
            self.events.append(ThinkingDelta(text))
        else:
            self._calls.add(text)

    # -- channels --------------------------------------------------------------------------

    def _open_matcher(self) -> None:
        rules = self._rules
        self._counting = rules.counting_in(self._channel)
        strings = tuple(rules.strings[number] for number in self._counting)
        self._matcher = StopMatcher(strings, keep_stop=rules.include_stop) if strings else None
        self._base = self._lengths[self._channel]

    def _flush_held(self) -> str:
        held = self._matcher.flush() if self._matcher is not None else ""
        self._emit(held)
        return held

    def _switch(self, switch: Switch, is_armed: bool) -> None:
        self._flush_held()
        is_text = self._text_of_call(may_parse=True, is_armed=is_armed)
        if self._match is not None:
            return
        if not (is_text and switch.to is Channel.TEXT):
            self._flush_held()
            self._enter(switch.to)
        self._strips_space = switch.strips_space
        self._calls.name = switch.tool_name

    def _enter(self, channel: Channel) -> None:
        self._channel = channel
        self._strips_space = False
        self._open_matcher()

    def _text_of_call(self, *, may_parse: bool, is_armed: bool) -> bool:
        """Close the open call; what turns out to be none is text, and stops count in it.

        Returns:
            Whether it was text; the channel is the text's then.
        """
        stray = self._close_call(may_parse=may_parse)
        if stray:
            self._enter(Channel.TEXT)
            self._deliver(stray, is_armed)
        return bool(stray)

    def _close_call(self, *, may_parse: bool) -> str:
        """End the open call, if there is one; return its text if it cannot be parsed."""
        if self._channel is not Channel.TOOL:
            return ""
        if not may_parse:
            self._calls.cut()
            return ""
        events, stray = self._calls.close()
        self.events += events
        return stray

    # -- deciding --------------------------------------------------------------------------

    def _release_residue(self, *, is_armed: bool) -> None:
        """Send what detokenizer and splitter still keep through the matcher."""
        if self._match is not None:
            return
        self.residue = self._detokenizer.finish()
        if self.residue:
            self._split(-1, self.residue, is_armed)
        rest = self._splitter.finish()
        if rest and self._match is None:
            self._deliver(rest, is_armed)

    def _decide(
        self, token_id: int, ending: StopKind | None, value: int | None, is_armed: bool
    ) -> StopInfo:
        self._release_residue(is_armed=is_armed)
        held = ""
        if self._match is None:
            held = self._flush_held()
            self._text_of_call(may_parse=ending is StopKind.EOS, is_armed=is_armed)
            if self._match is None:
                held = self._flush_held() or held
        else:
            self._close_call(may_parse=False)
        match = self._match
        at_limit = self.count >= self._most
        kind: StopKind
        if self._calls.is_fresh or (ending is StopKind.EOS and self._calls.count and not at_limit):
            kind = StopKind.TOOL_CALL
        elif match is not None:
            kind = StopKind.STOP_STRING
        elif ending is StopKind.STOP_TOKEN:
            kind = StopKind.STOP_TOKEN
        elif at_limit:
            kind = self._limits.reached(self.count)
        else:
            kind = StopKind.EOS
        is_string = match is not None and kind is StopKind.STOP_STRING
        dropped = match.dropped if match is not None else ""
        if kind is StopKind.STOP_TOKEN:
            dropped = self._stopped_by_id(token_id)
        return StopInfo(
            kind=kind,
            value=match.value
            if match is not None and is_string
            else value
            if kind is StopKind.STOP_TOKEN
            else None,
            token_id=token_id,
            token_text=self.vocabulary.text_of(token_id),
            channel=self._channel,
            text_offset=match.offset
            if match is not None and is_string
            else self._lengths[self._channel],
            token_index=self.count - 1,
            rule_index=match.rule if match is not None and is_string else None,
            held=held,
            dropped=dropped,
        )

    def _stopped_by_id(self, token_id: int) -> str:
        """Keep or drop the text of a stop id; return what was dropped."""
        text = self.vocabulary.text_of(token_id)
        if self._rules.include_stop:
            self._emit(text)
            return ""
        return text


def _special_stops(rules: StopRules, vocabulary: Vocabulary) -> dict[int, int]:
    """Stop strings that are the text of one special token, whose text never appears otherwise."""
    found: dict[int, int] = {}
    for index, string in enumerate(rules.strings):
        token_id = vocabulary.special_id(string)
        if token_id is not None:
            found[token_id] = index
    return found

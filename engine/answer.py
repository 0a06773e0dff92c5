"""Turns the sampled tokens of one answer into events and decides why the answer ends.

The only place where a ``StopInfo`` is made. Pure: knows no MLX, no thread, no clock. The engine
thread feeds it one token id at a time and sends on what it has written to ``events``.

An id is first asked what it means (``engine.endings``); what is text goes through the splitter
of channels, the stripping of white space and the stop matcher of its channel. When the answer
ends, everything held is released the same way, and the reason is decided by precedence.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from engine.calls import CallParser, OpenCalls
from engine.channels import Beginning, Part, Splitter, Switch
from engine.detokenizer import Detokenizer
from engine.endings import Ending, Endings
from engine.events import Event, TextDelta, ThinkingDelta
from engine.sources import Sources
from engine.stopping.matcher import Match, StopMatcher
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.vocabulary import Vocabulary

_START = Beginning()


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

    Args:
        vocabulary: What token ids stand for.
        detokenizer: Makes text of them.
        splitter: Follows the channels of the answer.
        rules: The stops of the request.
        limits: How long the answer may get.
        parse_calls: The parser of the model's tool calls.
        beginning: Where the prompt leaves the answer.
        sources: Told of which tokens the answer's text is made of, if somebody asks.

    Attributes:
        events: What is to be sent on; the caller takes and clears it.
        count: Tokens fed so far.
        thinking_tokens: Those of them that belong to reasoning.
        vocabulary: What token ids stand for.
        piece: The text that the last token completed.
        residue: The text that appeared only when the detokenizer was finalised.
        is_structure: Whether the last token that means more than its text was none: its bytes
            are no part of a character. Whoever asks resets it.
        sources: As given.
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
        beginning: Beginning = _START,
        sources: Sources | None = None,
    ) -> None:
        self.events: list[Event] = []
        self.count = 0
        self.thinking_tokens = 0
        self.piece = ""
        self.residue = ""
        self.is_structure = False
        self.vocabulary = vocabulary
        self.sources = sources
        self._detokenizer = detokenizer
        self._splitter = splitter
        self._rules = rules
        self._limits = limits
        self._most = limits.most
        self._least = rules.min_tokens
        self._calls = OpenCalls(parse_calls)
        self._calls.continue_call(beginning.call, beginning.tool_name)
        self._endings = Endings(rules, vocabulary, splitter.tags)
        # Ids that mean more than their text, or have none.
        self._marked = self._endings.ids.union(splitter.tags, vocabulary.special)
        self._lengths = dict.fromkeys(Channel, 0)
        self._matchers: dict[tuple[int, ...], StopMatcher] = {}
        self._strips_space = False
        # The end, once there is one: by a stop in the text, or by a token or tag.
        self._match: Match | None = None
        self._ending: Ending | None = None
        self._held = ""
        self._rest: list[str] = []
        self._enter(splitter.channel)

    # -- feeding ---------------------------------------------------------------------------

    def add(self, token_id: int) -> StopInfo | None:
        """Take the next sampled id; return the record if the answer ends with it."""
        is_armed = self.count >= self._least
        self.count += 1
        thinks = self._channel is Channel.THINKING
        if token_id in self._marked:
            self._take_marked(token_id, is_armed)
        else:
            self._take_text(self._detokenizer.add(token_id), is_armed)
        if thinks or self._channel is Channel.THINKING:
            self.thinking_tokens += 1
        if self._match is None and self._ending is None and self.count < self._most:
            self._calls.is_fresh = False
            return None
        return self._decide(token_id, is_armed)

    @property
    def unfinished_call(self) -> str:
        """Raw text of a tool call that the end cut short."""
        return self._calls.unfinished

    def _is_over(self) -> bool:
        return self._match is not None or self._ending is not None

    @property
    def channel(self) -> Channel:
        """The channel that is open now."""
        return self._channel

    @property
    def held(self) -> str:
        """The text that is held back now, because it could become a stop or a tag."""
        matcher = self._matcher
        return (matcher.held if matcher is not None else "") + self._splitter.held

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
        held = self._release(is_armed=self.count > self._least)
        if self._channel is Channel.TOOL:
            self._calls.cut()
        match = self._kept(self._match) if self._match is not None else None
        return StopInfo(
            kind,
            channel=self._channel,
            text_offset=self._lengths[self._channel],
            token_index=self.count - 1 if self.count else None,
            held=held,
            dropped=match.dropped if match is not None else "",
        )

    # -- what an id means ------------------------------------------------------------------

    def _take_marked(self, token_id: int, is_armed: bool) -> None:
        """Take an id that can be an end, a tag, or a token whose text is skipped."""
        splitter = self._splitter
        self.is_structure = True
        ending = self._endings.ending(
            token_id, self._channel, is_armed=is_armed, in_header=splitter.in_header
        )
        is_tag = token_id in splitter.tags
        special = self.vocabulary.special.get(token_id)
        part = splitter.parts.get(token_id) if self._channel is not Channel.TOOL else None
        winner = None if ending is None else self._outdone(token_id, ending, part)
        if ending is not None and winner is None:
            self._end_by(ending, token_id if is_tag else None, is_armed)
        elif is_tag and not splitter.is_text(token_id):
            self.piece = ""
            truncated = self._detokenizer.cut(token_id)
            if truncated:
                self._take_text(truncated, is_armed)
            self._split(splitter.take_tag(token_id), is_armed)
        elif part is not None:
            self.piece = ""
            self._split(splitter.feed(part), is_armed)
        elif is_tag or (special and self._is_part_of_call(token_id)):
            # Parsers of calls read the special tokens between a call's parts.
            text = splitter.tags[token_id] if is_tag else special
            self._take_text(self._detokenizer.cut(token_id) + str(text), is_armed)
        else:
            self.is_structure = special is not None
            self._take_text(self._detokenizer.add(token_id), is_armed)
        if winner is StopKind.STOP_STRING and self._match is None:
            # It completes in text that is held for a tag, which can come no more.
            self._release(is_armed)

    def _is_part_of_call(self, token_id: int) -> bool:
        return (
            self._channel is Channel.TOOL
            and self._splitter.keeps_specials
            and token_id not in self.vocabulary.eos
        )

    def _outdone(self, token_id: int, ending: Ending, part: str | None) -> StopKind | None:
        """Say what completes in the text of an ending token and so wins over its id.

        Returns:
            ``STOP_STRING``, ``TOOL_CALL`` for a tag, or None.
        """
        if token_id in self._splitter.tags or (
            part is None and token_id in self.vocabulary.special
        ):
            return None
        text = self._splitter.preview(self._detokenizer.peek(token_id) if part is None else part)
        if text is None:
            return None if ending.is_eos else StopKind.TOOL_CALL
        if self._strips_space:
            text = text.lstrip()
        is_matched = self._matcher is not None and self._matcher.would_match(text)
        return StopKind.STOP_STRING if is_matched else None

    def _end_by(self, ending: Ending, tag_id: int | None, is_armed: bool) -> None:
        """Note the end; what was held before its token goes out first."""
        self.piece = ""
        self._held = self._release(is_armed)
        if self._match is not None:
            return
        opening = None if tag_id is None else self._splitter.opens(tag_id)
        if opening is not None:
            self._switch(opening, is_armed)
        self._ending = ending

    # -- text ------------------------------------------------------------------------------

    def _take_text(self, piece: str, is_armed: bool) -> None:
        self.piece = piece
        if self.sources is not None and not self._splitter.in_header:
            self.sources.add(self.count - 1, piece)
        if self._splitter.scans_text:
            self._split(self._splitter.feed(piece), is_armed)
        elif piece:
            self._deliver(piece, is_armed)

    def _split(self, parts: Iterable[Part], is_armed: bool) -> None:
        for part in parts:
            if self._is_over():
                self._drop(part)
            elif isinstance(part, Switch):
                self._switch(part, is_armed)
            elif part:
                self._deliver(part, is_armed)

    def _drop(self, part: Part) -> None:
        """Throw away what comes after the end."""
        if isinstance(part, str):
            self._rest.append(part)
            return
        self._rest.append(part.tag)
        if part.to is Channel.THINKING:
            self.thinking_tokens += part.tokens + 1

    def _deliver(self, text: str, is_armed: bool) -> None:
        if self._strips_space:
            text = self._stripped(text)
            if not text:
                return
        if self.sources is not None:
            self.sources.deliver(len(text), self._channel)
        matcher = self._matcher
        if matcher is None:
            self._emit(text)
            return
        self._emit(matcher.feed(text, is_armed=is_armed))
        found = matcher.match
        if found is not None:
            rule, offset = self._counting[found.rule], self._base + found.offset
            self._match = Match(rule, found.value, offset, found.dropped)

    def _stripped(self, text: str) -> str:
        left = text.lstrip()
        self._strips_space = not left
        if self.sources is not None:
            self.sources.skip(len(text) - len(left))
        return left

    def _emit(self, text: str) -> None:
        if not text:
            return
        channel = self._channel
        self._lengths[channel] += len(text)
        if channel is Channel.TEXT:
            self.events.append(TextDelta(text))
            if self.sources is not None:
                self.sources.release(len(text))
        elif channel is Channel.THINKING:
            self.events.append(ThinkingDelta(text))
        else:
            self._calls.add(text)

    # -- channels --------------------------------------------------------------------------

    def _enter(self, channel: Channel) -> None:
        self._channel = channel
        self._strips_space = False
        self._base = self._lengths[channel]
        self._counting = counting = self._rules.counting_in(channel)
        self._matcher = self._matchers.get(counting)
        if self._matcher is not None:
            self._matcher.restart()
        elif counting:
            strings = self._rules.strings
            self._matcher = StopMatcher(tuple(strings[number] for number in counting))
            self._matchers[counting] = self._matcher

    def _flush_held(self) -> str:
        held = self._matcher.flush() if self._matcher is not None else ""
        self._emit(held)
        return held

    def _switch(self, switch: Switch, is_armed: bool) -> None:
        if self.sources is not None:
            self.sources.skip(switch.visible)
        held = self._flush_held()
        ending = self._endings.by_tag(switch.tag) if switch.tag and is_armed else None
        if ending is not None:
            self._held = held
        if ending is None or switch.to is not Channel.TEXT:
            # A closing tag that ends the answer leaves open what it closes: that ends there.
            self._change(switch, is_armed)
        if self._match is None:
            self._ending = ending

    def _change(self, switch: Switch, is_armed: bool) -> None:
        is_text = self._channel is Channel.TOOL and self._close_call(is_armed)
        if self._match is not None:
            return
        if not (is_text and switch.to is Channel.TEXT):
            self._flush_held()
            self._enter(switch.to)
            self._strips_space = switch.strips_space
        if switch.to is Channel.THINKING:
            self.thinking_tokens += switch.tokens
        self._calls.name = switch.tool_name

    def _close_call(self, is_armed: bool) -> bool:
        """Close the open call; what turns out to be none is text, and stops count in it.

        Returns:
            Whether it was text; the channel is the text's then.
        """
        stray = self._parse_call()
        self._lengths[Channel.TOOL] = 0
        if stray:
            if self.sources is not None:
                self.sources.take_back_call()
            self._enter(Channel.TEXT)
            self._deliver(stray, is_armed)
        return bool(stray)

    def _parse_call(self) -> str:
        """Take the open call as complete; return its text if it is none."""
        events, stray = self._calls.close()
        self.events += events
        if events and self.sources is not None:
            self.sources.drop_call()
        return stray

    # -- the end ---------------------------------------------------------------------------

    def _release(self, is_armed: bool) -> str:
        """Send what is held through the same chain as any text; return what was held."""
        if self._is_over():
            return ""
        held = self.held
        self.residue = self._detokenizer.finish()
        if self.residue:
            if self.sources is not None and not self._splitter.in_header:
                self.sources.add(self.count - 1, self.residue)
            self._split(self._splitter.feed(self.residue), is_armed)
        rest = self._splitter.finish()
        if self._is_over():
            self._rest.append(rest)
        elif rest:
            self._deliver(rest, is_armed)
        if self._is_over():
            return ""
        self._flush_held()
        return held

    def _decide(self, token_id: int, is_armed: bool) -> StopInfo:
        """Say why the answer ends with this token."""
        held = self._release(is_armed) or self._held
        if self._channel is Channel.TOOL:
            held = self._end_call(is_armed) or held
        kind = self._kind()
        match = self._match
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
            channel=self._channel,
            text_offset=match.offset if match and is_stop else self._lengths[self._channel],
            token_index=self.count - 1,
            rule_index=match.rule if match and kind is StopKind.STOP_STRING else None,
            held=held,
            dropped=match.dropped if match else "",
        )

    def _kind(self) -> StopKind:
        """Choose the reason by precedence."""
        ending = self._ending
        by_eos = ending is not None and ending.is_eos
        if self._calls.is_fresh or (self._calls.count and by_eos and self._match is None):
            return StopKind.TOOL_CALL
        if self._match is not None:
            return StopKind.STOP_STRING
        if ending is not None:
            return ending.kind
        return self._limits.reached(self.count)

    def _end_call(self, is_armed: bool) -> str:
        """End the open call with the answer: it is whole, or text, or was cut short.

        Returns:
            What was held of its text, where it turned out to be text.
        """
        ending = self._ending
        if ending is None and self._match is None and self._splitter.closes_calls:
            self._calls.cut()  # by a limit, before its end came
        elif ending is None or not ending.is_eos:
            self._calls.unfinished = self._parse_call()
        elif self._close_call(is_armed) and self._match is None:
            return self._flush_held()
        return ""

    def _kept(self, match: Match) -> Match:
        """Keep or drop the stop in the text that matched; add the rest of its last piece."""
        dropped = match.dropped + "".join(self._rest) + self._splitter.finish()
        if self._rules.include_stop and not self._calls.is_fresh:
            self._keep(match.value)
            dropped = dropped[len(match.value) :]
        return Match(match.rule, match.value, match.offset, dropped)

    def _matched_by_id(self, token_id: int) -> Match:
        """Return the match of a stop by token or tag, its text kept or dropped."""
        assert self._ending is not None, "decided by the ending"
        rule = self._ending.rule
        is_string = self._ending.kind is StopKind.STOP_STRING
        text = self._rules.strings[rule] if is_string else self.vocabulary.text_of(token_id)
        offset = self._lengths[self._channel]
        dropped = "".join(self._rest)
        if self._rules.include_stop and not self._splitter.in_header:
            if self.sources is not None:
                self.sources.add(self.count - 1, text)
                self.sources.deliver(len(text), self._channel)
            self.piece += text
            self._keep(text)
        else:
            dropped = text + dropped
        return Match(rule, text, offset, dropped)

    def _keep(self, stop: str) -> None:
        if self._channel is Channel.TOOL:
            self._calls.unfinished += stop
        else:
            self._emit(stop)

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
from engine.channel_text import ChannelText
from engine.channels import Beginning, Part, Splitter, Switch
from engine.detokenizer import Detokenizer
from engine.endings import Ending, Endings
from engine.events import Event
from engine.sources import Sources
from engine.stopping.matcher import Match
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.vocabulary import Vocabulary

_START = Beginning()
# A member of an enumeration is looked up more slowly than a name, and this is asked at every token.
_THINKING = Channel.THINKING


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
        calls = OpenCalls(parse_calls)
        calls.continue_call(beginning.call, beginning.tool_name)
        self._text = ChannelText(rules, calls, sources)
        self._text.enter(splitter.channel)
        self._calls = calls
        self._endings = Endings(rules, vocabulary, splitter.tags)
        # Ids that mean more than their text, or have none.
        self._marked = self._endings.ids.union(splitter.tags, vocabulary.special)
        # The end by a token or a tag, once there is one; ``_text.match`` is that by a stop in it.
        self._ending: Ending | None = None
        self._held = ""
        self._rest: list[str] = []

    # -- feeding ---------------------------------------------------------------------------

    def add(self, token_id: int) -> StopInfo | None:
        """Take the next sampled id; return the record if the answer ends with it."""
        is_armed = self.count >= self._least
        self.count += 1
        text = self._text
        thinks = text.channel is _THINKING
        if token_id in self._marked:
            self._take_marked(token_id, is_armed)
        elif self.sources is not None or self._splitter.scans_text:
            self._take_text(self._detokenizer.add(token_id), is_armed)
        else:  # as nearly always
            self.piece = piece = self._detokenizer.add(token_id)
            if piece:
                text.deliver(piece, is_armed)
        if thinks or text.channel is _THINKING:
            self.thinking_tokens += 1
        if text.match is None and self._ending is None and self.count < self._most:
            self._calls.is_fresh = False
            return None
        return self._decide(token_id, is_armed)

    @property
    def events(self) -> list[Event]:
        """What is to be sent on, up to now."""
        return self._text.events

    def take_events(self) -> list[Event]:
        """Return what is to be sent on, and begin anew."""
        events = self._text.events
        if events:
            self._text.events = []
        return events

    @property
    def unfinished_call(self) -> str:
        """Raw text of a tool call that the end cut short."""
        return self._calls.unfinished

    def _is_over(self) -> bool:
        return self._text.match is not None or self._ending is not None

    @property
    def channel(self) -> Channel:
        """The channel that is open now."""
        return self._text.channel

    @property
    def held(self) -> str:
        """The text that is held back now, because it could become a stop or a tag."""
        return self._text.held + self._splitter.held

    @property
    def progress(self) -> tuple[int, ...]:
        """For each stop string, how many of its first characters the text now ends with."""
        return self._text.progress

    def end(self, kind: StopKind) -> StopInfo:
        """End the answer from outside (``CANCELLED`` or ``ERROR``) and return the record."""
        held = self._release(is_armed=self.count > self._least)
        if self._text.channel is Channel.TOOL:
            self._calls.cut()
        match = self._kept(self._text.match) if self._text.match is not None else None
        return StopInfo(
            kind,
            channel=self._text.channel,
            text_offset=self._text.length,
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
            token_id, self._text.channel, is_armed=is_armed, in_header=splitter.in_header
        )
        is_tag = token_id in splitter.tags
        special = self.vocabulary.special.get(token_id)
        part = splitter.parts.get(token_id) if self._text.channel is not Channel.TOOL else None
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
            self._take_text(self._detokenizer.cut(token_id) + self._name(token_id), is_armed)
        else:
            self.is_structure = special is not None
            self._take_text(self._detokenizer.add(token_id), is_armed)
        if winner is StopKind.STOP_STRING and self._text.match is None:
            # It completes in text that is held for a tag, which can come no more.
            self._release(is_armed)

    def _own_text(self, token_id: int) -> str | None:
        """Return the text that a token would bring; None if it is a tag, or is skipped."""
        if token_id in self._splitter.tags:
            return self._name(token_id) if self._splitter.is_text(token_id) else None
        if token_id in self.vocabulary.special:
            return self._name(token_id) if self._is_part_of_call(token_id) else None
        return self._detokenizer.peek(token_id)

    def _name(self, token_id: int) -> str:
        """Return what a special token or a tag is called, which can be a part of a call."""
        return self._splitter.tags.get(token_id) or self.vocabulary.special[token_id]

    def _is_part_of_call(self, token_id: int) -> bool:
        return (
            self._text.channel is Channel.TOOL
            and self._splitter.keeps_specials
            and token_id not in self.vocabulary.eos
        )

    def _outdone(self, token_id: int, ending: Ending, part: str | None) -> StopKind | None:
        """Say what completes in the text of an ending token and so wins over its id.

        Returns:
            ``STOP_STRING``, ``TOOL_CALL`` for a tag, or None.
        """
        if ending.is_eos:
            return None
        if part is None:
            part = self._own_text(token_id)
        if part is None:
            return None
        text = self._splitter.preview(part)
        if text is None:
            return StopKind.TOOL_CALL
        return StopKind.STOP_STRING if self._text.would_match(text) else None

    def _end_by(self, ending: Ending, tag_id: int | None, is_armed: bool) -> None:
        """Note the end; what was held before its token goes out first."""
        self.piece = ""
        self._held = self._release(is_armed)
        if self._text.match is not None:
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
            self._text.deliver(piece, is_armed)

    def _split(self, parts: Iterable[Part], is_armed: bool) -> None:
        for part in parts:
            if self._is_over():
                self._drop(part)
            elif isinstance(part, Switch):
                self._switch(part, is_armed)
            elif part:
                self._text.deliver(part, is_armed)

    def _drop(self, part: Part) -> None:
        """Throw away what comes after the end."""
        if isinstance(part, str):
            self._rest.append(part)
            return
        self._rest.append(part.tag)
        if part.to is Channel.THINKING:
            self.thinking_tokens += part.tokens + 1

    def _switch(self, switch: Switch, is_armed: bool) -> None:
        if self.sources is not None:
            self.sources.skip(switch.visible)
        held = self._text.flush()
        ending = self._endings.by_tag(switch.tag) if switch.tag and is_armed else None
        if ending is not None:
            self._held = held
        if ending is None or switch.to is not Channel.TEXT:
            # A closing tag that ends the answer leaves open what it closes: that ends there.
            self._change(switch, is_armed)
        if self._text.match is None:
            self._ending = ending

    def _change(self, switch: Switch, is_armed: bool) -> None:
        is_text = self._text.channel is Channel.TOOL and self._text.close_call(is_armed)
        if self._text.match is not None:
            return
        if not (is_text and switch.to is Channel.TEXT):
            self._text.flush()
            self._text.enter(switch.to, strips_space=switch.strips_space)
        if switch.to is Channel.THINKING:
            self.thinking_tokens += switch.tokens
        self._calls.name = switch.tool_name

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
            self._text.deliver(rest, is_armed)
        if self._is_over():
            return ""
        self._text.flush()
        return held

    def _decide(self, token_id: int, is_armed: bool) -> StopInfo:
        """Say why the answer ends with this token."""
        held = self._release(is_armed) or self._held
        if self._text.channel is Channel.TOOL:
            held = self._end_call(is_armed) or held
        kind = self._kind()
        match = self._text.match
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
            channel=self._text.channel,
            text_offset=match.offset if match and is_stop else self._text.length,
            token_index=self.count - 1,
            rule_index=match.rule if match and kind is StopKind.STOP_STRING else None,
            held=held,
            dropped=match.dropped if match else "",
        )

    def _kind(self) -> StopKind:
        """Choose the reason by precedence."""
        ending = self._ending
        by_eos = ending is not None and ending.is_eos
        if self._calls.is_fresh or (self._calls.count and by_eos and self._text.match is None):
            return StopKind.TOOL_CALL
        if self._text.match is not None:
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
        if ending is None and self._text.match is None and self._splitter.closes_calls:
            self._calls.cut()  # by a limit, before its end came
        elif ending is None or not ending.is_eos:
            self._calls.unfinished = self._text.parse_call()
        elif self._text.close_call(is_armed) and self._text.match is None:
            return self._text.flush()
        return ""

    def _kept(self, match: Match) -> Match:
        """Keep or drop the stop in the text that matched; add the rest of its last piece."""
        dropped = match.dropped + "".join(self._rest) + self._splitter.finish()
        if self._rules.include_stop and not self._calls.is_fresh:
            self._text.keep(match.value)
            dropped = dropped[len(match.value) :]
        return Match(match.rule, match.value, match.offset, dropped)

    def _matched_by_id(self, token_id: int) -> Match:
        """Return the match of a stop by token or tag, its text kept or dropped."""
        assert self._ending is not None, "decided by the ending"
        rule = self._ending.rule
        is_string = self._ending.kind is StopKind.STOP_STRING
        text = self._rules.strings[rule] if is_string else self.vocabulary.text_of(token_id)
        offset = self._text.length
        dropped = "".join(self._rest)
        if self._rules.include_stop and not self._splitter.in_header:
            if self.sources is not None:
                self.sources.add(self.count - 1, text)
                self.sources.deliver(len(text), self._text.channel)
            self.piece += text
            self._text.keep(text)
        else:
            dropped = text + dropped
        return Match(rule, text, offset, dropped)

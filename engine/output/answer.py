"""Decides why an answer ends, and makes the record.

The only place where a ``StopInfo`` is made. Pure: knows no MLX, no thread, no clock. The engine
thread feeds an answer one token id at a time and forwards its events.

Tokens are read by ``engine.output.token_reader``. It asks ``engine.output.endings`` what an id
means, ``engine.output.channels`` for tags, and ``engine.output.channel_text`` for stops in the
text. At the end, everything held is released the same way, the open call is closed, and the reason
is chosen by precedence.
"""

from engine.output.calls import OpenCalls
from engine.output.channel_text import ChannelText
from engine.output.endings import Ending
from engine.output.setting import AnswerSetup
from engine.output.spans import SpanTracker
from engine.output.token_reader import TokenReader
from engine.stopping.matcher import Match, StopMatcher, matcher_of
from engine.stopping.record import Channel, StopInfo, StopKind
from engine.stopping.rules import StopRules
from engine.values.events import Event


class AnswerBuilder:
    """One answer, from its tokens to its events and its record.

    Attributes:
        vocabulary: The vocabulary of the answer.
        reader: Reads the tokens.
        spans: Tracks which tokens the answer's text comes from; None where nobody asks.
    """

    def __init__(self, setup: AnswerSetup) -> None:
        setting, beginning = setup.setting, setup.setting.beginning
        self.vocabulary = setup.vocabulary
        self.spans = SpanTracker() if setup.tells_spans else None
        self._rules = setup.rules
        self._max_tokens = setup.max_tokens
        self._is_short_of_memory = setting.memory_room is not None
        room = setting.context_room if setting.memory_room is None else setting.memory_room
        self._most = min(room, setup.max_tokens or room)
        self._calls = OpenCalls(setup.parse_calls, setup.new_reader, _guard(setup.rules))
        self._text = ChannelText(setup.rules, self._calls, self.spans)
        self.reader = TokenReader(setup, self._text)
        if beginning.channel is Channel.TOOL:
            self._text.open_call(beginning.tool_name, beginning.call)

    def add(self, token_id: int) -> StopInfo | None:
        """Take the next sampled id; return the record if the answer ends with it."""
        reader = self.reader
        if reader.take(token_id) or reader.count >= self._most:
            return self._decide(token_id)
        self._calls.is_fresh = False
        return None

    def end(self, kind: StopKind) -> StopInfo:
        """End the answer by a cancel or an error (``CANCELLED``, ``ERROR``); return the record."""
        held = self.reader.release()
        if self._text.channel is Channel.TOOL:
            self._text.cut_call()
        match = self._kept(self._text.match) if self._text.match is not None else None
        return StopInfo(
            kind,
            channel=self._text.channel,
            text_offset=self._text.length,
            token_index=self.count - 1 if self.count else None,
            held=held,
            dropped=match.dropped if match is not None else "",
        )

    @property
    def events(self) -> list[Event]:
        """The events that have not been taken yet."""
        return self._text.events

    def take_events(self) -> list[Event]:
        """Return the events since the last call."""
        events = self._text.events
        if events:
            self._text.events = []
        return events

    @property
    def count(self) -> int:
        """Tokens fed so far."""
        return self.reader.count

    @property
    def unfinished_call(self) -> str:
        """Raw text of a tool call that the end cut short."""
        return self._calls.unfinished

    @property
    def channel(self) -> Channel:
        """The channel that is open now."""
        return self._text.channel

    @property
    def held(self) -> str:
        """The text that is held back now, because it could become a stop or a tag."""
        return self.reader.held

    @property
    def progress(self) -> tuple[int, ...]:
        """For each stop string, how many of its first characters the text now ends with."""
        return self._text.progress

    # -- deciding --------------------------------------------------------------------------

    def _decide(self, token_id: int) -> StopInfo:
        """Return the record of an answer that ends with this token."""
        held = self.reader.release()
        if self._text.channel is Channel.TOOL:
            held = self._end_call(token_id) or held
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
        ending = self.reader.ending
        by_eos = ending is not None and ending.is_eos
        if self._calls.is_fresh or (self._calls.count and by_eos and self._text.match is None):
            return StopKind.TOOL_CALL
        if self._text.match is not None:
            return StopKind.STOP_STRING
        if ending is not None:
            return ending.kind
        if self._max_tokens is not None and self.count >= self._max_tokens:
            return StopKind.MAX_TOKENS
        return StopKind.MEMORY_FULL if self._is_short_of_memory else StopKind.CONTEXT_FULL

    def _end_call(self, token_id: int) -> str:
        """End the open call with the answer: it is complete, or is plain text, or was cut short."""
        ending = self.reader.ending
        if ending is None and self._text.match is None and self.reader.splitter.closes_calls:
            self._text.cut_call()  # by a limit, before its end
        elif self._calls.is_blank and not (
            self.reader.is_closed_by_tag or (ending is not None and ending.is_eos)
        ):
            self._text.cut_call()  # by a stop, before its arguments
        elif ending is None or not ending.is_eos:
            self._calls.unfinished = self._text.parse_call(self._kept_stop(token_id))
        elif self._text.close_call(self.reader.is_armed) and self._text.match is None:
            return self._text.flush()
        return ""

    def _kept_stop(self, token_id: int) -> str:
        """Return the stop that ends the answer, where it is kept."""
        match, ending = self._text.match, self.reader.ending
        if not self._rules.include_stop:
            return ""
        if match is not None:
            return match.value
        return "" if ending is None else self._text_of_stop(ending, token_id)

    def _text_of_stop(self, ending: Ending, token_id: int) -> str:
        is_string = ending.kind is StopKind.STOP_STRING
        return self._rules.strings[ending.rule] if is_string else self.vocabulary.text_of(token_id)

    def _kept(self, match: Match) -> Match:
        """Keep or drop the matched stop; drop the rest of its last piece."""
        dropped = match.dropped + self.reader.take_rest()
        if self._calls.has_stop:
            dropped = dropped[len(match.value) :]
        elif self._rules.include_stop and not self._calls.is_fresh:
            self._text.keep(match.value)
            dropped = dropped[len(match.value) :]
        return Match(match.rule, match.value, match.offset, dropped)

    def _matched_by_id(self, token_id: int) -> Match:
        """Return the match of a stop by token or tag; keep or drop its text."""
        ending = self.reader.ending
        assert ending is not None, "decided by the ending"
        rule = ending.rule
        text = self._text_of_stop(ending, token_id)
        offset = self._text.length
        dropped = self.reader.take_rest()
        if self._rules.include_stop and not self.reader.splitter.in_header:
            if self.spans is not None:
                self.spans.add(text)
                self.spans.deliver(len(text), self._text.channel)
            self.reader.piece += text
            self._text.keep(text)
        else:
            dropped = text + dropped
        return Match(rule, text, offset, dropped)


def _guard(rules: StopRules) -> StopMatcher | None:
    """Return the matcher for calls that may turn out to be text; None if no stop counts there."""
    in_text = rules.counting_in(Channel.TEXT)
    if not in_text or in_text == rules.counting_in(Channel.TOOL):
        return None
    return matcher_of(rules, in_text)

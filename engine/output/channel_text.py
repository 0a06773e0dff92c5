"""The text of the channels of one answer, from which tags have been removed."""

import copy

from engine.output.spans import SpanTracker
from engine.output.tool_calls.call_text import CallEnd
from engine.output.tool_calls.calls import ClosedCall, OpenCalls
from engine.stopping.matcher import Match, StopMatcher, matcher_of
from engine.stopping.record import Channel
from engine.stopping.rules import StopRules
from engine.values.events import Event, TextDelta, ThinkingDelta

# Read at every token: looking up a name is faster than a member of an enumeration.
_TEXT = Channel.TEXT


class ChannelText:
    """The text that is written to the channels of one answer.

    Attributes:
        is_armed: Whether a stop that completes in the next text counts.
        has_new_call: Whether the text of the last token completed a call, with nothing behind it.
        unfinished: The text of the call that the answer's end cut short.
        thinking: The texts of the reasoning that were sent.
    """

    def __init__(self, rules: StopRules, calls: OpenCalls, spans: SpanTracker | None) -> None:
        self.events: list[Event] = []
        self.match: Match | None = None
        self.is_armed = True
        self.has_new_call = False
        self.unfinished = ""
        self.thinking: list[str] = []
        self._strips_space = False
        self.calls = calls
        self.spans = spans
        self._rules = rules
        self._lengths = dict.fromkeys(Channel, 0)
        self._matchers: dict[tuple[int, ...], StopMatcher] = {}
        # Where the text of a call belongs that turns out to be none.
        self._outer = self.channel = Channel.TEXT
        self.enter(Channel.TEXT)

    def begin_token(self, *, is_armed: bool) -> None:
        self.is_armed = is_armed
        self.has_new_call = False

    @property
    def length(self) -> int:
        """Code points of the open channel so far; a call's text counts from its beginning."""
        return self._lengths[self.channel]

    @property
    def held(self) -> str:
        return self._matcher.held if self._matcher is not None else ""

    @property
    def progress(self) -> tuple[int, ...]:
        """For each stop string, how many of its first characters the text now ends with."""
        matched = () if self._matcher is None else self._matcher.progress
        progress = dict(zip(self._counting, matched, strict=False))
        return tuple(progress.get(number, 0) for number in range(len(self._rules.stops)))

    def would_match(self, text: str) -> bool:
        """Return whether a stop would complete in this text; nothing changes."""
        if self._matcher is None:
            return False
        matcher = copy.copy(self._matcher)
        matcher.feed(text.lstrip() if self._strips_space else text)
        return matcher.match is not None

    def deliver(self, text: str) -> None:
        """Take text of the open channel; the stop that completes in it becomes ``match``."""
        if self._strips_space:
            left = text.lstrip()
            self._strips_space = not left
            if self.spans is not None:
                self.spans.skip(len(text) - len(left))
            if not left:
                return
            text = left
        if self.spans is not None:
            self.spans.deliver(len(text), self.channel)
        matcher = self._matcher
        if matcher is None:
            self.emit(text)
            return
        self.emit(matcher.feed(text, is_armed=self.is_armed))
        match = matcher.match
        if match is not None:
            rule, offset = self._counting[match.rule], self._base + match.offset
            self.match = Match(rule, match.value, offset, match.dropped)

    def emit(self, text: str) -> None:
        if not text:
            return
        channel = self.channel
        self._lengths[channel] += len(text)
        if channel is _TEXT:
            self.events.append(TextDelta(text))
        elif channel is Channel.THINKING:
            self.events.append(ThinkingDelta(text))
            self.thinking.append(text)
        else:
            self.events += self.calls.add(text)
            return
        if self.spans is not None:
            self.spans.release(len(text), channel)

    def enter(self, channel: Channel, *, strips_space: bool = False) -> None:
        """Switch to a channel; no match spans a switch."""
        if channel is Channel.TOOL:
            self._outer = self._outer if self.channel is channel else self.channel
            self._lengths[channel] = 0
        self.channel = channel
        self._strips_space = strips_space
        self._base = self._lengths[channel]
        self._counting = counting = self._rules.counting_in(channel)
        self._matcher = self._matchers.get(counting)
        if self._matcher is not None:
            self._matcher.restart()
        elif counting:
            self._matcher = self._matchers[counting] = matcher_of(self._rules, counting)

    def flush(self) -> str:
        """Send and return the held text; it can no longer become a stop."""
        held = self._matcher.flush() if self._matcher is not None else ""
        self.emit(held)
        return held

    def close_call(self, ending: CallEnd, tail: str = "") -> str | None:
        """Close the open call; other text goes to the channel around it, where stops count.

        Returns the text that was held back up to here, as a possible stop or tag; None for a call.
        """
        stray = self._parse_call(ending).stray
        if not stray:
            return None
        if self.spans is not None:
            self.spans.take_back_call()
        self.enter(self._outer)
        held = ""
        if tail and self._matcher is not None:
            self._matcher.feed(stray.removesuffix(tail), is_armed=self.is_armed)
            held = self._matcher.held
            self._matcher.restart()
        self.deliver(stray)
        return held + tail if tail else self.held

    def _parse_call(self, ending: CallEnd, kept_stop: str = "") -> ClosedCall:
        closed = self.calls.close(ending, kept_stop)
        self.events += closed.events
        if closed.is_call:
            self.has_new_call = not closed.stray
        if not closed.stray:
            self._lengths[Channel.TOOL] = 0
        if self.spans is not None:
            self.spans.drop_call(len(closed.stray))
        return closed

    def end_call(self, ending: CallEnd, kept_stop: str) -> bool:
        """End the open call with the answer; return whether the stop is a part of it."""
        closed = self._parse_call(ending, kept_stop)
        self.unfinished = closed.stray
        return closed.has_stop

    def open_call(self, name: str | None, begun: str = "") -> None:
        self.events += self.calls.open(name, begun)

    def cut_call(self) -> None:
        """Give the open call up, because the answer ended inside it."""
        closed = self.calls.cut()
        self.events += closed.events
        self.unfinished = closed.stray

    def keep(self, stop: str) -> None:
        """Send the stop that ended the answer, or add it to the call that it cut short."""
        if self.channel is Channel.TOOL:
            self.unfinished += stop
        else:
            self.emit(stop)

"""Writes the text of one answer by channel: strips white space, matches stops, makes events."""

from collections import deque
from itertools import groupby

from engine.output.tool_calls.call_text import Ending
from engine.output.tool_calls.calls import OpenCalls
from engine.stopping.matcher import Match, StopMatcher, matcher_of
from engine.stopping.record import Channel
from engine.stopping.rules import StopRules
from engine.values.events import Event, TextDelta, ThinkingDelta
from engine.values.tokens import TokenSpan, TokenStats

# Characters enter in the order of their tokens and leave in the same order: as text that is sent,
# or as something that is never sent (a tag, a call, white space of the template, a stop). A
# character whose bytes come from several tokens belongs to all of them. A token is settled once
# none of its characters can still be sent. Used only by runs that ask how likely their tokens
# were.


class _Token:
    """A sampled token, and the part of it that was sent."""

    __slots__ = ("index", "raw", "spans", "stats", "token_id")

    def __init__(self, index: int, token_id: int, raw: bytes, stats: TokenStats | None) -> None:
        self.index = index
        self.token_id = token_id
        self.raw = raw
        self.stats = stats
        self.spans: list[TokenSpan] = []

    def add(self, channel: Channel, start: int, text: str, raw: bytes) -> None:
        """Note characters, and bytes of characters, that were sent."""
        if self.spans and self.spans[-1].channel is channel:
            before = self.spans.pop()
            start, text, raw = before.start, before.text + text, before.raw + raw
        self.spans.append(
            TokenSpan(self.index, self.token_id, channel, start, text, raw, self.stats)
        )


_Shares = list[tuple[_Token, bytes]]
"""The tokens that one character comes from, each with its bytes of the character."""


class _Run:
    """Consecutive characters of one token, or one character of several tokens."""

    __slots__ = ("shares", "text", "token")

    def __init__(self, text: str, token: _Token, shares: _Shares | None = None) -> None:
        self.text = text
        self.token = token
        self.shares = shares

    @property
    def first(self) -> int:
        """The index of the earliest token that it comes from."""
        return self.token.index if self.shares is None else self.shares[0][0].index


class SpanTracker:
    """The tokens of one answer's text."""

    __slots__ = ("_coming", "_lengths", "_open", "_token", "_tokens", "_written")

    def __init__(self) -> None:
        self._tokens: deque[_Token] = deque()
        self._token = _Token(-1, -1, b"", None)
        # Bytes at the end that do not form a character yet.
        self._open: _Shares = []
        self._coming: deque[_Run] = deque()
        self._written: dict[Channel, deque[_Run]] = {channel: deque() for channel in Channel}
        self._lengths = dict.fromkeys(Channel, 0)

    def begin(self, index: int, token_id: int, raw: bytes, stats: TokenStats | None) -> None:
        """Take the next token; text that is added from now on comes from it."""
        self._token = _Token(index, token_id, raw, stats)
        self._tokens.append(self._token)

    def add(self, text: str) -> None:
        """Take the text that the token completed."""
        token, before = self._token, self._open
        if not before and token.raw == text.encode():
            if text:
                self._coming.append(_Run(text, token))
            return
        joined = [*before, (token, token.raw)]
        self._open = []
        if not text:
            self._open = joined
        elif not (self._divide(text, joined) or self._divide(text, before)):
            # The tokenizer's text for its pieces differs from their bytes.
            self._coming.append(_Run(text, token))

    def add_truncated(self, text: str) -> None:
        """Take text that earlier tokens left unfinished, without bytes of the current token."""
        before, self._open = self._open, []
        if not text:
            self._open = before
        elif not self._divide(text, before):
            self._coming.append(_Run(text, self._token))

    def _divide(self, text: str, held: _Shares) -> bool:
        """Take text whose bytes come from several tokens; return whether they spell it."""
        characters, rest = _characters(held)
        if rest and len(characters) < len(text):
            characters, rest = [*characters, rest], []
        if len(characters) != len(text) or any(
            char != b"".join(raw for _, raw in shares).decode("utf-8", "replace")
            for char, shares in zip(text, characters, strict=True)
        ):
            return False
        self._open = rest
        for char, shares in zip(text, characters, strict=True):
            self._coming.append(_Run(char, shares[-1][0], shares))
        return True

    def skip(self, count: int) -> None:
        """Note that the next characters are structure, or white space of the template."""
        _take(self._coming, count)

    def deliver(self, count: int, channel: Channel) -> None:
        """Note that the next characters belong to a channel."""
        self._written[channel] += _take(self._coming, count)

    def take_back_call(self) -> None:
        """Note that the open call turned out to be text: its characters come next."""
        self._coming.extendleft(reversed(self._written[Channel.TOOL]))
        self._written[Channel.TOOL].clear()

    def drop_call(self, kept: int) -> None:
        """Note that the open call is complete, so its characters but the last are not text."""
        written = self._written[Channel.TOOL]
        _take(written, sum(len(run.text) for run in written) - kept)

    def release(self, count: int, channel: Channel) -> None:
        """Note that the next characters of a channel were sent."""
        start = self._lengths[channel]
        for run in _take(self._written[channel], count):
            if run.shares is None:
                run.token.add(channel, start, run.text, run.text.encode())
            else:
                for token, raw in run.shares:
                    text = run.text if token is run.shares[-1][0] else ""
                    token.add(channel, start, text, raw)
            start += len(run.text)
        self._lengths[channel] = start

    def settle(self, *, is_over: bool) -> tuple[TokenSpan, ...]:
        """Return the spans of the tokens that have been settled since the last call."""
        end = self._token.index + 1
        if not is_over:
            queues = (self._coming, *self._written.values())
            end = min([end, *(queue[0].first for queue in queues if queue)])
            if self._open:
                end = min(end, self._open[0][0].index)
        spans: list[TokenSpan] = []
        while self._tokens and self._tokens[0].index < end:
            spans += self._tokens.popleft().spans
        return tuple(spans)


def _take(queue: deque[_Run], count: int) -> list[_Run]:
    """Remove the next characters from a queue and return them."""
    taken: list[_Run] = []
    while count > 0 and queue:
        run = queue.popleft()
        if len(run.text) > count:
            queue.appendleft(_Run(run.text[count:], run.token))
            run = _Run(run.text[:count], run.token)
        count -= len(run.text)
        taken.append(run)
    return taken


def _characters(held: _Shares) -> tuple[list[_Shares], _Shares]:
    """Split bytes into characters (an invalid sequence counts as one) and an incomplete rest."""
    owners = [token for token, raw in held for _ in raw]
    data = b"".join(raw for _, raw in held)
    ends: list[int] = []
    place = 0
    while place < len(data):
        lead = data[place]
        size = 1 if lead < 0x80 else 2 if lead < 0xE0 else 3 if lead < 0xF0 else 4
        try:
            data[place : place + size].decode()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data" and place + size > len(data):
                break
            size = max(error.end - error.start, 1)
        place += size
        ends.append(place)
    characters: list[_Shares] = []
    begin = 0
    for end in [*ends, len(data)]:
        shares: _Shares = []
        for token, group in groupby(range(begin, end), key=owners.__getitem__):
            places = list(group)
            shares.append((token, data[places[0] : places[-1] + 1]))
        characters.append(shares)
        begin = end
    return characters[:-1], characters[-1]


# Text that arrives here belongs to the open channel; tags have been removed.

# Read at every token: looking up a name is faster than a member of an enumeration.
_TEXT = Channel.TEXT


class ChannelText:
    """The text that is written to the channels of one answer."""

    __slots__ = ("_base", "_counting", "_lengths", "_matcher", "_matchers", "_outer", "_rules",
                 "_strips_space", "calls", "channel", "events", "match", "spans")  # fmt: skip

    def __init__(self, rules: StopRules, calls: OpenCalls, spans: SpanTracker | None) -> None:
        self.events: list[Event] = []
        self.match: Match | None = None
        self.calls = calls
        self.spans = spans
        self._rules = rules
        self._lengths = dict.fromkeys(Channel, 0)
        self._matchers: dict[tuple[int, ...], StopMatcher] = {}
        # Where the text of a call belongs that turns out to be none.
        self._outer = self.channel = Channel.TEXT
        self.enter(Channel.TEXT)

    @property
    def length(self) -> int:
        """Code points of the open channel so far; a call's text counts from its beginning."""
        return self._lengths[self.channel]

    @property
    def held(self) -> str:
        """The text that is held back now, because it could become a stop."""
        return self._matcher.held if self._matcher is not None else ""

    @property
    def progress(self) -> tuple[int, ...]:
        """For each stop string, how many of its first characters the text now ends with."""
        count = len(self._rules.stops)
        if self._matcher is None:
            return (0,) * count
        if len(self._counting) == count:
            return self._matcher.progress
        progress = dict(zip(self._counting, self._matcher.progress, strict=True))
        return tuple(progress.get(number, 0) for number in range(count))

    def would_match(self, text: str) -> bool:
        """Return whether a stop would complete in this text; nothing changes."""
        if self._matcher is None:
            return False
        return self._matcher.would_match(text.lstrip() if self._strips_space else text)

    def deliver(self, text: str, is_armed: bool) -> None:
        """Take text of the open channel; the stop that completes in it becomes ``match``."""
        if self._strips_space:
            text = self._stripped(text)
            if not text:
                return
        if self.spans is not None:
            self.spans.deliver(len(text), self.channel)
        matcher = self._matcher
        if matcher is None:
            self.emit(text)
            return
        self.emit(matcher.feed(text, is_armed=is_armed))
        match = matcher.match
        if match is not None:
            rule, offset = self._counting[match.rule], self._base + match.offset
            self.match = Match(rule, match.value, offset, match.dropped)

    def _stripped(self, text: str) -> str:
        left = text.lstrip()
        self._strips_space = not left
        if self.spans is not None:
            self.spans.skip(len(text) - len(left))
        return left

    def emit(self, text: str) -> None:
        """Send text of the open channel."""
        if not text:
            return
        channel = self.channel
        self._lengths[channel] += len(text)
        if channel is _TEXT:
            self.events.append(TextDelta(text))
        elif channel is Channel.THINKING:
            self.events.append(ThinkingDelta(text))
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
        """Send and return what is held; it can no longer become a stop."""
        held = self._matcher.flush() if self._matcher is not None else ""
        self.emit(held)
        return held

    def close_call(self, is_armed: bool, ending: Ending, tail: str = "") -> str | None:
        """Close the open call. Deliver what is no call as text around it, where stops count.

        Args:
            is_armed: Whether stops count.
            ending: How its text ended.
            tail: The end of the call's text, if that was held back as a possible tag.

        Returns:
            The text that was held back up to here, as a possible stop or tag; None for a call.
        """
        stray = self.parse_call(ending)
        if not stray:
            return None
        if self.spans is not None:
            self.spans.take_back_call()
        self.enter(self._outer)
        held = ""
        if tail and self._matcher is not None:
            self._matcher.feed(stray.removesuffix(tail), is_armed=is_armed)
            held = self._matcher.held
            self._matcher.restart()
        self.deliver(stray, is_armed)
        return held + tail if tail else self.held

    def parse_call(self, ending: Ending, kept_stop: str = "") -> str:
        """Parse the open call as it is; return its text if it is not a call."""
        events, stray = self.calls.close(ending, kept_stop)
        self.events += events
        if not stray:
            self._lengths[Channel.TOOL] = 0
        if self.spans is not None:
            self.spans.drop_call(len(stray))
        return stray

    def open_call(self, name: str | None, begun: str = "") -> None:
        """Open a call; the arguments are those of ``OpenCalls.open``."""
        self.events += self.calls.open(name, begun)

    def cut_call(self) -> None:
        """Give the open call up, because the answer ended inside it."""
        self.events += self.calls.cut()

    def keep(self, stop: str) -> None:
        """Send the stop that ended the answer, or add it to the call that it cut short."""
        if self.channel is Channel.TOOL:
            self.calls.unfinished += stop
        else:
            self.emit(stop)

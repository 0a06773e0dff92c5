"""Which tokens the text of an answer comes from, for runs that report how likely they were.

Text enters in the order of its tokens and leaves in the same order: as text that is sent, or as
something that is never sent (a tag, a call, white space of the template, a stop). A token is
settled once none of its text can still be sent.
"""

from collections import deque

from engine.stopping.record import Channel
from engine.values.tokens import TokenSpan, TokenStats


class _Token:
    """A sampled token, and the spans of it that were sent."""

    def __init__(self, index: int, token_id: int, raw: bytes, stats: TokenStats | None) -> None:
        self.index = index
        self.token_id = token_id
        self.raw = raw
        self.stats = stats
        self.spans: list[TokenSpan] = []

    def add(self, channel: Channel, start: int, text: str, raw: bytes) -> None:
        """Note text, and the token's bytes of it, that were sent."""
        if self.spans and self.spans[-1].channel is channel:
            before = self.spans.pop()
            start, text, raw = before.start, before.text + text, before.raw + raw
        self.spans.append(
            TokenSpan(self.index, self.token_id, channel, start, text, raw, self.stats)
        )


_Shares = tuple[tuple[_Token, bytes], ...]
"""The tokens that a text comes from, each with its bytes of it; the last one completed it."""

_Run = tuple[str, _Shares]
"""Text that the detokenizer returned for a token."""


class SpanTracker:
    """The tokens of one answer's text."""

    def __init__(self) -> None:
        self._tokens: deque[_Token] = deque()
        self._token = _Token(-1, -1, b"", None)
        # Tokens whose bytes do not form a character yet.
        self._incomplete: _Shares = ()
        self._incoming: deque[_Run] = deque()
        self._written: dict[Channel, deque[_Run]] = {channel: deque() for channel in Channel}
        self._lengths = dict.fromkeys(Channel, 0)

    def begin(self, index: int, token_id: int, raw: bytes, stats: TokenStats | None) -> None:
        self._token = _Token(index, token_id, raw, stats)
        self._tokens.append(self._token)

    def add(self, text: str) -> None:
        shares = (*self._incomplete, (self._token, self._token.raw))
        if not text:
            self._incomplete = shares
            return
        self._incomplete = ()
        data, written = b"".join(raw for _, raw in shares), text.encode()
        if data.startswith(written) and (begun := data[len(written) :]):
            self._incomplete = ((self._token, begun),)
            shares = (*shares[:-1], (self._token, self._token.raw[: -len(begun)]))
        self._incoming.append((text, shares))

    def add_truncated(self, text: str) -> None:
        """Take text that earlier tokens left unfinished."""
        if text:
            shares, self._incomplete = self._incomplete, ()
            self._incoming.append((text, shares or ((self._token, text.encode()),)))

    def skip(self, count: int) -> None:
        """Note that the next characters are structure, or white space of the template."""
        _take(self._incoming, count)

    def deliver(self, count: int, channel: Channel) -> None:
        self._written[channel] += _take(self._incoming, count)

    def take_back_call(self) -> None:
        """Note that the open call turned out to be text: its characters come next."""
        self._incoming.extendleft(reversed(self._written[Channel.TOOL]))
        self._written[Channel.TOOL].clear()

    def drop_call(self, kept: int) -> None:
        """Note that the open call is complete, so its characters but the last are not text."""
        written = self._written[Channel.TOOL]
        _take(written, sum(len(text) for text, _ in written) - kept)

    def release(self, count: int, channel: Channel) -> None:
        start = self._lengths[channel]
        for text, shares in _take(self._written[channel], count):
            for token, raw in shares:
                token.add(channel, start, text if token is shares[-1][0] else "", raw)
            start += len(text)
        self._lengths[channel] = start

    def settle(self, *, is_over: bool) -> tuple[TokenSpan, ...]:
        """Return the spans of the tokens that have been settled since the last call."""
        end = self._token.index + 1
        if not is_over:
            queues = (self._incoming, *self._written.values())
            first = [queue[0][1][0][0].index for queue in queues if queue]
            end = min([end, *first, *(token.index for token, _ in self._incomplete)])
        spans: list[TokenSpan] = []
        while self._tokens and self._tokens[0].index < end:
            spans += self._tokens.popleft().spans
        return tuple(spans)


def _take(queue: deque[_Run], count: int) -> list[_Run]:
    """Remove the next characters from a queue and return them."""
    taken: list[_Run] = []
    while count > 0 and queue:
        text, shares = queue.popleft()
        if len(text) > count:  # the rest belongs to the last token alone
            *before, (token, _) = shares
            text, rest = text[:count], text[count:]
            own = text.encode()[sum(len(raw) for _, raw in before) :]
            shares = (*before, (token, own))
            queue.appendleft((rest, ((token, rest.encode()),)))
        count -= len(text)
        taken.append((text, shares))
    return taken

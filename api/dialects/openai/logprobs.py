"""How likely an answer's tokens were: which of them its text is made of, and how that is said.

Pure but for its own state; no web framework. Any thread.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, Protocol

from engine import Event, Source, TextDelta, TokenTrace

# What the vendor writes for a token that cannot come; JSON has no infinity.
_LEAST = -9999.0
# What appears for bytes that never become a whole character.
_BROKEN = "\ufffd"


class TokenTexts(Protocol):
    """What token ids stand for."""

    def text_of(self, token_id: int) -> str:
        """Return a token's text, special ones included."""
        ...

    def bytes_of(self, token_id: int) -> bytes:
        """Return a token's bytes."""
        ...


class AnswerToken(NamedTuple):
    """A token whose text is in the answer.

    Attributes:
        trace: The token.
        text: What it added to the answer's text; nothing while a character is incomplete.
        raw: Its bytes, without those that were cut off with a stop.
    """

    trace: TokenTrace
    text: str
    raw: bytes


class _Token:
    """A sampled token, and what of it is in the answer.

    Attributes:
        trace: The token.
        first: The earliest token that shares a character with it.
        spans: For each character of its piece the tokens that have its bytes; None where the
            token's own bytes are its piece.
        text: What it added to the answer.
        raw: Its bytes in the answer.
    """

    __slots__ = ("first", "raw", "spans", "text", "trace")

    def __init__(self, trace: TokenTrace) -> None:
        self.trace = trace
        self.first = trace.index
        self.spans: list[_Span] | None = None
        self.text = ""
        self.raw = b""


_Span = list[tuple[_Token, bytes]]


class TokenAligner:
    """Finds the tokens of which an answer's text is made, one by one as the text comes.

    A token is told of once it is settled which of its text is in the answer. What belongs to a
    stop, to thinking or to a tool call is never told; of a token that a stop cut in two, the part
    before it is. A character whose bytes came with several tokens belongs to all of them.
    """

    def __init__(self) -> None:
        self._text = ""
        self._tokens: deque[_Token] = deque()
        # Bytes at the end that make no character yet.
        self._open: _Span = []

    def add_text(self, text: str) -> None:
        """Take text of the answer that came out on the token whose trace follows."""
        self._text += text

    def take(self, trace: TokenTrace) -> tuple[str, list[AnswerToken]]:
        """Return the text that came out on a token, and the tokens that are now settled."""
        text, self._text = self._text, ""
        token = _Token(trace)
        self._tokens.append(token)
        if self._open or trace.is_structure or trace.raw != trace.piece.encode():
            self._part(token)
        for source in trace.sources:
            owner = self._find(source.token)
            if owner is not None:
                self._add(owner, source)
        return text, self._settle(self._unsettled(trace))

    def finish(self) -> tuple[str, list[AnswerToken]]:
        """Return text that came without a token, and the token that a stop has cut in two."""
        text, self._text = self._text, ""
        return text, self._settle(None)

    def _part(self, token: _Token) -> None:
        """Find out which bytes, of which tokens, each character of a piece is made of."""
        trace, piece = token.trace, token.trace.piece
        before, self._open = self._open, []
        if not piece:
            # A tag or a stop parts no character; what else has no text is a part of one.
            self._open = before if trace.is_structure else [*before, (token, trace.raw)]
            token.spans = []
            return
        joined = [*before, (token, trace.raw)]
        for held in (before, joined) if trace.is_structure else (joined, before):
            spans, rest = _characters(held)
            if rest and len(spans) < len(piece):
                spans, rest = [*spans, rest], []
            if len(spans) == len(piece) and all(
                char == _text_of(span) for char, span in zip(piece, spans, strict=True)
            ):
                token.spans, self._open = spans, rest
                break
        else:
            # The tokenizer writes its pieces otherwise than their bytes say.
            token.spans = [[(token, char.encode())] for char in piece]
        token.first = min((one.trace.index for span in token.spans for one, _ in span))

    def _find(self, index: int) -> _Token | None:
        at = index - self._tokens[0].trace.index
        return self._tokens[at] if 0 <= at < len(self._tokens) else None

    def _add(self, owner: _Token, source: Source) -> None:
        """Count characters of a token as a part of the answer."""
        spans, piece = owner.spans, owner.trace.piece
        if spans is None and piece.startswith(source.text, source.start):
            owner.text += source.text
            owner.raw += source.text.encode()
            return
        for place, char in enumerate(source.text, source.start):
            if spans is not None and piece[place : place + 1] == char:
                span = spans[place]
            elif char == _BROKEN and self._open:
                span, self._open = self._open, []
            else:
                span = [(owner, char.encode())]  # the text of a stop that is kept
            for token, raw in span:
                token.raw += raw
            span[-1][0].text += char

    def _unsettled(self, trace: TokenTrace) -> int:
        """Return the earliest token of which more may still come into the answer."""
        end = trace.index + 1
        if trace.waiting is not None:
            waiting = self._find(trace.waiting)
            end = trace.waiting if waiting is None else waiting.first
        return min([end, *(token.trace.index for token, _ in self._open)])

    def _settle(self, end: int | None) -> list[AnswerToken]:
        """Return the tokens before ``end`` that are in the answer, all for None; forget them."""
        out: list[AnswerToken] = []
        while self._tokens and (end is None or self._tokens[0].trace.index < end):
            token = self._tokens.popleft()
            if token.raw or token.text:
                out.append(AnswerToken(token.trace, token.text, token.raw))
        return out


def _characters(held: _Span) -> tuple[list[_Span], _Span]:
    """Part bytes into characters, each invalid sequence one of them, and an incomplete rest."""
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
    spans: list[_Span] = []
    begin = 0
    for end in [*ends, len(data)]:
        span: _Span = []
        for token, group in groupby(range(begin, end), key=owners.__getitem__):
            places = list(group)
            span.append((token, data[places[0] : places[-1] + 1]))
        spans.append(span)
        begin = end
    return spans[:-1], spans[-1]


def _text_of(span: _Span) -> str:
    return b"".join(raw for _, raw in span).decode("utf-8", "replace")


def aligned(events: Iterable[Event]) -> list[AnswerToken]:
    """Return the tokens of which a whole answer's text is made."""
    aligner = TokenAligner()
    out: list[AnswerToken] = []
    for event in events:
        if isinstance(event, TextDelta):
            aligner.add_text(event.text)
        elif isinstance(event, TokenTrace):
            out += aligner.take(event)[1]
    return out + aligner.finish()[1]


def entry_to_wire(token: AnswerToken, texts: TokenTexts | None) -> dict[str, object]:
    """Return a token as Chat Completions and Responses describe it."""
    stats = token.trace.stats
    top = stats.top if stats is not None and texts is not None else ()
    return {
        **_described(token.raw, logprob_of(token)),
        "top_logprobs": [
            _described(texts.bytes_of(token_id) if texts else b"", logprob)
            for token_id, logprob in top
        ],
    }


def entries_to_wire(
    tokens: Sequence[AnswerToken], texts: TokenTexts | None
) -> list[dict[str, object]]:
    """Return tokens as Chat Completions and Responses describe them."""
    return [entry_to_wire(token, texts) for token in tokens]


def logprob_of(token: AnswerToken) -> float:
    """Return how likely a token was, as a natural logarithm."""
    stats = token.trace.stats
    return finite(stats.logprob) if stats is not None else _LEAST


def finite(logprob: float) -> float:
    """Return a log-probability as JSON can hold it."""
    # Written so that NaN loses as well, which logits that overflow lead to.
    return logprob if logprob > _LEAST else _LEAST


def token_text(raw: bytes) -> str:
    """Return a token's text; bytes that are no whole characters are shown as such."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _described(raw: bytes, logprob: float) -> dict[str, object]:
    return {"token": token_text(raw), "logprob": finite(logprob), "bytes": list(raw)}

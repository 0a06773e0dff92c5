"""How likely an answer's tokens were: which of them its text is made of, and how that is said.

Pure but for its own state; no web framework. Any thread.
"""

import codecs
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from engine.events import Event, TextDelta, TokenTrace
from engine.stopping.record import Channel

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


class _Waiting:
    """A token whose text is not yet completely in the answer."""

    __slots__ = ("lead", "rest", "shown", "trace")

    def __init__(self, trace: TokenTrace) -> None:
        self.trace = trace
        self.lead = ""
        self.shown = ""
        self.rest = trace.piece

    def taken(self) -> AnswerToken:
        raw = self.trace.raw
        end = len(raw)
        if self.rest:
            end = max(end - _open_bytes(raw) - len(self.rest.encode()), 0)
        return AnswerToken(self.trace, self.shown, raw[len(self.lead.encode()) : end])


class TokenAligner:
    """Finds the tokens of which an answer's text is made, one by one as the text comes.

    A token is told of once all its text is in the answer. What belongs to a stop, to thinking
    or to a tool call is never told; of a token that a stop cut in two, the part before it is.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiting] = []
        self._text = ""

    def add_text(self, text: str) -> None:
        """Take text of the answer that came out on the token whose trace follows."""
        self._text += text

    def take(self, trace: TokenTrace) -> tuple[str, list[AnswerToken]]:
        """Return the text that came out on a token, and the tokens that are now complete."""
        text, self._text = self._text, ""
        if trace.special is None and (text or trace.channel is Channel.TEXT):
            self._waiting.append(_Waiting(trace))
        out = self._consume(text, trace.held) if text else []
        if trace.channel is not Channel.TEXT or (trace.special is not None and not trace.held):
            # Nothing is held any more that could still come out.
            out += self._settle()
        return text, out

    def finish(self) -> tuple[str, list[AnswerToken]]:
        """Return text that came without a token, and the token that a stop has cut in two."""
        text, self._text = self._text, ""
        return text, self._settle()

    def _settle(self) -> list[AnswerToken]:
        waiting, self._waiting = self._waiting, []
        return [token.taken() for token in waiting if token.shown]

    def _consume(self, text: str, held: str) -> list[AnswerToken]:
        if not text:
            return []
        skipped = _place(text, "".join([token.rest for token in self._waiting]), held)
        if skipped < 0:
            body = text.removesuffix(_BROKEN)
            if body == text:
                return self._all(text)
            return [*self._consume(body, held), *self._broken()]
        left = len(text)
        out: list[AnswerToken] = []
        parts: list[_Waiting] = []
        while left and self._waiting:
            token = self._waiting.pop(0)
            lead, rest = token.rest[:skipped], token.rest[skipped:]
            skipped -= len(lead)
            if not token.rest:
                # Bytes of a character that a later token completes: they share its fate.
                parts.append(token)
                continue
            if not rest:
                out += [token.taken()] if token.shown else []
                parts.clear()
                if not token.shown and _open_bytes(token.trace.raw):
                    token.lead, token.rest = token.lead + lead, ""
                    parts.append(token)
                continue
            out += [part.taken() for part in parts]
            parts.clear()
            token.lead += lead
            token.shown += rest[:left]
            token.rest = rest[left:]
            left -= len(rest) - len(token.rest)
            if token.rest:
                self._waiting.insert(0, token)
            else:
                out.append(token.taken())
        return out

    def _broken(self) -> list[AnswerToken]:
        """Return the tokens whose bytes, at the end of the answer, make no whole character."""
        waiting, self._waiting = self._waiting, []
        while len(waiting) > 1 and waiting[0].rest:
            del waiting[0]
        out = []
        for token in waiting:
            token.lead, token.rest = token.lead + token.rest, ""
            out.append(token.taken())
        return [*out[:-1], out[-1]._replace(text=_BROKEN)] if out else []

    def _all(self, text: str) -> list[AnswerToken]:
        """All that waits is in a text that no piece spells: a stop token was kept."""
        waiting, self._waiting = self._waiting, []
        out = []
        for number, token in enumerate(waiting):
            is_last = number == len(waiting) - 1
            shown = text if is_last else token.rest
            text = text[len(shown) :] if text.startswith(shown) else text
            out.append(AnswerToken(token.trace, token.shown + shown, token.trace.raw))
        return out


def _place(text: str, pieces: str, held: str) -> int:
    """Return where in the text of tokens the answer's text is, or -1.

    What precedes it was dropped: white space of the template as a rule, else a tag.
    """
    blank = len(pieces) - len(pieces.lstrip())
    for place in (0, blank, len(pieces) - len(held) - len(text)):
        if place >= 0 and pieces.startswith(text, place):
            return place
    return pieces.rfind(text)


def _open_bytes(raw: bytes) -> int:
    """Return how many bytes at the end are the beginning of a character."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(raw)
    return len(decoder.getstate()[0])


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

"""Writes the logprobs of an answer's tokens as OpenAI's APIs spell them. Pure; any thread."""

from collections.abc import Iterable, Sequence

from api.dialects.openai.answers import LikelyToken, TokenLogprob
from engine import Channel, Event, Finished, TokenSpan, TokenTrace, Vocabulary

# The vendor's value for an impossible token; JSON has no infinity.
_LEAST = -9999.0


def answer_tokens(events: Iterable[Event]) -> list[TokenSpan]:
    """Return the tokens of the answer's text that these events complete, in order."""
    return [
        span
        for event in events
        if isinstance(event, (TokenTrace, Finished))
        for span in event.settled
        if span.channel is Channel.TEXT
    ]


def entry_to_wire(token: TokenSpan, texts: Vocabulary | None) -> TokenLogprob:
    """Return a token as Chat Completions and Responses describe it."""
    stats = token.stats
    top = stats.top if stats is not None and texts is not None else ()
    return {
        **_described(token.raw, logprob_of(token)),
        "top_logprobs": [
            _described(texts.bytes_of(token_id) if texts else b"", logprob)
            for token_id, logprob in top
        ],
    }


def entries_to_wire(tokens: Sequence[TokenSpan], texts: Vocabulary | None) -> list[TokenLogprob]:
    """Return tokens as Chat Completions and Responses describe them."""
    return [entry_to_wire(token, texts) for token in tokens]


def logprob_of(token: TokenSpan) -> float:
    """Return the natural logarithm of a token's probability."""
    stats = token.stats
    return finite(stats.logprob) if stats is not None else _LEAST


def finite(logprob: float) -> float:
    """Return a log-probability as a finite number, which JSON can represent."""
    # NaN, which overflowing logits produce, also becomes the least value.
    return logprob if logprob > _LEAST else _LEAST


def token_text(raw: bytes) -> str:
    """Return a token's text; bytes of incomplete characters are shown as bytes."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)


def _described(raw: bytes, logprob: float) -> LikelyToken:
    return {"token": token_text(raw), "logprob": finite(logprob), "bytes": list(raw)}

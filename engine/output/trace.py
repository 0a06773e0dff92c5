"""Describes each token of a run, and what the stop matcher did with it.

Pure. The engine uses it for runs that ask for a trace; a replay uses the same.
"""

from engine.output.answer import AnswerBuilder
from engine.stopping.record import Channel, StopInfo
from engine.values.events import TextDelta, ThinkingDelta, TokenTrace
from engine.values.tokens import TokenOrigin, TokenStats


def traced(
    builder: AnswerBuilder,
    token_id: int,
    time_s: float,
    stats: TokenStats | None,
    origin: TokenOrigin = TokenOrigin.SAMPLED,
) -> StopInfo | None:
    """Feed a token to an answer and append its ``TokenTrace`` to the answer's events.

    Args:
        builder: The answer.
        token_id: The sampled id.
        time_s: Seconds since the request was submitted.
        stats: How likely the token was, if that was asked for.
        origin: How it was found: drawn, guessed or forced.

    Returns:
        The record if the answer ends with this token.
    """
    before = builder.channel
    count = len(builder.events)
    spans = builder.spans
    raw = builder.vocabulary.bytes_of(token_id)
    if spans is not None:
        spans.begin(builder.count, token_id, raw, stats)
    stop = builder.add(token_id)
    released = 0
    for event in builder.events[count:]:
        if isinstance(event, (TextDelta, ThinkingDelta)):
            released += len(event.text)
    builder.events.append(
        TokenTrace(
            index=builder.count - 1,
            token_id=token_id,
            piece=builder.reader.piece,
            raw=raw,
            channel=builder.channel if before is Channel.TEXT else before,
            time_s=time_s,
            released=released,
            held="" if stop is not None else builder.held,
            progress=builder.progress,
            special=builder.vocabulary.special.get(token_id),
            stats=stats,
            settled=() if spans is None else spans.settle(is_over=stop is not None),
            origin=origin,
        )
    )
    return stop

"""Checks of streams as such, and of clients that leave them."""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from api.conformance.captures.frames import parse_json
from api.conformance.captures.values import WireDialect
from api.conformance.probe.checks.check import (
    CheckContext,
    Evaluation,
    check,
    fault_list,
    skipped,
    undecided,
)
from api.conformance.probe.checks.limit_checks import FEW_TOKENS
from api.conformance.probe.client import in_parallel, in_sequence
from api.conformance.probe.dialects import OLLAMA, Ask
from api.conformance.probe.judgement import no_answer
from api.conformance.probe.values import Exchange, Fault

_LINE_END = re.compile(r"\r\n|\r|\n")
_FIELD = re.compile(r"(?:data|event|id|retry)(?::|\Z)|:|\Z")
# At least one of these gets a long answer from any model.
_LONG_CHAT = (
    "Count from 1 to 1000, one number per line",
    "Count from 1 to 40 in words, one number per line.",
    "Write a long story about a fox.",
)
_LONG_PLAIN = ("1\n2\n3\n4\n5\n6\n", "Once upon a time", "The alphabet is A B C D E F")


@check("stream.framing")
async def _framing(ctx: CheckContext) -> Evaluation:
    answers = [exchange for exchange in ctx.client.exchanges if exchange.is_answer]
    found = (
        (exchange, fault)
        for exchange in answers
        for fault in _judge_framing(ctx.driver.dialect, exchange)
    )
    return Evaluation(f"{len(answers)} answers were read", fault_list(found, ctx))


def _judge_framing(dialect: WireDialect, exchange: Exchange) -> Iterator[Fault]:
    header = exchange.headers.get("content-type", "")
    kind = header.partition(";")[0].strip().lower()
    stream = "application/x-ndjson" if dialect is OLLAMA else "text/event-stream"
    due = stream if exchange.is_streamed else "application/json"
    if exchange.is_streamed and not exchange.capture.is_streamed and kind != stream:
        sentence = "A stream was asked for, but the answer came as one JSON object."
        got = f"{kind or 'no content type'}: {exchange.text[:200]}"
        yield Fault("not_a_stream", sentence, f"a stream of type {stream}", got)
    elif kind != due:
        sentence = "The answer has the wrong content type."
        yield Fault("content_type", sentence, due, kind or "none")
    if exchange.capture.is_streamed and exchange.is_streamed:
        faults = _judge_lines(exchange) if dialect is OLLAMA else _judge_events(exchange)
        yield from [fault for fault in (next(faults, None),) if fault is not None]
    if exchange.is_open:
        sentence = "The connection stays open after the last event of the stream."
        expected = "the end of the answer"
        yield Fault("connection_left_open", sentence, expected, "nothing more, and no end")


def _judge_events(exchange: Exchange) -> Iterator[Fault]:
    """Yield where a stream is no series of server-sent events, read as clients read it."""
    code, is_named = "event_spelled", False
    data: list[str] = []
    # WHATWG: clients drop one byte order mark at the beginning of a stream.
    *lines, tail = _LINE_END.split(exchange.text.removeprefix("\ufeff"))
    for line in (*lines, *([tail] if tail else [])):
        if _FIELD.match(line) is None:
            sentence = "A line of the stream is no field of a server-sent event; clients ignore it."
            yield Fault(code, sentence, "data: and the JSON", line[:200])
        if not line:
            joined = "\n".join(data)
            if is_named and not data:
                sentence = "An event has a name and no data, so that clients lose what it says."
                yield Fault(code, sentence, "event: and data: without a blank line")
            if data and joined.strip() != "[DONE]" and json_or_none(joined) is None:
                sentence = (
                    "An event of the stream is not JSON: clients join all its data, up to the "
                    "next blank line."
                )
                yield Fault(code, sentence, "a blank line behind each event", joined[:200])
            data, is_named = [], False
        elif line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        is_named |= line.startswith("event:")
    if data and "".join(data).strip() != "[DONE]" and not exchange.is_open:
        sentence = "No blank line ends the last event of the stream, so that clients drop it."
        if len(data) > 1:
            sentence = (
                "No blank line is between the events of the stream, so that clients drop them."
            )
        yield Fault(code, sentence, "a blank line", "\n".join(data)[:200])


def _judge_lines(exchange: Exchange) -> Iterator[Fault]:
    """Yield where a stream is not one object a line."""
    for line in filter(str.strip, _LINE_END.split(exchange.text)):
        if not isinstance(json_or_none(line), dict):
            sentence = "A line of the stream is not one JSON object, as clients read it."
            yield Fault("event_spelled", sentence, "one object a line", line[:200])


def json_or_none(text: str) -> Any:
    """Return a text as JSON values; None if it is not JSON."""
    try:
        return parse_json(text)
    except ValueError:
        return None


@check("stream.pace")
async def _pace(ctx: CheckContext) -> Evaluation:
    prompt = "Count from 1 to 1000, one number per line"
    ask = replace(ctx.main.ask, prompt=prompt, max_tokens=400, is_streamed=True)
    for _ in range(2):
        exchange = await ctx.client.ask(ask)
        if (
            no_answer(exchange) is not None
            or exchange.first_s is None
            or not exchange.capture.is_streamed
        ):
            raise skipped("There was no long stream.")
        # A queue before the first token is no fault: only generated tokens can be held back.
        short = await ctx.client.send_short()
        wait_s = max(ctx.short_s, short.total_s)
        # A faster answer may arrive in one piece.
        if exchange.total_s - wait_s < 0.6:
            raise skipped("The server is too quick for a stream that is held back to show.")
        shown = f"the first piece after {exchange.first_s:.2f} of {exchange.total_s:.2f} s"
        if exchange.first_s - wait_s < 0.9 * (exchange.total_s - wait_s):
            return Evaluation(shown)
    sentence = "The whole stream comes at once, when the answer is complete."
    fault = Fault("stream_buffered", sentence, "the first piece long before the last", shown)
    return Evaluation(faults=(ctx.fault(exchange, fault),))


# Clients that hang up: the only evidence is how soon the next client is answered.


@check("hang_up.streamed")
async def _hang_up(ctx: CheckContext) -> Evaluation:
    client = ctx.client
    prompts = _LONG_CHAT if ctx.driver.has_chat_template else _LONG_PLAIN
    requests = [Ask(text, max_tokens=1500, is_streamed=True) for text in prompts]
    short = ctx.body(replace(ctx.main.ask, max_tokens=max(FEW_TOKENS, ctx.driver.min_tokens)))
    # The machine may have become slower since the first answers.
    before = await client.send(short)
    usual_s = max(ctx.short_s, before.total_s if before.is_answer else 0.0)
    # The next answer may take up to four times as long as usual.
    allowed_s = ctx.options.patience_s + 4 * usual_s
    hang_ups = (client.curl(ctx.body(ask), max_time_s=1) for ask in requests)
    commands = in_sequence(in_parallel(*hang_ups), client.curl(short))
    for is_last in (False, True):
        hung_up = await asyncio.gather(*(client.hang_up_on(ask) for ask in requests))
        after = await client.send(short)
        if after.is_answer and after.total_s <= allowed_s:
            if not any(hung_up):
                raise undecided("The answers ended before a client could hang up.")
            return Evaluation(f"the next request took {after.total_s:.2f} s")
        if not is_last:
            # What still runs must not be blamed on the second attempt.
            await client.send_short()
    cause = after.problem or f"the next request got status {after.status}"
    if after.is_answer:
        cause = f"the next request took {after.total_s:.1f} s"
    sentence = f"After {len(requests)} clients hung up {cause}."
    expected = f"an answer within {allowed_s:.1f} s"
    return Evaluation(faults=(Fault("not_freed", sentence, expected, cause, curl=commands),))

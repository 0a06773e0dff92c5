"""Checks of token counts."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial

from api.conformance.captures.diagnosis import diagnose_usage
from api.conformance.captures.frames import count, items, parse_object
from api.conformance.probe.checks.check import (
    NO_ANSWER,
    VARIES,
    CheckContext,
    Evaluation,
    Recorder,
    check,
    fault_list,
    require_stops,
    skipped,
    undecided,
)
from api.conformance.probe.checks.limit_checks import SMALL_LIMIT, beyond_limit
from api.conformance.probe.dialects import CHAT, COMPLETIONS, Driver
from api.conformance.probe.values import Exchange, Fault


@check("usage.counts")
async def _counts(ctx: CheckContext) -> Evaluation:
    answers = [exchange for exchange in ctx.client.exchanges if exchange.is_answer]
    found = (
        (exchange, fault) for exchange in answers for fault in _judge_counts(ctx.driver, exchange)
    )
    return Evaluation(f"{len(answers)} answers were read", fault_list(found, ctx))


def _judge_counts(driver: Driver, exchange: Exchange) -> Iterator[Fault]:
    usage, tokens = exchange.capture.usage, exchange.capture.output_tokens
    if usage is None:
        return
    for finding in diagnose_usage(exchange.capture):
        if finding.code in ("usage_negative", "usage_zero", "usage_total"):
            counts = {name: value for name, value in asdict(usage).items() if type(value) is int}
            got = ", ".join(f"{value} {name.replace('_', ' ')}" for name, value in counts.items())
            yield Fault(finding.code, finding.sentence, "possible counts", got)
    limit = driver.limit(exchange.body)
    if limit is not None and tokens is not None:
        # The limit is that of each choice.
        allowed = max(limit, driver.min_tokens) * (count(exchange.body.get("n")) or 1)
        if tokens > allowed:
            yield beyond_limit(allowed, tokens)


@check("usage.streamed")
async def _streamed_counts(ctx: CheckContext) -> Evaluation:
    compared = [
        given
        for given in ctx.baselines
        if given.is_repeatable and True in given.modes
        and None not in (given.tokens, given.streamed_tokens)
    ]  # fmt: skip
    if not compared:
        raise undecided("There are no counts that could be compared.")
    for given in compared:
        if given.tokens != given.streamed_tokens:
            exchange = ctx.client.answer_to(ctx.body(replace(given.ask, is_streamed=True)))
            if exchange is None:
                raise undecided(NO_ANSWER)
            sentence = "The same answer has another count of tokens when it is streamed."
            expected = f"{given.tokens} tokens, as in the whole answer"
            got = f"{given.streamed_tokens} tokens"
            fault = ctx.fault(exchange, Fault("usage_differs", sentence, expected, got))
            return Evaluation(faults=(fault,))
    return Evaluation(f"{len(compared)} answers were compared")


@check("usage.chunk")
async def _usage_chunk(ctx: CheckContext) -> Evaluation:
    driver, given = ctx.driver, ctx.main
    if ctx.driver.dialect not in (CHAT, COMPLETIONS):
        raise skipped("The counts of this dialect's streams have no chunk of their own.")
    if given.tokens is None and given.streamed_tokens is None:
        raise skipped("The server counts no tokens.")
    recorder = Recorder(ctx)
    limit = max(SMALL_LIMIT, driver.min_tokens)
    ask = replace(given.ask, max_tokens=limit, is_streamed=True)
    if "stream_options" not in driver.omitted:
        await recorder.ask(ctx.body(ask), partial(_judge_chunks, True))
    body = ctx.body(replace(ask, includes_usage=False))
    await recorder.ask(body, partial(_judge_chunks, False))
    return recorder.evaluation("counts where they were asked for, and nowhere else")


def _judge_chunks(is_requested: bool, exchange: Exchange) -> Iterator[Fault]:
    if not exchange.capture.is_streamed:
        return
    chunks = [parse_object(event.raw) for event in exchange.capture.events]
    counted = [chunk for chunk in chunks if isinstance(chunk.get("usage"), dict)]
    shown = f"usage in {len(counted)} of {len(chunks)} chunks"
    if not is_requested:
        sentence = "The stream has counts although include_usage was not sent."
        yield from [Fault("usage_unasked", sentence, "no usage", shown)] if counted else []
    elif not counted:
        sentence = "The stream has no counts although include_usage was sent."
        yield Fault("usage_missing", sentence, "usage in the last chunk", "none")
    elif any(items(chunk.get("choices")) for chunk in counted):
        sentence = "The counts of a stream come in a chunk with choices."
        yield Fault("usage_with_choices", sentence, "a chunk without choices", shown)
    elif len(counted) > 1:
        sentence = "The counts of a stream come more than once."
        yield Fault("usage_repeated", sentence, "usage in one chunk", shown)


@check("usage.stop")
async def _stop_counts(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    client, case = ctx.client, ctx.simple(*ctx.baselines)
    if case is None:
        raise undecided(NO_ANSWER)
    given = case.baseline
    start = len(given.stable) // 4
    stop = given.stable[start : start + 16]
    if len(stop) < 8 or stop in given.thinking:
        raise undecided(NO_ANSWER)
    before = given.text[: given.stable.find(stop)]
    exchange = await client.ask(replace(given.ask, stops=(stop,)))
    tokens = exchange.capture.output_tokens
    if not exchange.is_answer or exchange.capture.text != before or not tokens or tokens < 0:
        raise undecided("The tokens of the answer that the stop ended are not known.")
    # This many tokens, and one more, must be enough to spell the stop.
    limit = max(tokens + 1, ctx.driver.min_tokens)
    plain = await client.ask(replace(given.ask, max_tokens=limit))
    if not plain.is_answer or stop in plain.capture.text:
        return Evaluation(f"{tokens} tokens with {stop!r}")
    if not given.text.startswith(plain.capture.text.rstrip("\ufffd")):
        raise undecided(VARIES)
    sentence = f"The tokens of the stop {stop!r} were generated but are not counted."
    expected = f"more than {tokens} tokens: so many are not enough to complete the stop"
    fault = Fault("usage_visible_only", sentence, expected, f"{tokens} tokens")
    return Evaluation(faults=(ctx.fault(exchange, fault),))

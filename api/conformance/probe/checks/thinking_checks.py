"""Checks of thinking."""

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.checks.check import (
    VARIES,
    CheckContext,
    Evaluation,
    Inconclusive,
    Recorder,
    check,
    require_stops,
    skipped,
    undecided,
)
from api.conformance.probe.checks.limit_checks import FEW_TOKENS, judge_limit
from api.conformance.probe.judgement import thinking_in_text
from api.conformance.probe.plan import Baseline, StopCase, simple_case
from api.conformance.probe.values import Exchange, Fault

THINKING_TOKENS = 512
_TAGS = ("<think>", "</think>", "<thinking>", "<|channel|>")


@check("thinking.off")
async def _off(ctx: CheckContext) -> Evaluation:
    given, recorder = ctx.main, Recorder(ctx)
    if not ctx.driver.can_think:
        raise skipped("The dialect cannot switch thinking off.")
    for is_streamed in (False, True):
        body = ctx.body(replace(given.ask, is_thinking=False, is_streamed=is_streamed))
        exchange = await recorder.ask(body, _judge_off, may_refuse=True)
        if exchange.is_refusal:
            raise skipped(f"Switching thinking off is refused with status {exchange.status}.")
        has_tag = any(tag in exchange.capture.text for tag in _TAGS)
        if not has_tag and exchange.capture.thinking.strip() and given.thinking.strip():
            raise skipped("The model thinks all the same; not every model can do otherwise.")
    return recorder.evaluation("no thinking")


def _judge_off(exchange: Exchange) -> Iterator[Fault]:
    capture = exchange.capture
    if capture.thinking.strip() or any(tag in capture.text for tag in _TAGS):
        sentence = "The answer has thinking, though thinking is switched off."
        yield Fault("thinking_shown", sentence, "none", capture.thinking or capture.text)


async def _thought(ctx: CheckContext) -> Baseline:
    """Return an answer with thinking before it."""
    if ctx.thought is None:
        try:
            ctx.thought = await _first_thought(ctx)
        except Inconclusive as ended:
            ctx.thought = ended
    if isinstance(ctx.thought, Inconclusive):
        raise ctx.thought
    return ctx.thought


async def _first_thought(ctx: CheckContext) -> Baseline:
    if not ctx.driver.can_think:
        raise skipped("The dialect does not separate thinking from the answer.")
    ask = replace(ctx.main.ask, is_thinking=True)
    ask = replace(ask, max_tokens=max(THINKING_TOKENS, ask.max_tokens))
    plain, again = await ctx.client.ask(ask), await ctx.client.ask(ask)
    capture, other = plain.capture, again.capture
    if not plain.is_answer:
        raise skipped("Thinking cannot be switched on.")
    if not capture.thinking.strip():
        raise skipped("The model does not think.")
    if (capture.text, capture.thinking) != (other.text, other.thinking):
        raise undecided(VARIES)
    if not capture.text.strip():
        raise undecided("The answer has thinking and no text.")
    return Baseline.of(ask, capture)


@check("thinking.streamed")
async def _streamed(ctx: CheckContext) -> Evaluation:
    given, recorder = await _thought(ctx), Recorder(ctx)
    if True not in ctx.main.modes:
        raise undecided("Streams have another text anyway.")
    body = ctx.body(replace(given.ask, is_streamed=True))
    await recorder.ask(body, partial(_judge_streamed, given))
    return recorder.evaluation(f"{len(given.thinking)} characters of thinking")


def _judge_streamed(given: Baseline, exchange: Exchange) -> Iterator[Fault]:
    thought, whole = exchange.capture.thinking.strip(), given.thinking.strip()
    if not thought:
        sentence = "The thinking that the whole answer has is missing from the stream."
        yield Fault("thinking_missing", sentence, whole, "none")
    elif thought != whole:
        sentence = "The thinking of the stream is not the one of the whole answer."
        yield Fault("thinking_differs", sentence, whole, thought)


async def _modes(ctx: CheckContext, given: Baseline) -> tuple[bool, ...]:
    """Return the modes in which answers after thinking are compared."""
    if True not in ctx.main.modes:
        return ctx.main.modes
    body = ctx.body(replace(given.ask, is_streamed=True))
    exchange = ctx.client.answer_to(body) or await ctx.client.send(body)
    return ctx.main.modes if exchange.capture.thinking.strip() else (False,)


@check("thinking.answer")
async def _stop_in_answer(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    given, recorder = await _thought(ctx), Recorder(ctx)
    case = simple_case(given)
    if case is None:
        raise undecided("Every part of the answer occurs in the thinking too.")
    await recorder.judge_modes(case, await _modes(ctx, given))
    return recorder.evaluation(repr(case.stops[0]))


@check("thinking.stop")
async def _stop_in_thinking(ctx: CheckContext) -> Evaluation:
    given, recorder = await _thought(ctx), Recorder(ctx)
    terms = (word for word in re.findall(r"\w{3,}", given.thinking) if word not in given.text)
    stop = next(terms, None)
    if stop is None:
        raise undecided("Every word of the thinking is in the answer too.")
    case = StopCase("thought", given, (stop,), given.text, stop)
    await _send_thought(ctx, recorder, case, "occurs in the thinking only")
    return recorder.evaluation(repr(stop))


@check("thinking.both")
async def _stop_in_both(ctx: CheckContext) -> Evaluation:
    require_stops(ctx)
    given, recorder = await _thought(ctx), Recorder(ctx)
    found = given.solid_stops(range(1, len(given.text)), (3, 2, 1))
    stop = next((stop for _, stop in found if stop in given.thinking), None)
    if stop is None:
        raise undecided("Thinking and answer have no text in common.")
    case = StopCase("both", given, (stop,), given.text[: given.text.find(stop)], stop)
    await _send_thought(ctx, recorder, case, "occurs in the thinking, too")
    return recorder.evaluation(repr(stop))


async def _send_thought(ctx: CheckContext, recorder: Recorder, case: StopCase, where: str) -> None:
    for is_streamed in await _modes(ctx, case.baseline):
        ask = replace(case.baseline.ask, is_streamed=is_streamed)
        # The thinking without stops in this mode.
        body = ctx.body(ask)
        plain = ctx.client.answer_to(body) or await ctx.client.send(body)
        thinking = plain.capture.thinking if plain.is_answer else case.baseline.thinking
        judged = partial(_judge_thought, thinking, case.text, case.stops[0], where)
        await recorder.ask(ctx.body(replace(ask, stops=case.stops)), judged)


def _judge_thought(
    thinking: str, expected: str, stop: str, where: str, exchange: Exchange
) -> Iterator[Fault]:
    got = exchange.capture.text
    thought, whole = exchange.capture.thinking.strip(), thinking.strip()
    if (spilled := thinking_in_text(thinking, expected, exchange)) is not None:
        yield spilled
    elif got != expected and not got.strip() and expected.strip():
        sentence = f"The stop {stop!r} {where}, but there is no answer."
        yield Fault("thinking_empties_answer", sentence, expected, got)
    elif got != expected:
        sentence = f"The stop {stop!r} {where}, but the answer is not what it should be."
        code = "stop_ignored" if stop in got and stop not in expected else "text_differs"
        yield Fault(code, sentence, expected, got)
    elif thought != whole and whole.startswith(thought):
        sentence = f"The stop {stop!r} {where}, and the thinking is cut."
        yield Fault("thinking_cut", sentence, whole, thought)


@check("limit.thinking")
async def _limit(ctx: CheckContext) -> Evaluation:
    given, recorder = await _thought(ctx), Recorder(ctx, "With thinking")
    tokens = given.tokens or 0  # a server may count none
    if min(tokens, len(given.text)) < FEW_TOKENS:
        raise undecided("The answer with thinking is too short for a limit.")
    # The end of a turn may count as a token, too.
    limit = tokens - 3
    # Half of the thinking, whose share of the characters is about that of its tokens.
    within = limit * len(given.thinking) // (2 * len(given.thinking + given.text))
    judged_limit = partial(judge_limit, given, limit, ctx.driver.reason_names)
    for is_streamed in ctx.main.modes:
        body = ctx.body(replace(given.ask, is_streamed=is_streamed))
        cut, short = (ctx.driver.with_limit(body, number) for number in (limit, max(within, 1)))
        await recorder.ask(cut, judged_limit, may_refuse=True)
        await recorder.ask(short, partial(_judge_cut_thinking, given), may_refuse=True)
    return recorder.evaluation(f"{limit} tokens")


def _judge_cut_thinking(given: Baseline, exchange: Exchange) -> Iterator[Fault]:
    """Judge an answer that the limit ended before its thinking was over."""
    text = exchange.capture.text.strip()
    if text and text in given.thinking and exchange.capture.ending is CapturedEnding.LIMIT:
        sentence = "The text has thinking that the limit cut."
        yield Fault("thinking_in_text", sentence, "no text", exchange.capture.text)

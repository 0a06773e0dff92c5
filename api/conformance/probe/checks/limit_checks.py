"""Checks of token limits."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain, islice

from api.conformance.captures.values import CapturedEnding
from api.conformance.probe.checks.check import (
    VARIES,
    CheckContext,
    Evaluation,
    Recorder,
    check,
    require_repeatable,
    skipped,
    undecided,
    without_cost,
    working_case,
)
from api.conformance.probe.dialects import CHAT, Driver
from api.conformance.probe.judgement import judge
from api.conformance.probe.plan import NEVER, Baseline, StopCase, consecutive_cases, plan
from api.conformance.probe.values import Exchange, Fault

FEW_TOKENS = 8
SMALL_LIMIT = 5
# The token that completes a stop is at most so many from the counted ones.
_LIMIT_STEPS = 3


@check("limit")
async def _usual_limit(ctx: CheckContext) -> Evaluation:
    return await _limit(ctx, ctx.driver)


async def _limit(ctx: CheckContext, driver: Driver) -> Evaluation:
    given, client = ctx.main, ctx.client
    is_newer = driver is not client.driver
    limit, smallest = max(SMALL_LIMIT, driver.min_tokens), driver.min_tokens
    if given.tokens is not None and given.tokens <= limit:
        raise undecided("The answers are too short for a limit.")
    recorder = Recorder(ctx)
    # The smallest limits, too, each in one of the modes.
    limits = [(limit, False), (limit, True)]
    if smallest + 1 < limit and not is_newer:
        limits += [(smallest, False), (smallest + 1, True)]
    whole: Exchange | None = None
    for number, is_streamed in (one for one in limits if one[1] in given.modes):
        ask = replace(given.ask, max_tokens=number, is_streamed=is_streamed)
        other = whole if number == limit else None
        judged = partial(judge_limit, given, number, driver.reason_names, whole=other)
        exchange = await recorder.ask(driver.body(ask, client.model), judged, may_refuse=is_newer)
        whole = whole or exchange
        if exchange.is_refusal and is_newer:
            raise skipped(f"{driver.limit_name} is refused with status {exchange.status}.")
        if recorder.faults:
            break
    return recorder.evaluation(f"{limit} tokens")


@check("limit.completion_tokens")
async def _new_limit(ctx: CheckContext) -> Evaluation:
    if ctx.driver.dialect is not CHAT:
        raise skipped("The dialect has one name for the limit.")
    if ctx.driver.limit_name:
        raise skipped("Every request uses it: the server refuses max_tokens.")
    return await _limit(ctx, replace(ctx.driver, limit_name="max_completion_tokens"))


def judge_limit(
    given: Baseline,
    limit: int,
    reason_names: Mapping[CapturedEnding, str],
    exchange: Exchange,
    whole: Exchange | None = None,
) -> Iterator[Fault]:
    """Judge an answer that a limit should end; ``whole`` is the whole one with that limit."""
    capture, tokens = exchange.capture, exchange.capture.output_tokens
    # A character that is cut in the middle of its bytes is not judged.
    got = capture.text.rstrip("\ufffd")
    full = given.text
    if tokens is not None and tokens > limit:
        yield beyond_limit(limit, tokens)
        return
    if len(got) >= len(given.stable) and got == full:
        sentence = "The limit was ignored: the answer is as long as without it."
        yield Fault("limit_ignored", sentence, "the beginning of the answer", got)
        return
    if given.is_repeatable and not full.startswith(got):
        yield Fault("text_differs", "With a limit, the text differs.", full, got)
    is_clean = got == capture.text
    # Where each token is a piece of the stream, the text of so many tokens is known.
    is_spelled = given.tokens == given.streamed_tokens == len(given.bounds) and not given.thinking
    if is_spelled and tokens == limit and len(got) < given.bounds[limit - 1] and is_clean:
        sentence = f"{limit} tokens are allowed and counted, but the text is that of fewer."
        yield Fault("token_lost_to_limit", sentence, full[: given.bounds[limit - 1]], got)
    elif given.is_repeatable and whole is not None and whole.capture.text != capture.text:
        shorter, longer = sorted((capture.text, whole.capture.text), key=len)
        if longer.startswith(shorter) and is_clean:
            noun = "stream" if shorter == capture.text else "whole answer"
            lost = longer[len(shorter) :]
            sentence = f"With the same limit the text of the {noun} lacks {lost!r}."
            yield Fault("token_lost_to_limit", sentence, longer, shorter)
    name = reason_names[CapturedEnding.LIMIT]
    if capture.ending is None:
        yield Fault("reason_missing", "The answer gives no reason for its end.", name)
    elif capture.ending is not CapturedEnding.LIMIT:
        sentence = "The limit ended the answer, but the reason says otherwise."
        yield Fault("wrong_reason", sentence, name, str(capture.reason))
    if isinstance(capture.matched, str):
        sentence = "The answer names a stop that did not fire."
        yield Fault("wrong_sequence", sentence, "no stop named", capture.matched)


def beyond_limit(limit: int, tokens: int) -> Fault:
    """Return the fault of an answer with more tokens than its limit."""
    sentence = "The answer has more tokens than the limit allows."
    return Fault("limit_ignored", sentence, f"at most {limit} tokens", f"{tokens} tokens")


@check("limit.held")
async def _held(ctx: CheckContext) -> Evaluation:
    require_repeatable(ctx)
    given, client = ctx.main, ctx.client
    # The limit cuts off the end of the answer, not of the thinking before it.
    tokens = given.tokens or 0
    limit = max(FEW_TOKENS, ctx.driver.min_tokens, tokens - max(2, tokens // 4))
    recorder = Recorder(ctx)
    shown: list[str] = []
    for is_streamed in (False, True):
        ask = replace(given.ask, max_tokens=limit, is_streamed=is_streamed)
        plain, again = await client.ask(ask), await client.ask(ask)
        text = plain.capture.text
        if not plain.is_answer or plain.capture.ending is not CapturedEnding.LIMIT:
            raise undecided("The answer without stops is not said to end at the limit.")
        if text != again.capture.text:
            raise undecided(VARIES)
        if len(text) < 2 or "\ufffd" in text[-2:]:
            raise undecided("The limited answer has no text that could be held.")
        stop = text[-2:] + NEVER
        body = ctx.body(replace(ask, stops=(stop,)))
        await recorder.ask(body, partial(_judge_held, ctx.driver, text))
        shown.append(repr(stop))
    return recorder.evaluation(", ".join(dict.fromkeys(shown)))


def _judge_held(driver: Driver, text: str, exchange: Exchange) -> Iterator[Fault]:
    got, capture = exchange.capture.text, exchange.capture
    if got != text and text.startswith(got):
        sentence = f"At the limit {text[len(got) :]!r} is missing, which could have become a stop."
        yield Fault("held_text_lost", sentence, text, got, text)
    elif got != text:
        yield Fault("text_differs", "With a limit, the text differs.", text, got, text)
    elif capture.ending is not CapturedEnding.LIMIT:
        sentence = "The limit ended the answer, but the reason says otherwise."
        name = driver.reason_names[CapturedEnding.LIMIT]
        yield Fault("wrong_reason", sentence, name, str(capture.reason))


@check("limit.stop_on_last_token")
async def _stop_on_last_token(ctx: CheckContext) -> Evaluation:
    case, recorder = working_case(ctx), Recorder(ctx)
    limit = await _completing_limit(ctx, case)
    if isinstance(limit, str):
        raise undecided(limit)
    for body in ctx.bodies(case.baseline, case.stops, max_tokens=limit):
        await recorder.ask(body, partial(_judge_last, case, ctx.driver))
    return recorder.evaluation(f"{case.stops[0]!r} with a limit of {limit} tokens")


@check("limit.stop_before")
async def _stop_before_limit(ctx: CheckContext) -> Evaluation:
    case = working_case(ctx)
    recorder, shown = Recorder(ctx), []
    # A server makes several tokens a step. Of two stops at consecutive tokens one at least is
    # complete before the end of its step, however many tokens that has.
    pairs = chain.from_iterable(map(consecutive_cases, ctx.baselines))
    others = (
        other
        for other in plan(ctx.baselines)
        if other.matched is not None and other.baseline.is_repeatable and not other.is_thought
        and len(other.stops) == 1 and other.text != case.text
    )  # fmt: skip
    for each in next(pairs, (case, *islice(others, 1))):
        limit = await _completing_limit(ctx, each)
        if isinstance(limit, str):
            recorder.doubt(limit)
            continue
        for body in ctx.bodies(each.baseline, each.stops, max_tokens=limit + 1):
            await recorder.ask(body, partial(_judge_before, each, ctx.driver))
        shown.append(f"{each.stops[0]!r} with a limit of {limit + 1} tokens")
    return recorder.evaluation(", ".join(shown))


def _judge_last(case: StopCase, driver: Driver, exchange: Exchange) -> Iterator[Fault]:
    sentence = "The last allowed token completes the stop, but the limit is named as the reason."
    for fault in judge(case, exchange, driver):
        is_limit = fault.code == "wrong_reason" and exchange.capture.ending is CapturedEnding.LIMIT
        yield replace(fault, code="stop_lost_to_limit", sentence=sentence) if is_limit else fault


def _judge_before(case: StopCase, driver: Driver, exchange: Exchange) -> list[Fault]:
    faults = without_cost(judge(case, exchange, driver))
    if not faults or exchange.capture.ending is not CapturedEnding.LIMIT:
        return faults
    sentence = (
        "The stop is complete a token before the limit, but the limit is named as the reason."
    )
    name = driver.reason_names[CapturedEnding.STOP]
    return [Fault("stop_lost_to_limit", sentence, name, str(exchange.capture.reason))]


async def _completing_limit(ctx: CheckContext, case: StopCase) -> int | str:
    """Return the limit whose last token completes a stop; else why it is not known."""
    known = ctx.completing
    if case not in known:
        first = await ctx.client.ask(replace(case.baseline.ask, stops=case.stops))
        tokens = first.capture.output_tokens
        known[case] = "The server does not count the tokens of an answer."
        if first.is_answer and tokens is not None:
            limit = await _find_limit(ctx, case, tokens)
            unknown = "The token that completes the stop could not be found."
            known[case] = unknown if limit is None else limit
    return known[case]


async def _find_limit(ctx: CheckContext, case: StopCase, tokens: int) -> int | None:
    """Return the limit whose last token completes the stop, found in answers without stops."""
    min_tokens = ctx.driver.min_tokens
    has_stop: dict[int, bool] = {}

    async def includes_stop(limit: int) -> bool:
        if limit not in has_stop:
            exchange = await ctx.client.ask(replace(case.baseline.ask, max_tokens=limit))
            if ctx.is_varying and not case.baseline.text.startswith(exchange.capture.text):
                exchange = await ctx.client.send(exchange.body)
            has_stop[limit] = exchange.is_answer and case.stops[0] in exchange.capture.text
        return has_stop[limit]

    limits: Iterable[int] = range(tokens, tokens + _LIMIT_STEPS)
    if tokens > min_tokens and await includes_stop(tokens):
        limits = range(tokens, max(min_tokens, tokens - _LIMIT_STEPS), -1)
    for limit in limits:
        is_found = limit > min_tokens and await includes_stop(limit)
        if is_found and not await includes_stop(limit - 1):
            return limit
    return None
